//! Floating-point numbers as Java 17 prints them: mostly the shortest digits that read back as the number, but for some
//! numbers one digit more or another last digit.
//!
//! Steps (of the free-format algorithm of Steele and White, with the stopping rules of Java's `FloatingDecimal`)
//! 1. A number that has no binary digits after the point and fits 63 bits is an integer, whose digits beyond the
//!    precision are rounded away.
//! 2. Otherwise the number is `b / s * 10^exponent`, and `m` is half of the distance to the next number on the scale of
//!    `b`. Digits are quotients of `b` by `s`, until the rest is within `m` of a digit below or above.
//! 3. Outside of 10^-3..10^7 there are at least two digits, and an exponent.
//!
//! Invariants: what fits 31 or 63 bits is computed in wrapping 32 or 64 bits, as Java does, because overflows there
//! decide about digits.

use num_bigint::BigUint;

/// Bits after the point of a double's mantissa.
const MANTISSA_BITS: i32 = 52;
/// Bits after the point of a float's mantissa.
const FLOAT_MANTISSA_BITS: i32 = 23;

pub(crate) fn push_double(number: f64, out: &mut String) {
    let bits = number.to_bits();
    let fraction = bits & ((1 << MANTISSA_BITS) - 1);
    let exponent = (bits >> MANTISSA_BITS) as i32 & 0x7ff;
    push(Parts::new(bits >> 63 == 1, exponent, fraction, MANTISSA_BITS, 0x7ff), out);
}

pub(crate) fn push_float(number: f32, out: &mut String) {
    let bits = number.to_bits();
    let fraction = u64::from(bits & ((1 << FLOAT_MANTISSA_BITS) - 1));
    let exponent = (bits >> FLOAT_MANTISSA_BITS) as i32 & 0xff;
    push(Parts::new(bits >> 31 == 1, exponent, fraction, FLOAT_MANTISSA_BITS, 0xff), out);
}

/// A floating-point number taken apart.
enum Parts {
    NotANumber,
    Infinite {
        negative: bool,
    },
    Zero {
        negative: bool,
    },
    /// `fraction` has its highest bit at 2^52, so that the number is `fraction / 2^52 * 2^exponent`; its `significant`
    /// highest bits count.
    Finite {
        negative: bool,
        exponent: i32,
        fraction: u64,
        significant: i32,
    },
}

impl Parts {
    fn new(negative: bool, biased: i32, fraction: u64, mantissa_bits: i32, biased_max: i32) -> Parts {
        match (biased == biased_max, fraction) {
            (true, 0) => return Parts::Infinite { negative },
            (true, _) => return Parts::NotANumber,
            (false, 0) if biased == 0 => return Parts::Zero { negative },
            _ => {}
        }
        let scale = MANTISSA_BITS - mantissa_bits;
        let bias = biased_max / 2;
        if biased == 0 {
            let shift = fraction.leading_zeros() as i32 - (63 - mantissa_bits);
            let (exponent, significant) = (1 - shift - bias, mantissa_bits + 1 - shift);
            return Parts::Finite { negative, exponent, fraction: fraction << (shift + scale), significant };
        }
        let fraction = (fraction | 1 << mantissa_bits) << scale;
        Parts::Finite { negative, exponent: biased - bias, fraction, significant: mantissa_bits + 1 }
    }
}

fn push(parts: Parts, out: &mut String) {
    match parts {
        Parts::NotANumber => out.push_str("NaN"),
        Parts::Infinite { negative } => out.push_str(if negative { "-Infinity" } else { "Infinity" }),
        Parts::Zero { negative } => out.push_str(if negative { "-0.0" } else { "0.0" }),
        Parts::Finite { negative, exponent, fraction, significant } => {
            out.push_str(if negative { "-" } else { "" });
            let (digits, exponent) = digits(exponent, fraction, significant);
            lay_out(&digits, exponent, out);
        }
    }
}

