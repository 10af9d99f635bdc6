//! Thread-per-core runtime: everything that is not pure computation goes through here.
//!
//! A *node* is a set of shards; a *shard* is one executor on one core. Code above this crate sees free functions and
//! concrete types (`spawn`, `now`, `sleep`, `File`, `Listener`, `Mesh`); which backend stands behind them is decided
//! when the node starts:
//!
//! * `uring`: one thread and one io_uring per shard (production);
//! * `glommio`: one thread and one executor of the crate glommio per shard, if the feature `glommio` is on (a second,
//!   independent implementation to compare the first with);
//! * `sim`: many nodes and shards on one thread, virtual time, seeded scheduler, faulty disk and network.
//!
//! Invariants:
//! * The executor sets the current shard before each poll; all ambient functions panic outside a shard.
//! * Dropping an I/O future never cancels the operation: its slot owns the buffer until completion, so whether a
//!   dropped write took effect is unknown.
//! * In simulation every I/O completes at a later event, never at first poll. A crash marks the node dead first and
//!   then drops its tasks, so calls from `Drop` do nothing.
//! * This crate knows nothing of databases.
//!
//! Start at [`start`] and at the context, `context.rs`: it is what every free function here reads. The loop of a real
//! shard is in `uring/reactor.rs`, tasks and wakers are in `executor.rs`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this crate is the seam: it alone talks to the system, and its threads share a few locks"
)]

pub mod allocator;
pub mod blocking;
pub mod buffer;
mod calculation;
mod class;
mod context;
mod counts;
mod executor;
pub mod fault;
pub mod file;
mod file_types;
pub mod gate;
mod generator;
#[cfg(feature = "glommio")]
mod glommio;
mod hash;
mod ids;
mod instant;
pub mod local;
pub mod machine;
pub mod mesh;
pub mod metrics;
mod prefetch;
pub mod rng;
mod seal;
pub mod shares;
pub mod signal;
pub mod sim;
pub mod socket;
mod start;
pub mod sync;
mod system;
pub mod time;
pub mod uring;

pub use buffer::AlignedBuf;
pub use calculation::calculate;
pub use class::Class;
pub use executor::{JoinHandle, set_shares, shares_of, spawn, spawn_in, yield_if_needed, yield_now};
pub use file::File;
pub use hash::{HashMap, HashSet, hash64};
pub use ids::{NodeId, ShardId};
pub use instant::Instant;
pub use mesh::{Endpoint, Mesh, current_node, current_shard, shard_count};
pub use prefetch::prefetch;
pub use seal::Seal;
pub use socket::{Accepted, Listener, RecvBuf, Stream};
pub use start::{Backend, Options, start};
pub use time::{now, now_if_running, sleep, sleep_until, timeout, wall_micros};
