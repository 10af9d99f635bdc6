//! Chooses the key of each operation.
//!
//! Keys are the numbers `first .. first + count`. Skewed distributions draw a rank and map it to a key by a
//! multiplication modulo `count`, a bijection that keeps hot keys from being neighbours. Ranks of Zipf distributions
//! are drawn by rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996), which takes constant time and no table, whatever the number of keys.

use runtime::rng::Rng;

/// How keys are chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// Every key with the same probability.
    Uniform,
    /// The key of rank r (from 1) with weight r^-exponent; the exponent is above 0.
    Zipf(f64),
    /// Writes append new keys; reads take the n-th newest key (from 1) with weight n^-exponent.
    Latest(f64),
    /// One key after another, beginning again after the last.
    Sequential,
    /// A share of the keys gets another share of the operations.
    Hotspot {
        /// Share of the keys that is hot, 0 to 1.
        keys: f64,
        /// Share of the operations that take a hot key, 0 to 1.
        operations: f64,
    },
    /// A normal distribution around the middle key.
    Gaussian {
        /// How many standard deviations it is from the middle key to either end; above 0.
        deviations: f64,
    },
}

/// The exponent of Zipf distributions that are given without one, as in YCSB.
const EXPONENT: f64 = 0.99;

impl Distribution {
    /// Reads `uniform`, `sequential`, `zipf`, `zipf:1.1`, `latest`, `latest:1.1`, `hotspot`, `hotspot:0.2,0.8`,
    /// `gaussian`, `gaussian:3`.
    pub fn parse(text: &str) -> Result<Distribution, String> {
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        let numbers = match arguments {
            "" => Vec::new(),
            _ => arguments
                .split(',')
                .map(|n| n.parse::<f64>().ok().filter(|n| n.is_finite()))
                .collect::<Option<_>>()
                .ok_or_else(|| format!("{text}: {arguments} are not numbers"))?,
        };
        let positive =
            |value: f64| if value > 0.0 { Ok(value) } else { Err(format!("{text}: a number above 0 is needed")) };
        match (name, numbers[..].as_ref()) {
            ("uniform", []) => Ok(Distribution::Uniform),
            ("sequential", []) => Ok(Distribution::Sequential),
            ("zipf", []) => Ok(Distribution::Zipf(EXPONENT)),
            ("zipf", [exponent]) => positive(*exponent).map(Distribution::Zipf),
            ("latest", []) => Ok(Distribution::Latest(EXPONENT)),
            ("latest", [exponent]) => positive(*exponent).map(Distribution::Latest),
            ("hotspot", []) => Ok(Distribution::Hotspot { keys: 0.2, operations: 0.8 }),
            ("hotspot", [keys, operations]) if [keys, operations].iter().all(|n| (0.0..=1.0).contains(*n)) => {
                Ok(Distribution::Hotspot { keys: *keys, operations: *operations })
            }
            ("gaussian", []) => Ok(Distribution::Gaussian { deviations: 3.0 }),
            ("gaussian", [deviations]) => positive(*deviations).map(|deviations| Distribution::Gaussian { deviations }),
            _ => Err(format!(
                "{text} is no distribution: uniform, sequential, zipf[:EXPONENT], latest[:EXPONENT], \
                 hotspot[:KEYS,OPERATIONS], gaussian[:DEVIATIONS]"
            )),
        }
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Distribution::Uniform => write!(f, "uniform"),
            Distribution::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Distribution::Latest(exponent) => write!(f, "latest:{exponent}"),
            Distribution::Sequential => write!(f, "sequential"),
            Distribution::Hotspot { keys, operations } => write!(f, "hotspot:{keys},{operations}"),
            Distribution::Gaussian { deviations } => write!(f, "gaussian:{deviations}"),
        }
    }
}

/// The generator of one thread's keys.
pub struct Keys {
    distribution: Distribution,
    first: u64,
    count: u64,
    thread: u64,
    threads: u64,
    multiplier: u64,
    zipf: Option<Zipf>,
    /// How many sequential keys this thread has taken, or how many keys it has appended.
    taken: u64,
    /// How many of the appended keys may not be stored yet; reads of the newest keys leave that many out.
    unsettled: u64,
}

impl Keys {
    /// A generator of keys `first .. first + count` (`count` at least 1) for `thread` of `threads`. `unsettled` is how
    /// many writes of this thread may be under way at once; reads of the newest keys leave that many out.
    pub fn new(
        distribution: Distribution,
        first: u64,
        count: u64,
        thread: usize,
        threads: usize,
        unsettled: u64,
    ) -> Keys {
        assert!(count > 0 && thread < threads, "keys, and a thread among them");
        let zipf = match distribution {
            Distribution::Zipf(exponent) | Distribution::Latest(exponent) => Some(Zipf::new(count, exponent)),
            _ => None,
        };
        let (thread, threads) = (thread as u64, threads as u64);
        Keys { distribution, first, count, thread, threads, multiplier: coprime(count), zipf, taken: 0, unsettled }
    }