/// Writes `0.digits * 10^exponent`.
fn lay_out(digits: &[u8], exponent: i32, out: &mut String) {
    let mut put = |digits: &[u8]| digits.iter().for_each(|&digit| out.push((b'0' + digit) as char));
    match exponent {
        1..8 => {
            let whole = digits.len().min(exponent as usize);
            put(&digits[..whole]);
            put(&[0; 8][..exponent as usize - whole]);
            out.push('.');
            let fraction = if whole < digits.len() { &digits[whole..] } else { &[0][..] };
            fraction.iter().for_each(|&digit| out.push((b'0' + digit) as char));
        }
        -2..=0 => {
            out.push_str(["0.", "0.0", "0.00"][-exponent as usize]);
            digits.iter().for_each(|&digit| out.push((b'0' + digit) as char));
        }
        _ => {
            put(&digits[..1]);
            out.push('.');
            let fraction = if digits.len() > 1 { &digits[1..] } else { &[0][..] };
            fraction.iter().for_each(|&digit| out.push((b'0' + digit) as char));
            super::push(out, format_args!("E{}", exponent - 1));
        }
    }
}

/// Digits and exponent of `0.digits * 10^exponent`.
fn digits(exponent: i32, fraction: u64, significant: i32) -> (Vec<u8>, i32) {
    let tail = fraction.trailing_zeros() as i32;
    let fraction_bits = MANTISSA_BITS + 1 - tail;
    let tiny_bits = (fraction_bits - exponent - 1).max(0);
    if (-21..=62).contains(&exponent) && tiny_bits == 0 {
        let dropped = if exponent > significant { insignificant_digits(exponent - significant - 1) } else { 0 };
        let whole = match exponent - MANTISSA_BITS {
            shift @ 0.. => fraction << shift,
            shift => fraction >> -shift,
        };
        return integer_digits(whole, dropped);
    }
    let decimal = estimate_exponent(fraction, exponent);
    let fraction = fraction >> tail;
    let b5 = (-decimal).max(0);
    let s5 = decimal.max(0);
    let mut b2 = b5 + tiny_bits + exponent;
    let mut s2 = s5 + tiny_bits;
    let mut m2 = b2 - significant;
    b2 -= fraction_bits - 1;
    let common = b2.min(s2);
    (b2, s2, m2) = (b2 - common, s2 - common, m2 - common);
    if fraction_bits == 1 {
        // The next smaller number is only half as far away.
        m2 -= 1;
    }
    if m2 < 0 {
        (b2, s2, m2) = (b2 - m2, s2 - m2, 0);
    }
    let scaled = Scaled { fraction, b2, b5, s2, s5, m2 };
    let b_bits = fraction_bits + b2 + five_bits(b5);
    let ten_s_bits = s2 + 1 + five_bits(s5 + 1);
    let (mut digits, decimal, up) = if b_bits < 32 && ten_s_bits < 32 {
        small_digits::<i32>(&scaled, decimal)
    } else if b_bits < 64 && ten_s_bits < 64 {
        small_digits::<i64>(&scaled, decimal)
    } else {
        big_digits(&scaled, decimal)
    };
    let mut exponent = decimal + 1;
    if up {
        round_up(&mut digits, &mut exponent);
    }
    (digits, exponent)
}

/// `b = fraction * 2^b2 * 5^b5`, `s = 2^s2 * 5^s5`, `m = 2^m2 * 5^b5`.
struct Scaled {
    fraction: u64,
    b2: i32,
    b5: i32,
    s2: i32,
    s5: i32,
    m2: i32,
}

/// Number of bits of a power of five; approximate for large powers.
fn five_bits(power: i32) -> i32 {
    match power {
        0 => 0,
        1..27 => (5u64.pow(power as u32).ilog2() + 1) as i32,
        _ => power * 3,
    }
}

/// How many decimal digits of a power of two are not significant.
fn insignificant_digits(power: i32) -> u32 {
    match power {
        2..64 => (1u64 << power).ilog10(),
        _ => 0,
    }
}

fn integer_digits(mut whole: u64, dropped: u32) -> (Vec<u8>, i32) {
    let mut exponent = dropped as i32;
    if dropped > 0 {
        let ten = 10u64.pow(dropped);
        let rest = whole % ten;
        whole = whole / ten + u64::from(rest >= ten / 2);
    }
    while whole.is_multiple_of(10) {
        whole /= 10;
        exponent += 1;
    }
    let digits: Vec<u8> = whole.to_string().bytes().map(|digit| digit - b'0').collect();
    exponent += digits.len() as i32;
    (digits, exponent)
}

