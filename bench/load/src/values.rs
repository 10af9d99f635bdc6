//! Values computed from a row's key, so that an answer can be checked without remembering what was written.
//!
//! A blob is a stream of splitmix64 words, from a seed made of key, row and column. The value of another cell, a torn
//! value or one of another length does not match.

/// The seed of the value in one cell.
pub fn seed(key: u64, row: u64, column: u64) -> u64 {
    mix(key ^ mix(row ^ mix(column.wrapping_add(0x68_656c_656e_7573))))
}

/// Appends the value of `len` bytes that follows from `seed`.
pub fn put(out: &mut Vec<u8>, seed: u64, len: usize) {
    let start = out.len();
    out.resize(start + len, 0);
    let (words, rest) = out[start..].as_chunks_mut::<8>();
    let mut state = seed;
    words.iter_mut().for_each(|word| *word = next(&mut state).to_le_bytes());
    let last = next(&mut state).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Whether `bytes` are the value of `len` bytes that follows from `seed`.
pub fn matches(bytes: &[u8], seed: u64, len: usize) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut state = seed;
    bytes.len() == len
        && words.iter().all(|word| *word == next(&mut state).to_le_bytes())
        && rest == &next(&mut state).to_le_bytes()[..rest.len()]
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_bytes_match() {
        for len in [8, 9, 34, 64, 1000] {
            let mut bytes = vec![7];
            put(&mut bytes, seed(5, 6, 7), len);
            assert_eq!(bytes.len(), len + 1);
            assert!(matches(&bytes[1..], seed(5, 6, 7), len));
            assert!(!matches(&bytes[1..], seed(5, 7, 7), len));
            assert!(!matches(&bytes[1..len], seed(5, 6, 7), len));
            for at in 1..=len {
                bytes[at] ^= 1;
                assert!(!matches(&bytes[1..], seed(5, 6, 7), len), "byte {at}");
                bytes[at] ^= 1;
            }
        }
    }
}
