//! LZ4 blocks, which bodies and segments are compressed into.
//!
//! Invariants: nothing is allocated for a plain length that the block cannot hold; a block yields exactly the plain
//! length that was declared, or an error.

use bytes::Bytes;
use model::Failure;

/// The most plain bytes that one byte of an LZ4 block can stand for.
pub(crate) const EXPANSION_MAX: usize = 255;

/// Decompresses a block of exactly `plain_len` plain bytes. The caller has bounded the length.
pub(crate) fn decompress(block: &[u8], plain_len: usize) -> Result<Bytes, Failure> {
    check_expansion(plain_len, block.len(), EXPANSION_MAX)?;
    // An encoder that has nothing to compress writes one empty token.
    if plain_len == 0 {
        return if block == [0] { Ok(Bytes::new()) } else { Err(corrupt()) };
    }
    let mut plain = vec![0; plain_len];
    match lz4_flex::block::decompress_into(block, &mut plain) {
        Ok(written) if written == plain_len => Ok(plain.into()),
        _ => Err(corrupt()),
    }
}

/// Appends `plain` as a block.
pub(crate) fn put_block(out: &mut Vec<u8>, plain: &[u8]) {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
    let (_, room) = out.split_at_mut(start);
    let written = lz4_flex::block::compress_into(plain, room).expect("room for the block");
    out.truncate(start + written);
}

/// Returns `plain_len` if a block of `block_len` bytes can stand for so many at `expansion_max` plain bytes each.
pub(crate) fn check_expansion(plain_len: usize, block_len: usize, expansion_max: usize) -> Result<usize, Failure> {
    if plain_len > block_len.saturating_mul(expansion_max) { Err(corrupt()) } else { Ok(plain_len) }
}

/// The protocol error for a block that is not what its length declares.
pub(crate) fn corrupt() -> Failure {
    Failure::protocol("Corrupt compressed data")
}
