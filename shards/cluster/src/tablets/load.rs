//! How busy the tablets of a table are at one core of a replica: request units a second, and at which tokens.
//!
//! 1. What the core reads and writes is added to its tablet, in hundredths of a unit ([`TableLoad::note`]).
//! 2. Every [`INTERVAL_MICROS`] the sums become two rates that forget exponentially: a *recent* one, by which tablets
//!    are split, and a *lasting* one, by which they are moved, and without which none are merged. A load that comes and
//!    goes within minutes so splits a busy tablet and undoes nothing.
//! 3. Of a tablet above the rate from which it counts as busy the tokens of some requests are kept, each with a
//!    probability by its price. The median of the load of a tablet is the median of its samples, over all cores
//!    ([`middle`]).
//! 4. A tablet that is cut keeps its load: each half has the part that its samples say, or its width
//!    ([`TableLoad::adopt`]).
//!
//! Invariants: adding allocates nothing; samples are at most [`SAMPLED_MAX`] times [`SAMPLES_MAX`] tokens of a table; a
//! tablet that comes to this node has the mean rate since then, so it does not look idle at first.

use super::{Tablet, TabletMap};
use uuid::Uuid;

/// How often the rates are worked out, microseconds.
pub const INTERVAL_MICROS: u64 = 5_000_000;
/// After so many seconds the recent rate has forgotten all but 37% of what was.
pub const RECENT_SECONDS: f64 = 20.0;
/// The same of the lasting rate.
pub const LASTING_SECONDS: f64 = 300.0;
/// Most tokens that are kept of a tablet: those of about the last 40 s.
pub const SAMPLES_MAX: usize = 128;
/// Most tablets of a table of which tokens are kept.
pub const SAMPLED_MAX: usize = 1024;
/// About so many tokens of a tablet are kept in an interval.
const SAMPLES_PER_INTERVAL: u64 = 16;
/// With fewer samples than this, over all cores, no median is named.
const MEDIAN_SAMPLES_MIN: usize = 24;
/// Most times that one request is kept for its price.
const REPEATS_MAX: u64 = 16;
const HUNDREDTHS: f64 = 100.0;

/// The load of the tablets of one table at one core.
#[derive(Clone, Debug)]
pub struct TableLoad {
    /// The last tokens of all tablets but the last.
    ends: Vec<i64>,
    tablets: Vec<TabletLoad>,
    rated_at: u64,
    /// Units a second from which tokens of a tablet are kept.
    busy: f64,
    sampled: usize,
    random: u64,
}

#[derive(Clone, Debug, Default)]
struct TabletLoad {
    /// Whether this node is a replica of it.
    is_here: bool,
    /// Hundredths since the rates were worked out.
    sum: u64,
    /// For how long it has been here, seconds.
    age: f64,
    recent: f64,
    lasting: f64,
    /// Hundredths until the next token is kept, and between two of them.
    left: u64,
    step: u64,
    samples: Option<Box<Samples>>,
}

/// The tokens that were kept last.
#[derive(Clone, Debug)]
struct Samples {
    tokens: [i64; SAMPLES_MAX],
    len: usize,
    next: usize,
}

/// The load of a tablet at one core.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadReport {
    /// Its last token; `None` if it ends with the ring.
    pub until: Option<i64>,
    /// Units a second, of late.
    pub recent: f64,
    /// Units a second, over minutes.
    pub lasting: f64,
    /// Tokens of requests, in no order; none if it is not busy.
    pub tokens: Vec<i64>,
}

impl TableLoad {
    /// No load, of the tablets of `map` at the node `own`. `busy`: units a second from which tokens of a tablet are
    /// kept. `now`: microseconds of a monotonic clock.
    pub fn new(map: &TabletMap, own: Uuid, busy: f64, now: u64) -> TableLoad {
        let (ends, tablets) = (Vec::new(), vec![TabletLoad::default()]);
        let mut load = TableLoad { ends, tablets, rated_at: now, busy, sampled: 0, random: 0x9e37_79b9_7f4a_7c15 };
        load.adopt(map, own, now);
        load
    }

