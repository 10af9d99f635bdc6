//! Numbers of all numeric types, with Java's conversions between them.
//!
//! Converting to an integer of fixed size, integers and decimals wrap around and floats saturate (for tinyint and
//! smallint after conversion to int).

use model::text::{NUMBER_DIGITS_MAX, from_bare, to_literal};
use model::{CqlType, Failure};
use num_bigint::BigInt;

/// `unscaled * 10^-scale`, like Java's BigDecimal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Decimal {
    pub(crate) unscaled: BigInt,
    pub(crate) scale: i32,
}

impl Decimal {
    /// The number 1 with scale 0.
    pub(crate) fn one() -> Decimal {
        Decimal { unscaled: BigInt::from(1), scale: 0 }
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Decimal> {
        let (scale, unscaled) = bytes.split_first_chunk()?;
        Some(Decimal { unscaled: BigInt::from_signed_bytes_be(unscaled), scale: i32::from_be_bytes(*scale) })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.scale.to_be_bytes().to_vec();
        out.extend_from_slice(&self.unscaled.to_signed_bytes_be());
        out
    }

    /// The exact sum, with the larger scale. Fails if aligning the numbers takes more than [`NUMBER_DIGITS_MAX`]
    /// digits.
    pub(crate) fn add(&self, other: &Decimal) -> Result<Decimal, Failure> {
        let scale = self.scale.max(other.scale);
        let unscaled = self.unscaled_at(scale)? + other.unscaled_at(scale)?;
        Ok(Decimal { unscaled, scale })
    }

    /// The number with the opposite sign.
    pub(crate) fn negated(&self) -> Decimal {
        Decimal { unscaled: -&self.unscaled, scale: self.scale }
    }

    /// The unscaled integer at a scale that is at least its own.
    fn unscaled_at(&self, scale: i32) -> Result<BigInt, Failure> {
        let more = i64::from(scale) - i64::from(self.scale);
        Ok(&self.unscaled * power_of_ten(more)?)
    }

    /// The integer part.
    pub(super) fn truncated(&self) -> Result<BigInt, Failure> {
        if self.scale <= 0 {
            return self.unscaled_at(0);
        }
        // A decimal with more places than digits is a fraction.
        if i64::from(self.scale) > self.unscaled.bits() as i64 {
            return Ok(BigInt::ZERO);
        }
        Ok(&self.unscaled / power_of_ten(self.scale.into())?)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.unscaled == BigInt::ZERO
    }

    /// The sum, rounded to `digits` digits (halves away from zero). Numbers too far apart to affect each other are not
    /// aligned.
    pub(crate) fn sum(&self, other: &Decimal, digits: i64) -> Result<Decimal, Failure> {
        let (big, small) = if self.scale <= other.scale { (self, other) } else { (other, self) };
        if self.is_zero() || other.is_zero() {
            return Decimal::sum_with_zero(self, other, digits);
        }
        // The scale of the last significant digit, and of the smaller number's first digit.
        let last = i64::from(big.scale) - decimal_digits(&big.unscaled) + digits;
        let first = i64::from(small.scale) - decimal_digits(&small.unscaled) + 1;
        if first > i64::from(big.scale) + 2 && first > last + 2 {
            let scale = saturated(i64::from(big.scale).max(last) + 3);
            let small = Decimal { unscaled: BigInt::from(if small.is_negative() { -1 } else { 1 }), scale };
            return Ok(big.add(&small)?.rounded(digits));
        }
        Ok(self.add(other)?.rounded(digits))
    }

    /// [`Decimal::sum`] if one of the numbers is zero: the other one, with the larger scale if its digits allow that.
    fn sum_with_zero(&self, other: &Decimal, digits: i64) -> Result<Decimal, Failure> {
        let scale = self.scale.max(other.scale);
        let kept = if self.is_zero() { other } else { self };
        if kept.is_zero() {
            return Ok(Decimal { unscaled: BigInt::ZERO, scale });
        }
        let kept = kept.rounded(digits);
        let room = digits - decimal_digits(&kept.unscaled);
        let more = (i64::from(scale) - i64::from(kept.scale)).min(room).max(0);
        let scale = saturated(i64::from(kept.scale) + more);
        Ok(Decimal { unscaled: kept.unscaled_at(scale)?, scale })
    }

    fn is_negative(&self) -> bool {
        self.unscaled.sign() == num_bigint::Sign::Minus
    }

    /// The number rounded to at most `digits` digits, halves away from zero.
    pub(crate) fn rounded(&self, digits: i64) -> Decimal {
        let surplus = decimal_digits(&self.unscaled) - digits;
        if surplus <= 0 {
            return self.clone();
        }
        let unscaled = divide_half_up(&self.unscaled, &BigInt::from(10).pow(surplus as u32));
        let rounded = Decimal { unscaled, scale: saturated(i64::from(self.scale) - surplus) };
        // 99.9 becomes 100, which has one more digit.
        if decimal_digits(&rounded.unscaled) > digits { rounded.rounded(digits) } else { rounded }
    }

    /// The product, rounded to `digits` digits; `None` if its scale is out of range.
    pub(crate) fn product(&self, other: &Decimal, digits: i64) -> Option<Decimal> {
        let unscaled = &self.unscaled * &other.unscaled;
        let scale = i64::from(self.scale) + i64::from(other.scale);
        let scale = if unscaled == BigInt::ZERO { saturated(scale) } else { i32::try_from(scale).ok()? };
        Some(Decimal { unscaled, scale }.rounded(digits))
    }

    /// The quotient at scale `scale`, with halves rounded away from zero. The divisor must not be zero.
    pub(crate) fn quotient(&self, by: &Decimal, scale: i32) -> Result<Decimal, Failure> {
        let shift = i64::from(scale) - i64::from(self.scale) + i64::from(by.scale);
        let unscaled = match shift {
            _ if self.is_zero() => BigInt::ZERO,
            0.. => divide_half_up(&(&self.unscaled * power_of_ten(shift)?), &by.unscaled),
            _ => divide_half_up(&self.unscaled, &(&by.unscaled * power_of_ten(-shift)?)),
        };
        Ok(Decimal { unscaled, scale })
    }

    /// The remainder of the division, with the sign of the dividend. The divisor must not be zero.
    pub(crate) fn remainder(&self, by: &Decimal) -> Result<Decimal, Failure> {
        let scale = self.scale.max(by.scale);
        let (number, divisor) = (self.unscaled_at(scale)?, by.unscaled_at(scale)?);
        let times = &number / &divisor;
        let rest = Decimal { unscaled: number % divisor, scale };
        // The scale is the dividend's, except for a divisor with a larger scale, which trailing zeros of the quotient
        // compensate for.
        let wanted = match times == BigInt::ZERO {
            true => i64::from(self.scale),
            false => i64::from(self.scale).max(i64::from(by.scale) - trailing_zeros(&times)),
        };
        Ok(rest.with_fewer_places(saturated(wanted)))
    }

    /// The number with trailing zeros removed until its scale is `scale`, as far as it has such zeros.
    pub(super) fn with_fewer_places(mut self, scale: i32) -> Decimal {
        if self.is_zero() {
            return Decimal { unscaled: BigInt::ZERO, scale };
        }
        let zeros = trailing_zeros(&self.unscaled).min(i64::from(self.scale) - i64::from(scale)).max(0);
        self.unscaled /= BigInt::from(10).pow(zeros as u32);
        Decimal { scale: saturated(i64::from(self.scale) - zeros), ..self }
    }

    /// The number without trailing zeros; zero gets scale 0.
    pub(crate) fn without_zeros(self) -> Decimal {
        if self.is_zero() {
            return Decimal { unscaled: BigInt::ZERO, scale: 0 };
        }
        self.with_fewer_places(i32::MIN)
    }

    /// The number divided by a count, at its own scale, with halves rounded to even.
    pub(crate) fn divided(&self, count: i64) -> Decimal {
        Decimal { unscaled: divide_half_even(&self.unscaled, &BigInt::from(count)), scale: self.scale }
    }
}

fn power_of_ten(exponent: i64) -> Result<BigInt, Failure> {
    match u32::try_from(exponent) {
        Ok(exponent) if exponent as usize <= NUMBER_DIGITS_MAX => Ok(BigInt::from(10).pow(exponent)),
        _ => {
            Err(Failure::invalid(format!("A number with more than {NUMBER_DIGITS_MAX} digits cannot be computed with")))
        }
    }
}

/// The number of decimal digits; zero has one.
pub(crate) fn decimal_digits(number: &BigInt) -> i64 {
    let bits = number.bits();
    if bits <= 63 {
        let magnitude = number.magnitude().iter_u64_digits().next().unwrap_or(0);
        return magnitude.checked_ilog10().map_or(1, |log| i64::from(log) + 1);
    }
    // 10^n has n * log2(10) bits, so that one comparison decides between two counts.
    let least = ((bits - 1) as f64 * std::f64::consts::LOG10_2).floor() as u32;
    let magnitude = number.magnitude();
    let mut power = num_bigint::BigUint::from(10u8).pow(least);
    let mut digits = i64::from(least);
    while power <= *magnitude {
        power *= 10u8;
        digits += 1;
    }
    digits
}

/// The number of trailing decimal zeros; zero has none.
fn trailing_zeros(number: &BigInt) -> i64 {
    if *number == BigInt::ZERO {
        return 0;
    }
    // Each trailing zero is also a factor of 2, so that there are none in an odd number.
    let most = number.trailing_zeros().unwrap_or(0) as i64;
    let (mut zeros, mut rest) = (0, number.clone());
    let mut step = 1i64;
    while step > 0 {
        let power = BigInt::from(10).pow(step as u32);
        if zeros + step <= most && &rest % &power == BigInt::ZERO {
            rest /= power;
            zeros += step;
            step *= 2;
        } else {
            step /= 2;
        }
    }
    zeros
}

fn saturated(scale: i64) -> i32 {
    scale.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

fn divide_half_up(number: &BigInt, by: &BigInt) -> BigInt {
    let (quotient, rest) = (number / by, number % by);
    let up = rest.magnitude() * 2u8 >= *by.magnitude();
    match (up, (number.sign() == num_bigint::Sign::Minus) != (by.sign() == num_bigint::Sign::Minus)) {
        (false, _) => quotient,
        (true, false) => quotient + 1,
        (true, true) => quotient - 1,
    }
}

fn divide_half_even(number: &BigInt, by: &BigInt) -> BigInt {
    let (quotient, rest) = (number / by, number % by);
    let doubled: BigInt = BigInt::from(rest.magnitude().clone()) * 2;
    let by_magnitude = BigInt::from(by.magnitude().clone());
    let up = match doubled.cmp(&by_magnitude) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient.bit(0),
        std::cmp::Ordering::Greater => true,
    };
    match (up, (number.sign() == num_bigint::Sign::Minus) != (by.sign() == num_bigint::Sign::Minus)) {
        (false, _) => quotient,
        (true, false) => quotient + 1,
        (true, true) => quotient - 1,
    }
}

/// A number of any numeric type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Number {
    /// Tinyint to bigint, counter.
    Long(i64),
    /// Varint.
    Big(BigInt),
    /// Decimal.
    Decimal(Decimal),
    /// Float.
    Float(f32),
    /// Double.
    Double(f64),
}

