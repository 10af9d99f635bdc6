//! Exponential function and logarithms of decimals, to a given number of digits.
//!
//! 1. Numbers are integers in units of `10^-places`, with some more places than asked for.
//! 2. `exp`: factors of ten are removed, the rest is halved until its series is short, and the sum is squared back.
//! 3. `ln`: factors of ten are removed, and for the rest `exp` is inverted by Halley's method, starting from a double.

use super::numbers::{Decimal, decimal_digits};
use num_bigint::BigInt;

/// Number of additional places.
const GUARD: i64 = 12;
/// Number of digits that the logarithm of a double has at least.
const DOUBLE_DIGITS: i64 = 14;
/// Most digits before the point that `exp` accepts: more give a power of ten that no decimal can have.
const POWER_DIGITS_MAX: i64 = 10;

fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10).pow(exponent.max(0) as u32)
}

/// A decimal in units of `10^-places`.
fn fixed(number: &Decimal, places: i64) -> BigInt {
    let shift = places - i64::from(number.scale);
    match shift {
        0.. => &number.unscaled * power_of_ten(shift),
        // A number smaller than the unit becomes 0.
        _ if -shift > decimal_digits(&number.unscaled) => BigInt::ZERO,
        _ => &number.unscaled / power_of_ten(-shift),
    }
}

/// `unit * atanh(1 / n)`.
fn inverse_hyperbolic_tangent(n: u32, unit: &BigInt) -> BigInt {
    let square = BigInt::from(n * n);
    let mut term = unit / n;
    let mut sum = term.clone();
    let mut odd = 1u32;
    while term != BigInt::ZERO {
        term /= &square;
        odd += 2;
        sum += &term / odd;
    }
    sum
}

/// The natural logarithm of ten.
fn ln_ten(places: i64) -> BigInt {
    let unit = power_of_ten(places + GUARD);
    let sum = inverse_hyperbolic_tangent(31, &unit) * 46
        + inverse_hyperbolic_tangent(49, &unit) * 34
        + inverse_hyperbolic_tangent(161, &unit) * 20;
    sum / power_of_ten(GUARD)
}

/// e to the power of a number that is small compared with 10.
fn exp_fixed(number: &BigInt, places: i64) -> BigInt {
    let halvings = (places as f64).sqrt() as u32 + 4;
    // Each squaring doubles the error.
    let more = i64::from(halvings) / 3 + GUARD;
    let unit = power_of_ten(places + more);
    let small: BigInt = (number * power_of_ten(more)) >> halvings;
    let mut sum = &unit + &small;
    let mut term = small.clone();
    let mut n = 1u32;
    while term.magnitude().bits() > 1 {
        n += 1;
        term = &term * &small / (&unit * n);
        sum += &term;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &unit;
    }
    sum / power_of_ten(more)
}

/// e to the power of a decimal, to `digits` digits; `None` if no decimal is that large or small.
pub(super) fn exp(number: &Decimal, digits: i64) -> Option<Decimal> {
    if number.is_zero() {
        return Some(Decimal { unscaled: BigInt::from(1), scale: 0 });
    }
    let whole = (decimal_digits(&number.unscaled) - i64::from(number.scale)).max(0);
    if whole > POWER_DIGITS_MAX {
        return None;
    }
    let places = digits + whole + GUARD;
    let number = fixed(number, places);
    let ten = ln_ten(places);
    let mut tens = &number / &ten;
    if number < BigInt::ZERO {
        tens -= 1;
    }
    let rest = number - &tens * ten;
    let tens = i64::try_from(&tens).ok()?;
    let scale = i32::try_from(places - tens).ok()?;
    Some(Decimal { unscaled: exp_fixed(&rest, places), scale }.rounded(digits))
}

