//! The kinds of ports for clients.

use crate::config::Encryption;

/// A kind of port for clients.
#[derive(Clone, Copy)]
pub(crate) struct PortKind {
    /// Whether the client's source port names the shard of a connection. Else it goes to the shard with the fewest.
    pub(crate) is_shard_aware: bool,
    /// Whether connections are encrypted.
    pub(crate) encryption: Encryption,
}

/// The ports at which the client's source port names the shard of a connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct ShardAwarePorts {
    pub(crate) plain: Option<u16>,
    pub(crate) encrypted: Option<u16>,
}
