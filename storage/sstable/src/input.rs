//! A reader of integers and byte strings from a slice, big-endian, which reports the offset of every failure.
//!
//! A variable-length integer (vint) starts with one leading 1 bit per byte that follows; signed ones are
//! zigzag-encoded.
//!
//! Invariants: a failed read of a single value leaves the position where it was; no read panics, or allocates more than
//! the bytes that are left.

use crate::error::{Fault, Problem};

/// Bytes that are left to read, and their offset in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8], offset: u64) -> Input<'a> {
        Input { rest: bytes, offset }
    }

    /// Returns the offset of the next byte in its file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn fail<T>(&self, problem: Problem) -> Result<T, Fault> {
        Err(Fault { offset: self.offset, problem })
    }

    pub(crate) fn invalid<T>(&self, what: &'static str) -> Result<T, Fault> {
        self.fail(Problem::Invalid(what))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        match self.rest.split_at_checked(len) {
            Some((bytes, rest)) => {
                self.rest = rest;
                self.offset += len as u64;
                Ok(bytes)
            }
            None => self.fail(Problem::Truncated),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                self.offset += N as u64;
                Ok(*bytes)
            }
            None => self.fail(Problem::Truncated),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Fault> {
        self.u8().map(|byte| byte != 0)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Fault> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Fault> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Fault> {
        self.u64().map(f64::from_bits)
    }

    pub(crate) fn uuid(&mut self) -> Result<[u8; 16], Fault> {
        self.array()
    }

    #[inline]
    pub(crate) fn vint(&mut self) -> Result<u64, Fault> {
        let Some(&first) = self.rest.first() else { return self.fail(Problem::Truncated) };
        let extra = first.leading_ones() as usize;
        let Some(tail) = self.rest.get(1..=extra) else { return self.fail(Problem::Truncated) };
        let head = if extra < 8 { u64::from(first) & (0xff >> extra) } else { 0 };
        let raw = tail.iter().fold(head, |raw, &byte| (raw << 8) | u64::from(byte));
        self.bytes(1 + extra)?;
        Ok(raw)
    }

    pub(crate) fn signed_vint(&mut self) -> Result<i64, Fault> {
        self.vint().map(|raw| (raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Reads a vint that is a length or count of things in memory, at most `i32::MAX`.
    #[inline]
    pub(crate) fn len(&mut self) -> Result<usize, Fault> {
        let start = *self;
        let len = self.vint()?;
        usize::try_from(len).ok().filter(|len| *len <= i32::MAX as usize).map_or_else(|| start.invalid("a length"), Ok)
    }

    /// Reads bytes preceded by their length as a vint.
    #[inline]
    pub(crate) fn vint_bytes(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.len()?;
        self.bytes(len)
    }

    /// Reads bytes preceded by their 16-bit length.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.u16()?;
        self.bytes(len.into())
    }

    /// Reads UTF-8 text preceded by its 16-bit length.
    pub(crate) fn short_text(&mut self) -> Result<&'a str, Fault> {
        let start = *self;
        let bytes = self.short_bytes()?;
        std::str::from_utf8(bytes).or_else(|_| start.invalid("a text"))
    }

    /// Checks that the bytes left can hold `count` things of at least `each` bytes.
    pub(crate) fn count(&self, count: u64, each: usize) -> Result<usize, Fault> {
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() / each.max(1) => Ok(count),
            _ => self.fail(Problem::Truncated),
        }
    }
}

/// Appends a vint.
#[inline]
pub(crate) fn push_vint(out: &mut Vec<u8>, raw: u64) {
    if raw < 0x80 {
        return out.push(raw as u8);
    }
    let extra = vint_len(raw) - 1;
    if extra == 8 {
        out.push(0xff);
        return out.extend_from_slice(&raw.to_be_bytes());
    }
    // The value takes at most 7 bits per byte, so that the leading bits are free for the count of bytes.
    let bytes = (raw << (56 - 8 * extra) | !(u64::MAX >> extra)).to_be_bytes();
    out.extend_from_slice(bytes.get(..=extra).unwrap_or(&bytes));
}

/// Appends a signed vint.
pub(crate) fn push_signed_vint(out: &mut Vec<u8>, number: i64) {
    push_vint(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Returns how many bytes [`push_vint`] appends, 1 to 9.
pub(crate) fn vint_len(raw: u64) -> usize {
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    1 + ((bits - 1) / 7).min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vints_come_back() {
        for shift in 0..64 {
            for raw in [1u64 << shift, (1u64 << shift) - 1, !0 >> shift] {
                let mut out = Vec::new();
                push_vint(&mut out, raw);
                assert_eq!(out.len(), vint_len(raw));
                assert_eq!(Input::new(&out, 0).vint(), Ok(raw));
                assert_eq!(Input::new(&out[..out.len() - 1], 7).vint().unwrap_err().offset, 7);
                out.clear();
                push_signed_vint(&mut out, raw as i64);
                assert_eq!(Input::new(&out, 0).signed_vint(), Ok(raw as i64));
            }
        }
    }

    #[test]
    fn a_length_is_bounded_by_what_is_there() {
        assert_eq!(Input::new(&[0; 8], 0).count(4, 2), Ok(4));
        assert_eq!(Input::new(&[0; 8], 3).count(5, 2).unwrap_err(), Fault { offset: 3, problem: Problem::Truncated });
        let mut huge = Vec::new();
        push_vint(&mut huge, i32::MAX as u64 + 1);
        assert_eq!(Input::new(&huge, 0).len().unwrap_err().problem, Problem::Invalid("a length"));
    }
}
