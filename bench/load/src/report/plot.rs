//! Line plots as inline SVG: axes with round numbers, one line per series, a legend.

use std::fmt::Write;

/// One line of a plot.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Scale of an axis.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Linear, beginning at zero; a horizontal axis begins at the least value.
    Linear,
    /// Logarithmic; values of 0 or less are left out.
    Logarithmic,
    /// For quantiles q, whose values are 1 / (1 - q): every further nine (90%, 99%, 99.9%) takes the same width.
    Nines,
}

pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) x: (&'a str, Scale),
    pub(super) y: (&'a str, Scale),
    pub(super) series: Vec<Series>,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
const COLOURS: [&str; 8] = ["#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#7d4e9e", "#00798c", "#8d5524", "#555555"];
/// Most points of a line. If there are more, neighbours are drawn as one.
const POINTS_MAX: usize = 2000;

impl Plot<'_> {
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points).filter(|point| self.shows(point));
        let x = Axis::new(self.x.1, points().map(|point| point.0), false);
        let y = Axis::new(self.y.1, points().map(|point| point.1), true);
        let place = |point: &(f64, f64)| {
            let across = LEFT + x.share(point.0) * (WIDTH - LEFT - RIGHT);
            (across, HEIGHT - BOTTOM - y.share(point.1) * (HEIGHT - TOP - BOTTOM))
        };
        let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
        let _ = write!(out, "<text x=\"{LEFT}\" y=\"20\" class=\"t\">{}</text>", escape(self.title));
        for (value, label) in x.ticks() {
            let (across, bottom) = (place(&(value, y.low)).0, HEIGHT - BOTTOM);
            let _ = write!(
                out,
                "<line x1=\"{across:.1}\" y1=\"{TOP}\" x2=\"{across:.1}\" y2=\"{bottom}\" class=\"g\"/>\
                 <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 16.0
            );
        }
        for (value, label) in y.ticks() {
            let (up, right) = (place(&(x.low, value)).1, WIDTH - RIGHT);
            let _ = write!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{up:.1}\" x2=\"{right}\" y2=\"{up:.1}\" class=\"g\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 6.0,
                up + 4.0
            );
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let _ = write!(
            out,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 8.0,
            escape(self.x.0)
        );
        let _ = write!(
            out,
            "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            HEIGHT / 2.0,
            escape(self.y.0)
        );
        for (at, series) in self.series.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let step = series.points.len().div_ceil(POINTS_MAX).max(1);
            let shown = series.points.iter().filter(|point| self.shows(point)).step_by(step);
            let line: Vec<String> = shown.map(place).map(|(across, up)| format!("{across:.1},{up:.1}")).collect();
            let _ = write!(out, "<polyline points=\"{}\" stroke=\"{colour}\"/>", line.join(" "));
            let (across, up) = (WIDTH - RIGHT + 12.0, TOP + 8.0 + 17.0 * at as f64);
            let _ = write!(
                out,
                "<line x1=\"{across}\" y1=\"{up}\" x2=\"{}\" y2=\"{up}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                across + 16.0,
                across + 22.0,
                up + 4.0,
                escape(&series.name)
            );
        }
        out.push_str("</svg>");
        out
    }

    fn shows(&self, point: &(f64, f64)) -> bool {
        let fits = |value: f64, scale: Scale| value.is_finite() && (scale == Scale::Linear || value > 0.0);
        fits(point.0, self.x.1) && fits(point.1, self.y.1)
    }
}

struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from_zero: bool) -> Axis {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Axis { scale, low: 1.0, high: 10.0 };
        }
        match scale {
            Scale::Linear => {
                let low = if from_zero { 0.0 } else { low };
                Axis { scale, low, high: if high > low { high * 1.02 } else { low + 1.0 } }
            }
            Scale::Logarithmic | Scale::Nines => {
                let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
                Axis { scale, low, high: if high > low { high } else { low * 10.0 } }
            }
        }
    }

    /// Position of a value on the axis, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic | Scale::Nines => (value / self.low).log10() / (self.high / self.low).log10(),
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.scale == Scale::Linear {
            let step = round_step((self.high - self.low) / 6.0);
            let first = (self.low / step).ceil() as i64;
            let values = (first..).map(|n| n as f64 * step).take_while(|value| *value <= self.high);
            return values.map(|value| (value, number(value))).collect();
        }
        let powers = self.low.log10().round() as i32..=self.high.log10().round() as i32;
        let label = |power: i32| match (self.scale, power) {
            (Scale::Nines, 0) => "0%".to_string(),
            (Scale::Nines, 1) => "90%".to_string(),
            (Scale::Nines, 2) => "99%".to_string(),
            (Scale::Nines, nines) => format!("99.{}%", "9".repeat((nines - 2).max(0) as usize)),
            (_, power) => number(10f64.powi(power)),
        };
        powers.map(|power| (10f64.powi(power), label(power))).collect()
    }
}

/// The least of ..., 1, 2, 5, 10, 20, ... that is not below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= rough).unwrap_or(10.0 * power)
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{}M", value / 1e6),
        v if v >= 1e4 => format!("{}k", value / 1e3),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
