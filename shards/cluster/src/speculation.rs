//! `speculative_retry` of a table: how long answers are waited for before one more replica is asked.

use std::time::Duration;

/// When one more replica is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SpeculativeRetry {
    /// Never.
    Never,
    /// At once.
    Always,
    /// After a time.
    After(Duration),
    /// After the time within which this part, 0 to 1, of the table's reads has ended.
    Percentile(f64),
    /// After the shorter of both times.
    Min(f64, Duration),
    /// After the longer of both times.
    Max(f64, Duration),
}

impl SpeculativeRetry {
    /// The policy that the option names, in the form in which tables keep it; `None` if it is none.
    pub fn parse(text: &str) -> Option<SpeculativeRetry> {
        let pair = |text: &str| {
            let (one, other) = text.strip_suffix(')')?.split_once(',')?;
            let (part, time) = if one.ends_with('p') { (one, other) } else { (other, one) };
            Some((percentile(part)?, milliseconds(time)?))
        };
        Some(match text {
            "NEVER" | "NONE" => SpeculativeRetry::Never,
            "ALWAYS" => SpeculativeRetry::Always,
            _ => match (text.strip_prefix("MIN("), text.strip_prefix("MAX("), percentile(text)) {
                (Some(both), ..) => pair(both).map(|(part, time)| SpeculativeRetry::Min(part, time))?,
                (_, Some(both), _) => pair(both).map(|(part, time)| SpeculativeRetry::Max(part, time))?,
                (.., Some(part)) => SpeculativeRetry::Percentile(part),
                _ => SpeculativeRetry::After(milliseconds(text)?),
            },
        })
    }

    /// How long answers are waited for; `None` for as long as the request lasts. `latency` gives the time within which
    /// a part of the table's reads has ended, if it is known, and counts as `latency_max` otherwise or when it is
    /// longer: reads that have waited for a silent replica would teach later ones to wait until their time has ended.
    pub fn delay(self, latency: impl FnOnce(f64) -> Option<Duration>, latency_max: Duration) -> Option<Duration> {
        let latency = |part| latency(part).map_or(latency_max, |latency| latency.min(latency_max));
        Some(match self {
            SpeculativeRetry::Never => return None,
            SpeculativeRetry::Always => Duration::ZERO,
            SpeculativeRetry::After(time) => time,
            SpeculativeRetry::Percentile(part) => latency(part),
            SpeculativeRetry::Min(part, time) => latency(part).min(time),
            SpeculativeRetry::Max(part, time) => latency(part).max(time),
        })
    }
}

fn percentile(text: &str) -> Option<f64> {
    text.strip_suffix('p')?.parse::<f64>().ok().map(|percent| percent / 100.0)
}

fn milliseconds(text: &str) -> Option<Duration> {
    let time = text.strip_suffix("ms")?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(time / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(2);

    #[test]
    fn an_unknown_or_long_latency_counts_as_the_longest() {
        let delay = |text, latency: Option<u64>| {
            let policy = SpeculativeRetry::parse(text).unwrap_or_else(|| panic!("{text}"));
            policy.delay(|_| latency.map(Duration::from_millis), MAX).map(|delay| delay.as_millis())
        };
        assert_eq!(delay("99p", None), Some(2000));
        assert_eq!(delay("99p", Some(2000)), Some(2000));
        assert_eq!(delay("99p", Some(2001)), Some(2000));
        assert_eq!(delay("MAX(99p,50ms)", Some(9000)), Some(2000));
        assert_eq!(delay("3000ms", Some(9000)), Some(3000), "a time that the table names is kept");
    }

    #[test]
    fn every_spelling_has_its_delay() {
        let delay = |text| {
            let policy = SpeculativeRetry::parse(text).unwrap_or_else(|| panic!("{text}"));
            policy.delay(|part| Some(Duration::from_secs_f64(part)), MAX).map(|delay| delay.as_millis())
        };
        assert_eq!(delay("NEVER"), None);
        assert_eq!(delay("NONE"), None);
        assert_eq!(delay("ALWAYS"), Some(0));
        assert_eq!(delay("50ms"), Some(50));
        assert_eq!(delay("99p"), Some(990));
        assert_eq!(delay("99.9p"), Some(999));
        assert_eq!(delay("MIN(99p,50ms)"), Some(50));
        assert_eq!(delay("MAX(99p,50ms)"), Some(990));
        assert_eq!(delay("MIN(2p,50ms)"), Some(20));
        assert_eq!(delay("MAX(50ms,2p)"), Some(50));
        for text in ["", "99", "abc", "p", "ms", "MIN(99p)", "MIN(99p,50ms", "-1ms"] {
            assert_eq!(SpeculativeRetry::parse(text), None, "{text}");
        }
    }
}
