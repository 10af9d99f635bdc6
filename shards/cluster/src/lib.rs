//! Rules of a cluster without I/O: which nodes and cores have the data of a token, how many of them must answer a
//! request, and what its client is told if they do not.
//!
//! Modules, from the bottom up; each imports only those before it:
//! 1. [`topology`]: nodes, their tokens, data centres and racks, which of them are alive, and how fast they answer.
//!    [`replication`]: the strategies of keyspaces. [`gossip`]: what nodes say about themselves, and which of them
//!    live. [`snitch`]: where a node is.
//! 2. [`consistency`]: levels as numbers.
//! 3. [`tablets`]: ranges of single tables and their replicas. [`sub_partitions`]: over how many partitions the rows of
//!    a key are spread. [`key_growth`]: which keys are spread over more by themselves. [`placement`]: who owns what.
//! 4. [`plan`]: the steps of requests. [`speculation`]: how long a read waits before it asks one more replica.
//!    [`allocation`]: tokens for a node that joins. [`repair`]: where replicas differ. [`units`]: what requests cost,
//!    and how units are shared out.
//!
//! [`metadata`] is what all nodes agree on, one change after the other; the topology is derived from it.

pub mod allocation;
pub mod consistency;
pub mod gossip;
pub mod key_growth;
pub mod metadata;
pub mod placement;
pub mod plan;
pub mod repair;
pub mod replication;
pub mod snitch;
pub mod speculation;
pub mod sub_partitions;
pub mod tablets;
pub mod topology;
pub mod units;
