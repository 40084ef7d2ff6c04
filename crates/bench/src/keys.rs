//! Which key a request is about: keys are numbers, drawn by a distribution.
//!
//! Numbers are not scrambled, as YCSB does with Zipf's: number 0 is the one that is drawn most often. Where a key lies is decided
//! by the hash of its name, so neighbours are spread over slots anyway.

use std::fmt;
use std::str::FromStr;

use ids::Prng;

/// What YCSB takes for its Zipfian generators.
pub(crate) const YCSB_THETA: f64 = 0.99;

/// The steepest law. With it two draws of three are the first key.
const THETA_MAX: f64 = 2.0;

/// How often each key is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All equally often.
    Uniform,
    /// By Zipf's law: key `n`, counted from 1, in proportion to `n` to the power of minus this. Above 0, at most 2.
    Zipf(f64),
    /// By Zipf's law with the exponent 0.99, counted from the key that was made last.
    Latest,
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        match (text, text.strip_prefix("zipf:")) {
            ("uniform", _) => Ok(Distribution::Uniform),
            ("latest", _) => Ok(Distribution::Latest),
            ("zipf", _) => Ok(Distribution::Zipf(YCSB_THETA)),
            (_, Some(theta)) => match theta.parse::<f64>() {
                Ok(theta) if theta > 0.0 && theta <= THETA_MAX => Ok(Distribution::Zipf(theta)),
                _ => Err(format!(
                    "`{theta}` is no exponent of Zipf's law: take a number above 0 and up to {THETA_MAX}, such as zipf:0.99"
                )),
            },
            _ => Err("take uniform, zipf:THETA (such as zipf:0.99) or latest".to_owned()),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipf(theta) => write!(f, "zipf:{theta}"),
            Distribution::Latest => f.write_str("latest"),
        }
    }
}

/// Draws numbers of keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    distribution: Distribution,
    zipf: Zipf,
}

impl Keys {
    /// Of this many keys, at least one.
    pub(crate) fn new(distribution: Distribution, count: u64) -> Keys {
        let theta = match distribution {
            Distribution::Zipf(theta) => theta,
            Distribution::Uniform | Distribution::Latest => YCSB_THETA,
        };
        Keys {
            distribution,
            zipf: Zipf::new(theta, count),
        }
    }

    /// A number below `count`, which may have grown since the last draw.
    pub(crate) fn draw(&mut self, prng: &mut Prng, count: u64) -> u64 {
        if let Distribution::Uniform = self.distribution {
            return prng.below(count);
        }
        self.zipf.set_count(count);
        let rank = self.zipf.draw(prng);
        match self.distribution {
            Distribution::Latest => count - 1 - rank,
            Distribution::Uniform | Distribution::Zipf(_) => rank,
        }
    }
}

/// Zipf's law over `0..count`, exactly, in constant time and without a table: rejection-inversion (Hörmann, Derflinger:
/// "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
#[derive(Clone, Debug)]
struct Zipf {
    theta: f64,
    count: u64,
    /// The area under `x^-theta` up to 1.5, less the weight of the first.
    area_first: f64,
    /// The area up to the end.
    area_last: f64,
    /// Up to this distance from a whole number nothing is ever rejected.
    sure: f64,
}

impl Zipf {
    fn new(theta: f64, count: u64) -> Zipf {
        let mut zipf = Zipf {
            theta,
            count,
            area_first: 0.0,
            area_last: 0.0,
            sure: 0.0,
        };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    fn set_count(&mut self, count: u64) {
        if self.count != count {
            self.count = count;
            self.area_last = self.area(count as f64 + 0.5);
        }
    }

    fn draw(&self, prng: &mut Prng) -> u64 {
        loop {
            let area = self.area_last + unit(prng) * (self.area_first - self.area_last);
            let x = self.area_inverse(area);
            let rank = x.round().clamp(1.0, self.count as f64);
            if rank - x <= self.sure || area >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of `x^-theta`, which is `ln x` where theta is 1, and near it without loss of digits.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        let ratio = if power.abs() > 1e-8 {
            power.exp_m1() / power
        } else {
            1.0 + power / 2.0
        };
        ratio * log
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.theta)).max(-1.0);
        let ratio = if power.abs() > 1e-8 {
            power.ln_1p() / power
        } else {
            1.0 - power / 2.0
        };
        (ratio * area).exp()
    }
}

