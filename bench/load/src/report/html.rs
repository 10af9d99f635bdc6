//! The report as one HTML page with plots. It loads no scripts, style sheets or fonts.

use super::plot::{Plot, Scale, Series, escape};
use super::{Titled, of_window, quantile, text};
use crate::outcome::Outcome;
use hdrhistogram::Histogram;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
    pre{background:#f5f5f5;padding:1rem;overflow-x:auto;font-size:12px}svg{width:100%;font-size:11px}\
    svg polyline{fill:none;stroke-width:1.6}svg .g{stroke:#ddd}svg .t{font-size:14px;font-weight:600}\
    .v{font-weight:700}";

/// The whole page.
pub fn page(runs: &[Titled]) -> String {
    let mut body = String::new();
    if runs.len() > 1 {
        body.push_str("<h1>helenus bench: several runs</h1>");
        body.push_str(&overview(runs).svg());
        body.push_str(&percentiles(runs.iter().map(|(title, outcome)| (title.clone(), outcome.all()))).svg());
    }
    for (title, outcome) in runs {
        body.push_str(&run(title, outcome));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>helenus bench</title>\
         <style>{STYLE}</style></head>\n<body>{body}</body></html>\n"
    )
}

fn run(title: &str, outcome: &Outcome) -> String {
    let times = outcome.kinds.iter().flat_map(|kind| {
        let response = kind.response.clone().map(|times| (format!("{} response", kind.name), times));
        response.into_iter().chain([(format!("{} service", kind.name), kind.service.clone())])
    });
    format!(
        "<h1>{}</h1><p>Verdict: <span class=\"v\">{}</span>{}</p><pre>{}</pre>\n{}\n{}\n{}\n",
        escape(title),
        outcome.verdict,
        escape(&text::reason(outcome)),
        escape(&text::report(outcome)),
        percentiles(times).svg(),
        throughput(outcome).svg(),
        latency(outcome).svg()
    )
}

/// A plot of p99 by throughput, with a point for each run.
fn overview(runs: &[Titled]) -> Plot<'static> {
    let line = |name: &str, at: f64| {
        let mut points: Vec<(f64, f64)> =
            runs.iter().map(|(_, o)| (o.throughput(), quantile(&o.all(), at) as f64 / 1e6)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series { name: name.into(), points }
    };
    Plot {
        title: "Latency by throughput",
        x: ("operations per second", Scale::Linear),
        y: ("milliseconds", Scale::Logarithmic),
        series: vec![line("p50", 0.5), line("p99", 0.99), line("p99.9", 0.999)],
    }
}

fn percentiles(times: impl Iterator<Item = (String, Histogram<u64>)>) -> Plot<'static> {
    let series = times
        .map(|(name, histogram)| {
            let steps = histogram.iter_quantiles(TICKS_PER_HALF).filter(|step| step.quantile() < 1.0);
            let points = steps.map(|s| (1.0 / (1.0 - s.quantile()), s.value_iterated_to() as f64 / 1e6)).collect();
            Series { name, points }
        })
        .collect();
    Plot {
        title: "Latency by percentile",
        x: ("percentile", Scale::Nines),
        y: ("milliseconds", Scale::Logarithmic),
        series,
    }
}

/// How many points a percentile plot has each time the distance to 100% halves.
const TICKS_PER_HALF: u32 = 8;

fn throughput(outcome: &Outcome) -> Plot<'static> {
    let rate = |count: u64, length: f64| count as f64 / length.max(1e-9);
    let mut series = vec![Series {
        name: "succeeded".into(),
        points: along(outcome, |window| rate(window.operations, window.length.as_secs_f64())),
    }];
    if outcome.windows.iter().any(|window| window.failed() > 0) {
        let points = along(outcome, |window| rate(window.failed(), window.length.as_secs_f64()));
        series.push(Series { name: "failed".into(), points });
    }
    let warm = outcome.windows[..outcome.measure_from].iter().map(|window| window.length.as_secs_f64()).sum::<f64>();
    if warm > 0.0 {
        let top = series[0].points.iter().map(|point| point.1).fold(0.0, f64::max);
        series.push(Series { name: "end of warm-up".into(), points: vec![(warm, 0.0), (warm, top)] });
    }
    Plot {
        title: "Operations per second over time",
        x: ("seconds", Scale::Linear),
        y: ("operations per second", Scale::Linear),
        series,
    }
}

fn latency(outcome: &Outcome) -> Plot<'static> {
    let line = |name: &str, at: f64| Series {
        name: name.into(),
        points: along(outcome, |window| quantile(&of_window(window), at) as f64 / 1e6),
    };
    Plot {
        title: if outcome.figures.open { "Response time over time" } else { "Service time over time" },
        x: ("seconds", Scale::Linear),
        y: ("milliseconds", Scale::Logarithmic),
        series: vec![line("p50", 0.5), line("p99", 0.99), line("p99.9", 0.999), line("max", 1.0)],
    }
}

/// A plot of one metric over time, with a point at the end of each window.
fn along(outcome: &Outcome, figure: impl Fn(&crate::recorder::Window) -> f64) -> Vec<(f64, f64)> {
    let mut end = 0.0;
    let mut point = |window: &crate::recorder::Window| {
        end += window.length.as_secs_f64();
        (end, figure(window))
    };
    outcome.windows.iter().map(&mut point).collect()
}
