//! The report as JSON: one object for a run, an array of them for several. Times are in nanoseconds unless the name
//! says otherwise.

use super::{QUANTILES, Titled, of_window, quantile, text};
use crate::errors::occurred;
use crate::outcome::Outcome;
use crate::plan::Pace;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

/// The value of the field `format`.
pub const FORMAT: &str = "helenus-bench/1";

/// The whole document.
pub fn document(runs: &[Titled]) -> String {
    let mut values: Vec<Value> = runs.iter().map(|(title, outcome)| object(title, outcome)).collect();
    let value = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
    format!("{value:#}\n")
}

fn object(title: &str, outcome: &Outcome) -> Value {
    let Outcome { total, figures, plan, .. } = outcome;
    let kinds: Map<String, Value> = outcome
        .kinds
        .iter()
        .map(|kind| {
            let response = kind.response.as_ref().map(histogram);
            (kind.name.to_string(), json!({ "service": histogram(&kind.service), "response": response }))
        })
        .collect();
    json!({
        "format": FORMAT,
        "title": title,
        "started_unix_micros": outcome.started_micros,
        "settings": settings(outcome),
        "verdict": outcome.verdict.to_string(),
        "reason": text::reason(outcome).trim_start_matches([':', ' ']),
        "seconds": outcome.length.as_secs_f64(),
        "operations": total.operations,
        "failed": total.failed(),
        "not_applied": total.not_applied,
        "operations_per_second": outcome.throughput(),
        "errors": occurred(&total.errors).map(|(class, n)| (class.name().to_string(), n.into())).collect::<Map<_, _>>(),
        "error_texts": outcome.error_texts.iter()
            .map(|(class, text)| (class.name().to_string(), text.clone().into())).collect::<Map<_, _>>(),
        "latency": kinds,
        "hosts": outcome.hosts.iter().map(|host| json!({
            "address": host.address.to_string(),
            "operations": host.operations,
            "failed": host.failed,
            "latency": histogram(&host.times),
        })).collect::<Vec<_>>(),
        "warmup": { "windows": outcome.measure_from, "steady": outcome.steady },
        "generator": { "cpu_micros_per_operation": outcome.own_micros(), "busy": figures.busy },
        "server": {
            "pids": plan.pids,
            "cpu_seconds": total.server.as_secs_f64(),
            "operations_per_cpu_second": outcome.per_cpu_second(),
        },
        "schedule": figures.open.then(|| json!({
            "due": figures.sent + figures.unsent,
            "unsent": figures.unsent,
            "late_for_want_of_a_request": figures.late_blocked,
            "late_by_the_generator": figures.late_own,
            "lag_max": total.lag_max.as_nanos() as u64,
        })),
        "windows": windows(outcome),
    })
}

fn settings(outcome: &Outcome) -> Value {
    let plan = &outcome.plan;
    let (mode, rate) = match plan.pace {
        Pace::Closed => ("closed", None),
        Pace::Open { rate, .. } => ("open", Some(rate)),
        Pace::Throttled { rate } => ("throttled", Some(rate)),
    };
    json!({
        "hosts": plan.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "protocol": plan.version.number(),
        "consistency": plan.consistency.name(),
        "mode": mode,
        "rate": rate,
        "pace": text::pace(plan),
        "workload": text::workload(plan),
        "connections": plan.connections,
        "in_flight": plan.in_flight,
        "threads": plan.threads,
        "token_aware": plan.token_aware,
        "shard_aware": plan.shard_aware,
        "seed": plan.seed,
    })
}

fn histogram(histogram: &Histogram<u64>) -> Value {
    let mut object = Map::new();
    object.insert("count".into(), histogram.len().into());
    object.insert("mean".into(), histogram.mean().into());
    object.insert("min".into(), if histogram.is_empty() { 0 } else { histogram.min() }.into());
    QUANTILES.iter().for_each(|(at, name)| drop(object.insert((*name).into(), quantile(histogram, *at).into())));
    object.insert("max".into(), histogram.max().into());
    Value::Object(object)
}

fn windows(outcome: &Outcome) -> Vec<Value> {
    let mut start = 0.0;
    let window = |(at, window): (usize, &crate::recorder::Window)| {
        let (all, length) = (of_window(window), window.length.as_secs_f64());
        start += length;
        json!({
            "start": start - length,
            "length": length,
            "measured": at >= outcome.measure_from,
            "operations": window.operations,
            "failed": window.failed(),
            "mean": all.mean(),
            "p50": quantile(&all, 0.5),
            "p99": quantile(&all, 0.99),
            "p99.9": quantile(&all, 0.999),
            "max": all.max(),
            "server_cpu_seconds": window.server.as_secs_f64(),
            "generator_cpu_seconds": window.cpu.as_secs_f64(),
        })
    };
    outcome.windows.iter().enumerate().map(window).collect()
}
