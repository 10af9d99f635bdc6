//! Who owns what and who must answer: ring, replication, consistency. Pure.

pub mod consistency;
pub mod replication;