/// A number from 0 to 1, 1 excluded, of 53 random bits.
pub(crate) fn unit(prng: &mut Prng) -> f64 {
    (prng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    /// How often each of `count` numbers was drawn.
    fn drawn(distribution: Distribution, count: u64) -> Vec<f64> {
        let mut keys = Keys::new(distribution, count);
        let mut prng = Prng::new(7);
        let mut counts = vec![0.0; count as usize];
        for _ in 0..DRAWS {
            counts[keys.draw(&mut prng, count) as usize] += 1.0;
        }
        counts
    }

    /// Pearson's statistic over the degrees of freedom: about 1 if the draws follow the law, and it grows with their number
    /// if they do not.
    fn misfit(counts: &[f64], shares: &[f64]) -> f64 {
        let total: f64 = shares.iter().sum();
        let squares = counts.iter().zip(shares).map(|(count, share)| {
            let expected = share / total * DRAWS as f64;
            assert!(expected > 5.0, "the statistic needs some draws of each");
            (count - expected).powi(2) / expected
        });
        squares.sum::<f64>() / (counts.len() - 1) as f64
    }

    #[test]
    fn draws_follow_the_law_that_was_asked_for() {
        for count in [2, 100, 1_000] {
            let even = vec![1.0; count as usize];
            assert!(misfit(&drawn(Distribution::Uniform, count), &even) < 2.0);
            for theta in [0.1, 0.5, 0.99, 1.0, 1.2] {
                let law: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-theta)).collect();
                let found = misfit(&drawn(Distribution::Zipf(theta), count), &law);
                assert!(found < 3.0, "zipf:{theta} over {count}: {found}");
            }
            let mut law: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-YCSB_THETA)).collect();
            law.reverse();
            let found = misfit(&drawn(Distribution::Latest, count), &law);
            assert!(found < 3.0, "latest over {count}: {found}");
        }
    }

    #[test]
    fn another_law_would_be_noticed() {
        let law: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-0.9)).collect();
        assert!(misfit(&drawn(Distribution::Zipf(0.99), 100), &law) > 3.0);
    }

    #[test]
    fn the_latest_key_is_drawn_most_often_as_keys_are_added() {
        let mut keys = Keys::new(Distribution::Latest, 1_000);
        let mut prng = Prng::new(1);
        for count in 1_000..3_000 {
            assert!(keys.draw(&mut prng, count) < count);
        }
        let newest = (0..10_000).filter(|_| keys.draw(&mut prng, 3_000) == 2_999);
        // The harmonic number of 3,000 with the exponent 0.99 is 8.9.
        assert!((800..1_500).contains(&newest.count()));
    }

    #[test]
    fn one_key_is_always_the_one() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Latest,
            Distribution::Zipf(0.99),
        ] {
            assert_eq!(Keys::new(distribution, 1).draw(&mut Prng::new(1), 1), 0);
        }
    }

    #[test]
    fn a_distribution_is_read_as_it_is_written_and_a_wrong_one_says_what_to_take() {
        for text in ["uniform", "zipf:0.99", "zipf:1.5", "latest"] {
            assert_eq!(
                text.parse::<Distribution>()
                    .map(|read| read.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        assert_eq!("zipf".parse(), Ok(Distribution::Zipf(YCSB_THETA)));
        for (wrong, hint) in [
            ("zipf:0", "above 0"),
            ("zipf:x", "zipf:0.99"),
            ("zipf:nan", "above 0"),
            ("normal", "uniform"),
        ] {
            let problem = wrong.parse::<Distribution>().expect_err("it is wrong");
            assert!(problem.contains(hint), "{problem}");
        }
    }
}
