//! Compares two runs: how large their difference is, and whether it is more than noise.
//!
//! 1. The samples are the measured windows of each report.
//! 2. Effect size: the difference of the means as a share of A's mean, and Cliff's delta (how much more often a window
//!    of B exceeds one of A than the other way round, -1 to 1).
//! 3. Confidence interval, 95%, of the difference of the means: a moving-block bootstrap, since neighbouring windows
//!    are alike (H. R. Künsch, 1989). The p of Mann-Whitney's U (normal approximation, corrected for ties) is only
//!    shown.
//! 4. The runs differ if the interval does not contain 0.
//!
//! Invariants: the same files give the same output, because the resampling has a fixed seed.

use crate::report::json::FORMAT;
use runtime::rng::Rng;
use serde_json::Value;
use std::fmt::Write;

/// Least number of measured windows of a run that can be compared.
const WINDOWS_MIN: usize = 5;
const RESAMPLES: usize = 10_000;
/// Probability outside the confidence interval, both tails together.
const ALPHA: f64 = 0.05;

/// A report's measured windows.
pub struct Samples {
    /// The report's title and verdict.
    pub title: String,
    /// Whether its verdict is VALID.
    pub verdict: String,
    /// What paced the run.
    pub mode: String,
    /// The metrics: name, and one value per window.
    pub metrics: Vec<(&'static str, Vec<f64>)>,
}

/// Reads a report that `--json` wrote.
pub fn read(text: &str) -> Result<Samples, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value.is_array() {
        return Err("a report of several runs; compare takes single ones".into());
    }
    if value["format"] != FORMAT {
        return Err(format!("no report of helenus bench: format is not {FORMAT}"));
    }
    let windows = value["windows"].as_array().ok_or("no windows")?;
    let measured: Vec<&Value> = windows.iter().filter(|window| window["measured"] == true).collect();
    if measured.len() < WINDOWS_MIN {
        return Err(format!("{} measured windows; at least {WINDOWS_MIN} are needed", measured.len()));
    }
    let each =
        |figure: &dyn Fn(&Value) -> Option<f64>| measured.iter().map(|w| figure(w)).collect::<Option<Vec<f64>>>();
    let number = |window: &Value, name: &str| window[name].as_f64();
    let ratio = |over: Option<f64>, under: Option<f64>| over.zip(under).filter(|(_, u)| *u > 0.0).map(|(o, u)| o / u);
    let millis = |name: &'static str| each(&|window| Some(number(window, name)? / 1e6));
    let mut metrics = Vec::new();
    let mut add = |name, values: Option<Vec<f64>>| metrics.extend(values.map(|values| (name, values)));
    add("operations/s", each(&|window| ratio(number(window, "operations"), number(window, "length"))));
    add("mean ms", millis("mean"));
    add("p50 ms", millis("p50"));
    add("p99 ms", millis("p99"));
    add("p99.9 ms", millis("p99.9"));
    if value["server"]["operations_per_cpu_second"].is_number() {
        let cpu =
            |window: &Value| Some(ratio(number(window, "server_cpu_seconds"), number(window, "operations"))? * 1e6);
        add("server CPU us/op", each(&cpu));
    }
    let string = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let (title, verdict) = (string(&value["title"]), string(&value["verdict"]));
    Ok(Samples { title, verdict, mode: string(&value["settings"]["pace"]), metrics })
}

/// The comparison of one metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// Means of A and B.
    pub means: (f64, f64),
    /// (B - A) / A.
    pub share: f64,
    /// The 95% confidence interval of `share`.
    pub interval: (f64, f64),
    /// Cliff's delta.
    pub delta: f64,
    /// Mann-Whitney's p, two-sided.
    pub p: f64,
}

impl Difference {
    /// Compares two samples, neither of them empty.
    pub fn of(a: &[f64], b: &[f64]) -> Difference {
        let means = (mean(a), mean(b));
        let mut rng = Rng::new(0x636f_6d70_6172_6521);
        let mut shares: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let (a, b) = (resampled_mean(a, &mut rng), resampled_mean(b, &mut rng));
                if a == 0.0 { 0.0 } else { b / a - 1.0 }
            })
            .collect();
        shares.sort_by(f64::total_cmp);
        let at = |share: f64| shares[((RESAMPLES - 1) as f64 * share).round() as usize];
        let share = if means.0 == 0.0 { 0.0 } else { means.1 / means.0 - 1.0 };
        let (delta, p) = mann_whitney(a, b);
        Difference { means, share, interval: (at(ALPHA / 2.0), at(1.0 - ALPHA / 2.0)), delta, p }
    }

    /// Whether B differs from A: the interval does not contain 0.
    pub fn is_one(&self) -> bool {
        self.interval.0 > 0.0 || self.interval.1 < 0.0
    }

    /// Cliff's delta in words (J. Romano and others, 2006).
    pub fn size(&self) -> &'static str {
        match self.delta.abs() {
            delta if delta < 0.147 => "negligible",
            delta if delta < 0.33 => "small",
            delta if delta < 0.474 => "medium",
            _ => "large",
        }
    }
}