/// The exponent of the first digit, or one more.
#[expect(clippy::approx_constant, reason = "Java's digits, of which the last decides")]
fn estimate_exponent(fraction: u64, exponent: i32) -> i32 {
    let one_to_two = f64::from_bits(1023 << MANTISSA_BITS | fraction & ((1 << MANTISSA_BITS) - 1));
    let estimate = (one_to_two - 1.5) * 0.289529654 + 0.176091259 + f64::from(exponent) * 0.301029995663981;
    estimate.floor() as i32
}

/// Java's wrapping integers, in which small cases are computed.
trait Wrapping: Copy + Ord + Default {
    fn of(number: u64) -> Self;
    fn times(self, factor: Self) -> Self;
    fn shifted(self, bits: i32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn divide(self, by: Self) -> (u8, Self);
}

macro_rules! wrapping {
    ($number:ty) => {
        impl Wrapping for $number {
            fn of(number: u64) -> Self {
                number as Self
            }
            fn times(self, factor: Self) -> Self {
                self.wrapping_mul(factor)
            }
            fn shifted(self, bits: i32) -> Self {
                self.wrapping_shl(bits as u32)
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn divide(self, by: Self) -> (u8, Self) {
                (self.checked_div(by).unwrap_or(0) as u8, self.checked_rem(by).unwrap_or(0))
            }
        }
    };
}

wrapping!(i32);
wrapping!(i64);

/// The digits, the exponent of the first one, and whether the last one must be rounded up.
fn small_digits<N: Wrapping>(scaled: &Scaled, mut decimal: i32) -> (Vec<u8>, i32, bool) {
    let five = |power: i32| N::of(5u64.wrapping_pow(power as u32));
    let ten = N::of(10);
    let mut b = N::of(scaled.fraction).times(five(scaled.b5)).shifted(scaled.b2);
    let s = five(scaled.s5).shifted(scaled.s2);
    let mut m = five(scaled.b5).shifted(scaled.m2);
    let tens = s.times(ten);
    let mut digits = Vec::new();
    let mut first = true;
    loop {
        let (digit, rest) = b.divide(s);
        b = ten.times(rest);
        m = m.times(ten);
        let overflown = !first && m <= N::default();
        let (mut low, mut high) = (overflown || b < m, overflown || b.plus(m) > tens);
        if first && digit == 0 && !high {
            decimal -= 1;
        } else {
            digits.push(digit);
        }
        if first && !(-3..8).contains(&decimal) {
            (low, high) = (false, false);
        }
        first = false;
        if low || high {
            let twice = b.shifted(1).minus(tens);
            return (digits.clone(), decimal, rounds_up(&digits, low, high, twice.cmp(&N::default())));
        }
    }
}

fn big_digits(scaled: &Scaled, mut decimal: i32) -> (Vec<u8>, i32, bool) {
    let power = |fives: i32, twos: i32| BigUint::from(5u8).pow(fives as u32) << twos;
    let mut b = scaled.fraction * power(scaled.b5, scaled.b2);
    let s = power(scaled.s5, scaled.s2);
    let mut m = power(scaled.b5, scaled.m2);
    let tens = &s * 10u8;
    let mut digits = Vec::new();
    let mut first = true;
    loop {
        let quotient = &b / &s;
        b = (b - &quotient * &s) * 10u8;
        m *= 10u8;
        let digit = quotient.iter_u32_digits().next().unwrap_or(0) as u8;
        let (mut low, mut high) = (b < m, &b + &m >= tens);
        if first && digit == 0 && !high {
            decimal -= 1;
        } else {
            digits.push(digit);
        }
        if first && !(-3..8).contains(&decimal) {
            (low, high) = (false, false);
        }
        first = false;
        if low || high {
            let twice = (b * 2u8).cmp(&tens);
            return (digits.clone(), decimal, rounds_up(&digits, low, high, twice));
        }
    }
}

/// Whether to round up; `rest` compares the remainder with half of the last digit.
fn rounds_up(digits: &[u8], low: bool, high: bool, rest: std::cmp::Ordering) -> bool {
    let odd = digits.last().is_some_and(|digit| digit % 2 == 1);
    high && (!low || rest.is_gt() || rest.is_eq() && odd)
}

fn round_up(digits: &mut [u8], exponent: &mut i32) {
    let nines = digits.iter().rev().take_while(|&&digit| digit == 9).count();
    let kept = digits.len() - nines;
    if kept == 0 {
        *exponent += 1;
        digits[1..].fill(0);
        digits[0] = 1;
        return;
    }
    digits[kept..].fill(0);
    digits[kept - 1] += 1;
}
