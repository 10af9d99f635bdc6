//! Numbers and blobs as text. Formatting floating-point numbers is in `text/floating.rs`.

use super::NUMBER_DIGITS_MAX;
use crate::decimal;
use crate::value::ValueError;
use num_bigint::BigInt;
use std::str::FromStr;

pub(super) fn parse_int<N: FromStr>(text: &str, java_type: &str) -> Result<N, ValueError> {
    text.parse().map_err(|_| ValueError(format!("Unable to make {java_type} from '{text}'")))
}

pub(super) fn parse_hex(text: &str) -> Result<Vec<u8>, ValueError> {
    let digit = |byte: &u8| (*byte as char).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let parsed = pairs.iter().map(|[high, low]| Some((digit(high)? * 16 + digit(low)?) as u8)).collect::<Option<_>>();
    parsed.filter(|_| rest.is_empty()).ok_or_else(|| ValueError(format!("cannot parse '{text}' as hex bytes")))
}

/// Parses an optional sign and at most [`NUMBER_DIGITS_MAX`] digits.
fn parse_integer(text: &str) -> Option<BigInt> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || unsigned.len() > NUMBER_DIGITS_MAX {
        return None;
    }
    text.parse().ok()
}

pub(super) fn parse_varint(text: &str) -> Result<Vec<u8>, ValueError> {
    let number = parse_integer(text).ok_or_else(|| ValueError(format!("unable to make int from '{text}'")))?;
    Ok(number.to_signed_bytes_be())
}

pub(super) fn parse_decimal(text: &str) -> Result<Vec<u8>, ValueError> {
    parse_scaled(text).ok_or_else(|| ValueError(format!("unable to make BigDecimal from '{text}'")))
}

fn parse_scaled(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, i64::from(exponent.parse::<i32>().ok()?)),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unscaled = parse_integer(&[whole, fraction].concat())?;
    let scale = i32::try_from(fraction.len() as i64 - exponent).ok()?;
    Some([&scale.to_be_bytes()[..], &unscaled.to_signed_bytes_be()].concat())
}

pub(super) fn parse_double(text: &str) -> Result<f64, ValueError> {
    parse_floating(text, f64::NAN).ok_or_else(|| ValueError(format!("Unable to make double from '{text}'")))
}

pub(super) fn parse_float(text: &str) -> Result<f32, ValueError> {
    parse_floating(text, f32::NAN).ok_or_else(|| ValueError(format!("Unable to make float from '{text}'")))
}

/// Parses a number as Java does: with space around it and a type letter after it, but without hexadecimal numbers.
fn parse_floating<N: FromStr>(text: &str, nan: N) -> Option<N> {
    let text = text.trim_matches(|c| c <= ' ');
    let text = match text.strip_suffix(['d', 'D', 'f', 'F']) {
        Some(number) if number.ends_with(|c: char| c.is_ascii_digit() || c == '.') => number,
        _ => text,
    };
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "NaN" => Some(nan),
        "Infinity" => text.parse().ok(),
        _ => {
            let plain = unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
            text.parse().ok().filter(|_| plain)
        }
    }
}

/// Appends a varint; `None`, as for decimals, if it has too many digits to compute.
pub(super) fn push_varint(bytes: &[u8], out: &mut String) -> Option<()> {
    if bytes.len() > NUMBER_DIGITS_MAX {
        return None;
    }
    super::push(out, BigInt::from_signed_bytes_be(bytes));
    Some(())
}

/// Appends a decimal as Java's `BigDecimal.toString`: with an exponent if the scale is negative or more than five zeros
/// follow the point.
pub(super) fn push_decimal(bytes: &[u8], out: &mut String) -> Option<()> {
    let (scale, unscaled) = decimal::split(bytes)?;
    if unscaled.len() > NUMBER_DIGITS_MAX {
        return None;
    }
    let scale = i64::from(scale);
    let text = BigInt::from_signed_bytes_be(unscaled).to_string();
    let digits = match text.strip_prefix('-') {
        Some(digits) => {
            out.push('-');
            digits
        }
        None => &text,
    };
    let exponent = digits.len() as i64 - 1 - scale;
    if scale == 0 {
        out.push_str(digits);
    } else if scale < 0 || exponent < -6 {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        super::push(out, format_args!("{first}{point}{rest}E{exponent:+}"));
    } else {
        let zeros = usize::try_from(scale + 1 - digits.len() as i64).unwrap_or(0);
        let padded = format!("{:0>1$}", digits, digits.len() + zeros);
        let (whole, fraction) = padded.split_at(padded.len() - scale as usize);
        super::push(out, format_args!("{whole}.{fraction}"));
    }
    Some(())
}
