//! The report on standard output.

use super::{QUANTILES, quantile};
use crate::errors::occurred;
use crate::outcome::{Host, Outcome};
use crate::plan::{Length, Pace, Plan, Warmup};
use crate::schedule::Arrivals;
use crate::verdict::{BUSY_MAX, LATE_MAX, Verdict};
use hdrhistogram::Histogram;
use std::fmt::Write;

/// What paces a plan, in words.
pub fn pace(plan: &Plan) -> String {
    let routes = match (plan.token_aware, plan.shard_aware) {
        (true, true) => ", each to a replica's shard",
        (true, false) => ", each to a replica",
        (false, true) => ", each to the owning shard",
        (false, false) => "",
    };
    let requests = format!("{} connections, {} requests under way at most{routes}", plan.connections, plan.in_flight);
    match plan.pace {
        Pace::Closed => format!("closed loop, {requests}"),
        Pace::Open { rate, arrivals } => {
            let arrivals = if arrivals == Arrivals::Poisson { "Poisson arrivals" } else { "equal gaps" };
            format!("open loop, {rate} ops/s scheduled with {arrivals}, {requests}")
        }
        Pace::Throttled { rate } => format!("closed loop throttled to {rate} ops/s, {requests}"),
    }
}

/// The workload of a plan, in words.
pub fn workload(plan: &Plan) -> String {
    let data = &plan.data;
    let ratio: Vec<String> = data.ratio.iter().map(|(name, weight)| format!("{name}={weight}")).collect();
    let ratio = if ratio.is_empty() { "default mix".into() } else { ratio.join(",") };
    let name = format!("{:?}", data.workload).to_lowercase();
    format!("{name} ({ratio}), {} keys {}, values of {} bytes", data.keys, data.distribution, data.value_bytes)
}

/// The whole report.
pub fn report(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = put(outcome, &mut out);
    out
}

fn put(outcome: &Outcome, out: &mut String) -> std::fmt::Result {
    let Outcome { plan, total, figures, .. } = outcome;
    let hosts: Vec<String> = plan.hosts.iter().map(ToString::to_string).collect();
    writeln!(
        out,
        "server      {}, protocol {}, consistency {}",
        hosts.join(" "),
        plan.version,
        plan.consistency.name()
    )?;
    writeln!(out, "workload    {}", workload(plan))?;
    writeln!(out, "pace        {}", pace(plan))?;
    writeln!(out, "warm-up     {}", warmup(outcome))?;
    writeln!(
        out,
        "measured    {:.1} s, {} operations, {} failed",
        outcome.length.as_secs_f64(),
        total.operations,
        total.failed()
    )?;
    writeln!(out, "throughput  {:.0} ops/s", outcome.throughput())?;
    writeln!(out)?;
    write!(out, "{:<20}{:>11}{:>10}", "milliseconds", "count", "mean")?;
    QUANTILES.iter().try_for_each(|(_, name)| write!(out, "{name:>10}"))?;
    writeln!(out, "{:>10}", "max")?;
    for kind in &outcome.kinds {
        if let Some(response) = &kind.response {
            line(out, &format!("{} response", kind.name), response)?;
        }
        line(out, &format!("{} service", kind.name), &kind.service)?;
    }
    if figures.open {
        writeln!(out, "response: from the scheduled start to the reply; service: from the send to the reply")?;
    } else {
        writeln!(
            out,
            "closed loop: service time only, from the send to the reply; a slow server delays what it is asked"
        )?;
    }
    writeln!(out)?;
    put_hosts(outcome, out)?;
    for (class, count) in occurred(&total.errors) {
        let text = outcome.error_texts.iter().find(|(known, _)| *known == class).map_or("", |(_, text)| text);
        writeln!(
            out,
            "errors      {}: {count} ({:.1}/s) {text}",
            class.name(),
            count as f64 / outcome.length.as_secs_f64()
        )?;
    }
    if total.failed() == 0 {
        writeln!(out, "errors      none")?;
    }
    if total.not_applied > 0 {
        writeln!(out, "conditions  {} did not hold", total.not_applied)?;
    }
    if let Some(rate) = outcome.per_cpu_second() {
        let seconds = total.server.as_secs_f64();
        writeln!(out, "server CPU  {seconds:.2} s, {rate:.0} operations per CPU-second, {:.2} us/op", 1e6 / rate)?;
    }
    if let Some(micros) = outcome.own_micros() {
        writeln!(
            out,
            "generator   {micros:.2} us CPU/op, busiest thread {:.0}% running or waiting to run",
            figures.busy * 100.0
        )?;
    }
    if figures.open {
        let (planned, late) = (figures.sent + figures.unsent, plan.late.as_secs_f64() * 1e3);
        writeln!(
            out,
            "schedule    {planned} due, {} not sent, later than {late} ms: {} for want of a free request, {} by the \
             generator; latest {:.3} ms",
            figures.unsent,
            figures.late_blocked,
            figures.late_own,
            total.lag_max.as_secs_f64() * 1e3
        )?;
    }
    writeln!(out, "verdict     {}{}", outcome.verdict, reason(outcome))
}

