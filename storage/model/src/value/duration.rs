//! Durations as values: months, days and nanoseconds, each a signed vint.

use super::vint::{push_signed, read_signed};

/// A duration. Its parts never have different signs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duration {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

impl Duration {
    /// Reads a serialised duration; `None` if it is malformed or a part is out of range.
    pub fn read(bytes: &[u8]) -> Option<Duration> {
        let (months, days, nanoseconds) = Duration::read_parts(bytes)?;
        Some(Duration { months: months.try_into().ok()?, days: days.try_into().ok()?, nanoseconds })
    }

    /// Reads months, days and nanoseconds as written, in range or not.
    pub(crate) fn read_parts(mut bytes: &[u8]) -> Option<(i64, i64, i64)> {
        Some((read_signed(&mut bytes)?, read_signed(&mut bytes)?, read_signed(&mut bytes)?))
    }

    /// Appends the serialised form.
    pub fn push(&self, out: &mut Vec<u8>) {
        for number in [self.months.into(), self.days.into(), self.nanoseconds] {
            push_signed(out, number);
        }
    }
}
