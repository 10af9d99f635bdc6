//! Lanes: messages of one lane stay in order and have a connection of their own, so that bulk never delays the others.

/// What a message competes with on its way to another node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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

    /// The lane with this number in a greeting.
    pub(crate) fn of_number(number: u8) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| *lane as u8 == number)
    }
}
