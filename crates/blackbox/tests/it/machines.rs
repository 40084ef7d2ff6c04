//! Machines for what is written for operators: each a network namespace with files, a name and a service manager of its own, so that commands
//! and paths can be taken as they stand on the pages.
//!
//! ```text
//!   run(machine, script):  network and mount namespace --> its own /etc, /run, /var/lib and /usr/local/bin --> bash
//!   systemctl (a script):  the unit in /etc/systemd/system --> its process, which tells /run/manager/notify --> /run/manager/told
//! ```
//!
//! Nothing of the machine that tests is changed. `systemctl` knows of one service, and of what the pages ask of it; it starts nothing again by itself,
//! and of the unit it takes who the process is, what it is told, and when it counts as started. Where there is no `redis-cli`, a script sends
//! what the pages send. All else is the system's own.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use blackbox::{chorale_binary, ip};

/// Where things are at other machines than at this one.
const OWN: [&str; 4] = ["etc", "run", "var/lib", "usr/local/bin"];

/// How often a manager looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(100);

/// From a network namespace to a machine.
const ENTER: &str = r#"
set -e
here=$1 name=$2 program=$3 script=$4
for own in etc run var/lib usr/local/bin; do mount --bind "$here/$own" "/$own"; done
mount --bind "$program" /usr/local/bin/chorale
hostname "$name"
cd /run
exec bash -c "$script"
"#;

const SYSTEMCTL: &str = r#"#!/bin/bash
unit=/etc/systemd/system/chorale.service
at=/run/manager
value() { sed -n "s/^$1=//p" "$unit"; }
is_running() { [ -e "/proc/$(cat $at/pid 2>/dev/null || echo none)/exe" ]; }
start() {
    is_running && return
    : > $at/told
    rm -f $at/status
    variables=()
    while read -r line; do variables+=("${line//%H/$(hostname)}"); done < <(value Environment)
    file=$(value EnvironmentFile)
    if [ -e "${file#-}" ]; then
        while read -r line; do variables+=("$line"); done < "${file#-}"
    fi
    umask "$(value UMask)"
    setsid bash -c '
        at=$1; shift
        "$@" >> $at/log 2>&1 < /dev/null &
        echo $! > $at/pid.new && mv $at/pid.new $at/pid
        wait $!
        echo $? > $at/status.new && mv $at/status.new $at/status' - $at \
        env -i PATH="$PATH" NOTIFY_SOCKET=$at/notify "${variables[@]}" \
        setpriv --reuid "$(value User)" --regid "$(value Group)" --init-groups --no-new-privs $(value ExecStart) \
        > /dev/null 2>&1 < /dev/null &
    until [ -e $at/pid ] || [ -e $at/status ]; do sleep 0.05; done
    [ -n "$no_block" ] && return
    until grep -qx READY=1 $at/told; do
        [ -e $at/status ] && { echo "Job for chorale.service failed." >&2; exit 1; }
        sleep 0.05
    done
}
no_block= words=()
for word; do
    case $word in
        --no-block) no_block=yes ;;
        --now) ;;
        *) words+=("$word") ;;
    esac
done
set -- "${words[@]}"
[ "$#" = 1 ] || [ "$2" = chorale ] || { echo "no such unit: $2" >&2; exit 5; }
case $1 in
    daemon-reload | reset-failed | disable) ;;
    start | enable) rm -f $at/pid.new; is_running || rm -f $at/pid; start ;;
    stop)
        is_running || exit 0
        kill -TERM "$(cat $at/pid)"
        until [ -e $at/status ]; do sleep 0.05; done ;;
    status)
        grep '^STATUS=' $at/told | tail -n 1
        is_running || exit 3 ;;
    *) echo "unknown to this service manager: $1" >&2; exit 1 ;;
esac
"#;

const REDIS_CLI: &str = r#"#!/bin/bash
while getopts h:a: option; do
    case $option in h) host=$OPTARG ;; a) password=$OPTARG ;; *) exit 1 ;; esac
done
shift $((OPTIND - 1))
exec 3<> "/dev/tcp/$host/6379" || exit 1
printf 'AUTH %s\r\n%s\r\n' "$password" "$*" >&3
read -r authenticated <&3
case $authenticated in +OK*) ;; *) echo "$authenticated" >&2; exit 1 ;; esac
read -r reply <&3
reply=${reply%$'\r'}
case $reply in
    '$-1') echo ;;
    '$'*) read -r value <&3; echo "${value%$'\r'}" ;;
    -*) echo "${reply#-}"; exit 1 ;;
    *) echo "${reply#?}" ;;
