//! Reports: text for people, JSON and CSV for programs, an HTML page with plots, a log for HdrHistogram's tools.

pub mod csv;
pub mod hdrlog;
pub mod html;
pub mod json;
mod plot;
pub mod text;

use crate::outcome::Outcome;
use crate::recorder::{Window, decode, histogram};
use hdrhistogram::Histogram;
use std::path::PathBuf;

/// The quantiles of reports, and their names.
pub const QUANTILES: [(f64, &str); 7] =
    [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// The value in nanoseconds at a quantile from 0 to 1; 0 if the histogram is empty.
pub fn quantile(histogram: &Histogram<u64>, quantile: f64) -> u64 {
    if histogram.is_empty() { 0 } else { histogram.value_at_quantile(quantile) }
}

/// All kinds of a window in one histogram: response times if the loop is open, service times otherwise.
pub fn of_window(window: &Window) -> Histogram<u64> {
    let judged = if window.response.is_empty() { &window.service } else { &window.response };
    let mut all = histogram();
    judged.iter().for_each(|bytes| all.add(decode(bytes)).expect("equal bounds"));
    all
}

/// Files to write, and what they call the run.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct Files {
    /// What the run is called in reports [default: the command]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Write the report as JSON, which `compare` reads
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the time line (of several runs: a line for each) as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the report as one HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the windows' histograms in HdrHistogram's log format 1.3, times in nanoseconds
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
}

/// A run and its title.
pub type Titled = (String, Outcome);

impl Files {
    /// The title of a run: the one asked for, or `name`.
    pub fn titled(&self, name: &str) -> String {
        self.title.clone().unwrap_or_else(|| name.to_string())
    }

    /// Writes the files asked for. The error names the file.
    pub fn write(&self, runs: &[Titled]) -> Result<(), String> {
        if let Some(path) = &self.json {
            write(path, &json::document(runs))?;
        }
        if let Some(path) = &self.csv {
            write(path, &csv::document(runs))?;
        }
        if let Some(path) = &self.html {
            write(path, &html::page(runs))?;
        }
        if let Some(path) = &self.hdr {
            write(path, &hdrlog::document(runs))?;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "a tool's results, written when no shard runs any more")]
fn write(path: &std::path::Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
