//! The CQL ports.
//!
//! `connections` accepts and places connections; `receiver` reads the requests of one and begins them; `dispatch` has a
//! request executed by the shard and encodes the answer into the `connection`'s output. `events` is what the shard asks
//! of its connections. Modules use those before them: `context`, `connection`, `events`, `handshake` and `dispatch`,
//! `receiver`, `connections`.
//!
//! The codecs are in the crate `wire`, executing statements in the crate `shard`.

mod balance;
pub mod connection;
pub(crate) mod connections;
pub(crate) mod context;
mod dispatch;
pub(crate) mod events;
mod handshake;
mod metrics;
pub mod receiver;

pub use connections::DRAIN_MAX;