impl Number {
    /// Reads an encoded value; `None` for an empty one, for bytes that are not of the type and for types that are not
    /// numeric.
    pub(crate) fn read(cql_type: &CqlType, bytes: &[u8]) -> Option<Number> {
        use CqlType::*;
        Some(match cql_type {
            Tinyint => Number::Long(i8::from_be_bytes(bytes.try_into().ok()?).into()),
            Smallint => Number::Long(i16::from_be_bytes(bytes.try_into().ok()?).into()),
            Int => Number::Long(i32::from_be_bytes(bytes.try_into().ok()?).into()),
            Bigint | Counter => Number::Long(i64::from_be_bytes(bytes.try_into().ok()?)),
            Varint if !bytes.is_empty() => Number::Big(BigInt::from_signed_bytes_be(bytes)),
            Decimal => Number::Decimal(self::Decimal::read(bytes)?),
            Float => Number::Float(f32::from_be_bytes(bytes.try_into().ok()?)),
            Double => Number::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
            _ => return None,
        })
    }

    /// Encodes the number as `cql_type`, a numeric type.
    pub(crate) fn write(&self, cql_type: &CqlType) -> Result<Vec<u8>, Failure> {
        use CqlType::*;
        Ok(match cql_type {
            Tinyint => (self.to_int()? as i8).to_be_bytes().to_vec(),
            Smallint => (self.to_int()? as i16).to_be_bytes().to_vec(),
            Int => self.to_int()?.to_be_bytes().to_vec(),
            Bigint | Counter => self.to_long()?.to_be_bytes().to_vec(),
            // Java converts a decimal to long first.
            Varint if matches!(self, Number::Decimal(_)) => BigInt::from(self.to_long()?).to_signed_bytes_be(),
            Varint => self.to_big()?.to_signed_bytes_be(),
            Decimal => self.to_decimal()?.to_bytes(),
            Float => self.to_float().to_be_bytes().to_vec(),
            Double => self.to_double().to_be_bytes().to_vec(),
            other => return Err(Failure::server(format!("{other} is not a numeric type"))),
        })
    }