esac
"#;

/// See the file's header. Dropping it kills all that runs there, and removes everything.
#[derive(Debug)]
pub(crate) struct Machines {
    directory: PathBuf,
    /// What all interfaces and namespaces are called, with a number behind it.
    net: String,
    subnet: [u8; 2],
    names: Vec<String>,
    is_over: Arc<AtomicBool>,
    managers: Vec<JoinHandle<()>>,
}

impl Machines {
    /// So many machines that know each other by these names. `None` where there can be none, which is said.
    pub(crate) fn new(names: &[&str]) -> Option<Machines> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = u64::from(std::process::id()) + serial * 7919;
        let directory =
            std::env::temp_dir().join(format!("chorale-machines-{}-{serial}", std::process::id()));
        let machines = Machines {
            directory,
            net: format!("chm{:x}", number & 0xf_ffff),
            // Beside those of clusters in namespaces.
            subnet: [150 + (number / 250 % 50) as u8, (number % 250) as u8],
            names: names.iter().map(|&name| name.to_owned()).collect(),
            is_over: Arc::default(),
            managers: Vec::new(),
        };
        match machines.made() {
            Ok(machines) => Some(machines),
            Err(reason) => {
                eprintln!(
                    "SKIPPED, nothing was tested: there can be no machines of their own here: {reason}"
                );
                None
            }
        }
    }

    fn made(mut self) -> Result<Machines, String> {
        let net = &self.net;
        ip(&format!("link add {net} type bridge"))?;
        ip(&format!("link set {net} up"))?;
        for machine in 0..self.names.len() {
            let (space, address, outside) = (
                self.space(machine),
                self.address(machine),
                format!("{net}v{machine}"),
            );
            ip(&format!("netns add {space}"))?;
            ip(&format!(
                "link add {outside} type veth peer name eth0 netns {space}"
            ))?;
            ip(&format!("link set {outside} master {net} up"))?;
            ip(&format!("-n {space} link set lo up"))?;
            ip(&format!("-n {space} addr add {address}/24 dev eth0"))?;
            ip(&format!("-n {space} link set eth0 up"))?;
            ip(&format!("-n {space} route add default via {}", self.last(254)))?;
            let written = self.write(machine);
            written.map_err(|error| format!("{}: {error}", self.directory.display()))?;
            let notified = self.root(machine).join("run/manager/notify");
            let manager = manage(&notified, self.is_over.clone());
            self.managers
                .push(manager.map_err(|error| format!("{}: {error}", notified.display()))?);
        }
        Ok(self)
    }

    /// The files of a machine.
    fn write(&self, machine: usize) -> io::Result<()> {
        let root = self.root(machine);
        for own in OWN {
            fs::create_dir_all(root.join(own))?;
        }
        fs::create_dir_all(root.join("run/manager"))?;
        // Users and groups, and what programs look for there.
        let copied = Command::new("cp")
            .arg("-a")
            .arg("/etc/.")
            .arg(root.join("etc"))
            .status()?;
        assert!(copied.success(), "/etc can be copied");
        // As Debian has it, its own name leads to itself alone.
        let all = self
            .names
            .iter()
            .enumerate()
            .map(|(other, name)| match other == machine {
                true => format!("127.0.1.1 {name}\n"),
                false => format!("{} {name}\n", self.address(other)),
            });
        let hosts = format!("127.0.0.1 localhost\n{}", all.collect::<String>());
        for (name, text) in [("hosts", &*hosts), ("nsswitch.conf", "hosts: files\n")] {
            let path = root.join("etc").join(name);
            // It may be a link to what is of another machine.
            let _ = fs::remove_file(&path);
            fs::write(path, text)?;
        }
        let programs = root.join("usr/local/bin");
        fs::write(programs.join("chorale"), "")?;
        script(&programs.join("systemctl"), SYSTEMCTL)?;
        let is_there = ["/usr/bin", "/bin"]
            .iter()
            .any(|place| Path::new(place).join("redis-cli").exists());
        if !is_there {
            script(&programs.join("redis-cli"), REDIS_CLI)?;
        }
        Ok(())
    }

    fn space(&self, machine: usize) -> String {
        format!("{}-{machine}", self.net)
    }

    fn last(&self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.subnet[0], self.subnet[1], last)
    }

    fn address(&self, machine: usize) -> Ipv4Addr {
        self.last(machine as u8 + 1)
    }

    fn root(&self, machine: usize) -> PathBuf {
        self.directory.join(&self.names[machine])
    }

    fn number(&self, name: &str) -> usize {
        let number = self.names.iter().position(|other| other == name);
        number.expect("it is one of the machines")
    }

    /// What stands at this path of a machine, in `/etc`, `/run`, `/var/lib` or `/usr/local/bin`.
    pub(crate) fn path(&self, machine: &str, path: &str) -> PathBuf {
        self.root(self.number(machine)).join(path.trim_start_matches('/'))
    }

    /// What is in a file of a machine, or nothing.
    pub(crate) fn read(&self, machine: &str, path: &str) -> String {
        fs::read_to_string(self.path(machine, path)).unwrap_or_default()
    }

    /// A command that is root of a machine and runs a script of bash there.
    pub(crate) fn command(&self, machine: &str, script: &str) -> Command {
        let number = self.number(machine);
        let mut command = Command::new("ip");
        command
            .args([
                "netns",
                "exec",
                &self.space(number),
                "unshare",
                "--uts",
                "bash",
                "-c",
                ENTER,
                "-",
            ])
            .arg(self.root(number))
            .arg(machine)
            .arg(chorale_binary())
            .arg(script)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("HOME", "/root")
            .stdin(Stdio::null());
        command
    }

    /// Runs a script of bash at a machine.
    pub(crate) fn run(&self, machine: &str, script: &str) -> Output {
        self.command(machine, script).output().expect("`ip` is there")
    }

    /// What a script says that does what it is to do, step by step.
    ///
    /// # Panics
    /// If any of its steps fails.
    #[track_caller]
    pub(crate) fn says(&self, machine: &str, script: &str) -> String {
        let output = self.run(machine, &format!("set -e\n{script}"));
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(
            output.status.success(),
            "{machine}: {script}\nends with {}, and says\n{said}\nthe log of its node:\n{}",
            output.status,
            self.read(machine, "/run/manager/log")
        );
        said
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let is_failing = thread::panicking();
        let shown = self.names.iter().filter(|_| is_failing);
        let logs: Vec<_> = shown
            .map(|name| (name, self.read(name, "/run/manager/log")))
            .collect();
        for machine in 0..self.names.len() {
            let space = self.space(machine);
            if let Ok(pids) = Command::new("ip").args(["netns", "pids", &space]).output() {
                let pids = String::from_utf8_lossy(&pids.stdout).into_owned();
                let _ = Command::new("kill")
                    .arg("-9")
                    .args(pids.split_whitespace())
                    .output();
            }
            let _ = ip(&format!("netns del {space}"));
        }
        let _ = ip(&format!("link del {}", self.net));
        self.is_over.store(true, Ordering::Relaxed);
        for manager in self.managers.drain(..) {
            let _ = manager.join();
        }
        let _ = fs::remove_dir_all(&self.directory);
        // In the end: where nobody reads any more, this is the end of the process.
        for (name, log) in logs {
            eprintln!("--- the log at {name}\n{log}\n---");
        }
    }
}