    /// Adds hundredths of a unit to the tablet that has a token.
    #[inline]
    pub fn note(&mut self, token: i64, hundredths: u64, now: u64) {
        if now.saturating_sub(self.rated_at) >= INTERVAL_MICROS {
            self.rate(now);
        }
        let tablet = &mut self.tablets[self.ends.partition_point(|end| *end < token)];
        tablet.sum += hundredths;
        if let Some(samples) = &mut tablet.samples {
            if hundredths < tablet.left {
                tablet.left -= hundredths;
                return;
            }
            let times = 1 + ((hundredths - tablet.left) / tablet.step).min(REPEATS_MAX - 1);
            (0..times).for_each(|_| samples.push(token));
            // Not always the same distance: requests that take turns would else be kept always or never.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            tablet.left = 1 + self.random % (2 * tablet.step);
        }
    }

    /// Works out the rates of the interval that has ended.
    #[cold]
    fn rate(&mut self, now: u64) {
        let seconds = now.saturating_sub(self.rated_at) as f64 / 1e6;
        self.rated_at = now;
        if seconds <= 0.0 {
            return;
        }
        let mut sampled = self.sampled;
        for tablet in &mut self.tablets {
            let rate = tablet.sum as f64 / HUNDREDTHS / seconds;
            tablet.age += seconds;
            // As long as it has not been here for longer than the rate remembers, the mean since then.
            let mix = |old: f64, memory: f64| {
                let weight = (1.0 - (-seconds / memory).exp()).max(seconds / tablet.age);
                old + (rate - old) * weight.min(1.0)
            };
            (tablet.recent, tablet.lasting) =
                (mix(tablet.recent, RECENT_SECONDS), mix(tablet.lasting, LASTING_SECONDS));
            tablet.step = (tablet.sum / SAMPLES_PER_INTERVAL).max(1);
            tablet.sum = 0;
            let is_busy = tablet.is_here && tablet.recent.max(rate) >= self.busy;
            if is_busy && tablet.samples.is_none() && sampled < SAMPLED_MAX {
                tablet.samples = Some(Box::new(Samples { tokens: [0; SAMPLES_MAX], len: 0, next: 0 }));
                tablet.left = tablet.step;
                sampled += 1;
            } else if tablet.samples.is_some() && tablet.recent.max(rate) < self.busy / 2.0 {
                tablet.samples = None;
                sampled -= 1;
            }
        }
        self.sampled = sampled;
    }

    /// Goes on with the tablets of `map`, of which the node `own` has some. Those that were cut or put together keep
    /// the load of the ranges that they have.
    pub fn adopt(&mut self, map: &TabletMap, own: Uuid, now: u64) {
        if now.saturating_sub(self.rated_at) >= INTERVAL_MICROS {
            self.rate(now);
        }
        let ends: Vec<i64> = map.tablets.iter().filter_map(|tablet| tablet.until).collect();
        let is_here = |tablet: &Tablet| tablet.replicas.contains(&own);
        if ends != self.ends {
            let start = |at: usize| at.checked_sub(1).map(|before| ends[before]);
            let parts = (0..map.tablets.len()).map(|at| self.part(start(at), ends.get(at).copied())).collect();
            self.tablets = parts;
            self.ends = ends;
            self.sampled = self.tablets.iter().filter(|tablet| tablet.samples.is_some()).count();
        }
        for (load, tablet) in self.tablets.iter_mut().zip(&map.tablets) {
            if !load.is_here && is_here(tablet) {
                *load = TabletLoad { is_here: true, ..TabletLoad::default() };
            }
            load.is_here = is_here(tablet);
        }
    }