    fn to_int(&self) -> Result<i32, Failure> {
        Ok(match self {
            Number::Float(number) => *number as i32,
            Number::Double(number) => *number as i32,
            other => other.to_long()? as i32,
        })
    }

    /// The number as a long: its low 64 bits, or the nearest long to a float.
    pub(crate) fn to_long(&self) -> Result<i64, Failure> {
        Ok(match self {
            Number::Long(number) => *number,
            Number::Big(number) => low_bits(number),
            // Multiples of 10^64 end in 64 zero bits.
            Number::Decimal(decimal) if decimal.scale <= -64 => 0,
            Number::Decimal(decimal) => low_bits(&decimal.truncated()?),
            Number::Float(number) => *number as i64,
            Number::Double(number) => *number as i64,
        })
    }

    pub(crate) fn to_big(&self) -> Result<BigInt, Failure> {
        Ok(match self {
            Number::Big(number) => number.clone(),
            Number::Decimal(decimal) => decimal.truncated()?,
            other => BigInt::from(other.to_long()?),
        })
    }

    /// The number as a decimal; a float becomes the decimal of its shortest text.
    pub(crate) fn to_decimal(&self) -> Result<Decimal, Failure> {
        let of_text = |cql_type: CqlType, bytes: &[u8]| {
            let text = to_literal(&cql_type, bytes);
            let bytes = from_bare(&CqlType::Decimal, &text).ok();
            bytes.as_deref().and_then(Decimal::read).ok_or_else(|| Failure::invalid(format!("{text} is not a decimal")))
        };
        Ok(match self {
            Number::Decimal(decimal) => decimal.clone(),
            Number::Float(number) => of_text(CqlType::Float, &number.to_be_bytes())?,
            Number::Double(number) => of_text(CqlType::Double, &number.to_be_bytes())?,
            other => Decimal { unscaled: other.to_big()?, scale: 0 },
        })
    }

