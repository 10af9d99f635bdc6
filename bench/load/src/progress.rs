//! The line that shows how a run goes, on standard error, once a window.

use crate::plan::Plan;
use crate::recorder::Window;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Writes the line over itself on a terminal, line by line elsewhere.
pub struct Progress {
    shown: bool,
    terminal: bool,
    elapsed: Duration,
}

impl Progress {
    /// The progress line of a run of `plan`; it shows nothing unless the plan wants progress.
    pub fn new(plan: &Plan) -> Progress {
        Progress { shown: plan.progress, terminal: std::io::stderr().is_terminal(), elapsed: Duration::ZERO }
    }

    /// Shows a window of the first thread, with `throughput` and `failed` of all threads.
    pub fn show(&mut self, window: &Window, throughput: f64, failed: u64, measuring: bool) {
        self.elapsed += window.length;
        if !self.shown {
            return;
        }
        let phase = if measuring { "measuring" } else { "warming up" };
        let line = format!(
            "{:7.1} s  {phase:10}  {throughput:9.0} ops/s  p99 {:8.3} ms  lag {:8.3} ms  errors {failed}",
            self.elapsed.as_secs_f64(),
            window.p99.as_secs_f64() * 1e3,
            window.lag_max.as_secs_f64() * 1e3,
        );
        let mut out = std::io::stderr().lock();
        // The run goes on even if standard error is closed.
        let _ = if self.terminal { write!(out, "\r{line}\x1b[K") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown && self.terminal {
            let _ = writeln!(std::io::stderr());
        }
    }
}
