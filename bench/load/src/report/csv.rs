//! The report as comma-separated values: a line for each window of a run, or for each run if there are several. Times
//! are in milliseconds or seconds, as the heading says.

use super::{QUANTILES, Titled, of_window, quantile};
use crate::errors::{Class, Counts};
use hdrhistogram::Histogram;

/// The whole document.
pub fn document(runs: &[Titled]) -> String {
    let errors: Vec<String> = Class::ALL.iter().map(|class| class.name().replace(' ', "_")).collect();
    let times: Vec<String> = QUANTILES.iter().map(|(_, name)| format!("{name}_ms")).collect();
    let measured = format!("operations,operations_per_s,mean_ms,{},max_ms,{}", times.join(","), errors.join(","));
    let mut out = String::new();
    if let [(_, outcome)] = runs {
        out.push_str(&format!("start_s,length_s,phase,{measured},lag_max_ms,generator_cpu_s,server_cpu_s\n"));
        let mut start = 0.0;
        for (at, window) in outcome.windows.iter().enumerate() {
            let length = window.length.as_secs_f64();
            let phase = if at < outcome.measure_from { "warm-up" } else { "measured" };
            let figures = figures(window.operations, length, &of_window(window), &window.errors);
            let lag = window.lag_max.as_secs_f64() * 1e3;
            let (own, server) = (window.cpu.as_secs_f64(), window.server.as_secs_f64());
            out.push_str(&format!("{start:.3},{length:.3},{phase},{figures},{lag:.3},{own:.4},{server:.2}\n"));
            start += length;
        }
        return out;
    }
    out.push_str(&format!("run,verdict,in_flight,seconds,{measured},operations_per_cpu_s\n"));
    for (title, outcome) in runs {
        let (total, length) = (&outcome.total, outcome.length.as_secs_f64());
        let figures = figures(total.operations, length, &outcome.all(), &total.errors);
        let per_cpu = outcome.per_cpu_second().map_or(String::new(), |rate| format!("{rate:.0}"));
        let title = title.replace(',', ";");
        out.push_str(&format!(
            "{title},{},{},{length:.3},{figures},{per_cpu}\n",
            outcome.verdict, outcome.plan.in_flight
        ));
    }
    out
}

fn figures(operations: u64, length: f64, all: &Histogram<u64>, errors: &Counts) -> String {
    let rate = operations as f64 / length.max(1e-9);
    let mut fields = vec![operations.to_string(), format!("{rate:.1}"), format!("{:.6}", all.mean() / 1e6)];
    fields.extend(QUANTILES.iter().map(|(at, _)| format!("{:.6}", quantile(all, *at) as f64 / 1e6)));
    fields.push(format!("{:.6}", all.max() as f64 / 1e6));
    fields.extend(errors.iter().map(u64::to_string));
    fields.join(",")
}
