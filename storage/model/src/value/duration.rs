//! Durations: months, days and nanoseconds, each a signed vint.

/// A duration. Its parts are never of different signs.
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
    /// Of a serialised duration; `None` if it is malformed or a part is out of its range.
    pub fn read(bytes: &[u8]) -> Option<Duration> {
        let (months, days, nanoseconds) = Duration::read_parts(bytes)?;
        Some(Duration { months: months.try_into().ok()?, days: days.try_into().ok()?, nanoseconds })
    }

    /// Months, days and nanoseconds as they are written, out of range or not.
    pub(crate) fn read_parts(mut bytes: &[u8]) -> Option<(i64, i64, i64)> {
        Some((read_vint(&mut bytes)?, read_vint(&mut bytes)?, read_vint(&mut bytes)?))
    }

    /// Appends the serialised form.
    pub fn push(&self, out: &mut Vec<u8>) {
        for number in [self.months.into(), self.days.into(), self.nanoseconds] {
            push_vint(out, number);
        }
    }
}

/// A zigzag number whose first byte has one leading 1 bit per byte that follows.
fn read_vint(bytes: &mut &[u8]) -> Option<i64> {
    let (&first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(extra)?;
    *bytes = rest;
    let head = if extra < 8 { u64::from(first) & (0xff >> extra) } else { 0 };
    let raw = tail.iter().fold(head, |raw, &byte| (raw << 8) | u64::from(byte));
    Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn push_vint(out: &mut Vec<u8>, number: i64) {
    let raw = ((number << 1) ^ (number >> 63)) as u64;
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    let extra = ((bits - 1) / 7).min(8);
    let bytes = raw.to_be_bytes();
    match extra {
        8 => out.push(0xff),
        _ => out.push(bytes[7 - extra] | !(0xffu16 >> extra) as u8),
    }
    out.extend_from_slice(&bytes[8 - extra..]);
}