    /// The load of the tokens after `start` up to `end`.
    fn part(&self, start: Option<i64>, end: Option<i64>) -> TabletLoad {
        let (first, last) = (start.map_or(i64::MIN, |start| start.saturating_add(1)), end.unwrap_or(i64::MAX));
        let from = self.ends.partition_point(|end| *end < first);
        let to = self.ends.partition_point(|end| *end < last);
        let mut sum = TabletLoad { is_here: true, ..TabletLoad::default() };
        let mut tokens = Vec::new();
        for (at, tablet) in self.tablets.iter().enumerate().take(to + 1).skip(from) {
            let begins = at.checked_sub(1).map_or(i64::MIN, |before| self.ends[before].saturating_add(1));
            let ends = self.ends.get(at).copied().unwrap_or(i64::MAX);
            let inside: Vec<i64> =
                tablet.tokens().iter().copied().filter(|token| (first..=last).contains(token)).collect();
            let share = match (begins >= first && ends <= last, tablet.tokens().len()) {
                (true, _) => 1.0,
                (false, 0) => {
                    let width = |first: i64, last: i64| i128::from(last) as f64 - i128::from(first) as f64 + 1.0;
                    width(begins.max(first), ends.min(last)) / width(begins, ends)
                }
                (false, count) => inside.len() as f64 / count as f64,
            };
            sum.is_here &= tablet.is_here;
            sum.sum += (tablet.sum as f64 * share) as u64;
            sum.recent += tablet.recent * share;
            sum.lasting += tablet.lasting * share;
            sum.age = sum.age.max(tablet.age);
            sum.step = sum.step.max(tablet.step);
            tokens.extend(inside);
        }
        if !tokens.is_empty() {
            let mut samples = Samples { tokens: [0; SAMPLES_MAX], len: 0, next: 0 };
            let skipped = tokens.len().saturating_sub(SAMPLES_MAX);
            tokens.into_iter().skip(skipped).for_each(|token| samples.push(token));
            sum.samples = Some(Box::new(samples));
        }
        (sum.step, sum.left) = (sum.step.max(1), sum.step.max(1));
        sum
    }

    /// The load of the tablets that this node has, but for those that are idle.
    pub fn report(&mut self, now: u64) -> Vec<LoadReport> {
        if now.saturating_sub(self.rated_at) >= INTERVAL_MICROS {
            self.rate(now);
        }
        let busy = self.tablets.iter().enumerate();
        let busy = busy.filter(|(_, tablet)| tablet.is_here && tablet.recent + tablet.lasting > 0.005);
        let report = |(at, tablet): (usize, &TabletLoad)| LoadReport {
            until: self.ends.get(at).copied(),
            recent: tablet.recent,
            lasting: tablet.lasting,
            tokens: tablet.tokens().to_vec(),
        };
        busy.map(report).collect()
    }
}

impl TabletLoad {
    fn tokens(&self) -> &[i64] {
        self.samples.as_ref().map_or(&[], |samples| &samples.tokens[..samples.len])
    }
}

impl Samples {
    fn push(&mut self, token: i64) {
        self.tokens[self.next] = token;
        self.next = (self.next + 1) % SAMPLES_MAX;
        self.len = (self.len + 1).min(SAMPLES_MAX);
    }
}

/// The first token up to which half of the load of a tablet is, from what its cores report; `None` if they have kept
/// too few tokens. A core counts by its recent rate, however many tokens it has kept.
pub fn middle<'r>(reports: impl IntoIterator<Item = &'r LoadReport>) -> Option<i64> {
    let mut weighted: Vec<(i64, f64)> = Vec::new();
    for report in reports {
        let weight = report.recent / report.tokens.len().max(1) as f64;
        weighted.extend(report.tokens.iter().map(|token| (*token, weight)));
    }
    if weighted.len() < MEDIAN_SAMPLES_MIN {
        return None;
    }
    weighted.sort_unstable_by_key(|(token, _)| *token);
    let all: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let found = weighted.iter().find(|(_, weight)| {
        sum += weight;
        2.0 * sum >= all
    });
    found.map(|(token, _)| *token)
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
