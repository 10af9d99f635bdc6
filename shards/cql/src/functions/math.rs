//! `abs`, `exp`, `log`, `log10` and `round` for all numeric types.
//!
//! Integers of fixed size are computed as doubles and truncated; varints as decimals.

use super::Function;
use super::logarithms::{exp, ln, log_ten};
use super::numbers::{Decimal, Number, decimal_digits};
use model::{CqlType, Failure};

/// Fewest digits of an exponential or logarithm of a decimal.
const DIGITS_MIN: i64 = 32;
/// Most digits of a decimal whose exponential or logarithm is computed.
pub(crate) const DIGITS_MAX: i64 = 1000;

/// The mathematical functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Math {
    Abs,
    Exp,
    Log,
    Log10,
    Round,
}

impl Math {
    /// The function with this name.
    pub(super) fn of_name(name: &str) -> Option<Math> {
        Some(match name {
            "abs" => Math::Abs,
            "exp" => Math::Exp,
            "log" => Math::Log,
            "log10" => Math::Log10,
            "round" => Math::Round,
            _ => return None,
        })
    }
}

/// Evaluates a function of a number; null for an empty value.
pub(super) fn evaluate(function: &Function, math: Math, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let ([of], [of_type]) = (arguments, function.arguments.as_slice()) else { return Ok(None) };
    let Some(number) = Number::read(of_type, of) else { return Ok(None) };
    let result = match (math, number) {
        (Math::Abs, Number::Long(number)) => Number::Long(number.wrapping_abs()),
        (Math::Abs, Number::Big(number)) => Number::Big(number.magnitude().clone().into()),
        (Math::Abs, Number::Decimal(number)) => {
            Number::Decimal(Decimal { unscaled: number.unscaled.magnitude().clone().into(), scale: number.scale })
        }
        (Math::Abs, Number::Float(number)) => Number::Float(number.abs()),
        (Math::Abs, Number::Double(number)) => Number::Double(number.abs()),
        (Math::Round, Number::Float(number)) => Number::Float(nearest(number.into()) as i32 as f32),
        (Math::Round, Number::Double(number)) => Number::Double(nearest(number) as i64 as f64),
        (Math::Round, Number::Decimal(number)) => Number::Decimal(number.quotient(&Decimal::one(), 0)?),
        (Math::Round, number) => number,
        (_, Number::Decimal(number)) => Number::Decimal(of_decimal(math, &number)?),
        (_, number @ Number::Big(_)) => Number::Big(of_decimal(math, &number.to_decimal()?)?.truncated()?),
        (Math::Exp, number) => Number::Double(number.to_double().exp()),
        (Math::Log, number) => Number::Double(number.to_double().ln()),
        (Math::Log10, number) => Number::Double(number.to_double().log10()),
    };
    // Only tinyint and smallint are truncated from an int.
    debug_assert!(function.result == *of_type || *of_type == CqlType::Counter, "a number of its own type");
    result.write(&function.result).map(Some)
}

/// The nearest whole number, with halves rounded up.
fn nearest(number: f64) -> f64 {
    let floor = number.floor();
    if number - floor >= 0.5 { floor + 1.0 } else { floor }
}

fn of_decimal(math: Math, number: &Decimal) -> Result<Decimal, Failure> {
    let digits = decimal_digits(&number.unscaled).max(DIGITS_MIN);
    if digits > DIGITS_MAX {
        return Err(Failure::invalid(format!(
            "A decimal with more than {DIGITS_MAX} digits has no power or logarithm here"
        )));
    }
    // Cassandra reports these Java exceptions unchanged.
    let failed = |text: &str| Failure::server(format!("java.lang.ArithmeticException: {text}"));
    let positive = number.unscaled > num_bigint::BigInt::ZERO;
    match math {
        Math::Log if !positive => Err(failed("Natural log of number zero or less")),
        Math::Log10 if !positive => Err(failed("Log10 of number zero or less")),
        Math::Log => Ok(ln(number, digits)),
        Math::Log10 => Ok(log_ten(number, digits)),
        _ => exp(number, digits).ok_or_else(|| failed(if positive { "Overflow" } else { "Underflow" })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    #[test]
    fn the_most_digits_are_taken_and_one_more_is_not() {
        let digits = |count: i64| Decimal { unscaled: BigInt::from(10).pow(count as u32 - 1), scale: count as i32 };
        assert!(of_decimal(Math::Exp, &digits(DIGITS_MAX)).is_ok());
        assert!(of_decimal(Math::Exp, &digits(DIGITS_MAX + 1)).is_err());
    }

    #[test]
    fn halves_go_up() {
        for (number, rounded) in [(1.5, 2.0), (2.5, 3.0), (-1.5, -1.0), (-2.5, -2.0), (0.49999999999999994, 0.0)] {
            assert_eq!(nearest(number), rounded, "{number}");
        }
    }
}
