//! Who a node is, as it tells another one before anything else.

use num_enum::FromPrimitive;
use runtime::ShardId;
use std::fmt;
use std::net::SocketAddr;
use tls::{CertificateDer, Stream};
use uuid::Uuid;

/// The most bytes of the name of a cluster, data centre or rack that can be told.
pub const NAME_BYTES_MAX: usize = 512;

/// A range of versions of the messages between nodes, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl Versions {
    /// The newest version that both ranges hold.
    pub fn common(self, other: Versions) -> Option<u16> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

/// A core of a node, as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// `cluster_name`.
    pub cluster_name: String,
    /// The cluster's id; `None` until the node has joined one.
    pub cluster_id: Option<Uuid>,
    /// The node's host id.
    pub host_id: Uuid,
    /// Where other nodes reach it: `broadcast_address` and `storage_port`.
    pub address: SocketAddr,
    /// Its data centre.
    pub data_center: String,
    /// Its rack.
    pub rack: String,
    /// The core that sends.
    pub shard: ShardId,
    /// How many cores the node has, at least 1.
    pub shards: u16,
    /// How many of a token's highest bits its map of shards ignores.
    pub ignore_msb: u8,
    /// The versions of messages that it speaks.
    pub versions: Versions,
    /// What it can do beyond that, a bit each.
    pub features: u64,
}

impl Identity {
    /// Refuses a node of another cluster. A node that does not know its cluster yet is judged by the name alone.
    pub(crate) fn check_cluster(&self, peer: &Identity) -> Result<(), Refusal> {
        if self.cluster_name != peer.cluster_name {
            let text =
                format!("ClusterName mismatch from /{} {}!={}", peer.address, peer.cluster_name, self.cluster_name);
            return Err(Refusal { reason: RefusalReason::ClusterName, text });
        }
        match (self.cluster_id, peer.cluster_id) {
            (Some(own), Some(other)) if own != other => {
                let text = format!("Cluster ID mismatch from /{} {other}!={own}", peer.address);
                Err(Refusal { reason: RefusalReason::ClusterId, text })
            }
            _ => Ok(()),
        }
    }

    /// The version to speak with a node that speaks `versions`.
    pub(crate) fn common_version(&self, address: SocketAddr, versions: Versions) -> Result<u16, Refusal> {
        self.versions.common(versions).ok_or_else(|| {
            let text = format!("/{address} speaks message versions {versions}, this node {}", self.versions);
            Refusal { reason: RefusalReason::Version, text }
        })
    }
}

/// The other side of a connection that has passed the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerIdentity {
    /// What it says of itself.
    pub identity: Identity,
    /// The version that both speak on this connection.
    pub version: u16,
    /// The address by which it is known if it was dialled; else that of its socket, at which it does not listen.
    pub socket: SocketAddr,
    /// The certificates that it has shown, its own first; empty if it has shown none.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// The certificates that the other side has shown.
pub(crate) fn certificates_of(stream: &Stream) -> Vec<CertificateDer<'static>> {
    stream.secured().map(|secured| secured.peer_certificates).unwrap_or_default()
}

/// Why a node will not talk to another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The kind of reason.
    pub reason: RefusalReason,
    /// What an operator should read.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kinds of reasons to refuse a node, by their numbers in a greeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromPrimitive)]
#[repr(u8)]
pub enum RefusalReason {
    /// There is no version that both speak.
    Version = 1,
    /// It belongs to a cluster of another name.
    ClusterName = 2,
    /// It belongs to another cluster of the same name.
    ClusterId = 3,
    /// It has left the cluster.
    Left = 4,
    /// Anything else, also what a newer version calls by another name.
    #[num_enum(default)]
    Other = 255,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    pub(crate) fn identity() -> Identity {
        Identity {
            cluster_name: "Test Cluster".into(),
            cluster_id: Some(Uuid::from_u128(0xc1)),
            host_id: Uuid::from_u128(0x1d),
            address: (Ipv4Addr::new(127, 0, 0, 1), 7000).into(),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            shard: ShardId(1),
            shards: 2,
            ignore_msb: 12,
            versions: Versions { min: 1, max: 2 },
            features: 5,
        }
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        let of = |min, max| Versions { min, max };
        assert_eq!(of(1, 3).common(of(2, 5)), Some(3));
        assert_eq!(of(2, 2).common(of(1, 2)), Some(2));
        assert_eq!(of(1, 1).common(of(1, 9)), Some(1));
        assert_eq!(of(1, 2).common(of(3, 4)), None);
        let own = identity();
        let refusal = own.common_version(own.address, of(3, 4)).expect_err("none in common");
        assert_eq!(refusal.reason, RefusalReason::Version);
        assert_eq!(refusal.text, "/127.0.0.1:7000 speaks message versions 3 to 4, this node 1 to 2");
    }

    #[test]
    fn another_cluster_is_refused_by_name_and_by_id() {
        let own = identity();
        let named = Identity { cluster_name: "Foo".into(), ..identity() };
        let refusal = own.check_cluster(&named).expect_err("another name");
        assert_eq!(refusal.text, "ClusterName mismatch from /127.0.0.1:7000 Foo!=Test Cluster");
        let other = Identity { cluster_id: Some(Uuid::from_u128(2)), ..identity() };
        assert_eq!(own.check_cluster(&other).expect_err("another id").reason, RefusalReason::ClusterId);
        let new = Identity { cluster_id: None, ..identity() };
        assert_eq!((own.check_cluster(&new), new.check_cluster(&own)), (Ok(()), Ok(())));
    }
}
