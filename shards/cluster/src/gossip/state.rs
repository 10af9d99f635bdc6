//! What a node says about itself.

use std::sync::Arc;

/// Longest value of a state, in bytes.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Longest encoded state of a node, in bytes.
pub const STATE_BYTES_MAX: usize = 16 << 10;
/// The heartbeat of a node that has said that it stops.
pub const SHUTDOWN_HEARTBEAT: u32 = i32::MAX as u32;

/// What a value is about, by Cassandra's numbers; numbers from 200 on are this program's own. Numbers that a newer
/// version has added are kept and handed on like the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ApplicationState(pub u8);

impl ApplicationState {
    /// Bytes on disk.
    pub const LOAD: ApplicationState = ApplicationState(1);
    /// The version of the schema.
    pub const SCHEMA: ApplicationState = ApplicationState(2);
    /// The data centre.
    pub const DC: ApplicationState = ApplicationState(3);
    /// The rack.
    pub const RACK: ApplicationState = ApplicationState(4);
    /// The version of Cassandra that the node is like.
    pub const RELEASE_VERSION: ApplicationState = ApplicationState(5);
    /// The version of messages between nodes.
    pub const NET_VERSION: ApplicationState = ApplicationState(11);
    /// The node's id.
    pub const HOST_ID: ApplicationState = ApplicationState(12);
    /// The node's tokens.
    pub const TOKENS: ApplicationState = ApplicationState(13);
    /// Whether clients are served.
    pub const RPC_READY: ApplicationState = ApplicationState(14);
    /// The address within the data centre.
    pub const INTERNAL_ADDRESS_AND_PORT: ApplicationState = ApplicationState(15);
    /// The address for clients.
    pub const NATIVE_ADDRESS_AND_PORT: ApplicationState = ApplicationState(16);
    /// Where the node is in its life: see [`EndpointState::status`].
    pub const STATUS_WITH_PORT: ApplicationState = ApplicationState(17);
    /// The versions of the SSTables that it has.
    pub const SSTABLE_VERSIONS: ApplicationState = ApplicationState(18);
    /// The last epoch of the metadata log that the node has applied.
    pub const EPOCH: ApplicationState = ApplicationState(200);
    /// The number of its cores.
    pub const SHARDS: ApplicationState = ApplicationState(201);
    /// The largest difference, in milliseconds, of its clock from that of another node.
    pub const CLOCK: ApplicationState = ApplicationState(202);
    /// The bytes that it stores of keyspaces with a quota of them.
    pub const STORED: ApplicationState = ApplicationState(203);

    /// The name that `nodetool gossipinfo` prints, if this version knows it.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::LOAD => "LOAD",
            Self::SCHEMA => "SCHEMA",
            Self::DC => "DC",
            Self::RACK => "RACK",
            Self::RELEASE_VERSION => "RELEASE_VERSION",
            Self::NET_VERSION => "NET_VERSION",
            Self::HOST_ID => "HOST_ID",
            Self::TOKENS => "TOKENS",
            Self::RPC_READY => "RPC_READY",
            Self::INTERNAL_ADDRESS_AND_PORT => "INTERNAL_ADDRESS_AND_PORT",
            Self::NATIVE_ADDRESS_AND_PORT => "NATIVE_ADDRESS_AND_PORT",
            Self::STATUS_WITH_PORT => "STATUS_WITH_PORT",
            Self::SSTABLE_VERSIONS => "SSTABLE_VERSIONS",
            Self::EPOCH => "HELENUS_EPOCH",
            Self::SHARDS => "HELENUS_SHARDS",
            Self::CLOCK => "HELENUS_CLOCK",
            Self::STORED => "HELENUS_STORED",
            _ => return None,
        })
    }
}

/// A value and the version at which its node set it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionedValue {
    /// Versions of one generation grow with every value and every heartbeat.
    pub version: u32,
    /// The value in Cassandra's text form.
    pub value: Arc<str>,
}

/// What is known of a node, or a part of it that is newer than some version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointState {
    /// The number of the node's start: seconds since 1970, or more if an earlier start had that many.
    pub generation: u32,
    /// The version of its last heartbeat; [`SHUTDOWN_HEARTBEAT`] once it has said that it stops.
    pub heartbeat: u32,
    /// In ascending order of states.
    values: Vec<(ApplicationState, VersionedValue)>,
}

impl EndpointState {
    /// A state without values.
    pub fn new(generation: u32, heartbeat: u32) -> EndpointState {
        EndpointState { generation, heartbeat, values: Vec::new() }
    }

    /// All values in ascending order of their numbers.
    pub fn values(&self) -> &[(ApplicationState, VersionedValue)] {
        &self.values
    }

    /// A value with its version.
    pub fn get(&self, state: ApplicationState) -> Option<&VersionedValue> {
        self.values.binary_search_by_key(&state, |(state, _)| *state).ok().map(|at| &self.values[at].1)
    }

    /// A value's text.
    pub fn value(&self, state: ApplicationState) -> Option<&str> {
        self.get(state).map(|value| &*value.value)
    }

    /// The highest version of the heartbeat and all values: what a digest names.
    pub fn version(&self) -> u32 {
        self.values.iter().map(|(_, value)| value.version).fold(self.heartbeat, u32::max)
    }

    /// The part that is newer than `version`.
    pub(super) fn newer_than(&self, version: u32) -> EndpointState {
        let values = self.values.iter().filter(|(_, value)| value.version > version).cloned().collect();
        EndpointState { generation: self.generation, heartbeat: self.heartbeat, values }
    }

    /// Replaces a value unless the one at hand is as new. Returns whether it did.
    pub fn replace(&mut self, state: ApplicationState, value: VersionedValue) -> bool {
        match self.values.binary_search_by_key(&state, |(state, _)| *state) {
            Ok(at) if self.values[at].1.version >= value.version => return false,
            Ok(at) => self.values[at].1 = value,
            Err(at) => self.values.insert(at, (state, value)),
        }
        true
    }

    /// The first word of STATUS_WITH_PORT: `NORMAL`, `BOOT`, `LEAVING`, `LEFT`, `shutdown` and the like; empty if the
    /// node has not said.
    pub fn status(&self) -> &str {
        let status = self.value(ApplicationState::STATUS_WITH_PORT).unwrap_or_default();
        status.split(',').next().unwrap_or_default()
    }

    /// Whether the node has left the ring for good or was removed from it.
    pub fn has_left(&self) -> bool {
        matches!(self.status(), "LEFT" | "removed")
    }

    /// Whether the node has said that it stops.
    pub fn is_shut_down(&self) -> bool {
        self.status() == "shutdown"
    }

    /// Whether the node is not to be called up, even if it answers.
    pub(super) fn is_dead_state(&self) -> bool {
        self.has_left() || self.is_shut_down() || matches!(self.status(), "removing" | "hibernate")
    }

    /// When a node that has left is to be forgotten, in milliseconds since 1970, from `LEFT,<token>,<expiry>`.
    pub(super) fn expiry(&self) -> Option<i64> {
        let status = self.value(ApplicationState::STATUS_WITH_PORT)?;
        status.split(',').nth(2)?.parse().ok()
    }
}
