//! Histograms of Statistics.db: printed as bars on a terminal, and the estimates that Cassandra makes from them.

use sstable::statistics::Histogram;
use std::io::{self, Write};

/// How many bounds the histogram that percentiles are taken from has.
const BOUNDS: usize = 165;
/// The length of the longest bar, in characters.
const BAR: i64 = 30;
const PERCENTILES: [(&str, f64); 5] = [("50th", 0.5), ("75th", 0.75), ("95th", 0.95), ("98th", 0.98), ("99th", 0.99)];

/// The escape sequences of the colours; empty if there are no colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Colours {
    pub(crate) reset: &'static str,
    pub(crate) blue: &'static str,
    pub(crate) cyan: &'static str,
    pub(crate) white: &'static str,
}

impl Colours {
    pub(crate) const NONE: Colours = Colours { reset: "", blue: "", cyan: "", white: "" };
    pub(crate) const ANSI: Colours =
        Colours { reset: "\u{1b}[0m", blue: "\u{1b}[34m", cyan: "\u{1b}[36m", white: "\u{1b}[37m" };

    /// Formats a remark in parentheses; an empty remark as nothing.
    pub(crate) fn remark(&self, text: &str) -> String {
        if text.is_empty() { String::new() } else { format!("{}({text}){}", self.white, self.reset) }
    }

    /// Returns how many characters of a text are visible.
    fn width(&self, text: &str) -> usize {
        let hidden = [self.reset, self.blue, self.cyan, self.white];
        let seen =
            hidden.iter().filter(|code| !code.is_empty()).fold(text.to_owned(), |text, code| text.replace(code, ""));
        seen.chars().count()
    }

    /// Pads a text with spaces to a visible width.
    fn padded(&self, text: &str, width: usize) -> String {
        format!("{text}{}", " ".repeat(width.saturating_sub(self.width(text))))
    }
}

/// The characters and colours that a histogram is drawn with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) colours: Colours,
    pub(crate) unicode: bool,
}

impl Look {
    /// Fractions of a character, and the characters that show them, smallest first.
    fn parts(&self) -> &'static [(f64, &'static str)] {
        if self.unicode {
            &[
                (0.125, "\u{258f}"),
                (0.25, "\u{258e}"),
                (0.375, "\u{258d}"),
                (0.625, "\u{258b}"),
                (0.75, "\u{258a}"),
                (0.875, "\u{2589}"),
                (1.0, "\u{2589}"),
            ]
        } else {
            &[(0.3, "."), (0.75, "o"), (1.0, "O")]
        }
    }

    fn bar(&self, count: i64, max: i64) -> String {
        let length = count as f64 / max as f64 * BAR as f64;
        let whole = length.trunc();
        let full = self.parts().last().map_or("", |(_, full)| full);
        let rest = self.parts().iter().rev().find(|(part, _)| *part <= length - whole).map_or("", |(_, text)| text);
        format!("{}{}{rest}{}", self.colours.white, full.repeat(whole as usize), self.colours.reset)
    }
}

/// Prints counts by value and their percentiles.
pub(crate) fn print(
    rows: &[(i64, i64)],
    title: &str,
    name: impl Fn(i64) -> String,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Look { colours, .. } = look;
    let max = rows.iter().map(|(_, count)| *count).fold(0, i64::max);
    let sum: i64 = rows.iter().map(|(_, count)| count).sum();
    let name_width = rows.iter().map(|(value, _)| colours.width(&name(*value))).fold(title.len().max(5), usize::max);
    let name_width = if rows.is_empty() { title.len() } else { name_width.max(title.len()) };
    let count_width = rows.iter().map(|(_, count)| count.to_string().len()).fold(5, usize::max);
    // As in Cassandra, the width counts the reset after a coloured title, but not the sequence before it.
    let title_text = colours.padded(&format!("{}{title}", colours.blue), name_width);
    let bar = format!("{}|{}", colours.cyan, colours.blue);
    writeln!(
        out,
        "   {title_text} {bar} {:<count_width$}  {}  {}Histogram{} ",
        "Count",
        colours.remark("%"),
        colours.blue,
        colours.reset
    )?;
    for (value, count) in rows {
        let percent = format!("{:>3}", (100.0 * (*count as f64 / sum as f64)) as i64);
        writeln!(
            out,
            "   {} {}|{} {count:>count_width$} {} {}",
            colours.padded(&name(*value), name_width),
            colours.cyan,
            colours.reset,
            colours.remark(&percent),
            look.bar(*count, max)
        )?;
    }
    let estimated = Estimated::of(rows);
    writeln!(out, "{}   Percentiles{}", colours.blue, colours.reset)?;
    let (min, max) = (("Min", estimated.min()), ("Max", estimated.max()));
    let percentiles = PERCENTILES.map(|(label, part)| (label, estimated.percentile(part)));
    for (label, value) in percentiles.into_iter().chain([min, max]) {
        writeln!(out, "   {}{label:<10}{}{}", colours.blue, colours.reset, name(value))?;
    }
    Ok(())
}

/// A histogram whose bounds grow by a fifth.
struct Estimated {
    bounds: Vec<i64>,
    counts: Vec<i64>,
}

impl Estimated {
    fn of(rows: &[(i64, i64)]) -> Estimated {
        let mut bounds = vec![1i64];
        while bounds.len() < BOUNDS {
            let last = bounds.last().copied().unwrap_or(1);
            bounds.push(((last as f64 * 1.2).round() as i64).max(last + 1));
        }
        let mut counts = vec![0; bounds.len() + 1];
        for (value, count) in rows {
            counts[bounds.partition_point(|bound| bound < value)] += count;
        }
        Estimated { bounds, counts }
    }

    /// Returns the bound at or below which this share of all counts lies.
    fn percentile(&self, part: f64) -> i64 {
        let wanted = (self.counts.iter().sum::<i64>() as f64 * part).ceil() as i64;
        if wanted == 0 {
            return 0;
        }
        let mut seen = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            seen += count;
            if seen >= wanted {
                return *bound;
            }
        }
        0
    }

    fn min(&self) -> i64 {
        match self.counts.iter().position(|count| *count > 0) {
            None | Some(0) => 0,
            Some(i) => self.bounds[i - 1] + 1,
        }
    }

    fn max(&self) -> i64 {
        match self.counts.iter().rposition(|count| *count > 0) {
            None => 0,
            Some(i) => self.bounds.get(i).copied().unwrap_or(i64::MAX),
        }
    }
}

/// Returns the bounds of a file's histogram that have a count, and the counts.
pub(crate) fn rows(histogram: &Histogram) -> Vec<(i64, i64)> {
    let bounds = histogram.offsets.iter().copied();
    bounds.zip(histogram.buckets.iter().copied()).filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_cassandra_s() {
        let estimated = Estimated::of(&[(215, 1), (446, 1), (6866, 1)]);
        assert_eq!((estimated.percentile(0.5), estimated.percentile(0.75)), (446, 6866));
        assert_eq!((estimated.min(), estimated.max()), (180, 6866));
    }

    #[test]
    fn bars_end_in_parts() {
        let look = Look { colours: Colours::NONE, unicode: false };
        assert_eq!(look.bar(3, 3).len(), 30);
        assert_eq!(look.bar(1, 28), "O");
        assert_eq!(look.bar(1, 17), "Oo");
        assert_eq!(look.bar(1, 23), "O.");
        assert_eq!(look.bar(1, 1000), "");
    }
}
