//! How long values are.

use std::fmt;
use std::str::FromStr;

use ids::Prng;

use crate::keys::unit;

/// Bytes of the longest value. A larger one is refused: every connection may have one on its way.
pub const SIZE_MAX: usize = 16 << 20;

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same number of bytes, at most [`SIZE_MAX`].
    Fixed(usize),
    /// As in the ETC pool, the largest of Facebook's Memcached pools: a generalized Pareto distribution with scale 214.476 and
    /// shape 0.348238 (Atikoglu, Xu, Frachtenberg, Jiang, Paleczny: "Workload analysis of a large-scale key-value store",
    /// SIGMETRICS 2012, section 5), from 15 bytes on, as the load generator `mutilate` takes it. The average is 344 bytes, the
    /// median 183; what would be longer than 1 MB, the longest item of Memcached, is of that length. The paper's separate table
    /// of values below 15 bytes, and its distribution of the lengths of keys, are left out.
    Etc,
}

const ETC_FROM: f64 = 15.0;
const ETC_SCALE: f64 = 214.476;
const ETC_SHAPE: f64 = 0.348_238;
const ETC_MAX: usize = 1_000_000;

impl Sizes {
    /// The bytes of one value.
    #[inline]
    pub fn draw(self, prng: &mut Prng) -> usize {
        match self {
            Sizes::Fixed(size) => size,
            Sizes::Etc => {
                // The inverse of the distribution function, of a number that is never 0.
                let rest = 1.0 - unit(prng);
                let size = ETC_FROM + ETC_SCALE * (rest.powf(-ETC_SHAPE) - 1.0) / ETC_SHAPE;
                (size as usize).min(ETC_MAX)
            }
        }
    }

    /// The most that is ever drawn.
    pub fn max(self) -> usize {
        match self {
            Sizes::Fixed(size) => size,
            Sizes::Etc => ETC_MAX,
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if text == "etc" {
            return Ok(Sizes::Etc);
        }
        match text.parse() {
            Ok(size) if size <= SIZE_MAX => Ok(Sizes::Fixed(size)),
            _ => Err(format!(
                "take a number of bytes up to {SIZE_MAX}, or etc for the sizes of a published cache"
            )),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Etc => f.write_str("etc"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_cache_have_the_quantiles_of_their_distribution() {
        let mut prng = Prng::new(3);
        let mut sizes: Vec<usize> = (0..100_000).map(|_| Sizes::Etc.draw(&mut prng)).collect();
        sizes.sort_unstable();
        // 15 + 214.476 * ((1 - q)^-0.348238 - 1) / 0.348238
        for (share, exact) in [(0.1, 38.0), (0.5, 183.1), (0.9, 772.3), (0.99, 2_461.0)] {
            let found = sizes[(share * 100_000.0) as usize] as f64;
            assert!(
                (found - exact).abs() / exact < 0.05,
                "{share}: {found} for {exact}"
            );
        }
        assert!(sizes[0] >= 15);
        assert!(sizes[99_999] <= ETC_MAX);
        let mean = sizes.iter().sum::<usize>() as f64 / 100_000.0;
        assert!((mean - 344.0).abs() < 20.0, "{mean}");
    }

    #[test]
    fn a_size_is_read_as_it_is_written_and_a_wrong_one_says_what_to_take() {
        for text in ["0", "100", "16777216", "etc"] {
            assert_eq!(
                text.parse::<Sizes>().map(|read| read.to_string()).as_deref(),
                Ok(text)
            );
        }
        for wrong in ["", "16777217", "-1", "1kb"] {
            let problem = wrong.parse::<Sizes>().expect_err("it is wrong");
            assert!(problem.contains("etc"), "{problem}");
        }
    }
}
