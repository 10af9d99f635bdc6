//! Arithmetic operators: their overloads and their evaluation.
//!
//! 1. The result of two numbers has the size of the larger; it is a floating-point number if one of them is.
//! 2. Both are converted to the result type. Integers of fixed size wrap around; floats follow IEEE 754; decimals keep
//!    up to [`PRECISION_MAX`] digits, and their quotients at least [`QUOTIENT_DIGITS_MIN`].
//! 3. Durations can be added to and subtracted from dates and timestamps; `+` concatenates texts.
//!
//! An error is a failure of the operator's function, with Java's text.

use super::Function;
use super::catalogue::{Scalar, function};
use super::numbers::{Decimal, Number, decimal_digits};
use super::times::shifted;
use crate::ast::{Arithmetic, NEGATION};
use model::failure::Detail;
use model::{CqlType, ErrorCode, Failure};
use num_bigint::BigInt;

/// Most digits of a decimal result.
const PRECISION_MAX: i64 = 10_000;
/// Fewest significant digits of a decimal quotient, and fewest places.
const QUOTIENT_DIGITS_MIN: i64 = 32;
/// Largest scale of a decimal quotient.
const QUOTIENT_SCALE_MAX: i64 = 1000;

/// The numeric types of operands.
const NUMBERS: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Varint,
    CqlType::Counter,
];

/// All types that an operand may have.
pub(super) const OPERANDS: [CqlType; 14] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Varint,
    CqlType::Counter,
    CqlType::Text,
    CqlType::Ascii,
    CqlType::Timestamp,
    CqlType::Date,
    CqlType::Duration,
];

/// The size of a number in bytes; the maximum for types without a bound.
fn size(cql_type: &CqlType) -> u32 {
    match cql_type {
        CqlType::Tinyint => 1,
        CqlType::Smallint => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::Bigint | CqlType::Double | CqlType::Counter => 8,
        _ => u32::MAX,
    }
}

/// The result type of an operator for two numbers.
fn result_type(left: &CqlType, right: &CqlType) -> CqlType {
    let floats = |cql_type: &CqlType| matches!(cql_type, CqlType::Float | CqlType::Double | CqlType::Decimal);
    let size = size(left).max(size(right));
    match (floats(left) || floats(right), size) {
        (true, 4) => CqlType::Float,
        (true, 8) => CqlType::Double,
        (true, _) => CqlType::Decimal,
        (false, 1) => CqlType::Tinyint,
        (false, 2) => CqlType::Smallint,
        (false, 4) => CqlType::Int,
        (false, 8) => CqlType::Bigint,
        (false, _) => CqlType::Varint,
    }
}

/// The overloads of an operator.
pub(super) fn overloads(operator: Arithmetic) -> Vec<Function> {
    use CqlType::*;
    let of = |left: &CqlType, right: &CqlType, result: CqlType| {
        let arguments = vec![left.clone(), right.clone()];
        function(operator.function_name(), arguments, result, Scalar::Operation(operator))
    };
    let mut all = Vec::with_capacity(NUMBERS.len() * NUMBERS.len() + 6);
    for left in &NUMBERS {
        all.extend(NUMBERS.iter().map(|right| of(left, right, result_type(left, right))));
    }
    if matches!(operator, Arithmetic::Add | Arithmetic::Subtract) {
        all.push(of(&Timestamp, &Duration, Timestamp));
        all.push(of(&Date, &Duration, Date));
    }
    if operator == Arithmetic::Add {
        all.extend([(Text, Text), (Text, Ascii), (Ascii, Text)].map(|(left, right)| of(&left, &right, Text)));
        all.push(of(&Ascii, &Ascii, Ascii));
    }
    all
}

/// The overloads of the negative sign.
pub(super) fn negations() -> Vec<Function> {
    NUMBERS.iter().map(|of| function(NEGATION, vec![of.clone()], of.clone(), Scalar::Negation)).collect()
}

/// The operator of an overload, from its name as errors show it: `system._add`.
pub(super) fn operator_of(shown: &str) -> Option<Arithmetic> {
    shown.strip_prefix("system.").and_then(Arithmetic::of_function)
}

