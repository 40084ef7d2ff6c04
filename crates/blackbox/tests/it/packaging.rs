//! What `packaging` says of containers and of a service: its syntax, that what it names is there, and that nodes which are started so are one
//! cluster. No container engine and no service manager takes part: the same entry points run with the same environment, users and paths at
//! [machines of their own](Machines).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use blackbox::{chorale_binary, eventually};
use serde_json::{Map, Value};

use crate::machines::Machines;
use crate::walk_through::equip;

/// Where the engine puts what the Compose file calls secrets.
const SECRETS: &str = "/run/secrets";

const PASSWORD: &str = "word";

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// As much of YAML as the Compose file needs: maps and lists by indentation, lists of JSON, anchors of maps, and `<<`.
struct Yaml<'a> {
    /// Indentation and text.
    lines: Vec<(usize, &'a str)>,
    next: usize,
    anchors: Map<String, Value>,
}

impl Yaml<'_> {
    fn parse(text: &str) -> Value {
        assert!(!text.contains('\t'), "YAML is indented by blanks");
        let lines = text
            .lines()
            .map(|line| (line.len() - line.trim_start().len(), line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut yaml = Yaml {
            lines: lines.collect(),
            next: 0,
            anchors: Map::new(),
        };
        let value = yaml.value(0);
        assert_eq!(
            yaml.next,
            yaml.lines.len(),
            "after {:?}",
            yaml.lines[yaml.next - 1]
        );
        value
    }

    /// What stands at this indentation.
    fn value(&mut self, indentation: usize) -> Value {
        let mut map = Map::new();
        let mut list = Vec::new();
        while let Some(&(at, line)) = self.lines.get(self.next)
            && at == indentation
        {
            self.next += 1;
            if let Some(item) = line.strip_prefix("- ") {
                list.push(scalar(item));
                continue;
            }
            let (key, rest) = line
                .strip_suffix(':')
                .map(|key| (key, ""))
                .or_else(|| line.split_once(": "))
                .unwrap_or_else(|| panic!("neither a key nor an item: {line}"));
            let value = match rest.strip_prefix('*') {
                Some(anchor) => self.anchors[anchor].clone(),
                None if rest.is_empty() || rest.starts_with('&') => self.below(indentation),
                None => scalar(rest),
            };
            if let Some(anchor) = rest.strip_prefix('&') {
                self.anchors.insert(anchor.to_owned(), value.clone());
            }
            if key == "<<" {
                // What the map has itself stands behind it, and goes before.
                assert!(map.is_empty(), "<< comes first");
                map = value.as_object().expect("<< takes a map").clone();
            } else {
                map.insert(key.to_owned(), value);
            }
        }
        assert!(
            list.is_empty() || map.is_empty(),
            "a list and a map at once: {list:?} {map:?}"
        );
        if list.is_empty() {
            Value::Object(map)
        } else {
            Value::Array(list)
        }
    }

    fn below(&mut self, indentation: usize) -> Value {
        match self.lines.get(self.next) {
            Some(&(at, _)) if at > indentation => self.value(at),
            _ => Value::Null,
        }
    }
}

fn scalar(text: &str) -> Value {
    if text.starts_with(['[', '"']) {
        return serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    Value::String(text.to_owned())
}

/// The words of an instruction of a container file, in its last stage.
fn instructions(containerfile: &str, name: &str) -> Vec<String> {
    let whole = containerfile.replace("\\\n", " ");
    let (_, last) = whole.rsplit_once("\nFROM ").expect("it has two stages");
    let found = last
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.map(str::to_owned).collect()
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().unwrap_or_else(|| panic!("no list: {value}"));
    let items = items
        .iter()
        .map(|item| item.as_str().expect("it is a string").to_owned());
    items.collect()
}

/// What one container is started with.
struct Container {
    name: String,
    image: String,
    variables: Vec<(String, String)>,
    health: Vec<String>,
}

/// The containers that the Compose file describes, each with what stands in the container file.
fn containers(compose: &Value, containerfile: &str) -> Vec<Container> {
    let services = compose["services"].as_object().expect("there are services");
    let containers = services.iter().map(|(name, service)| {
        let own = instructions(containerfile, "ENV");
        let own = own
            .iter()
            .map(|pair| pair.split_once('=').expect("a name and a value"));
        let mut variables: Vec<(String, String)> = own
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        for (name, value) in service["environment"].as_object().expect("it has variables") {
            let value = value
                .as_str()
                .expect("variables are strings: a number is not taken by all engines");
            let value = match value.strip_prefix("${") {
                Some(rest) => {
                    let (outer, why) = rest.split_once(":?").expect("it has to be set");
                    assert!(outer == name && why.ends_with('}'), "{value}");
                    PASSWORD
                }
                None => value,
            };
            variables.push((name.clone(), value.to_owned()));
        }
        let health = strings(&service["healthcheck"]["test"]);
        assert_eq!(health[0], "CMD");
        Container {
            name: name.clone(),
            image: service["image"].as_str().expect("it has an image").to_owned(),
            variables,
            health: health[1..].to_vec(),
        }
    });
    containers.collect()
}

fn help() -> String {
    let output = Command::new(chorale_binary()).args(["server", "--help"]).output();
    String::from_utf8_lossy(&output.expect("the binary runs").stdout).into_owned()
}

#[test]
fn the_compose_file_names_what_the_image_and_the_program_have() {
    let compose = Yaml::parse(&text("packaging/container/compose.yaml"));
    let containerfile = text("packaging/container/Containerfile");
    let containers = containers(&compose, &containerfile);
    let names: Vec<&str> = containers.iter().map(|container| &*container.name).collect();
    assert_eq!(names, ["node1", "node2", "node3"]);
    let help = help();
    let volume = instructions(&containerfile, "VOLUME").concat();
    let exposed = instructions(&containerfile, "EXPOSE").concat();
    let exposed: Vec<&str> = exposed.split(' ').collect();
    for option in ["PORT", "CLUSTER_PORT", "PEER_PORT", "ADMIN_PORT"] {
        let port = |port: &&str| help.contains(&format!("[default: {port}] [env: CHORALE_{option}]"));
        assert!(exposed.iter().any(port), "{option} in {exposed:?}");
    }
    for Container {
        name,
        image,
        variables,
        ..
    } in &containers
    {
        let service = &compose["services"][name];
        assert_eq!(*image, containers[0].image);
        let value = |variable: &str| {
            let found = variables.iter().find(|(name, _)| name == variable);
            &*found.unwrap_or_else(|| panic!("{name} has no {variable}")).1
        };
        for (variable, _) in variables {
            assert!(
                help.contains(&format!("[env: {variable}]")),
                "{variable} is no option"
            );
        }
        assert_eq!(value("CHORALE_DIR"), volume);
        assert_eq!(strings(&service["volumes"]), [format!("{name}:{volume}")]);
        assert!(
            compose["volumes"].get(name).is_some(),
            "the volume {name} is declared"
        );
        let [secret] = &strings(&service["secrets"])[..] else {
            panic!("{name} has one secret")
        };
        assert!(
            compose["secrets"].get(secret).is_some(),
            "the secret {secret} is declared"
        );
        assert_eq!(
            value("CHORALE_CLUSTER_SECRET_FILE"),
            format!("{SECRETS}/{secret}")
        );
        assert_eq!(
            [value("CHORALE_NODE_NAME"), value("CHORALE_ADVERTISE")],
            [name, name]
        );
        assert_eq!(value("CHORALE_JOIN_EXPECT"), containers.len().to_string());
        let join: Vec<String> = names.iter().map(|name| format!("{name}:7389")).collect();
        assert_eq!(value("CHORALE_JOIN"), join.join(" "));
        for published in service.get("ports").map(strings).unwrap_or_default() {
            let inside = published.rsplit(':').next().expect("there is a last part");
            assert!(exposed.contains(&inside), "{published} of {exposed:?}");
        }
    }
    // One of them builds the image of all.
    let built: Vec<&Value> = names
        .iter()
        .filter_map(|name| compose["services"][name].get("build"))
        .collect();
    let [build] = built[..] else { panic!("{built:?}") };
    let context = file("packaging/container").join(build["context"].as_str().expect("it has one"));
    let described = context.join(build["dockerfile"].as_str().expect("it has one"));
    assert_eq!(
        fs::canonicalize(described).unwrap(),
        fs::canonicalize(file("packaging/container/Containerfile")).unwrap()
    );

    let copied = instructions(&containerfile, "COPY").concat();
    let entry: Vec<String> =
        serde_json::from_str(&instructions(&containerfile, "ENTRYPOINT").concat()).unwrap();
    assert_eq!(
        copied,
        format!("--from=build /chorale/target/release/chorale {}", entry[0])
    );
    let manifest = text("Cargo.toml");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let version = version.expect("the workspace says which compiler it needs");
    assert!(
        containerfile.contains(&format!("/rust:{version}-")),
        "it is built by Rust {version}"
    );
}

fn quoted(word: &str) -> String {
    assert!(!word.contains('\''), "{word}");
    format!("'{word}'")
}

impl Container {
    /// A command with the variables of the container, as the user that the container file names.
    fn script(&self, containerfile: &str, command: &[String]) -> String {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| quoted(&format!("{name}={value}")));
        let user = instructions(containerfile, "USER").concat();
        format!(
            "exec env -i PATH=\"$PATH\" {} setpriv --reuid {user} --regid {user} --init-groups {}",
            variables.collect::<Vec<_>>().join(" "),
            command
                .iter()
                .map(|word| quoted(word))
                .collect::<Vec<_>>()
                .join(" ")
        )
    }

    /// The process of the container. It is the server itself: whatever is in front of it becomes it.
    fn start(&self, machines: &Machines, containerfile: &str) -> Child {
        let entry = instructions(containerfile, "ENTRYPOINT").concat();
        let entry: Vec<String> = serde_json::from_str(&entry).expect("it is a list of words");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(machines.path(&self.name, "/run/manager/log"));
        let mut command = machines.command(&self.name, &self.script(containerfile, &entry));
        command
            .stderr(log.expect("the directory is ours"))
            .spawn()
            .expect("`ip` is there")
    }

    fn is_healthy(&self, machines: &Machines, containerfile: &str) -> bool {
        machines
            .run(&self.name, &self.script(containerfile, &self.health))
            .status
            .success()
    }
}

fn stop(child: &mut Child, signal: &str) -> ExitStatus {
    let name = signal.trim_start_matches("SIG");
    let sent = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(child.id().to_string())
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
    child.wait().expect("the child is ours")
}

#[test]
fn containers_of_the_compose_file_are_one_cluster_at_the_first_start_and_at_the_next() {
    let compose = Yaml::parse(&text("packaging/container/compose.yaml"));
    let containerfile = text("packaging/container/Containerfile");
    let containers = containers(&compose, &containerfile);
    let names: Vec<&str> = containers.iter().map(|container| &*container.name).collect();
    let Some(machines) = Machines::new(&names) else {
        return;
    };
    let signal = instructions(&containerfile, "STOPSIGNAL").concat();
    let [users] = &instructions(&containerfile, "RUN")[..] else {
        panic!("one step makes the user")
    };
    for Container { name, .. } in &containers {
        machines.says(name, users);
        let secrets = machines.path(name, SECRETS);
        fs::create_dir_all(&secrets).expect("it is ours");
        for secret in strings(&compose["services"][name]["secrets"]) {
            fs::write(secrets.join(secret), "of the containers\n").expect("it is ours");
        }
    }
    for start in 0..2 {
        let mut nodes = vec![containers[2].start(&machines, &containerfile)];
        eventually("the first one says what it waits for", || {
            let asked = machines.run(&containers[2].name, "chorale admin status");
            String::from_utf8_lossy(&asked.stderr).contains("starting: ")
        });
        assert!(
            !containers[2].is_healthy(&machines, &containerfile),
            "it serves nobody yet"
        );
        nodes.extend(
            containers[..2]
                .iter()
                .map(|container| container.start(&machines, &containerfile)),
        );
        for container in &containers {
            eventually("it is healthy", || {
                container.is_healthy(&machines, &containerfile)
            });
        }
        if start == 0 {
            machines.says(
                "node1",
                &format!("redis-cli -h node2 -a {PASSWORD} SET key value"),
            );
        }
        for container in &containers {
            let ask = format!("redis-cli -h {} -a {PASSWORD} GET key", container.name);
            eventually("it has what was written", || {
                String::from_utf8_lossy(&machines.run("node1", &ask).stdout).trim() == "value"
            });
        }
        for node in &mut nodes {
            assert_eq!(stop(node, &signal).code(), Some(0));
        }
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = text("packaging/systemd/chorale.service");
    let program = chorale_binary().display().to_string();
    for line in [
        "Type=notify",
        "NotifyAccess=main",
        "ExecStart=/usr/local/bin/chorale server --config /etc/chorale/chorale.toml --dir /var/lib/chorale",
    ] {
        assert!(unit.lines().any(|there| there == line), "{line}");
    }
    // The program has to be there.
    let unit = unit.replace("/usr/local/bin/chorale", &program);
    let directory = std::env::temp_dir().join(format!("chorale-unit-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let path = directory.join("chorale.service");
    let check = |unit: &str| {
        fs::write(&path, unit).expect("the directory is ours");
        Command::new("systemd-analyze").arg("verify").arg(&path).output()
    };
    let [taken, refused] = [&*unit, &unit.replace("Type=notify", "Type=notifies")].map(check);
    let _ = fs::remove_dir_all(&directory);
    let (Ok(taken), Ok(refused)) = (taken, refused) else {
        eprintln!("SKIPPED, nothing was tested: there is no systemd-analyze here");
        return;
    };
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(String::from_utf8_lossy(&taken.stderr), "", "{unit}");
    assert_ne!(refused.stderr, b"", "it looks at the file");
}

#[test]
fn the_unit_and_the_files_of_the_page_start_a_node_that_says_when_it_is_ready_and_when_it_stops() {
    let Some(machines) = Machines::new(&["cache-1"]) else {
        return;
    };
    equip(&machines, &["cache-1"]);
    // There is one machine.
    let options = machines.path("cache-1", "/etc/chorale/chorale.toml");
    let three = fs::read_to_string(&options).expect("the page has it made");
    let one = three
        .replace(" cache-2:7389 cache-3:7389", "")
        .replace("expect = 3", "expect = 1");
    assert_ne!(one.lines().next(), three.lines().next());
    assert_ne!(one.lines().nth(1), three.lines().nth(1));
    fs::write(&options, one).expect("it is ours");
    for _ in 0..2 {
        machines.says("cache-1", "systemctl start chorale");
        let told = machines.read("cache-1", "/run/manager/told");
        assert!(told.starts_with("STATUS=starting"), "{told}");
        assert!(
            told.contains("\nREADY=1\n") && !told.contains("STOPPING"),
            "{told}"
        );
        // Files go while it looks; and every new user has files of a shell.
        let look = "find /var/lib/chorale -ignore_readdir_race -type f ! -name '.*' -printf '%u:%m\\n'";
        let said = machines.says(
            "cache-1",
            &format!("redis-cli -h cache-1 -a ... PING; {look}; chorale admin status"),
        );
        let [answer, rest @ ..] = &said.lines().collect::<Vec<_>>()[..] else {
            panic!("{said}")
        };
        assert_eq!(*answer, "PONG");
        let mut files = rest.iter().take_while(|line| line.starts_with("chorale:"));
        assert!(rest[0].starts_with("chorale:"), "{said}");
        assert!(files.all(|file| *file == "chorale:600"), "{said}");
        assert!(said.contains("cache-1"), "it has the machine's name: {said}");
        machines.says("cache-1", "systemctl stop chorale");
        assert_eq!(machines.read("cache-1", "/run/manager/status"), "0\n");
        eventually("it is told that the node stops", || {
            machines
                .read("cache-1", "/run/manager/told")
                .contains("\nSTOPPING=1\n")
        });
    }
}
