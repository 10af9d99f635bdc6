//! Reports: text for people, JSON and CSV for programs, a page with plots, a log for HdrHistogram's tools.

pub mod text;

use hdrhistogram::Histogram;

/// The quantiles of reports, and their names.
pub const QUANTILES: [(f64, &str); 7] =
    [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// Nanoseconds of a quantile, from 0 to 1.
pub fn quantile(histogram: &Histogram<u64>, quantile: f64) -> u64 {
    if histogram.is_empty() { 0 } else { histogram.value_at_quantile(quantile) }
}
