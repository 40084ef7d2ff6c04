//! What the system tells about itself and this process. Read from `/proc`, so that no unsafe code is needed;
//! where there is none, numbers are 0.

use gateway::ProcessStats;
use std::fs::read_to_string;

/// What `INFO` shows of it.
pub(crate) fn stats() -> ProcessStats {
    let stat = read_to_string("/proc/self/stat").ok();
    let (cpu_user_secs, cpu_system_secs) = stat.and_then(|stat| parse_cpu(&stat)).unwrap_or_default();
    let meminfo = read_to_string("/proc/meminfo").ok();
    ProcessStats {
        id: std::process::id(),
        executable: std::env::current_exe().unwrap_or_default().display().to_string(),
        system: system(),
        system_memory: meminfo.and_then(|text| parse_memory(&text)).unwrap_or(0),
        cpu_user_secs,
        cpu_system_secs,
    }
}

/// Processor time that the process has used, in seconds: its own, and the system's for it.
fn parse_cpu(stat: &str) -> Option<(f64, f64)> {
    /// The unit of these fields: the kernel's own rate is hidden from programs.
    const TICKS_PER_SECOND: f64 = 100.0;
    // The second field is a name in parentheses and may hold spaces and parentheses itself.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some((seconds()?, seconds()?))
}

/// The system's name, version and machine, such as `Linux 6.1.0 x86_64`.
fn system() -> String {
    let kernel = |name: &str| read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    let name = kernel("ostype").unwrap_or_else(|| std::env::consts::OS.to_owned());
    let release = kernel("osrelease").unwrap_or_default();
    format!("{} {} {}", name.trim(), release.trim(), std::env::consts::ARCH)
}

/// The machine's memory in bytes.
fn parse_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 125 0 0 20";
        assert_eq!(parse_cpu(stat), Some((2.5, 1.25)));
        assert_eq!(parse_cpu(""), None);
    }

    #[test]
    fn memory_is_given_in_kilobytes() {
        assert_eq!(
            parse_memory("MemTotal:       24684092 kB\nMemFree: 1 kB\n"),
            Some(25_276_510_208)
        );
        assert_eq!(parse_memory("MemFree: 1 kB\n"), None);
    }
}
