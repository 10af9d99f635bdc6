//! Decimals as sign, exponent and digits: the form that comparing them and their byte-comparable form need.
//!
//! A serialised decimal is a big-endian i32 scale and a two's complement big-endian integer: `integer * 10^-scale`.
//! Numerically equal decimals (1.0 and 1.00) are the same [`Scientific`].

use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// Largest unscaled integer, in bytes, of a decimal that is compared by its number; keys are always shorter. The limit
/// is there because the cost of finding the digits is quadratic.
pub(crate) const UNSCALED_BYTES_MAX: usize = 65535;

/// `±0.DIGITS * 10^exponent`; zero has no digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scientific {
    /// Whether it is below zero.
    pub(crate) negative: bool,
    /// The position of the decimal point relative to the first digit.
    pub(crate) exponent: i64,
    /// Decimal digits 0-9, neither the first nor the last a zero.
    pub(crate) digits: Vec<u8>,
}

impl Scientific {
    /// Reads a serialised decimal; `None` if it has fewer than 4 bytes, or more than [`UNSCALED_BYTES_MAX`] after them.
    pub(crate) fn read(bytes: &[u8]) -> Option<Scientific> {
        let (scale, unscaled) = split(bytes).filter(|(_, unscaled)| unscaled.len() <= UNSCALED_BYTES_MAX)?;
        let (sign, mut digits) = BigInt::from_signed_bytes_be(unscaled).to_radix_be(10);
        if sign == Sign::NoSign {
            return Some(Scientific { negative: false, exponent: 0, digits: Vec::new() });
        }
        let exponent = digits.len() as i64 - i64::from(scale);
        let kept = digits.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
        digits.truncate(kept);
        Some(Scientific { negative: sign == Sign::Minus, exponent, digits })
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (_, true) => -1,
            _ => 1,
        }
    }
}

/// Splits a serialised decimal into its scale and the bytes of the unscaled integer.
pub(crate) fn split(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (scale, unscaled) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes(*scale), unscaled))
}

impl Ord for Scientific {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits));
        let magnitude = if self.negative { magnitude.reverse() } else { magnitude };
        self.sign().cmp(&other.sign()).then(magnitude)
    }
}

impl PartialOrd for Scientific {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
