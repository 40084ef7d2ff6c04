//! What a new operator does by the pages alone, at machines of his own: three of them, started again one after the other, one more, one
//! emptied, one lost, one fewer.
//!
//! The commands are those of `docs/operating`, as they stand there; numbers of nodes are replaced by the names of machines, as the pages allow.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use blackbox::eventually;

use crate::machines::{Machines, shell_blocks};

/// For what a page says happens by itself.
const PATIENCE: Duration = Duration::from_secs(60);

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The only block under a heading of a page in `docs/operating`.
#[track_caller]
fn block(page: &str, heading: &str) -> String {
    let blocks = shell_blocks(&document(&format!("docs/operating/{page}")), heading);
    assert_eq!(blocks.len(), 1, "{page}, {heading}: {blocks:?}");
    blocks.concat()
}

/// Waits until `chorale admin status` of a machine is as it is to be.
#[track_caller]
fn shows(machines: &Machines, machine: &str, what: &str, is_so: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let status = machines.run(machine, "chorale admin status");
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        if is_so(&status) {
            return status;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{machine} does not show {what}, but\n{status}"
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// How many groups there are, how many of them have a leader, and how many are fully replicated.
fn groups(status: &str) -> Option<[u32; 3]> {
    let line = status.lines().find(|line| line.contains(" fully replicated."))?;
    let sentence = line
        .split(". ")
        .find(|sentence| sentence.contains(" fully replicated"))?;
    let numbers = sentence.split(' ').filter_map(|word| word.parse().ok());
    numbers.collect::<Vec<u32>>().try_into().ok()
}

/// Waits until a machine shows so many nodes, all up, and all groups fully replicated.
#[track_caller]
fn is_whole(machines: &Machines, machine: &str, nodes: usize) {
    let up = format!("{nodes} nodes, all up.");
    shows(machines, machine, &up, |status| {
        status.contains(&up) && groups(status).is_some_and(|[all, led, full]| all == led && all == full)
    });
}

/// The numbers and the names of nodes, as `chorale admin status` shows them.
fn nodes(status: &str) -> Vec<(String, String)> {
    let rows = status.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next().filter(|word| word.parse::<u32>().is_ok())?;
        let name = words.next().filter(|word| word.starts_with("cache-"))?;
        Some((number.to_owned(), name.to_owned()))
    });
    rows.collect()
}

/// The machines of a cluster, the one whose node leads the meta group last.
fn in_order(status: &str) -> Vec<String> {
    let mut nodes = nodes(status);
    assert_eq!(nodes.len(), 3, "{status}");
    nodes.sort_by_key(|(number, _)| status.contains(&format!("; node {number} leads the meta group")));
    nodes.into_iter().map(|(_, name)| name).collect()
}