/// Evaluates `left operator right`; null if a number is empty.
pub(super) fn evaluate(
    function: &Function,
    operator: Arithmetic,
    arguments: &[&[u8]],
) -> Result<Option<Vec<u8>>, Failure> {
    let ([left, right], [left_type, right_type]) = (arguments, function.arguments.as_slice()) else { return Ok(None) };
    match function.result {
        CqlType::Text | CqlType::Ascii => return Ok(Some([*left, *right].concat())),
        CqlType::Timestamp | CqlType::Date => {
            let back = operator == Arithmetic::Subtract;
            return shifted(&function.result, left, right, back).map_err(|text| failed(function, operator, &text));
        }
        _ => {}
    }
    let (Some(left), Some(right)) = (Number::read(left_type, left), Number::read(right_type, right)) else {
        return Ok(None);
    };
    let wrong = |text: &str| failed(function, operator, text);
    let number = match &function.result {
        CqlType::Float => Number::Float(float(operator, left.to_float(), right.to_float())),
        CqlType::Double => Number::Double(float(operator, left.to_double(), right.to_double())),
        CqlType::Decimal => {
            let (left, right) = (left.to_operand(), right.to_operand());
            let (left, right) = (left.map_err(&wrong)?, right.map_err(&wrong)?);
            Number::Decimal(match operator {
                Arithmetic::Add => left.sum(&right, PRECISION_MAX)?,
                Arithmetic::Subtract => left.sum(&right.negated(), PRECISION_MAX)?,
                Arithmetic::Multiply => left.product(&right, PRECISION_MAX).ok_or_else(|| wrong("Overflow"))?,
                Arithmetic::Divide => quotient(&left, &right, &wrong)?,
                Arithmetic::Modulo => match (left.is_zero(), right.is_zero()) {
                    (true, true) => return Err(wrong("Division undefined")),
                    (false, true) => return Err(wrong("Division by zero")),
                    _ => left.remainder(&right)?,
                },
            })
        }
        CqlType::Varint => {
            let (left, right) = (left.to_big()?, right.to_big()?);
            Number::Big(match operator {
                Arithmetic::Add => left + right,
                Arithmetic::Subtract => left - right,
                Arithmetic::Multiply => left * right,
                _ if right == BigInt::ZERO => return Err(wrong("BigInteger divide by zero")),
                Arithmetic::Divide => left / right,
                Arithmetic::Modulo => left % right,
            })
        }
        _ => {
            let (left, right) = (left.to_long()?, right.to_long()?);
            Number::Long(match operator {
                Arithmetic::Add => left.wrapping_add(right),
                Arithmetic::Subtract => left.wrapping_sub(right),
                Arithmetic::Multiply => left.wrapping_mul(right),
                _ if right == 0 => return Err(wrong("/ by zero")),
                Arithmetic::Divide => left.wrapping_div(right),
                Arithmetic::Modulo => left.wrapping_rem(right),
            })
        }
    };
    number.write(&function.result).map(Some)
}

fn float<F>(operator: Arithmetic, left: F, right: F) -> F
where
    F: std::ops::Add<Output = F>
        + std::ops::Sub<Output = F>
        + std::ops::Mul<Output = F>
        + std::ops::Div<Output = F>
        + std::ops::Rem<Output = F>,
{
    match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Modulo => left % right,
    }
}

/// The quotient of two decimals, with as many places as the required digits take, halves rounded away from zero,
/// without trailing zeros.
fn quotient(left: &Decimal, right: &Decimal, wrong: &dyn Fn(&str) -> Failure) -> Result<Decimal, Failure> {
    if right.is_zero() {
        return Err(wrong("BigInteger divide by zero"));
    }
    let places = |of: &Decimal| decimal_digits(&of.unscaled) - i64::from(of.scale);
    let first_digit = places(left) - places(right);
    let least = i64::from(left.scale.max(right.scale)).max(QUOTIENT_DIGITS_MIN);
    let scale = least.max(QUOTIENT_DIGITS_MIN - first_digit).min(QUOTIENT_SCALE_MAX);
    left.quotient(right, scale as i32).map(Decimal::without_zeros)
}

/// Evaluates `-number`; null if it is empty.
pub(super) fn negate(function: &Function, arguments: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    let ([of], [of_type]) = (arguments, function.arguments.as_slice()) else { return Ok(None) };
    let Some(number) = Number::read(of_type, of) else { return Ok(None) };
    let negated = match number {
        Number::Long(number) => Number::Long(number.wrapping_neg()),
        Number::Big(number) => Number::Big(-number),
        Number::Decimal(number) => Number::Decimal(number.negated()),
        Number::Float(number) => Number::Float(-number),
        Number::Double(number) => Number::Double(-number),
    };
    negated.write(&function.result).map(Some)
}

