//! `proxyhistograms`: how long requests take, as the coordinating cores see them.
//!
//! Columns and layout are Cassandra's. The column for view writes shows zeros, because there are no views.

use crate::admin::error::CommandError;
use crate::node_state::NodeState;
use shard::metrics::{Distribution, Measure};
use std::fmt::Write;

const MEASURES: [Measure; 5] = [
    Measure::CoordinatorRead,
    Measure::CoordinatorWrite,
    Measure::CoordinatorScan,
    Measure::CasRead,
    Measure::CasWrite,
];
const COLUMNS: usize = MEASURES.len() + 1;
const HEADS: [&str; COLUMNS] =
    ["Read Latency", "Write Latency", "Range Latency", "CAS Read Latency", "CAS Write Latency", "View Write Latency"];
const NANOS_PER_MICROSECOND: f64 = 1e3;

/// Runs the command.
pub(crate) async fn histograms(node: &NodeState, out: &mut String) -> Result<(), CommandError> {
    let mut sums: [Distribution; COLUMNS] = Default::default();
    for metrics in node.shard.measured(&MEASURES).await?.values() {
        for (sum, measure) in sums.iter_mut().zip(MEASURES) {
            if let Some(found) = metrics.get(&measure) {
                sum.add(found);
            }
        }
    }
    out.push_str("proxy histograms\n");
    let mut line = |first: &str, values: [String; COLUMNS]| {
        let _ = write!(out, "{first:<10}");
        values.iter().for_each(|value| {
            let _ = write!(out, "{value:>19}");
        });
        out.push('\n');
    };
    let micros = |nanos: u64| format!("{:.2}", nanos as f64 / NANOS_PER_MICROSECOND);
    let all = |value: &dyn Fn(&Distribution) -> u64| sums.each_ref().map(|found| micros(value(found)));
    line("Percentile", HEADS.map(String::from));
    line("", ["(micros)"; COLUMNS].map(String::from));
    for part in [50u8, 75, 95, 98, 99] {
        line(&format!("{part}%"), all(&|found| found.percentile(f64::from(part) / 100.0)));
    }
    line("Min", all(&Distribution::min));
    line("Max", all(&Distribution::max));
    out.push('\n');
    Ok(())
}
