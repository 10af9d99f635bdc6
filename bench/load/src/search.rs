//! The highest rate that meets a service level: bisection over open-loop runs.
//!
//! 1. A closed loop finds the highest throughput; the search begins below it.
//! 2. Each step runs at a rate halfway between the highest that passed and the lowest that failed, until the two are
//!    close.
//!
//! Invariants: a rate passes only if its run meets the level and is VALID, or would be but for the generator's own
//! lateness; the answer is a rate that was run and passed.

use crate::outcome::Outcome;
use crate::report::quantile;
use crate::verdict::Verdict;
use std::time::Duration;

/// A service level: every bound must hold.
#[derive(Clone, PartialEq, Debug)]
pub struct Level {
    bounds: Vec<Bound>,
    text: String,
}

#[derive(Clone, PartialEq, Debug)]
enum Bound {
    /// For every kind of operation, this quantile (0 to 1) of the response time lies below the time.
    Time(f64, Duration),
    Mean(Duration),
    Max(Duration),
    /// The share of failed operations lies below this.
    Errors(f64),
}

impl Level {
    /// Reads `p99<10ms,p99.9<50ms,mean<2ms,max<1s,errors<0.1%`.
    pub fn parse(text: &str) -> Result<Level, String> {
        let bounds = text.split(',').map(bound).collect::<Result<Vec<_>, _>>()?;
        Ok(Level { bounds, text: text.to_string() })
    }

    /// The first bound that a run breaks, in words.
    pub fn broken(&self, outcome: &Outcome) -> Option<String> {
        let times = || outcome.kinds.iter().map(|kind| (kind.name, kind.judged()));
        let above = |limit: &Duration, name: &str, nanos: u64, what: &str| {
            let reached = Duration::from_nanos(nanos);
            (reached >= *limit).then(|| format!("{name} {what} is {:.3} ms", reached.as_secs_f64() * 1e3))
        };
        self.bounds.iter().find_map(|bound| match bound {
            Bound::Time(at, limit) => {
                times().find_map(|(name, h)| above(limit, name, quantile(h, *at), &format!("p{}", round(at * 100.0))))
            }
            Bound::Mean(limit) => times().find_map(|(name, h)| above(limit, name, h.mean() as u64, "mean")),
            Bound::Max(limit) => times().find_map(|(name, h)| above(limit, name, h.max(), "max")),
            Bound::Errors(limit) => {
                let share = outcome.error_share();
                (share >= *limit).then(|| format!("{:.3}% of the operations failed", share * 100.0))
            }
        })
    }

    /// The share of failed operations that the level allows, if it names one.
    pub fn errors(&self) -> Option<f64> {
        self.bounds.iter().find_map(|bound| if let Bound::Errors(limit) = bound { Some(*limit) } else { None })
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn bound(text: &str) -> Result<Bound, String> {
    let wrong = || format!("{text}: a bound such as p99<10ms, mean<2ms, max<1s or errors<0.1% is needed");
    let (name, limit) = text.trim().split_once('<').ok_or_else(wrong)?;
    if name == "errors" {
        let (digits, unit) = limit.strip_suffix('%').map_or((limit, 1.0), |digits| (digits, 0.01));
        let share = digits.parse::<f64>().map_err(|_| wrong())? * unit;
        return if share > 0.0 && share <= 1.0 { Ok(Bound::Errors(share)) } else { Err(wrong()) };
    }
    let limit = crate::arguments::duration(limit)?;
    match name {
        "mean" => Ok(Bound::Mean(limit)),
        "max" => Ok(Bound::Max(limit)),
        _ => {
            let percent = name.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok()).ok_or_else(wrong)?;
            if percent > 0.0 && percent < 100.0 { Ok(Bound::Time(percent / 100.0, limit)) } else { Err(wrong()) }
        }
    }
}

/// The result of a run at one rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The run met the level, and nothing but the generator's own lateness kept it from being valid.
    Passed,
    /// The run did not meet the level, or was not valid for another reason.
    Failed,
}

