//! When a write counts as done.

/// What must have happened before a write is acknowledged. It belongs to a cluster, is decided when that is made, and stays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DurabilityMode {
    /// A majority of the group's replicas has it in memory. Who ends without handing over has lost what it had.
    Memory,
    /// A majority has written it to a file. The end of a process loses nothing; what an unclean end of the kernel may lose was
    /// written last, and syncs bound it.
    Relaxed,
    /// A majority has it synced to disk. No end of a process or a kernel loses it, nor does a loss of power.
    Strict,
}

impl DurabilityMode {
    /// All of them, the weakest first.
    pub const ALL: [DurabilityMode; 3] = [
        DurabilityMode::Memory,
        DurabilityMode::Relaxed,
        DurabilityMode::Strict,
    ];

    /// As operators write it.
    pub const fn name(self) -> &'static str {
        match self {
            DurabilityMode::Memory => "memory",
            DurabilityMode::Relaxed => "relaxed",
            DurabilityMode::Strict => "strict",
        }
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<DurabilityMode> {
        DurabilityMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Its number, wherever it is written.
    pub const fn code(self) -> u8 {
        match self {
            DurabilityMode::Memory => 0,
            DurabilityMode::Relaxed => 1,
            DurabilityMode::Strict => 2,
        }
    }

    /// The one of this number.
    pub fn of_code(code: u8) -> Option<DurabilityMode> {
        DurabilityMode::ALL.into_iter().find(|mode| mode.code() == code)
    }

    /// Whether replicas of keys stand on disk.
    pub const fn writes(self) -> bool {
        match self {
            DurabilityMode::Memory => false,
            DurabilityMode::Relaxed | DurabilityMode::Strict => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_is_the_one_of_its_code_and_no_other_code_is_one() {
        for mode in DurabilityMode::ALL {
            assert_eq!(DurabilityMode::of_code(mode.code()), Some(mode));
            assert_eq!(DurabilityMode::of_name(mode.name()), Some(mode));
        }
        assert_eq!(DurabilityMode::ALL.map(DurabilityMode::code), [0, 1, 2]);
        assert_eq!(DurabilityMode::of_code(3), None);
    }
}
