//! The CQL ports.
//!
//! `connections` accepts and places connections; `receiver` reads the requests of one and begins them; `dispatch` has a
//! request executed by the shard and encodes the answer into the `connection`'s output; through the `registry` the
//! shard reaches its connections. Modules use those before them: `context`, `connection`, `registry`, `handshake` and
//! `dispatch`, `receiver`, `connections`. Only `output_memory`, which belongs to the context, knows connections.
//!
//! The codecs are in the crate `wire`, executing statements in the crate `shard`.

mod balance;
pub mod connection;
pub(crate) mod connections;
pub(crate) mod context;
mod dispatch;
mod handshake;
mod login;
mod metrics;
mod output_memory;
pub(crate) mod rate;
pub mod receiver;
pub(crate) mod registry;
mod request_memory;
mod schema_change;

pub use connections::DRAIN_MAX;
