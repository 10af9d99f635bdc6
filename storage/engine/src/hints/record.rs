//! The header of a file of hints, and its records, as bytes: `docs/hints.md`.
//!
//! Checksums are seeded with the file's nonce and the record's offset, so that neither bytes that a client made up nor
//! records of another place pass as records.
//!
//! Invariants: decoding accepts any bytes without panicking.

use model::mutation::MUTATION_BYTES_MAX;
use uuid::Uuid;

/// The first bytes of every file of hints.
pub(super) const MAGIC: [u8; 8] = *b"HELENUSH";
/// The version of the format that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;
/// Records that are written together begin at a multiple of this many bytes.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Bytes of the header block.
pub(super) const HEADER_BYTES: usize = BLOCK_BYTES;

const VERSION_AT: usize = 8;
const HOST_AT: usize = 12;
const CREATED_AT: usize = 28;
const NONCE_AT: usize = 36;
const HEADER_CRC_AT: usize = 44;

/// Bytes of a record before its mutation.
pub const RECORD_HEADER_BYTES: usize = 24;
const WRITTEN_AT: usize = 4;
const GC_GRACE_AT: usize = 12;
const BODY_CRC_AT: usize = 16;
const HEAD_CRC_AT: usize = 20;

/// A mutation that a node has missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint<'a> {
    /// When it was to be written, microseconds since 1970.
    pub written_at: i64,
    /// The smallest `gc_grace_seconds` of its tables at that time.
    pub gc_grace_seconds: u32,
    /// The mutation, as `model::codec` encodes it.
    pub mutation: &'a [u8],
}

/// Appends a hint to `out`, without its checksums: `seal` adds them.
///
/// # Panics
/// If the mutation is empty, or longer than any mutation.
pub fn push(out: &mut Vec<u8>, hint: &Hint<'_>) {
    let bytes = hint.mutation.len();
    assert!((1..=MUTATION_BYTES_MAX).contains(&bytes), "a mutation of {bytes} bytes");
    out.extend_from_slice(&(bytes as u32).to_le_bytes());
    out.extend_from_slice(&hint.written_at.to_le_bytes());
    out.extend_from_slice(&hint.gc_grace_seconds.to_le_bytes());
    out.extend_from_slice(&[0; RECORD_HEADER_BYTES - BODY_CRC_AT]);
    out.extend_from_slice(hint.mutation);
}

/// Adds the checksums to records of which the first begins at `offset` of the file.
pub(super) fn seal(nonce: u64, mut offset: u64, mut records: &mut [u8]) {
    while let Some(body_len) = length(records) {
        let len = RECORD_HEADER_BYTES + body_len;
        let (record, rest) = records.split_at_mut(len);
        let body_crc = checksum(nonce, offset, &record[RECORD_HEADER_BYTES..]);
        record[BODY_CRC_AT..HEAD_CRC_AT].copy_from_slice(&body_crc.to_le_bytes());
        let head_crc = checksum(nonce, offset, &record[..HEAD_CRC_AT]);
        record[HEAD_CRC_AT..RECORD_HEADER_BYTES].copy_from_slice(&head_crc.to_le_bytes());
        offset += len as u64;
        records = rest;
    }
}

fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize)
}

fn checksum(nonce: u64, offset: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&nonce.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// What is found at an offset of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found<'a> {
    /// A record.
    Record(Hint<'a>),
    /// Zeros up to the end of the block.
    Padding,
    /// The header of a record whose mutation is damaged and has so many bytes.
    Damaged(usize),
    /// Damaged bytes: where the next record begins is not known.
    Unreadable,
    /// So many bytes are needed to tell.
    Needs(usize),
}

/// Looks at `bytes`, which begin at `offset` of the file.
pub(super) fn find(nonce: u64, offset: u64, bytes: &[u8]) -> Found<'_> {
    let in_block = BLOCK_BYTES - (offset % BLOCK_BYTES as u64) as usize;
    let Some(head) = bytes.first_chunk::<RECORD_HEADER_BYTES>() else {
        // The end of a block may have no room for the header of a record.
        return match bytes.get(..in_block) {
            Some(end) if in_block < BLOCK_BYTES && end.iter().all(|byte| *byte == 0) => Found::Padding,
            _ => Found::Needs(RECORD_HEADER_BYTES),
        };
    };
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let len = number(0) as usize;
    if number(HEAD_CRC_AT) != checksum(nonce, offset, &head[..HEAD_CRC_AT]) || !(1..=MUTATION_BYTES_MAX).contains(&len)
    {
        let Some(end) = bytes.get(..in_block) else { return Found::Needs(in_block) };
        let is_padding = in_block < BLOCK_BYTES && end.iter().all(|byte| *byte == 0);
        return if is_padding { Found::Padding } else { Found::Unreadable };
    }
    let Some(mutation) = bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + len) else {
        return Found::Needs(RECORD_HEADER_BYTES + len);
    };
    if number(BODY_CRC_AT) != checksum(nonce, offset, mutation) {
        return Found::Damaged(len);
    }
    let written_at = u64::from(number(WRITTEN_AT)) | u64::from(number(WRITTEN_AT + 4)) << 32;
    Found::Record(Hint { written_at: written_at as i64, gc_grace_seconds: number(GC_GRACE_AT), mutation })
}

/// The header of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// The node whose hints are in the file.
    pub(super) host_id: Uuid,
    /// When the file was created, milliseconds since 1970.
    pub(super) created_millis: u64,
    /// A random number, which seeds the checksums.
    pub(super) nonce: u64,
}

