//! This node's part in what the cluster agrees on: the log and the state that it changes, on shard 0.
//!
//! 1. A start opens the log ([`membership::open`]). The first start of a node without other seeds makes a cluster of
//!    one; any other node that belongs to no cluster yet joins one before it serves clients ([`joining`]).
//! 2. The group (crate `consensus`) decides on entries. [`machine`] applies them: changes of the schema are made on all
//!    cores, changes of members place data anew.
//! 3. While a node leads the group it keeps the group's members equal to the metadata's, and chooses who votes
//!    ([`group_members`]).
//!
//! Operations that move data begin in [`ring_operations`]; nodes that gain data by them fetch it in [`receiving`], once
//! older requests have ended ([`barrier`]). Leaving is in [`leaving`], moving and rebuilding in [`moving`], truncations
//! while members are down are in [`owed_truncations`]. Tablets are split and moved in [`tablet_balance`], and what they
//! leave behind is removed in [`tablet_cleaning`]; [`sub_partition_growth`] is about tables with write sharding, and
//! [`key_growth`] begins it for keys that grow by themselves. What
//! nodes ask each other for this goes to shard 0 of the other node ([`peers`]).
//!
//! Invariants: the metadata are stored with the epoch that they were applied at, so an entry takes effect once, but for
//! a crash in the middle of it; then it takes effect again, which changes nothing more.

pub(crate) mod barrier;
pub(crate) mod group_members;
pub(crate) mod joining;
mod key_growth;
pub(crate) mod leaving;
mod log_store;
mod machine;
pub(crate) mod membership;
pub(crate) mod moving;
pub(crate) mod owed_truncations;
mod peer_rows;
pub(crate) mod peers;
pub(crate) mod receiving;
pub(crate) mod ring_operations;
mod rows;
mod settling;
mod snapshot;
mod stale_data;
mod stored_metadata;
mod sub_partition_growth;
mod tablet_balance;
mod tablet_cleaning;
pub(crate) mod tablet_requests;
