//! Runs a script without a store and says what it returns, how many instructions that took, and how long.
//!
//! `cargo run --release -p script --example evaluate -- 'return 1' [times]`. Commands are answered with a status.

use std::time::Instant;

use script::{Interpreter, Lua, Reply, Run, RunLimits, ScriptInput, ScriptStop};

fn main() {
    let mut args = std::env::args().skip(1);
    let source = args.next().unwrap_or_else(|| "return 1".to_owned());
    let times: u32 = args.next().and_then(|times| times.parse().ok()).unwrap_or(1);
    let limits = RunLimits {
        memory_bytes: 256 << 20,
    };
    let mut lua = Lua::new();
    let chunk = match lua.compile(source.as_bytes()) {
        Ok(chunk) => chunk,
        Err(message) => return println!("{}", String::from_utf8_lossy(&message)),
    };
    let start = Instant::now();
    for time in 1..=times {
        let input = ScriptInput {
            keys: vec![(&b"key"[..]).into()],
            argv: vec![(&b"10"[..]).into(), (&b"60"[..]).into()],
            ..ScriptInput::default()
        };
        let mut run = lua.start(&chunk, input, limits);
        let (mut longest, mut slices) = (0, 0);
        let step = loop {
            let begun = Instant::now();
            let step = run.resume(100_000);
            longest = longest.max(begun.elapsed().as_micros());
            slices += 1;
            match step {
                ScriptStop::Yielded => {}
                ScriptStop::Call { .. } => run.resume_with(&Reply::Integer(1)),
                ScriptStop::Permission { .. } => run.resume_with(&Reply::Integer(1)),
                step => break step,
            }
        };
        if time == times {
            match &step {
                ScriptStop::Failed(failure) => {
                    println!("error: {}", String::from_utf8_lossy(&failure.message))
                }
                ScriptStop::Finished(Reply::Bulk(text)) => println!("{:?}", String::from_utf8_lossy(text)),
                step => println!("{step:?}"),
            }
            println!(
                "{} instructions, {} bytes, {slices} slices, the longest {longest} us",
                run.instructions(),
                run.memory_bytes()
            );
        }
        lua.recycle(run);
    }
    println!("{:?} each", start.elapsed() / times);
}