impl Header {
    /// Writes the header to the start of a zeroed block.
    pub(super) fn encode(&self, block: &mut [u8]) {
        block[..VERSION_AT].copy_from_slice(&MAGIC);
        block[VERSION_AT..HOST_AT].copy_from_slice(&VERSION.to_le_bytes());
        block[HOST_AT..CREATED_AT].copy_from_slice(self.host_id.as_bytes());
        block[CREATED_AT..NONCE_AT].copy_from_slice(&self.created_millis.to_le_bytes());
        block[NONCE_AT..HEADER_CRC_AT].copy_from_slice(&self.nonce.to_le_bytes());
        let crc = crc32fast::hash(&block[..HEADER_CRC_AT]);
        block[HEADER_CRC_AT..HEADER_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes the header; the error names what is wrong.
    pub(super) fn decode(block: &[u8]) -> Result<Header, &'static str> {
        let cut = "the file has no header";
        let (fields, rest) = block.split_first_chunk::<HEADER_CRC_AT>().ok_or(cut)?;
        let crc = rest.first_chunk().ok_or(cut)?;
        if fields[..VERSION_AT] != MAGIC {
            return Err("it is no file of hints of Helenus");
        }
        if crc32fast::hash(fields) != u32::from_le_bytes(*crc) {
            return Err("the checksum of the header is wrong");
        }
        let number = |at: usize, len: usize| {
            fields[at..at + len].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        if number(VERSION_AT, 4) != u64::from(VERSION) {
            return Err("the file's version is unknown");
        }
        let mut host_id = [0; 16];
        host_id.copy_from_slice(&fields[HOST_AT..CREATED_AT]);
        let host_id = Uuid::from_bytes(host_id);
        Ok(Header { host_id, created_millis: number(CREATED_AT, 8), nonce: number(NONCE_AT, 8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u64 = 7;

    fn records(offset: u64, mutations: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, mutation) in mutations.iter().enumerate() {
            push(&mut out, &Hint { written_at: at as i64 - 1, gc_grace_seconds: 864_000, mutation });
        }
        seal(NONCE, offset, &mut out);
        out
    }

    #[test]
    fn golden_bytes() {
        let bytes = records(4096, &[b"abc"]);
        let mut expected = vec![3, 0, 0, 0];
        expected.extend_from_slice(&[0xff; 8]);
        expected.extend_from_slice(&[0x00, 0x2f, 0x0d, 0x00]);
        assert_eq!(bytes[..16], expected);
        assert_eq!(&bytes[RECORD_HEADER_BYTES..], b"abc");
        let hint = Hint { written_at: -1, gc_grace_seconds: 864_000, mutation: b"abc" };
        assert_eq!(find(NONCE, 4096, &bytes), Found::Record(hint));
        let header = Header { host_id: Uuid::from_u128(9), created_millis: 5, nonce: NONCE };
        let mut block = vec![0; HEADER_BYTES];
        header.encode(&mut block);
        assert_eq!(block[..12], *b"HELENUSH\x01\x00\x00\x00");
        assert_eq!(Header::decode(&block), Ok(header));
    }

    #[test]
    fn every_damaged_byte_is_found() {
        let bytes = records(4096, &[b"first", b"second"]);
        let first = RECORD_HEADER_BYTES + 5;
        for at in 0..first {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                damaged.resize(BLOCK_BYTES, 0);
                let expected = if at < RECORD_HEADER_BYTES { Found::Unreadable } else { Found::Damaged(5) };
                assert_eq!(find(NONCE, 4096, &damaged), expected, "byte {at}, bit {bit}");
                assert!(matches!(find(NONCE, 4096 + first as u64, &damaged[first..]), Found::Record(_)));
            }
        }
        assert!(!matches!(find(NONCE + 1, 4096, &bytes), Found::Record(_)), "of another file");
        assert!(!matches!(find(NONCE, 8192, &bytes), Found::Record(_)), "of another place");
        for cut in 0..first {
            assert!(matches!(find(NONCE, 4096, &bytes[..cut]), Found::Needs(needed) if needed > cut), "{cut} bytes");
        }
    }

    #[test]
    fn every_damaged_byte_of_a_header_is_found() {
        let header = Header { host_id: Uuid::from_u128(9), created_millis: 5, nonce: NONCE };
        let mut block = vec![0; HEADER_BYTES];
        header.encode(&mut block);
        for at in 0..HEADER_CRC_AT + 4 {
            let mut damaged = block.clone();
            damaged[at] ^= 0x10;
            assert!(Header::decode(&damaged).is_err(), "byte {at}");
            assert!(Header::decode(&block[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn zeros_at_the_end_of_a_block_are_padding() {
        let zeros = [0; BLOCK_BYTES];
        assert_eq!(find(NONCE, 4096, &zeros), Found::Unreadable, "a block of zeros was never written");
        for left in [1, RECORD_HEADER_BYTES - 1, RECORD_HEADER_BYTES, BLOCK_BYTES - 1] {
            let offset = 8192 - left as u64;
            assert_eq!(find(NONCE, offset, &zeros[..left]), Found::Padding, "{left}");
            let mut other = zeros[..left].to_vec();
            other[left - 1] = 1;
            assert!(!matches!(find(NONCE, offset, &other), Found::Padding), "{left}");
        }
    }

    #[test]
    fn the_longest_mutation_has_room() {
        let longest = vec![7; MUTATION_BYTES_MAX];
        let bytes = records(4096, &[&longest]);
        assert!(matches!(find(NONCE, 4096, &bytes), Found::Record(hint) if hint.mutation == longest));
        let longer = vec![7; MUTATION_BYTES_MAX + 1];
        let hint = Hint { written_at: 0, gc_grace_seconds: 0, mutation: &longer };
        assert!(std::panic::catch_unwind(|| push(&mut Vec::new(), &hint)).is_err());
    }
}
