//! What gossip tells the rest of the node.

use super::clock::ClockOffset;
use super::state::ApplicationState;
use std::net::SocketAddr;
use std::time::Duration;

/// Something that changed. The states themselves are read from the [`Gossiper`](super::Gossiper).
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A node is heard of for the first time. It is down until an `Up` follows.
    Discovered(SocketAddr),
    /// A known node has started again. It is down until an `Up` follows; there is no `Down` for its end.
    Restarted(SocketAddr),
    /// A node has answered directly after it was down.
    Up(SocketAddr),
    /// A node was convicted, or has said that it stops.
    Down(SocketAddr),
    /// A value of a node that was known before, or of a node that has started again, is new.
    Changed {
        /// The node.
        address: SocketAddr,
        /// Which of its values.
        state: ApplicationState,
    },
    /// A node says that it has left the ring, or another says so of it.
    Left(SocketAddr),
    /// A node is no longer known: it had left long ago, or was silent and no member.
    Removed {
        /// The node.
        address: SocketAddr,
        /// Why.
        reason: Removal,
    },
    /// This process did not run for that long, so that nobody is convicted for a while.
    LocalPause(Duration),
    /// The clocks of this node and of another differ by more than [`SKEW_REPORTED`](super::SKEW_REPORTED).
    ClockSkewed {
        /// The other node.
        address: SocketAddr,
        /// How far it is ahead.
        offset: ClockOffset,
    },
    /// They no longer do.
    ClockAgrees(SocketAddr),
    /// A node of another cluster sent a SYN; it is not answered.
    ClusterNameMismatch {
        /// The other node.
        from: SocketAddr,
        /// The name of its cluster.
        theirs: String,
    },
    /// A node with another partitioner sent a SYN; it is not answered.
    PartitionerMismatch {
        /// The other node.
        from: SocketAddr,
        /// The class name of its partitioner.
        theirs: String,
    },
    /// A generation lies more than a year ahead of this node's clock; the state is ignored.
    InvalidGeneration {
        /// The node.
        address: SocketAddr,
        /// What is said to be its generation.
        generation: u32,
    },
    /// Others knew a later generation of this node than its own, so it has taken this higher one.
    GenerationRaised(u32),
    /// Others say that this node has left the ring.
    Expelled,
}

/// Why a node is no longer known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// It had left, and the time to remember it is over.
    Expired,
    /// It is no member of the cluster and has been silent for this long.
    Silent(Duration),
    /// It was dead and is no member any more.
    NoMember,
}