impl Step {
    /// Whether a run passed `level`, and why in words. The generator's own lateness does not matter: it is part of the
    /// response times and only makes them longer, so if they meet the level the server does.
    pub fn of(outcome: &Outcome, level: &Level) -> (Step, String) {
        match level.broken(outcome) {
            Some(broken) => (Step::Failed, broken),
            None if outcome.verdict == Verdict::Valid => (Step::Passed, "meets the level".into()),
            None if outcome.figures.server_kept_up() => {
                (Step::Passed, format!("{}, meets the level all the same", outcome.verdict))
            }
            None => (Step::Failed, outcome.verdict.to_string()),
        }
    }
}

/// The state of the bisection.
pub struct Search {
    passed: Option<f64>,
    failed: Option<f64>,
    low: f64,
    high: f64,
    precision: f64,
}

impl Search {
    /// A search between `low` and `high` operations per second, both above 0, to within the share `precision`.
    pub fn new(low: f64, high: f64, precision: f64) -> Search {
        Search { passed: None, failed: None, low, high: high.max(low), precision }
    }

    /// The next rate to try; `None` when the answer is known.
    pub fn next_rate(&self) -> Option<f64> {
        let rate = match (self.passed, self.failed) {
            (None, None) => (self.low + self.high) / 2.0,
            (Some(passed), Some(failed)) if failed / passed - 1.0 <= self.precision => return None,
            (Some(passed), Some(failed)) => (passed + failed) / 2.0,
            (Some(passed), None) if passed >= self.high * 0.999 => return None,
            // The upper bound itself is tried last: most servers do not reach it.
            (Some(passed), None) if self.high / passed - 1.0 <= self.precision => self.high,
            (Some(passed), None) => (passed + self.high) / 2.0,
            (None, Some(failed)) if failed <= self.low * 1.001 => return None,
            (None, Some(failed)) if failed / self.low - 1.0 <= self.precision => self.low,
            (None, Some(failed)) => (self.low + failed) / 2.0,
        };
        // Whole operations per second are precise enough.
        Some(if rate > 100.0 { rate.round() } else { rate })
    }

    /// Records the result of the run at `rate`.
    pub fn record(&mut self, rate: f64, step: Step) {
        match step {
            Step::Passed => self.passed = Some(self.passed.map_or(rate, |known| known.max(rate))),
            Step::Failed => self.failed = Some(self.failed.map_or(rate, |known| known.min(rate))),
        }
    }

    /// The highest rate that passed.
    pub fn best(&self) -> Option<f64> {
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer for a server that manages `limit`, and how many runs it took.
    fn found(limit: f64, low: f64, high: f64) -> (Option<f64>, usize) {
        let (mut search, mut runs) = (Search::new(low, high, 0.02), 0);
        while let Some(rate) = search.next_rate() {
            search.record(rate, if rate <= limit { Step::Passed } else { Step::Failed });
            runs += 1;
            assert!(runs < 50, "{limit}");
        }
        (search.best(), runs)
    }

    #[test]
    fn the_limit_is_found() {
        for limit in [1_500.0, 10_000.0, 54_321.0, 99_000.0] {
            let (best, runs) = found(limit, 1_000.0, 100_000.0);
            let best = best.expect("some rate passes");
            assert!(best <= limit && best > limit * 0.975, "{best} of {limit}");
            assert!(runs <= 14, "{runs}");
        }
    }

    #[test]
    fn the_bounds_are_answers_too() {
        assert_eq!(found(1e9, 1_000.0, 50_000.0).0, Some(50_000.0));
        assert_eq!(found(10.0, 1_000.0, 50_000.0).0, None);
    }

    #[test]
    fn levels_are_read() {
        let level = Level::parse("p99<10ms,p99.9<50ms,mean<2ms,max<1s,errors<0.1%").expect("valid");
        assert_eq!(level.bounds[0], Bound::Time(0.99, Duration::from_millis(10)));
        assert_eq!(level.bounds.len(), 5);
        assert!(level.errors().is_some_and(|share| (share - 0.001).abs() < 1e-9));
        for wrong in ["", "p99", "p99<x", "q99<1ms", "p100<1ms", "errors<2", "p99>1ms"] {
            assert!(Level::parse(wrong).is_err(), "{wrong}");
        }
    }
}
