//! Gossip: what the nodes of a cluster tell one another about themselves every second, and which of them are alive.
//! It is a rumour: it never changes who owns what.
//!
//! 1. A node describes itself by an [`EndpointState`]: its generation (which grows with each start), its heartbeat
//!    (which grows each second) and values by [`ApplicationState`], each with a version.
//! 2. Each second ([`Gossiper::tick`]) it sends the digests of all states that it knows to one live node, perhaps to a
//!    dead one, and perhaps to a seed: a SYN. The other answers with states that are newer than the digests and with
//!    digests of what it lacks (ACK); the first sends that (ACK2). [`message`] has the bytes.
//! 3. A heartbeat that grows is reported to the [`failure_detector`], which convicts a node whose heartbeats stay away.
//!    A node that was dead is called up only after it has answered an echo directly.
//! 4. What changed is told by [`Event`]s.
//!
//! Invariants: a state that is replaced is never older than its successor (generation first, then versions); a node
//! has all values of a state up to the highest version that its digest names, because values of one state travel
//! together and are applied only on top of what they were computed from.
//!
//! Pure: the caller passes both clocks and randomness in, sends the messages, and decides who is a member.

mod clock;
mod endpoint;
mod event;
mod exchange;
pub mod failure_detector;
mod gossiper;
pub mod message;
mod rounds;
mod state;

#[cfg(test)]
pub(crate) mod simulation_tests;
#[cfg(test)]
mod tests;

pub use clock::{ClockOffset, Clocks, SKEW_REPORTED};
pub use event::{Event, Removal};
pub use gossiper::{Departure, ENDPOINTS_MAX, Gossiper, Options};
pub use message::Message;
pub use state::{
    ApplicationState, EndpointState, SHUTDOWN_HEARTBEAT, STATE_BYTES_MAX, VALUE_BYTES_MAX, VersionedValue,
};
