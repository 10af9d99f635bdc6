//! One log of commands that a group of nodes agrees on: Raft behind an API of its own.
//!
//! A node starts its member with [`Group::start`], giving it durable storage ([`LogStore`]), a way to the other members
//! ([`Transport`]) and the state that commands change ([`StateMachine`]). Commands, answers and snapshots are opaque
//! bytes; members are named by host id. Voters decide, learners listen; [`choose_voters`] says who should vote.
//!
//! The protocol is the crate openraft's, on one shard: `executor` gives it the tasks, clock and randomness of the crate
//! `runtime`, `log` and `machine` the owner's storage and state, `network` the way to others. Nothing of it is seen
//! from outside. Added here: forwarding to the leader, proposals that are applied once however often they are sent, a
//! leader that refuses while it has no majority, snapshots in parts, and recovery of a lost majority.
//!
//! Invariants:
//! * All members apply the same commands in the same order; a proposal that was answered is applied by every member
//!   that goes on, whatever crashes, unless an operator calls [`Group::recover`].
//! * A member answers nothing that depends on a write before that write is durable, and nothing at all after one
//!   failed.
//! * Bytes from peers and from the store never panic.

mod bytes;
mod config;
mod erased;
mod error;
mod executor;
mod failure;
mod group;
mod limits;
mod log;
mod machine;
mod member;
mod message;
mod network;
mod ports;
mod records;
mod recovery;
mod snapshot_parts;
mod status;
pub mod testing;
mod types;
mod voters;

pub use config::{Config, Timings};
pub use error::ProposeError;
pub use group::{Group, WeakGroup};
pub use limits::{ANSWER_BYTES_MAX, COMMAND_BYTES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX, SNAPSHOT_BYTES_MAX};
pub use ports::{LogStore, Record, StateMachine, StoreError, Stored, Transport, Unreachable};
pub use status::Status;
pub use voters::{Candidate, MANY_NODES, VOTERS_MAX, VOTERS_OF_MANY_MAX, choose_voters};
