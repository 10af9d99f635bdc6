//! Bytes that no compression makes fewer, the same in every run.

/// The first bytes of a xorshift generator with a fixed seed.
pub fn bytes(len: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
