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