/// Writes what a process tells at `socket` into `told` beside it, line by line.
fn manage(socket: &Path, is_over: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    let notified = UnixDatagram::bind(socket)?;
    // The process is not the user who tests.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o777))?;
    notified.set_read_timeout(Some(GLANCE))?;
    let told = socket.with_file_name("told");
    Ok(thread::spawn(move || {
        let mut bytes = [0; 4096];
        while !is_over.load(Ordering::Relaxed) {
            let Ok(count) = notified.recv(&mut bytes) else {
                continue;
            };
            let mut text = fs::read(&told).unwrap_or_default();
            text.extend_from_slice(&bytes[..count]);
            text.push(b'\n');
            fs::write(&told, text).expect("the directory is ours");
        }
    }))
}

fn script(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// The blocks of shell under a heading of a document, up to the next heading of the same or a higher level.
///
/// # Panics
/// If there is no such heading.
#[track_caller]
pub(crate) fn shell_blocks(document: &str, heading: &str) -> Vec<String> {
    let (_, below) = document
        .split_once(&format!("{heading}\n"))
        .unwrap_or_else(|| panic!("the page has no heading {heading:?}"));
    let level = heading.chars().take_while(|&letter| letter == '#').count();
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in below.lines() {
        let ends = line.chars().take_while(|&letter| letter == '#').count();
        match &mut block {
            None if line == "```sh" => block = Some(String::new()),
            None if (1..=level).contains(&ends) => break,
            None => {}
            Some(_) if line == "```" => blocks.extend(block.take()),
            Some(text) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    blocks
}
