//! Rules of a cluster without I/O: how many replicas a keyspace has, and how many of them must answer a request.

pub mod consistency;
pub mod replication;
