//! `proxyhistograms`: how long requests take, as the coordinating cores see them.
//!
//! Columns of Cassandra's whose figures are not counted here (conditional changes, views) are left out rather than shown
//! as zero.

use super::{Admin, Refused};
use shard::metrics::{Distribution, Measure};
use std::fmt::Write;
use std::rc::Rc;

const MEASURES: [Measure; 3] = [Measure::CoordinatorRead, Measure::CoordinatorWrite, Measure::CoordinatorScan];
const HEADS: [&str; 3] = ["Read Latency", "Write Latency", "Range Latency"];
const NANOS_PER_MICROSECOND: f64 = 1e3;

/// Runs the command.
pub(crate) async fn histograms(admin: &Rc<Admin>, out: &mut String) -> Result<(), Refused> {
    let mut sums: [Distribution; 3] = Default::default();
    for figures in admin.shard.measured(&MEASURES).await?.values() {
        for (sum, measure) in sums.iter_mut().zip(MEASURES) {
            if let Some(found) = figures.get(&measure) {
                sum.add(found);
            }
        }
    }
    out.push_str("proxy histograms\n");
    let mut line = |first: &str, values: [String; 3]| {
        let _ = write!(out, "{first:<10}");
        values.iter().for_each(|value| {
            let _ = write!(out, "{value:>19}");
        });
        out.push('\n');
    };
    let micros = |nanos: u64| format!("{:.2}", nanos as f64 / NANOS_PER_MICROSECOND);
    let all = |value: &dyn Fn(&Distribution) -> u64| [0, 1, 2].map(|at: usize| micros(value(&sums[at])));
    line("Percentile", HEADS.map(String::from));
    line("", ["(micros)"; 3].map(String::from));
    for part in [50u8, 75, 95, 98, 99] {
        line(&format!("{part}%"), all(&|found| found.percentile(f64::from(part) / 100.0)));
    }
    line("Min", all(&Distribution::min));
    line("Max", all(&Distribution::max));
    out.push('\n');
    Ok(())
}
