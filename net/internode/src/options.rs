//! The options of links, by their names in cassandra.yaml.

use std::net::IpAddr;
use std::time::Duration;
use tls::{ClientContext, ServerContext};

/// Whose bodies are compressed: `internode_compression`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Nobody's.
    #[default]
    None,
    /// Those that go to another data centre: `dc`.
    BetweenDataCenters,
    /// Everybody's.
    All,
}

/// What connections are encrypted with; `None` where none is.
#[derive(Clone, Default, Debug)]
pub struct Keys {
    /// Connections that other nodes make.
    pub inbound: Option<ServerContext>,
    /// Connections that this node makes, to nodes for which [`Handler::encrypts_to`](crate::Handler::encrypts_to) says
    /// so.
    pub outbound: Option<ClientContext>,
}

/// Limits of what waits in one direction. A queue that is empty takes any message, so that a core's share of a reserve
/// never refuses one for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// Bytes of a connection before it draws on the reserves.
    pub capacity_bytes: u64,
    /// Bytes beyond that for all connections between this node and one other. Each core has an equal share.
    pub reserve_endpoint_bytes: u64,
    /// Bytes beyond the capacities for all connections of this node. Each core has an equal share.
    pub reserve_global_bytes: u64,
}

impl Default for QueueLimits {
    fn default() -> QueueLimits {
        QueueLimits { capacity_bytes: 4 << 20, reserve_endpoint_bytes: 128 << 20, reserve_global_bytes: 512 << 20 }
    }
}

/// Options of the links of a node. The defaults are Cassandra's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The address that connections to other nodes come from; `None` leaves the choice to the system.
    pub source: Option<IpAddr>,
    /// `internode_tcp_connect_timeout`: how long connecting and greeting may take.
    pub connect_timeout: Duration,
    /// `internode_tcp_user_timeout`: how long the other side of a connection may be silent before it is given up; zero
    /// for ever.
    pub user_timeout: Duration,
    /// `internode_compression`.
    pub compression: Compression,
    /// `internode_max_message_size`: the most bytes of a body.
    pub message_bytes_max: usize,
    /// `internode_application_send_queue_*`.
    pub send: QueueLimits,
    /// `internode_application_receive_queue_*`.
    pub receive: QueueLimits,
    /// The most connections of a core that other nodes dialled, after their greeting.
    pub connections_max: usize,
    /// The most nodes that a core keeps counts of; connections from more are refused.
    pub peers_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            source: None,
            connect_timeout: Duration::from_secs(2),
            user_timeout: Duration::from_secs(30),
            compression: Compression::None,
            message_bytes_max: 128 << 20,
            send: QueueLimits::default(),
            receive: QueueLimits::default(),
            connections_max: 16_384,
            peers_max: 4096,
        }
    }
}
