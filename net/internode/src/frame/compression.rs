//! Compressed payloads: 4 bytes with the body's length, then one LZ4 block.
//!
//! Invariants: nothing is allocated for a body that its block cannot hold or that is over the limit; a block yields
//! exactly the length that was declared, or the payload is malformed.

use super::{Damage, LENGTH_BYTES};

/// The most plain bytes that one byte of an LZ4 block can stand for.
const EXPANSION_MAX: usize = 255;

/// Replaces the body that `out` holds from `at` by its compressed payload, unless that is no smaller; whether it did.
pub(super) fn compress(out: &mut Vec<u8>, at: usize) -> bool {
    let body = &out[at..];
    let body_bytes = body.len();
    let mut payload = vec![0; LENGTH_BYTES + lz4_flex::block::get_maximum_output_size(body_bytes)];
    let (length, room) = payload.split_at_mut(LENGTH_BYTES);
    length.copy_from_slice(&(body_bytes as u32).to_le_bytes());
    let Ok(written) = lz4_flex::block::compress_into(body, room) else { return false };
    let payload = &payload[..LENGTH_BYTES + written];
    if payload.len() >= body_bytes {
        return false;
    }
    out.truncate(at);
    out.extend_from_slice(payload);
    true
}

/// Puts the body of a compressed payload into `body`.
pub(super) fn decompress(payload: &[u8], body: &mut Vec<u8>, body_bytes_max: usize) -> Result<(), Damage> {
    let (length, block) = payload.split_first_chunk::<LENGTH_BYTES>().ok_or(Damage::Malformed)?;
    let body_bytes = u32::from_le_bytes(*length) as usize;
    if body_bytes > body_bytes_max {
        return Err(Damage::TooLong);
    }
    if body_bytes > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(Damage::Malformed);
    }
    body.clear();
    body.resize(body_bytes, 0);
    match lz4_flex::block::decompress_into(block, body) {
        Ok(written) if written == body_bytes => Ok(()),
        _ => Err(Damage::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload_of(body: &[u8]) -> Vec<u8> {
        let mut out = b"head".to_vec();
        out.extend_from_slice(body);
        assert!(compress(&mut out, 4));
        assert_eq!(out[..4], *b"head");
        out.split_off(4)
    }

    #[test]
    fn a_body_that_does_not_shrink_stays() {
        let mut noise = Vec::new();
        let mut rng = runtime::rng::Rng::new(1);
        (0..200).for_each(|_| noise.extend_from_slice(&rng.next_u64().to_le_bytes()));
        let before = noise.clone();
        assert!(!compress(&mut noise, 0));
        assert_eq!(noise, before);
    }

    #[test]
    fn declared_lengths_are_checked_before_anything_is_allocated() {
        let body = vec![7; 5000];
        let payload = payload_of(&body);
        let open = |payload: &[u8], max| {
            let mut opened = Vec::new();
            decompress(payload, &mut opened, max).map(|()| opened)
        };
        assert_eq!(open(&payload, 5000), Ok(body));
        assert_eq!(open(&payload, 4999), Err(Damage::TooLong));
        assert_eq!(open(&payload[..3], 5000), Err(Damage::Malformed));
        for length in [0, 1, 4999, 5001, payload.len() * EXPANSION_MAX + 1] {
            let mut lying = payload.clone();
            lying[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
            assert_eq!(open(&lying, usize::MAX), Err(Damage::Malformed), "{length}");
        }
    }
}