    /// The number as an operand of decimal arithmetic. Integers of fixed size are converted to double first, as in
    /// Cassandra.
    pub(crate) fn to_operand(&self) -> Result<Decimal, &'static str> {
        match self {
            Number::Decimal(decimal) => Ok(decimal.clone()),
            Number::Big(number) => Ok(Decimal { unscaled: number.clone(), scale: 0 }),
            other => match other.to_double() {
                double if double.is_nan() => Err("A NaN cannot be converted into a decimal"),
                double if double.is_infinite() => Err("An infinite number cannot be converted into a decimal"),
                double => Number::Double(double).to_decimal().map_err(|_| "A number that is no decimal"),
            },
        }
    }

    pub(crate) fn to_float(&self) -> f32 {
        match self {
            Number::Long(number) => *number as f32,
            Number::Float(number) => *number,
            Number::Double(number) => *number as f32,
            // Parsing the text gives the nearest float.
            Number::Big(number) => number.to_string().parse().unwrap_or(f32::NAN),
            Number::Decimal(decimal) => scientific(decimal).parse().unwrap_or(f32::NAN),
        }
    }

    pub(crate) fn to_double(&self) -> f64 {
        match self {
            Number::Long(number) => *number as f64,
            Number::Float(number) => (*number).into(),
            Number::Double(number) => *number,
            Number::Big(number) => number.to_string().parse().unwrap_or(f64::NAN),
            Number::Decimal(decimal) => scientific(decimal).parse().unwrap_or(f64::NAN),
        }
    }
}