/// The natural logarithm of a positive decimal, to `digits` digits.
pub(super) fn ln(number: &Decimal, digits: i64) -> Decimal {
    let one = Decimal { unscaled: BigInt::from(1), scale: 0 };
    let tens = decimal_digits(&number.unscaled) - 1 - i64::from(number.scale);
    let mut lost = 0;
    if (-1..=0).contains(&tens) {
        // Near 1 the first digits of the logarithm are zeros.
        let scale = i64::from(number.scale).max(0);
        let distance = fixed(number, scale) - fixed(&one, scale);
        if distance == BigInt::ZERO {
            return Decimal { unscaled: BigInt::ZERO, scale: 0 };
        }
        lost = (scale - decimal_digits(&distance)).max(0);
    }
    let places = digits + lost + GUARD + 12;
    let unit = power_of_ten(places);
    let digits_of = decimal_digits(&number.unscaled) as i32;
    let rest = fixed(&Decimal { unscaled: number.unscaled.clone(), scale: digits_of - 1 }, places);
    let first = fixed(&Decimal { unscaled: rest.clone(), scale: places as i32 }, DOUBLE_DIGITS + 2);
    let first = i64::try_from(&first).unwrap_or(0) as f64 / 10f64.powi(DOUBLE_DIGITS as i32 + 2);
    let first = (first.ln() * 10f64.powi(DOUBLE_DIGITS as i32 + 2)) as i64;
    let mut ln = BigInt::from(first) * power_of_ten(places - DOUBLE_DIGITS - 2);
    let mut known = DOUBLE_DIGITS;
    while known < places {
        let power = exp_fixed(&ln, places);
        ln += (&rest - &power) * 2 * &unit / (&rest + &power);
        known *= 3;
    }
    let unscaled = ln + ln_ten(places) * tens;
    Decimal { unscaled, scale: places as i32 }.rounded(digits)
}

/// The decimal logarithm of a positive decimal. It is the quotient of two natural logarithms, as Cassandra computes it,
/// which is visible in the last digits for powers of ten.
pub(super) fn log_ten(number: &Decimal, digits: i64) -> Decimal {
    let more = digits + 2;
    let ten = Decimal { unscaled: ln_ten(more + GUARD), scale: (more + GUARD) as i32 }.rounded(more);
    let ln = ln(number, more);
    let wanted = i64::from(ln.scale) - i64::from(ten.scale);
    if ln.is_zero() {
        return Decimal { unscaled: BigInt::ZERO, scale: wanted as i32 };
    }
    let shift = more + GUARD + (decimal_digits(&ten.unscaled) - decimal_digits(&ln.unscaled)).max(0);
    let shifted = &ln.unscaled * power_of_ten(shift);
    let exact = &shifted % &ten.unscaled == BigInt::ZERO;
    let quotient = Decimal { unscaled: shifted / &ten.unscaled, scale: (wanted + shift) as i32 };
    match exact {
        true => quotient.with_fewer_places(wanted as i32).rounded(digits),
        false => quotient.rounded(more).rounded(digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;
    use model::text::{from_bare, to_literal};

    fn decimal(text: &str) -> Decimal {
        Decimal::read(&from_bare(&CqlType::Decimal, text).expect("a decimal")).expect("a decimal")
    }

    fn shown(decimal: &Decimal) -> String {
        to_literal(&CqlType::Decimal, &decimal.to_bytes())
    }

    /// Expected results are Cassandra's.
    #[test]
    fn digits_are_cassandras() {
        let exps = [
            ("1", "2.7182818284590452353602874713527"),
            ("100", "2.6881171418161354484126255515800E+43"),
            ("-100", "3.7200759760208359629596958038631E-44"),
            ("0.1", "1.1051709180756476248117078264902"),
            ("1e-40", "1.0000000000000000000000000000000"),
            ("-8.25", "0.00026125855730166753248742508506941"),
        ];
        for (number, result) in exps {
            assert_eq!(shown(&exp(&decimal(number), 32).expect("a power")), result, "exp({number})");
        }
        let logarithms = [
            ("10", "2.3025850929940456840179914546844"),
            ("8.25", "2.1102132003465896166227245719713"),
            ("1.0000000000000000000001", "9.9999999999999999999995000000000E-23"),
            ("1e-300", "-690.77552789821370520539743640531"),
            ("1", "0"),
        ];
        for (number, result) in logarithms {
            assert_eq!(shown(&ln(&decimal(number), 32)), result, "log({number})");
        }
        let tens = [
            ("1", "0E+33"),
            ("100", "2"),
            ("0.001", "-3.0000000000000000000000000000000"),
            ("8.25", "0.91645394854992508761775008504915"),
            ("2e300", "300.30102999566398119521373889472"),
        ];
        for (number, result) in tens {
            assert_eq!(shown(&log_ten(&decimal(number), 32)), result, "log10({number})");
        }
    }

    #[test]
    fn powers_that_no_decimal_has_are_refused() {
        assert!(exp(&decimal("4000000000"), 32).is_some());
        assert!(exp(&decimal("5000000000"), 32).is_none());
        assert!(exp(&decimal("99999999999"), 32).is_none());
    }
}
