//! Processes of this machine, as `/proc` shows them: who listens on a port, what it takes, how it was started.
//!
//! Where there is no `/proc`, nobody is found and nothing is known; the report then leaves these lines out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process of this machine and of this user that listens at an address. `None` if the address is another machine's, if
/// nobody listens, or if it is another user's process.
pub(crate) fn listener(address: SocketAddr) -> Option<u32> {
    if !is_local(address.ip()) {
        return None;
    }
    let mut sockets = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = fs::read_to_string(table).unwrap_or_default();
        sockets.extend(
            table
                .lines()
                .filter_map(|line| listening_socket(line, address.port())),
        );
    }
    let own = fs::metadata("/proc/self").ok()?.uid();
    let mut numbers: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // A process that shares the socket with its children came first.
    numbers.sort_unstable();
    numbers.into_iter().find(|number| {
        let folder = format!("/proc/{number}");
        fs::metadata(&folder).is_ok_and(|data| data.uid() == own)
            && fs::read_dir(format!("{folder}/fd")).is_ok_and(|files| {
                files.flatten().any(|file| {
                    let target = fs::read_link(file.path()).unwrap_or_default();
                    let target = target.to_string_lossy();
                    let inode = target
                        .strip_prefix("socket:[")
                        .and_then(|rest| rest.strip_suffix(']'));
                    inode.is_some_and(|inode| sockets.contains(inode))
                })
            })
    })
}

/// Whether packets to this address stay here: nobody else's can be bound.
fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The inode of a line of `/proc/net/tcp`, if it is of a socket that listens on this port.
fn listening_socket(line: &str, port: u16) -> Option<String> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (_, hex) = fields.next()?.rsplit_once(':')?;
    if u16::from_str_radix(hex, 16).ok()? != port || fields.nth(1)? != LISTEN {
        return None;
    }
    fields.nth(5).map(str::to_owned)
}

/// Memory of a process that is in RAM, in bytes.
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(first_number(line)? * 1024)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// How a process was started: enough to start it again.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    program: PathBuf,
    /// The first word, by which the program was called.
    title: OsString,
    words: Vec<OsString>,
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Start {
    /// These words, the first of which is a program, in the directory of this process and with its environment.
    pub(crate) fn by(command: &str) -> io::Result<Start> {
        let mut words = command.split_ascii_whitespace();
        Ok(Start {
            program: words.clone().next().unwrap_or_default().into(),
            title: words.next().unwrap_or_default().into(),
            words: words.map(OsString::from).collect(),
            directory: std::env::current_dir()?,
            environment: std::env::vars_os().collect(),
        })
    }

    /// Whether the process wrote a title over the words by which it was started, as Redis does.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.title.as_encoded_bytes().contains(&b' ')
    }

    /// How this process was started.
    pub(crate) fn of(process: u32) -> io::Result<Start> {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let parts = |name: &str| -> io::Result<Vec<OsString>> {
            let bytes = fs::read(folder.join(name))?;
            let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
            let parts = bytes.split(|byte| *byte == 0);
            Ok(parts.map(|part| OsString::from_vec(part.to_vec())).collect())
        };
        let environment = parts("environ")?.into_iter().filter_map(|variable| {
            let bytes = variable.into_vec();
            let at = bytes.iter().position(|byte| *byte == b'=')?;
            Some((
                OsString::from_vec(bytes[..at].to_vec()),
                OsString::from_vec(bytes[at + 1..].to_vec()),
            ))
        });
        let mut words = parts("cmdline")?.into_iter();
        Ok(Start {
            program: fs::read_link(folder.join("exe"))?,
            title: words.next().unwrap_or_default(),
            words: words.collect(),
            directory: fs::read_link(folder.join("cwd"))?,
            environment: environment.collect(),
        })
    }

    /// Starts it again, in a process group of its own, so that Ctrl-C does not end it. It goes on after this program has ended.
    pub(crate) fn again(&self) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.words)
            .current_dir(&self.directory)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn whoever_listens_on_a_port_is_found() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it has one");
        assert_eq!(listener(address), Some(std::process::id()));
        drop(socket);
        assert_eq!(listener(address), None);
    }

    #[test]
    fn nobody_of_another_machine_is_found() {
        // An address for documents (RFC 5737), which no machine has.
        assert_eq!(listener("192.0.2.1:6379".parse().expect("an address")), None);
    }

    #[test]
    fn a_line_of_the_table_is_read() {
        let line = "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 31337 1 0 100 0 0";
        assert_eq!(listening_socket(line, 6379).as_deref(), Some("31337"));
        assert_eq!(listening_socket(line, 6380), None);
        assert_eq!(listening_socket(&line.replace(" 0A ", " 01 "), 6379), None);
        assert_eq!(
            listening_socket("  sl  local_address rem_address   st", 6379),
            None
        );
    }

    #[test]
    fn memory_of_a_process_is_told() {
        assert!(resident_bytes(std::process::id()).expect("Linux") > 100_000);
        // No process has this number.
        assert_eq!(resident_bytes(u32::MAX), None);
    }

    /// For a moment after it was started, a process has no words yet, and then no environment.
    fn once_begun(child: &Child) -> Start {
        let begin = std::time::Instant::now();
        loop {
            match Start::of(child.id()) {
                Ok(start) if !start.words.is_empty() && !start.environment.is_empty() => return start,
                other => assert!(begin.elapsed().as_secs() < 20, "it does not begin: {other:?}"),
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_title_is_no_command() {
        let start = |title: &str| Start {
            title: title.into(),
            ..Start::by("sleep 1000").expect("this process has a directory")
        };
        assert!(start("redis-server *:6379").is_overwritten());
        assert!(!start("redis-server").is_overwritten());
    }

    #[test]
    fn a_process_is_started_again_as_it_was() {
        let mut first = Command::new("sleep")
            .arg("1000")
            .env("CHORALE_BENCH_TEST", "a=b")
            .spawn()
            .expect("every system has it");
        let start = once_begun(&first);
        first.kill().and_then(|()| first.wait()).expect("it is ours");
        let mut second = start.again().expect("it can be started");
        let again = once_begun(&second);
        second.kill().and_then(|()| second.wait()).expect("it is ours");
        assert_eq!(again.words, ["1000"]);
        assert!(
            again
                .environment
                .contains(&("CHORALE_BENCH_TEST".into(), "a=b".into()))
        );
    }
}