fn scientific(decimal: &Decimal) -> String {
    format!("{}e{}", decimal.unscaled, -i64::from(decimal.scale))
}

fn low_bits(number: &BigInt) -> i64 {
    let low = number.magnitude().iter_u64_digits().next().unwrap_or(0);
    match number.sign() {
        num_bigint::Sign::Minus => low.wrapping_neg() as i64,
        _ => low as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::read(&from_bare(&CqlType::Decimal, text).unwrap()).unwrap()
    }

    fn cast(from: CqlType, text: &str, to: CqlType) -> String {
        let bytes = from_bare(&from, text).unwrap();
        let cast = Number::read(&from, &bytes).unwrap().write(&to);
        to_literal(&to, &cast.unwrap())
    }

    /// Expected results are those of Cassandra's CAST.
    #[test]
    fn casts_are_javas() {
        use CqlType::*;
        let expected = [
            (Bigint, "9223372036854775807", Int, "-1"),
            (Varint, "123456789012345678901234567890", Int, "1312754386"),
            (Varint, "123456789012345678901234567890", Bigint, "-4362896299872285998"),
            (Decimal, "12.340", Int, "12"),
            (Decimal, "-12.9", Int, "-12"),
            (Decimal, "1e100", Bigint, "0"),
            (Double, "1e300", Int, "2147483647"),
            (Double, "1e300", Tinyint, "-1"),
            (Double, "1e300", Bigint, "9223372036854775807"),
            (Double, "1e300", Varint, "9223372036854775807"),
            (Double, "1e300", Decimal, "1.0E+300"),
            (Float, "0.1", Decimal, "0.1"),
            (Varint, "123456789012345678901234567890", Double, "1.2345678901234568E29"),
            (Bigint, "9223372036854775807", Float, "9.223372E18"),
        ];
        for (from, text, to, result) in expected {
            assert_eq!(cast(from.clone(), text, to.clone()), result, "{text} from {from} to {to}");
        }
    }

    #[test]
    fn decimals_keep_the_larger_scale() {
        assert_eq!(decimal("12.340").add(&decimal("0.1")).unwrap(), decimal("12.440"));
        assert_eq!(decimal("12.44").divided(2), decimal("6.22"));
        assert_eq!(decimal("0.5").divided(2), decimal("0.2"));
        assert_eq!(decimal("1.5").divided(2), decimal("0.8"));
        assert_eq!(decimal("-0.5").divided(2), decimal("-0.2"));
    }

    #[test]
    fn numbers_too_far_apart_are_not_added() {
        let limit = NUMBER_DIGITS_MAX as i32;
        let (far, beyond) =
            (Decimal { unscaled: 1.into(), scale: -limit }, Decimal { unscaled: 1.into(), scale: -limit - 1 });
        assert!(decimal("1").add(&far).is_ok());
        assert!(decimal("1").add(&beyond).is_err());
    }
}
