//! Lanes: messages of one lane stay in order and have a connection of their own, so that bulk never delays the others.

use num_enum::TryFromPrimitive;

/// What a message competes with on its way to another node, by the numbers in greetings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, TryFromPrimitive)]
#[repr(u8)]
pub enum Lane {
    /// Small messages that the cluster lives by: gossip, the metadata log, pings.
    Urgent = 0,
    /// Requests of clients and their answers.
    Requests = 1,
    /// Whatever can wait: streams, hints, repair.
    Bulk = 2,
}

impl Lane {
    /// All lanes, in the order of their numbers.
    pub const ALL: [Lane; 3] = [Lane::Urgent, Lane::Requests, Lane::Bulk];
}
