//! A member of the cluster, as the metadata knows it.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A node that belongs to the cluster, as it described itself when it joined or started last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Where it is on its way into or out of the ring.
    pub state: MemberState,
    /// Address and port for other nodes.
    pub address: SocketAddr,
    /// Address and port for clients.
    pub native_address: SocketAddr,
    /// Its data centre, which changes by the operator's word only.
    pub data_center: String,
    /// Its rack, which changes by the operator's word only.
    pub rack: String,
    /// Its tokens in their textual form; taken when it joined, and never changed.
    pub tokens: Vec<String>,
    /// The number of its cores.
    pub shards: u16,
    /// How many of the highest bits of a token do not tell its core.
    pub ignore_msb: u8,
    /// The version of Cassandra that it imitates.
    pub release_version: String,
    /// The oldest and the newest version of messages between nodes that it speaks.
    pub messages: (u16, u16),
    /// What it can do beyond its version, one bit each.
    pub features: u64,
}

/// Where a member is on its way into or out of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MemberState {
    /// It has claimed its tokens and owns no range yet: `UJ` or `DJ`.
    Joining,
    /// It owns the ranges of its tokens: `UN` or `DN`.
    Normal,
    /// It still owns them, and gives them up: `UL` or `DL`.
    Leaving,
    /// It still owns them, and is getting other tokens: `UM` or `DM`.
    Moving,
}
