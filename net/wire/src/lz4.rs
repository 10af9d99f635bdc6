//! LZ4 blocks, of bodies and of segments.

use bytes::Bytes;
use model::Failure;

/// Most plain bytes that one byte of an LZ4 block can stand for.
pub(crate) const EXPANSION_MAX: usize = 255;

/// Opens an LZ4 block of exactly `length` plain bytes. The caller has bounded the length.
pub(crate) fn open(block: &[u8], length: usize) -> Result<Bytes, Failure> {
    check_expansion(length, block.len(), EXPANSION_MAX)?;
    // An encoder that had nothing to compress wrote one empty token.
    if length == 0 {
        return if block == [0] { Ok(Bytes::new()) } else { Err(corrupt()) };
    }
    let mut plain = vec![0; length];
    match lz4_flex::block::decompress_into(block, &mut plain) {
        Ok(written) if written == length => Ok(plain.into()),
        _ => Err(corrupt()),
    }
}

/// Appends an LZ4 block.
pub(crate) fn put(out: &mut Vec<u8>, plain: &[u8]) {
    let at = out.len();
    out.resize(at + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
    let written = lz4_flex::block::compress_into(plain, &mut out[at..]).expect("room for the block");
    out.truncate(at + written);
}

pub(crate) fn check_expansion(length: usize, block: usize, expansion_max: usize) -> Result<usize, Failure> {
    if length > block.saturating_mul(expansion_max) { Err(corrupt()) } else { Ok(length) }
}

pub(crate) fn corrupt() -> Failure {
    Failure::protocol("Corrupt compressed data")
}
