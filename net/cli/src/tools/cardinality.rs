//! The estimated number of partition keys of an SSTable, from the HyperLogLog++ sketch in its Statistics.db.
//!
//! ```text
//! version u32 (-2), precision, sparse precision, kind (0 normal, 1 sparse), count. Then for a normal sketch `count`
//! bytes, each big-endian u32 of which holds 6 registers of 5 bits; for a sparse one `count` differences. Numbers
//! without a width are little-endian base 128.
//! ```
//! Source: Heule, Nunkesser, Hall: HyperLogLog in Practice; `hyperloglog.tsv` holds its raw estimates and biases for
//! precision 13, which is Cassandra's.

const VERSION: u32 = -2i32 as u32;
/// The precision that Cassandra writes, which the table of biases is for.
const PRECISION: u32 = 13;
/// Largest sparse precision.
const SPARSE_PRECISION_MAX: u32 = 32;
/// Up to this estimate linear counting is more accurate.
const LINEAR_MAX: f64 = 6500.0;
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;
/// How many of the nearest raw estimates a bias is averaged over.
const NEIGHBOURS: usize = 6;
const BIASES: &str = include_str!("hyperloglog.tsv");

/// Returns the estimate of a serialised sketch; `None` if the bytes are not a sketch of Cassandra's.
pub(crate) fn estimate(bytes: &[u8]) -> Option<u64> {
    let (version, mut rest) = bytes.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*version) != VERSION {
        return None;
    }
    let precision = number(&mut rest)?;
    let sparse_precision = number(&mut rest)?;
    let kind = number(&mut rest)?;
    let count = number(&mut rest)?;
    if precision != PRECISION || sparse_precision > SPARSE_PRECISION_MAX {
        return None;
    }
    if kind == 1 {
        let all = 2f64.powi(sparse_precision as i32);
        return Some(linear(all, all - f64::from(count)) as u64);
    }
    let registers = 1usize << PRECISION;
    let words = rest.get(..count as usize)?.as_chunks::<4>().0;
    let mut sum = 0.0;
    let mut zeros = 0u32;
    for i in 0..registers {
        let word = u32::from_be_bytes(*words.get(i / REGISTERS_PER_WORD)?);
        let register = word >> (REGISTER_BITS * (i % REGISTERS_PER_WORD)) & 31;
        sum += 1.0 / f64::from(1u32 << register);
        zeros += u32::from(register == 0);
    }
    let count = registers as f64;
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let corrected = if raw <= 5.0 * count { raw - bias(raw) } else { raw };
    let best = if zeros > 0 { linear(count, zeros.into()) } else { corrected };
    Some(if best <= LINEAR_MAX { best as u64 } else { corrected as u64 })
}

fn linear(all: f64, zeros: f64) -> f64 {
    (all * (all / zeros).ln()).round()
}

fn bias(raw: f64) -> f64 {
    let row = |line: &str| {
        let (estimate, bias) = line.split_once('\t')?;
        Some(((estimate.parse::<f64>().ok()? - raw).powi(2), bias.parse::<f64>().ok()?))
    };
    let mut rows: Vec<(f64, f64)> = BIASES.lines().filter_map(row).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows.iter().take(NEIGHBOURS).map(|(_, bias)| bias).sum::<f64>() / NEIGHBOURS as f64
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..32).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketches_are_counted() {
        assert_eq!(estimate(&[0xff, 0xff, 0xff, 0xfe, 13, 25, 1, 3, 1, 1, 1]), Some(3));
        assert_eq!(estimate(&[0xff, 0xff, 0xff, 0xfe, 12, 25, 1, 3]), None);
        assert_eq!(estimate(&[0xff, 0xff]), None);
        let mut all_zero = vec![0xff, 0xff, 0xff, 0xfe, 13, 25, 0, 0xd8, 0x2a];
        assert_eq!(estimate(&all_zero), None);
        all_zero.resize(all_zero.len() + 5464, 0);
        assert_eq!(estimate(&all_zero), Some(0));
        assert_eq!(BIASES.lines().count(), 200);
    }
}