/// A line for each of several servers.
fn put_hosts(outcome: &Outcome, out: &mut String) -> std::fmt::Result {
    if outcome.hosts.is_empty() {
        return Ok(());
    }
    writeln!(out, "{:<28}{:>11}{:>10}{:>10}{:>10}", "node", "operations", "failed", "p50", "p99")?;
    for Host { address, operations, failed, times } in &outcome.hosts {
        let millis = |at| quantile(times, at) as f64 / 1e6;
        let (p50, p99) = (millis(0.5), millis(0.99));
        writeln!(out, "{:<28}{operations:>11}{failed:>10}{p50:>10.3}{p99:>10.3}", address.to_string())?;
    }
    writeln!(out)
}

fn warmup(outcome: &Outcome) -> String {
    let took: f64 = outcome.windows[..outcome.measure_from].iter().map(|window| window.length.as_secs_f64()).sum();
    match outcome.plan.warmup {
        Warmup::None => "none".into(),
        Warmup::Fixed(_) => format!("{took:.1} s, as asked"),
        Warmup::Steady(_) if outcome.steady => format!("{took:.1} s until steady"),
        Warmup::Steady(_) => format!("{took:.1} s, still not steady"),
    }
}

fn line(out: &mut String, name: &str, histogram: &Histogram<u64>) -> std::fmt::Result {
    let millis = |nanos: f64| nanos / 1e6;
    write!(out, "{name:<20}{:>11}{:>10.3}", histogram.len(), millis(histogram.mean()))?;
    for (at, _) in QUANTILES {
        write!(out, "{:>10.3}", millis(quantile(histogram, at) as f64))?;
    }
    writeln!(out, "{:>10.3}", millis(histogram.max() as f64))
}

/// The reason why a verdict is not VALID.
pub fn reason(outcome: &Outcome) -> String {
    let figures = &outcome.figures;
    match outcome.verdict {
        Verdict::Valid if matches!(outcome.plan.length, Length::Time(_)) && !outcome.steady => {
            " (but the warm-up did not become steady)".into()
        }
        Verdict::Valid => String::new(),
        Verdict::ClientBound if figures.busy > BUSY_MAX => {
            format!(": a thread of the generator was busy for more than {:.0}% of the time", BUSY_MAX * 100.0)
        }
        Verdict::ClientBound => {
            format!(": the generator was late for more than {:.0}% of its sends", LATE_MAX * 100.0)
        }
        Verdict::Late => format!(": the server did not keep up for more than {:.0}% of the sends", LATE_MAX * 100.0),
        Verdict::Errors if outcome.total.operations == 0 => ": nothing succeeded".into(),
        Verdict::Errors if outcome.total.errors[crate::errors::Class::WrongData as usize] > 0 => {
            ": wrong data was read".into()
        }
        Verdict::Errors => format!(": {:.3}% of the operations failed", outcome.error_share() * 100.0),
    }
}