fn failed(function: &Function, operator: Arithmetic, text: &str) -> Failure {
    let types: Vec<String> = function.arguments.iter().map(CqlType::to_string).collect();
    let shown = types.join(&format!(" {} ", operator.symbol()));
    let text = format!("the operation '{shown}' failed: {text}");
    Failure::new(ErrorCode::FunctionFailure, text).with(Detail::Function {
        keyspace: "system".to_owned(),
        function: operator.function_name().to_owned(),
        arguments: types,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::text::{from_bare, to_literal};
    use std::borrow::Cow;

    struct Nothing;

    impl crate::plan::EvaluationContext for Nothing {
        fn wall_micros(&mut self) -> i64 {
            0
        }
        fn timeuuid(&mut self) -> [u8; 16] {
            [0; 16]
        }
        fn uuid(&mut self) -> [u8; 16] {
            [0; 16]
        }
    }

    fn operate(operator: Arithmetic, left: (&CqlType, &str), right: (&CqlType, &str)) -> Result<String, String> {
        let all = overloads(operator);
        let function = all.iter().find(|one| one.arguments == [left.0.clone(), right.0.clone()]).expect("an overload");
        let bytes = [left, right].map(|(cql_type, text)| Some(Cow::Owned(from_bare(cql_type, text).expect("a value"))));
        match function.evaluate(&bytes, &mut Nothing) {
            Ok(value) => Ok(value.map_or("null".to_owned(), |value| to_literal(&function.result, &value))),
            Err(failure) => Err(failure.text.to_string()),
        }
    }

    /// Expected results are Cassandra's for the same operands.
    #[test]
    fn results_are_cassandras() {
        use Arithmetic::*;
        use CqlType::*;
        let expected = [
            (Add, Tinyint, "127", Tinyint, "1", "-128"),
            (Divide, Tinyint, "-128", Tinyint, "-1", "-128"),
            (Divide, Int, "-2147483648", Int, "-1", "-2147483648"),
            (Multiply, Bigint, "9223372036854775807", Int, "2", "-2"),
            (Modulo, Int, "-5", Int, "3", "-2"),
            (Add, Int, "1", Float, "1.5", "2.5"),
            (Divide, Int, "1", Double, "0", "Infinity"),
            (Add, Varint, "7", Float, "1.5", "8.5"),
            (Add, Float, "1.1", Decimal, "8.25", "9.350000023841858"),
            (Add, Decimal, "8.25", Bigint, "9007199254740993", "9007199254741000.25"),
            (Multiply, Decimal, "8.25", Int, "3", "24.750"),
            (Divide, Decimal, "2", Int, "3", "0.66666666666666666666666666666667"),
            (Divide, Decimal, "-7", Int, "2", "-3.5"),
            (Divide, Decimal, "100", Int, "10", "1E+1"),
            (Divide, Decimal, "1e-50", Int, "3", "3.3333333333333333333333333333333E-51"),
            (Divide, Decimal, "0.00", Int, "7", "0"),
            (Modulo, Decimal, "5.00", Decimal, "3", "2.00"),
            (Modulo, Decimal, "1e5", Decimal, "3.0", "1.0"),
            (Modulo, Decimal, "600", Decimal, "3.00", "0"),
            (Modulo, Decimal, "123456789112345678921234567893123456", Int, "2", "0.0"),
            (Modulo, Decimal, "8.5", Varint, "7", "1.5"),
            (Add, Date, "2020-01-31", Duration, "1mo", "2020-02-29"),
        ];
        for (operator, left_type, left, right_type, right, result) in expected {
            let given = operate(operator, (&left_type, left), (&right_type, right));
            let given = given.map(|text| text.trim_matches('\'').to_owned());
            assert_eq!(given.as_deref(), Ok(result), "{left} {} {right}", operator.symbol());
        }
    }

    #[test]
    fn sums_keep_the_most_digits_and_no_more() {
        let one = Decimal { unscaled: 1.into(), scale: 0 };
        let far = |scale: i32| Decimal { unscaled: 1.into(), scale };
        let digits = |sum: Decimal| decimal_digits(&sum.unscaled);
        assert_eq!(digits(one.sum(&far(PRECISION_MAX as i32 - 1), PRECISION_MAX).expect("a sum")), PRECISION_MAX);
        assert_eq!(digits(one.sum(&far(PRECISION_MAX as i32), PRECISION_MAX).expect("a sum")), PRECISION_MAX);
        assert_eq!(digits(one.sum(&far(i32::MAX), PRECISION_MAX).expect("a sum")), PRECISION_MAX);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let decimal = CqlType::Decimal;
        let by_zero = |operator, left| operate(operator, (&decimal, left), (&CqlType::Int, "0")).unwrap_err();
        assert_eq!(by_zero(Arithmetic::Modulo, "0"), "the operation 'decimal % int' failed: Division undefined");
        assert_eq!(by_zero(Arithmetic::Modulo, "1"), "the operation 'decimal % int' failed: Division by zero");
        assert_eq!(by_zero(Arithmetic::Divide, "1"), "the operation 'decimal / int' failed: BigInteger divide by zero");
    }
}
