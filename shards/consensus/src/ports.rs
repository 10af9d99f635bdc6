//! What a group needs of its owner: durable storage, a way to its peers, and the state that commands change.
//!
//! All three belong to one shard; their futures are not `Send`. Bytes that pass through them are opaque to the owner,
//! except for commands, answers and snapshots of the state machine, which are opaque to the group.

use std::fmt;
use std::future::Future;
use uuid::Uuid;

/// The durable storage of one member.
///
/// The group makes one call at a time. Every function but [`LogStore::save_committed`] returns once its effect survives
/// a power failure. A crash during a call leaves all of its effect or nothing, except that [`LogStore::append`] may
/// leave the first few of its records. After an error the member takes no further part in the group until it is started
/// again.
pub trait LogStore: 'static {
    /// Everything stored, read once when the member starts.
    fn load(&self) -> impl Future<Output = Result<Stored, StoreError>>;

    /// Replaces the vote.
    fn save_vote(&self, vote: Vec<u8>) -> impl Future<Output = Result<(), StoreError>>;

    /// Replaces the mark up to which the member knows records to be decided. It only speeds up the next start, so it
    /// need not be durable when this returns.
    fn save_committed(&self, mark: Vec<u8>) -> impl Future<Output = Result<(), StoreError>>;

    /// Adds records whose indexes follow each other and the last one stored. One record may have little more than
    /// [`crate::COMMAND_BYTES_MAX`] bytes; several together have at most 1 MiB.
    fn append(&self, records: Vec<Record>) -> impl Future<Output = Result<(), StoreError>>;

    /// Removes the records from index `from` on.
    fn truncate(&self, from: u64) -> impl Future<Output = Result<(), StoreError>>;

    /// Replaces the purge mark and removes the records up to index `up_to`, itself included.
    fn purge(&self, up_to: u64, mark: Vec<u8>) -> impl Future<Output = Result<(), StoreError>>;

    /// Replaces the snapshot.
    fn save_snapshot(&self, snapshot: Vec<u8>) -> impl Future<Output = Result<(), StoreError>>;
}

/// What a [`LogStore`] holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stored {
    /// The last saved vote.
    pub vote: Option<Vec<u8>>,
    /// The last saved mark of decided records, or an older one.
    pub committed: Option<Vec<u8>>,
    /// The last saved purge mark.
    pub purged: Option<Vec<u8>>,
    /// The last saved snapshot.
    pub snapshot: Option<Vec<u8>>,
    /// The records in order of their indexes.
    pub records: Vec<Record>,
}

/// A record of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its place in the log; the first record of a group has index 0.
    pub index: u64,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Storage, or the state machine, that failed or holds what cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// The way to other members.
pub trait Transport: 'static {
    /// Hands `message` to [`crate::Group::handle`] of the member `target` and returns what that returns. It may fail,
    /// take forever, or deliver the message more than once; the group has its own timeouts and drops the future then.
    fn call(&self, target: Uuid, message: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, Unreachable>>;
}

/// Why no answer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// The message was not sent: the target has certainly not seen it.
    NotSent,
    /// The message was sent, and the target may have seen it.
    NoAnswer,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreachable::NotSent => "the message could not be sent",
            Unreachable::NoAnswer => "no answer came",
        })
    }
}

impl std::error::Error for Unreachable {}

/// The state that the members agree on, as one member holds it.
///
/// The group calls one function at a time. The state need not be durable: after a start the group calls
/// [`StateMachine::restore`] with the last snapshot, if there is one, and [`StateMachine::apply`] with every decided
/// command after it, so a command may be applied again by the next process and must have the same effect then.
pub trait StateMachine: 'static {
    /// Applies the command at `index` of the log and returns the answer for its proposer. All members apply the same
    /// commands in the same order, and must come to the same state and answer, of at most [`crate::ANSWER_BYTES_MAX`]
    /// bytes. An error takes the member out of the
    /// group until it is started again; a command that is refused is an answer, not an error.
    fn apply(&self, index: u64, command: &[u8]) -> impl Future<Output = Result<Vec<u8>, StoreError>>;

    /// The state after the last applied command, for [`StateMachine::restore`].
    fn snapshot(&self) -> Vec<u8>;

    /// Replaces the state by the one of a snapshot that was taken after the command at `index`.
    fn restore(&self, index: u64, snapshot: &[u8]) -> impl Future<Output = Result<(), StoreError>>;
}
