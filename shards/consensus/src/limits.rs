//! The limits of lengths in records and messages.

/// The longest command.
pub const COMMAND_BYTES_MAX: usize = 8 << 20;
/// The longest answer of the state machine to a command.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 512 << 20;
/// How many bytes of a snapshot one message carries.
pub(crate) const SNAPSHOT_PART_BYTES: usize = 1 << 20;
/// How many bytes of commands one message carries, if it carries more than one command.
pub(crate) const APPEND_BYTES_MAX: usize = 1 << 20;
/// The longest message: one command and what surrounds it. Transports must carry messages of that length.
pub const MESSAGE_BYTES_MAX: usize = COMMAND_BYTES_MAX + (64 << 10);
/// The highest term and the highest index that a member believes: members count on from both, and elections never come
/// near it.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;
/// The most members of a group.
pub const MEMBERS_MAX: usize = 4_096;
