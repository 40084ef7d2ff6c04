//! The numbers of `math.random`, as Redis makes them from where they begin.

/// POSIX's `lrand48`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn seeded(seed: i32) -> Self {
        Self {
            state: u64::from(seed as u32) << 16 | 0x330e,
        }
    }

    /// For a run whose host has drawn this; with 0, what a Redis begins with.
    pub(crate) fn for_run(seed: i32) -> Self {
        if seed == 0 {
            Self {
                state: 0x1234_abcd_330e,
            }
        } else {
            Self::seeded(seed)
        }
    }

    /// A number of 31 bits.
    pub(crate) fn draw(&mut self) -> i32 {
        self.state = self.state.wrapping_mul(0x0005_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        (self.state >> 17) as i32
    }
}