/// The comparison as text.
pub fn report(a: &Samples, b: &Samples) -> String {
    let mut out = String::new();
    for (name, samples) in [("A", a), ("B", b)] {
        let windows = samples.metrics.first().map_or(0, |(_, values)| values.len());
        let _ = writeln!(out, "{name}: {} ({}), {}, {windows} windows", samples.title, samples.verdict, samples.mode);
        if samples.verdict != "VALID" {
            let _ = writeln!(out, "   its figures say little about the server: the verdict is {}", samples.verdict);
        }
    }
    if a.mode != b.mode {
        let _ = writeln!(out, "the runs were paced differently: times may differ for that alone");
    }
    let _ = writeln!(
        out,
        "\n{:<18}{:>12}{:>12}{:>10}  {:<22}{:>7}  {:<11}{:>9}",
        "", "A", "B", "B - A", "95% interval", "delta", "size", "p"
    );
    for (name, of_a) in &a.metrics {
        let Some((_, of_b)) = b.metrics.iter().find(|(other, _)| other == name) else { continue };
        let d = Difference::of(of_a, of_b);
        let verdict = match (d.is_one(), d.share > 0.0) {
            (false, _) => "no difference",
            (true, true) => "B is higher",
            (true, false) => "B is lower",
        };
        let interval = format!("{:+.1}% to {:+.1}%", d.interval.0 * 100.0, d.interval.1 * 100.0);
        let _ = writeln!(
            out,
            "{name:<18}{:>12.3}{:>12.3}{:>9.1}%  {interval:<22}{:>7.2}  {:<11}{:>9.4}  {verdict}",
            d.means.0,
            d.means.1,
            d.share * 100.0,
            d.delta,
            d.size(),
            d.p
        );
    }
    out
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean of a resample of the same size, which is made of random blocks of neighbours. A block that reaches the end
/// continues at the start.
fn resampled_mean(values: &[f64], rng: &mut Rng) -> f64 {
    let count = values.len();
    let block = (count as f64).cbrt().round().max(1.0) as usize;
    let (mut sum, mut left) = (0.0, count);
    while left > 0 {
        let start = rng.below(count as u64) as usize;
        let taken = block.min(left);
        sum += (start..start + taken).map(|at| values[at % count]).sum::<f64>();
        left -= taken;
    }
    sum / count as f64
}

/// Cliff's delta of B over A, and Mann-Whitney's p.
fn mann_whitney(a: &[f64], b: &[f64]) -> (f64, f64) {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let mut all: Vec<(f64, bool)> = a.iter().map(|v| (*v, false)).chain(b.iter().map(|v| (*v, true))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut rank_sum, mut ties, mut at) = (0.0, 0.0, 0);
    while at < all.len() {
        let end = at + all[at..].iter().take_while(|(value, _)| *value == all[at].0).count();
        let tied = (end - at) as f64;
        let rank = (at + end + 1) as f64 / 2.0;
        rank_sum += rank * all[at..end].iter().filter(|(_, of_b)| *of_b).count() as f64;
        ties += tied.powi(3) - tied;
        at = end;
    }
    let u = rank_sum - m * (m + 1.0) / 2.0;
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt().max(1e-300);
    let p = if variance > 0.0 { erfc(z / std::f64::consts::SQRT_2) } else { 1.0 };
    (2.0 * u / (n * m) - 1.0, p.min(1.0))
}

/// The complementary error function for x >= 0, to 1.2e-7 (W. Press and others, Numerical Recipes, 6.2).
fn erfc(x: f64) -> f64 {
    const TERMS: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let sum = TERMS.iter().rev().fold(0.0, |sum, term| sum * t + term);
    t * (sum - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(level: f64, spread: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        (0..count).map(|_| level + spread * (rng.below(2001) as f64 / 1000.0 - 1.0)).collect()
    }

    #[test]
    fn alike_runs_do_not_differ() {
        let found =
            (0..40).filter(|n| Difference::of(&noisy(100.0, 5.0, 30, *n), &noisy(100.0, 5.0, 30, n + 100)).is_one());
        // With an interval of 95%, one comparison in twenty (2 of 40) differs by chance; 6 leaves room for few windows.
        assert!(found.count() <= 6);
        let same = noisy(100.0, 5.0, 30, 1);
        let difference = Difference::of(&same, &same);
        assert!(!difference.is_one() && difference.share == 0.0 && difference.delta == 0.0 && difference.p > 0.9);
    }

    #[test]
    fn a_change_of_three_percent_is_found() {
        let difference = Difference::of(&noisy(100.0, 4.0, 30, 1), &noisy(103.0, 4.0, 30, 2));
        assert!(difference.is_one() && difference.p < 0.01, "{difference:?}");
        assert!((difference.share - 0.03).abs() < 0.015);
        assert!(difference.interval.0 < difference.share && difference.share < difference.interval.1);
        let back = Difference::of(&noisy(103.0, 4.0, 30, 2), &noisy(100.0, 4.0, 30, 1));
        assert!(back.is_one() && back.share < 0.0 && back.delta < 0.0);
    }

    #[test]
    fn apart_is_a_delta_of_one() {
        let (delta, p) = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        // R: wilcox.test(1:5, 6:10, exact = FALSE) gives 0.01219.
        assert!(delta == 1.0 && (p - 0.01219).abs() < 1e-4, "{p}");
        let (delta, p) = mann_whitney(&[1.0, 1.0], &[1.0, 1.0]);
        assert!(delta == 0.0 && p == 1.0);
    }

    #[test]
    fn only_reports_are_read() {
        assert!(read("{").is_err());
        assert!(read("{}").err().is_some_and(|error| error.contains("format")));
        assert!(read("[]").err().is_some_and(|error| error.contains("several")));
        let few = format!("{{\"format\": \"{FORMAT}\", \"windows\": []}}");
        assert!(read(&few).err().is_some_and(|error| error.contains("windows")));
    }
}