    /// The next key. `appends`: it is for an operation that stores rows.
    pub fn next(&mut self, rng: &mut Rng, appends: bool) -> u64 {
        let count = self.count;
        let offset = match self.distribution {
            Distribution::Uniform => rng.below(count),
            Distribution::Sequential => {
                self.taken += 1;
                ((self.taken - 1) * self.threads + self.thread) % count
            }
            Distribution::Zipf(_) => {
                let rank = self.rank(rng);
                self.spread(rank)
            }
            Distribution::Latest(_) if appends => {
                self.taken += 1;
                count + (self.taken - 1) * self.threads + self.thread
            }
            Distribution::Latest(_) => {
                let rank = self.rank(rng);
                let settled = self.taken.saturating_sub(self.unsettled);
                match settled.checked_sub(rank + 1) {
                    Some(own) => count + own * self.threads + self.thread,
                    None => count - 1 - (rank - settled),
                }
            }
            Distribution::Hotspot { keys, operations } => {
                let hot = ((count as f64 * keys) as u64).clamp(1, count);
                let rank = match rng.chance(operations) || hot == count {
                    true => rng.below(hot),
                    false => hot + rng.below(count - hot),
                };
                self.spread(rank)
            }
            Distribution::Gaussian { deviations } => {
                let (radius, angle) = ((-2.0 * unit(rng).ln()).sqrt(), std::f64::consts::TAU * unit(rng));
                let middle = (count - 1) as f64 / 2.0;
                (middle + radius * angle.cos() * middle / deviations).round().clamp(0.0, (count - 1) as f64) as u64
            }
        };
        self.first + offset
    }

    /// A random rank of the Zipf distribution, from 0.
    fn rank(&self, rng: &mut Rng) -> u64 {
        self.zipf.as_ref().map_or(0, |zipf| zipf.next(rng) - 1)
    }

    fn spread(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.multiplier) % u128::from(self.count)) as u64
    }
}

/// A random number above 0, at most 1.
fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A number near the golden section of `count` that has no common factor with it.
fn coprime(count: u64) -> u64 {
    let from = ((count as f64 * 0.618_033_988_749_895) as u64).max(1);
    (from..).find(|n| gcd(*n, count) == 1).unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A generator of the ranks 1 to `count` with weights rank^-exponent.
struct Zipf {
    count: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    squeeze: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Zipf {
        let count = count as f64;
        let mut zipf = Zipf { count, exponent, integral_first: 0.0, integral_last: 0.0, squeeze: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(count + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn next(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.integral_last + unit(rng) * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.squeeze || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the weight from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        log * if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 * (1.0 + t / 3.0) }
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        let factor = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 + t * t / 3.0 };
        (factor * x).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::HashSet;

    fn counted(distribution: Distribution, count: u64, draws: usize) -> Vec<u64> {
        let (mut keys, mut rng) = (Keys::new(distribution, 0, count, 0, 1, 0), Rng::new(3));
        let mut counts = vec![0; count as usize];
        (0..draws).for_each(|_| counts[keys.next(&mut rng, false) as usize] += 1);
        counts
    }

    #[test]
    fn zipf_has_its_weights() {
        for exponent in [0.5, 0.99, 1.0, 1.3] {
            let mut counts = counted(Distribution::Zipf(exponent), 1000, 400_000);
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1, 2, 3, 10] {
                let expected = 400_000.0 * f64::from(rank).powf(-exponent) / total;
                let got = counts[rank as usize - 1] as f64;
                assert!((got / expected - 1.0).abs() < 0.1, "{exponent}, rank {rank}: {got} against {expected}");
            }
        }
    }

    #[test]
    fn spreading_is_a_bijection() {
        for count in [1, 2, 3, 10, 97, 1000, 65_536] {
            let keys = Keys::new(Distribution::Uniform, 0, count, 0, 1, 0);
            let seen: HashSet<u64> = (0..count).map(|rank| keys.spread(rank)).collect();
            assert_eq!(seen.len() as u64, count);
        }
    }

    #[test]
    fn uniform_and_hotspot_and_gaussian_have_their_shares() {
        let counts = counted(Distribution::Uniform, 100, 100_000);
        assert!(counts.iter().all(|count| (800..1200).contains(count)));
        let mut counts = counted(Distribution::Hotspot { keys: 0.1, operations: 0.9 }, 100, 100_000);
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        let hot: u64 = counts[..10].iter().sum();
        assert!((89_000..91_000).contains(&hot), "{hot}");
        let counts = counted(Distribution::Gaussian { deviations: 3.0 }, 601, 100_000);
        let within: u64 = counts[200..=400].iter().sum();
        assert!((67_000..70_000).contains(&within), "{within}");
    }

    #[test]
    fn sequential_threads_take_every_key_once() {
        let mut rng = Rng::new(1);
        let mut seen: Vec<u64> = Vec::new();
        for thread in 0..4 {
            let mut keys = Keys::new(Distribution::Sequential, 10, 100, thread, 4, 0);
            seen.extend((0..25).map(|_| keys.next(&mut rng, true)));
        }
        seen.sort_unstable();
        assert_eq!(seen, (10..110).collect::<Vec<_>>());
    }

    #[test]
    fn latest_reads_what_was_stored() {
        let (mut keys, mut rng) = (Keys::new(Distribution::Latest(0.99), 0, 100, 1, 2, 8), Rng::new(1));
        let mut written: Vec<u64> = Vec::new();
        for round in 0..2_000 {
            if round % 2 == 0 {
                written.push(keys.next(&mut rng, true));
            }
            let key = keys.next(&mut rng, false);
            let settled = written.len().saturating_sub(8);
            assert!(key < 100 || written[..settled].contains(&key), "{key} in round {round}");
        }
    }

    #[test]
    fn texts_are_read_and_written() {
        for text in ["uniform", "sequential", "zipf:1.2", "latest:0.5", "hotspot:0.1,0.9", "gaussian:4"] {
            assert_eq!(Distribution::parse(text).expect("known").to_string(), text);
        }
        for wrong in ["", "zipf:0", "zipf:x", "hotspot:2,1", "hotspot:0.1", "uniform:1", "zipf:nan"] {
            assert!(Distribution::parse(wrong).is_err(), "{wrong}");
        }
    }
}
