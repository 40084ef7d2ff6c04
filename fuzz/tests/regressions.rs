//! Replays the targets' seeds and every input that once failed.

use std::path::Path;

#[test]
fn every_seed_and_every_input_that_once_failed_passes() {
    for target in fuzz::TARGETS {
        (target.seeds)().iter().for_each(|input| (target.run)(input));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("regressions")
            .join(target.name);
        for file in std::fs::read_dir(&folder).expect("every target has a folder") {
            let path = file.expect("a readable folder").path();
            println!("{}", path.display());
            (target.run)(&std::fs::read(&path).expect("a readable file"));
        }
    }
}