/// What clients are answered. What a client says beside that, as of a password that others can see, does not count.
#[track_caller]
fn answers(machines: &Machines, script: &str) -> String {
    let output = machines.run("cache-1", script);
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn read(machines: &Machines, at: &str) {
    let answer = answers(machines, &format!("redis-cli -h {at} -a ... GET key"));
    assert_eq!(answer, "value\n", "at {at}");
}

/// What every machine has before its node is started for the first time.
pub(crate) fn equip(machines: &Machines, names: &[&str]) {
    let page = document("docs/operating/three-machines.md");
    let blocks = shell_blocks(&page, "## What each of them has");
    let [files, everywhere] = &blocks[..] else {
        panic!("{blocks:?}")
    };
    machines.says(names[0], files);
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/chorale.service");
    for name in names {
        for file in ["chorale.toml", "secret", "environment"] {
            let [from, to] = [names[0], name].map(|name| machines.path(name, "/etc/chorale").join(file));
            fs::create_dir_all(to.parent().expect("it is in a directory")).expect("it is ours");
            if from != to {
                fs::copy(&from, &to).expect("the page has it made");
            }
        }
        let units = machines.path(name, "/etc/systemd/system");
        fs::create_dir_all(&units).expect("it is ours");
        fs::copy(&unit, units.join("chorale.service")).expect("it is in the repository");
        machines.says(name, everywhere);
    }
}

#[test]
fn three_machines_are_set_up_started_again_joined_emptied_and_replaced_by_the_pages_alone() {
    let names = ["cache-1", "cache-2", "cache-3", "cache-4"];
    let Some(machines) = Machines::new(&names) else {
        return;
    };
    equip(&machines, &names);
    let making = shell_blocks(
        &document("docs/operating/three-machines.md"),
        "## Making the cluster",
    );
    let [make, use_it] = &making[..] else {
        panic!("{making:?}")
    };
    for name in ["cache-3", "cache-1", "cache-2"] {
        // Its last command fails as long as there is no cluster.
        machines.run(name, make);
        if name == "cache-3" {
            eventually("it is said what is waited for", || {
                let said = machines.says(name, "systemctl status chorale");
                said.contains("1 of 3 nodes are there")
            });
        }
    }
    names[..3].iter().for_each(|name| is_whole(&machines, name, 3));
    let told = machines.says("cache-3", "systemctl status chorale");
    assert_eq!(told, "STATUS=ready for clients\n");
    assert_eq!(answers(&machines, use_it), "OK\nvalue\n");

    let again = block("upgrading.md", "## One node after the other");
    for name in in_order(&shows(&machines, "cache-1", "itself", |status| {
        nodes(status).len() == 3
    })) {
        let said = machines.says(&name, &again);
        assert!(said.contains("It leads nothing."), "{said}");
        assert_eq!(
            machines
                .read(&name, "/run/manager/log")
                .matches("ready for clients")
                .count(),
            2
        );
        names[..3].iter().for_each(|at| read(&machines, at));
    }

    machines.says("cache-4", "systemctl enable --now chorale");
    is_whole(&machines, "cache-4", 4);

    let drain = block("growing.md", "## Emptying a node").replace("drain 4", "drain cache-4");
    let said = machines.says("cache-1", &drain);
    assert!(
        said.contains("Nothing was done.") && said.contains("has no replicas any more"),
        "{said}"
    );
    read(&machines, "cache-4");

    let removing = shell_blocks(&document("docs/operating/growing.md"), "## Removing a node");
    let [leave, come_back] = &removing[..] else {
        panic!("{removing:?}")
    };
    let said = machines.says("cache-1", &leave.replace("drain 4", "drain cache-4"));
    assert!(said.contains("has left"), "{said}");
    machines.says("cache-4", "until [ -e /run/manager/status ]; do sleep 0.05; done");
    assert_eq!(machines.read("cache-4", "/run/manager/status"), "0\n");
    is_whole(&machines, "cache-1", 3);
    machines.says("cache-4", come_back);
    is_whole(&machines, "cache-4", 4);

    // A machine is lost, and is not waited for; then there is another one with its name.
    machines.says(
        "cache-3",
        "kill -9 $(cat /run/manager/pid) && until [ -e /run/manager/status ]; do sleep 0.05; done",
    );
    shows(&machines, "cache-1", "others that lead", |status| {
        status.contains("not heard of: ") && groups(status).is_some_and(|[all, led, _]| all == led)
    });
    let replacing = shell_blocks(
        &document("docs/operating/growing.md"),
        "## Replacing a node that is down",
    );
    let [replace, forget] = &replacing[..] else {
        panic!("{replacing:?}")
    };
    let replace = replace
        .lines()
        .next()
        .expect("it has a line")
        .replace("replace 3", "replace cache-3");
    machines.says("cache-1", &replace);
    machines.says("cache-1", &forget.replace("drain 3", "drain cache-3"));
    is_whole(&machines, "cache-1", 3);
    machines.says("cache-3", come_back);
    is_whole(&machines, "cache-3", 4);
    names.iter().for_each(|at| read(&machines, at));

    // As pods: whoever would start it again finds a directory that is of no use.
    let fewer = block("upgrading.md", "### Fewer pods");
    let kubectl = "kubectl() { [ \"$1\" = scale ] || \"${@:4}\"; }";
    let said = machines.says("cache-4", &format!("{kubectl}\n{fewer}"));
    assert!(said.contains("has left"), "{said}");
    is_whole(&machines, "cache-1", 3);
    let ended = || machines.read("cache-4", "/run/manager/status");
    eventually("its process has ended", || ended() == "0\n");
    assert!(
        !machines
            .run("cache-4", "systemctl start chorale")
            .status
            .success()
    );
    assert_eq!(ended(), "1\n");
    names[..3].iter().for_each(|at| read(&machines, at));
    for name in names {
        assert!(!machines.read(name, "/run/manager/log").contains("DATA LOST"));
    }
}

#[test]
fn the_commands_that_try_it_on_one_machine_do_what_the_page_says() {
    let Some(machines) = Machines::new(&["here"]) else {
        return;
    };
    // Where somebody waits ten seconds and looks, this waits for what he is to see then.
    let prelude = r#"
mkdir /run/trial && cd /run/trial
trap 'for n in 1 2 3; do kill -9 $(ip netns pids cache-$n); done 2> /dev/null; cat cache-*.log >&2' EXIT
is_whole() {
    status=$(ip netns exec cache-$1 chorale admin status 2>&1)
    [[ $status =~ "3 nodes, all up. "([0-9]+)" groups, "([0-9]+)" with a leader, "([0-9]+)" fully replicated." ]] &&
        [ ${BASH_REMATCH[1]} = ${BASH_REMATCH[2]} ] && [ ${BASH_REMATCH[1]} = ${BASH_REMATCH[3]} ]
}
sleep() {
    for try in {1..300}; do
        is_whole 1 && is_whole 2 && is_whole 3 && return
        command sleep 0.1
    done
    echo "not after $1 seconds, nor after many more: $status" >&2
    exit 1
}
"#;
    let shown = block("three-machines.md", "## Trying it on one machine");
    let output = machines.run("here", &format!("{prelude}{shown}"));
    let [said, log] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{}:\n{said}\n{log}", output.status);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        (lines.first(), lines.last()),
        (Some(&"OK"), Some(&"value")),
        "{said}\n{log}"
    );
    let statuses: Vec<_> = said.split("3 nodes, all up.").skip(1).map(nodes).collect();
    assert_eq!(statuses.len(), 2, "{said}");
    let number = |status: &[(String, String)]| {
        let node = status.iter().find(|(_, name)| name == "cache-1");
        node.map(|(number, _)| number.clone())
    };
    assert!(number(&statuses[0]).is_some_and(|number| number != "4"), "{said}");
    assert_eq!(number(&statuses[1]).as_deref(), Some("4"), "{said}");
}
