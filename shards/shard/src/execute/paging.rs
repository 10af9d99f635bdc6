//! Paging states: what a client sends back to get the next page.
//!
//! ```text
//! version u8 = 3
//! fingerprint u64        of the statement's text and table
//! remaining u64          rows that LIMIT still allows; u64::MAX without LIMIT
//! partition rows u64     rows returned so far from the last row's partition, for PER PARTITION LIMIT
//! key length u16, key
//! clustering flag u8     1: the comparable clustering follows, up to the end
//! ```
//! For DESCRIBE: version u8 = 2, fingerprint u64, first row u32. All integers little-endian.
//!
//! Invariants: a state names a position in the data, never a core, so that it stays valid if the number of cores
//! changes; bytes that are not a state of this statement are refused.

use model::query::{Position, Resume};
use model::{DecoratedKey, Failure, Partitioner};

const VERSION_ROWS: u8 = 3;
const VERSION_DESCRIBE: u8 = 2;

/// Longest paging state accepted, bytes: a key, a comparable clustering with every byte escaped, and the fixed fields.
pub(crate) const PAGING_STATE_BYTES_MAX: usize = 1 << 18;

/// Where a SELECT continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PagingState {
    /// The statement's fingerprint.
    pub(crate) fingerprint: u64,
    /// Rows that LIMIT still allows; [`u64::MAX`] without LIMIT.
    pub(crate) remaining: u64,
    /// The position after the last row returned.
    pub(crate) resume: Resume,
}

/// The failure (0x000A) for bytes that are not a paging state of this statement.
pub(crate) fn invalid_state() -> Failure {
    Failure::protocol("Invalid value for the paging state")
}

impl PagingState {
    /// The bytes that the client gets.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Resume { position, partition_rows } = &self.resume;
        let key = &position.key.key;
        let comparable = position.comparable.as_deref();
        let mut out = Vec::with_capacity(28 + key.len() + comparable.map_or(0, <[u8]>::len));
        out.push(VERSION_ROWS);
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        out.extend_from_slice(&self.remaining.to_le_bytes());
        out.extend_from_slice(&partition_rows.to_le_bytes());
        out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        out.extend_from_slice(key);
        out.push(comparable.is_some().into());
        out.extend_from_slice(comparable.unwrap_or_default());
        out
    }

    /// Decodes the bytes of a client. Fails unless `encode` made them for the statement of `fingerprint`.
    pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8], fingerprint: u64) -> Result<PagingState, Failure> {
        if bytes.len() > PAGING_STATE_BYTES_MAX {
            return Err(invalid_state());
        }
        let state = PagingState::parse(partitioner, bytes).ok_or_else(invalid_state)?;
        if state.fingerprint != fingerprint || state.remaining == 0 {
            return Err(invalid_state());
        }
        Ok(state)
    }

    fn parse(partitioner: Partitioner, bytes: &[u8]) -> Option<PagingState> {
        let rest = bytes.strip_prefix(&[VERSION_ROWS])?;
        let (fingerprint, rest) = rest.split_first_chunk()?;
        let (remaining, rest) = rest.split_first_chunk()?;
        let (partition_rows, rest) = rest.split_first_chunk()?;
        let (key_len, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes(*key_len).into())?;
        let comparable = match rest.split_first()? {
            (0, []) => None,
            (1, comparable) => Some(comparable.into()),
            _ => return None,
        };
        Some(PagingState {
            fingerprint: u64::from_le_bytes(*fingerprint),
            remaining: u64::from_le_bytes(*remaining),
            resume: Resume {
                position: Position { key: DecoratedKey::new(partitioner, key), comparable },
                partition_rows: u64::from_le_bytes(*partition_rows),
            },
        })
    }
}

/// The paging state of a DESCRIBE whose next row is `row`.
pub(crate) fn encode_describe(fingerprint: u64, row: usize) -> Vec<u8> {
    let mut out = vec![VERSION_DESCRIBE];
    out.extend_from_slice(&fingerprint.to_le_bytes());
    out.extend_from_slice(&(row as u32).to_le_bytes());
    out
}

/// The first row of a DESCRIBE's next page.
pub(crate) fn decode_describe(bytes: &[u8], fingerprint: u64) -> Result<usize, Failure> {
    let parse = || {
        let rest = bytes.strip_prefix(&[VERSION_DESCRIBE])?;
        let (found, rest) = rest.split_first_chunk()?;
        let row: &[u8; 4] = rest.try_into().ok()?;
        (u64::from_le_bytes(*found) == fingerprint).then_some(u32::from_le_bytes(*row) as usize)
    };
    parse().ok_or_else(invalid_state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Partitioner;

    fn state(key: &[u8], comparable: Option<&[u8]>) -> PagingState {
        let position =
            Position { key: DecoratedKey::new(Partitioner::Murmur3, key), comparable: comparable.map(Into::into) };
        PagingState { fingerprint: 77, remaining: u64::MAX, resume: Resume { position, partition_rows: 3 } }
    }

    #[test]
    fn a_state_reads_back() {
        for state in [state(b"k", None), state(b"k", Some(b"")), state(&[9; 65535], Some(&[7; 100]))] {
            assert_eq!(PagingState::decode(Partitioner::Murmur3, &state.encode(), 77), Ok(state));
        }
        assert_eq!(decode_describe(&encode_describe(5, 300), 5), Ok(300));
    }

    #[test]
    fn what_is_no_state_of_the_statement_is_refused() {
        let good = state(b"key", Some(b"abc")).encode();
        assert!(PagingState::decode(Partitioner::Murmur3, &good, 78).is_err());
        // Every prefix that ends before the clustering, and every other first byte.
        for len in 0..31 {
            assert!(PagingState::decode(Partitioner::Murmur3, &good[..len], 77).is_err(), "{len}");
        }
        for version in (0..=255).filter(|&version| version != VERSION_ROWS) {
            let mut bad = good.clone();
            bad[0] = version;
            assert_eq!(PagingState::decode(Partitioner::Murmur3, &bad, 77), Err(invalid_state()));
            assert!(decode_describe(&bad, 77).is_err());
        }
        let mut none_left = good.clone();
        none_left[9..17].fill(0);
        assert!(PagingState::decode(Partitioner::Murmur3, &none_left, 77).is_err());
    }

    #[test]
    fn the_longest_state_is_taken_and_one_more_byte_is_not() {
        let head = state(b"k", Some(b"")).encode().len();
        let longest = state(b"k", Some(&vec![1; PAGING_STATE_BYTES_MAX - head])).encode();
        assert!(PagingState::decode(Partitioner::Murmur3, &longest, 77).is_ok());
        let longer = state(b"k", Some(&vec![1; PAGING_STATE_BYTES_MAX - head + 1])).encode();
        assert!(PagingState::decode(Partitioner::Murmur3, &longer, 77).is_err());
    }
}
