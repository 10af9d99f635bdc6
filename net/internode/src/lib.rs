//! Links between nodes: connections that say who they are before anything else, and carry messages in lanes.
//!
//! 1. Each core has its own [`Links`] and dials its own connections, one for each node and [`Lane`], when the first
//!    message needs it. Core i talks to core i modulo the number of the other node's cores.
//! 2. A connection may be encrypted ([`Keys`]); then the handshake of TLS comes before anything else.
//! 3. Both sides greet ([`greeting`]): cluster, host id, cores, versions. Each may refuse the other, by name.
//! 4. Messages travel in frames ([`frame`]) with checksums. A request is answered on the connection that it came by;
//!    a verb is a number, and a body is bytes, that only the layers above understand.
//! 5. What waits is bounded in bytes and has a deadline. What has expired is dropped on both sides, and counted.
//!
//! Invariants: nothing is believed of a connection before its greeting has passed; a call ends at its deadline at the
//! latest; a slow or silent node, or a stranger, delays nobody else; no received bytes panic.
//!
//! The options are Cassandra's ([`Options`]). The listening socket and what the verbs mean are the node's
//! ([`Handler`]); so is handing an accepted connection to the core that [`route`] names.

mod calls;
mod capacity;
mod core_state;
mod dialing;
mod endpoint;
mod error;
pub mod frame;
pub mod greeting;
mod handler;
mod identity;
mod inbound;
mod lane;
mod links;
mod metrics;
mod options;
mod outbound;
mod peer_clock;
mod replier;
mod strangers;

pub use calls::{CALLS_MAX, Call};
pub use dialing::route;
pub use error::{CallError, FailureReason};
pub use handler::Handler;
pub use identity::{Identity, NAME_BYTES_MAX, PeerIdentity, Refusal, RefusalReason, Versions};
pub use lane::Lane;
pub use links::{Links, Presence};
pub use metrics::{InboundMetrics, OutboundMetrics, StrangerMetrics, Volume};
pub use options::{Compression, Keys, Options, QueueLimits};
pub use outbound::{REST_MAX, REST_MIN};
pub use replier::Replier;
pub use strangers::GREETINGS_MAX;
pub use tls::Encryption;
