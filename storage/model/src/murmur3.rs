//! murmur3_x64_128 with seed 0 as Cassandra's `MurmurHash.hash3_x64_128` computes it: tokens of partition keys and bits
//! of bloom filters.
//!
//! Cassandra reads the bytes after the last whole block of 16 as signed, so a tail byte from 0x80 on changes every bit
//! above its own. Implementations that follow the published algorithm give other hashes for such keys.

/// The two 64-bit halves of the hash of `key`.
#[inline]
pub fn murmur3_x64_128(key: &[u8]) -> (u64, u64) {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let finish = |mut h: u64| {
        h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        h ^ (h >> 33)
    };
    let (blocks, tail) = key.as_chunks::<16>();
    let (mut h1, mut h2) = (0u64, 0u64);
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mix1(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    // The cast through i8 extends the sign of a tail byte over every bit above it.
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, &byte| (word << 8) ^ (byte as i8 as u64));
    let (low, high) = tail.split_at(tail.len().min(8));
    h2 ^= mix2(word(high));
    h1 ^= mix1(word(low));
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let (h1, h2) = (finish(h1), finish(h2));
    let h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_high_tail_bytes_hash_as_published() {
        let mut state = 1u64;
        for len in 1..300usize {
            let key: Vec<u8> = (0..len)
                .map(|i| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 56) as u8 & if i >= len / 16 * 16 { 0x7f } else { 0xff }
                })
                .collect();
            let expected = murmur3::murmur3_x64_128(&mut &key[..], 0).expect("reads from memory");
            let (h1, h2) = murmur3_x64_128(&key);
            assert_eq!(u128::from(h2) << 64 | u128::from(h1), expected, "{key:02x?}");
        }
    }
}
