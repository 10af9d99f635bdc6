//! Putting together a snapshot that arrives in parts.
//!
//! The leader sends the parts in order and repeats what got no answer; the receiver says where to go on. A part of
//! another snapshot, of the same leader or another one, begins anew.

use crate::limits::{SNAPSHOT_BYTES_MAX, SNAPSHOT_PART_BYTES};
use crate::records::loaded_snapshot;
use crate::types::{SnapshotData, SnapshotMeta, Vote};

/// The parts that have arrived.
#[derive(Default)]
pub(crate) struct SnapshotParts {
    vote: Option<Vote>,
    hash: u64,
    len: u64,
    bytes: Vec<u8>,
}

/// What to do after a part.
pub(crate) enum PartTaken {
    /// Ask for the part at this offset.
    SendOnFrom(u64),
    /// Install the snapshot.
    Complete(Box<(SnapshotMeta, SnapshotData)>),
    /// The bytes are no snapshot.
    Unreadable,
}

/// What the record of a snapshot needs besides its data.
const RECORD_BYTES_MAX: u64 = SNAPSHOT_BYTES_MAX as u64 + (1 << 20);

impl SnapshotParts {
    /// Takes a part.
    pub(crate) fn take(&mut self, vote: Vote, hash: u64, len: u64, offset: u64, part: &[u8]) -> PartTaken {
        if len > RECORD_BYTES_MAX || part.len() > SNAPSHOT_PART_BYTES {
            return PartTaken::Unreadable;
        }
        if (self.vote, self.hash, self.len) != (Some(vote), hash, len) {
            *self = SnapshotParts { vote: Some(vote), hash, len, bytes: Vec::new() };
        }
        let have = self.bytes.len() as u64;
        if offset == have && have + part.len() as u64 <= len {
            self.bytes.extend_from_slice(part);
        }
        if (self.bytes.len() as u64) < len {
            return PartTaken::SendOnFrom(self.bytes.len() as u64);
        }
        let whole = std::mem::take(self);
        if runtime::hash64(&whole.bytes) != hash {
            return PartTaken::Unreadable;
        }
        loaded_snapshot(&whole.bytes).map_or(PartTaken::Unreadable, |read| PartTaken::Complete(Box::new(read)))
    }
}

#[cfg(test)]
mod tests {
    use super::{PartTaken, RECORD_BYTES_MAX, SnapshotParts};
    use crate::limits::SNAPSHOT_PART_BYTES;
    use crate::records::stored_snapshot;
    use crate::types::{SnapshotMeta, Vote};
    use uuid::Uuid;

    fn vote(term: u64) -> Vote {
        Vote::new_committed(term, Uuid::from_u128(1))
    }

    fn offset(taken: PartTaken) -> Option<u64> {
        match taken {
            PartTaken::SendOnFrom(offset) => Some(offset),
            _ => None,
        }
    }

    #[test]
    fn parts_make_the_snapshot_whatever_is_repeated() {
        let record = stored_snapshot(&SnapshotMeta::default(), b"state");
        let (hash, len) = (runtime::hash64(&record), record.len() as u64);
        let mut parts = SnapshotParts::default();
        assert_eq!(offset(parts.take(vote(1), hash, len, 5, &record[5..])), Some(0), "from the beginning");
        assert_eq!(offset(parts.take(vote(1), hash, len, 0, &record[..5])), Some(5));
        assert_eq!(offset(parts.take(vote(1), hash, len, 0, &record[..5])), Some(5), "the same again");
        assert_eq!(offset(parts.take(vote(2), hash, len, 5, &record[5..])), Some(0), "another leader begins anew");
        assert_eq!(offset(parts.take(vote(2), hash, len, 0, &record[..5])), Some(5));
        let PartTaken::Complete(snapshot) = parts.take(vote(2), hash, len, 5, &record[5..]) else {
            panic!("all parts are there")
        };
        assert_eq!(snapshot.1.as_slice(), b"state");
    }

    #[test]
    fn bytes_that_are_no_snapshot_are_refused() {
        let refused = |hash, len, part: &[u8]| {
            matches!(SnapshotParts::default().take(vote(1), hash, len, 0, part), PartTaken::Unreadable)
        };
        assert!(refused(1, 3, &[1, 2, 3]), "another hash");
        assert!(refused(runtime::hash64(&[1, 2, 3]), 3, &[1, 2, 3]));
        assert!(refused(0, RECORD_BYTES_MAX + 1, &[]));
        assert!(!refused(0, RECORD_BYTES_MAX, &[]));
        assert!(refused(0, RECORD_BYTES_MAX, &vec![0; SNAPSHOT_PART_BYTES + 1]));
        // More than was announced is not taken.
        assert_eq!(offset(SnapshotParts::default().take(vote(1), 0, 2, 0, &[1, 2, 3])), Some(0));
    }
}
