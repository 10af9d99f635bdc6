//! Making a connection to another node's core.
//!
//! 1. Core i talks to core i modulo the number of the peer's cores. The accepting side hands a connection to the core
//!    that the source port names ([`route`]), so the port is chosen to fit.
//! 2. Until a node has said how many cores it has, any port will do; if the answer comes from another core than the
//!    wanted one, the connection is made once more. A second wrong one is kept: it serves as well, with more messages
//!    between the peer's cores.
//! 3. The handshake of TLS is made if connections to the node are encrypted.
//! 4. Both sides greet ([`crate::greeting`]) and judge each other.

use crate::core_state::CoreState;
use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::greeting::Greeting;
use crate::identity::{Identity, PeerIdentity, certificates_of};
use crate::lane::Lane;
use crate::peer_clock::micros;
use runtime::ShardId;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use tls::Stream;

/// Ports that connections come from, when they name a core: those from here to the highest.
const SOURCE_PORT_MIN: u16 = 32_768;
/// Ports that are tried, because others may use some.
const SOURCE_PORTS_TRIED_MAX: u32 = 32;

/// The core that serves a connection from `peer`, of a node with `shards` cores.
pub fn route(peer: SocketAddr, shards: usize) -> ShardId {
    ShardId((usize::from(peer.port()) % shards.max(1)) as u16)
}

/// A connection that both sides agreed to.
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    pub(crate) peer: Rc<PeerIdentity>,
}

/// Connects to the node and greets it. The caller limits the time.
pub(crate) async fn dial(core: &CoreState, endpoint: &Endpoint, lane: Lane) -> Result<Dialled, CallError> {
    let mut known = endpoint.identity.borrow().as_ref().map(|peer| peer.identity.shards);
    let wanted = |shards: u16| ShardId(runtime::current_shard().0 % shards);
    for is_last in [false, true] {
        let port = known.map(|shards| (wanted(shards).0, shards));
        let stream = connect(core, core.dialled_at(endpoint.address), port).await.map_err(|error| {
            tracing::debug!(peer = %endpoint.address, ?lane, %error, "cannot connect");
            CallError::Unreachable
        })?;
        let stream = secure(core, stream, endpoint.address).await?;
        let peer = Rc::new(greet(core, &stream, endpoint.address, lane).await?);
        let shards = peer.identity.shards;
        endpoint.identity.replace(Some(peer.clone()));
        if is_last || peer.identity.shard == wanted(shards) {
            return Ok(Dialled { stream, peer });
        }
        known = Some(shards);
    }
    unreachable!("the last connection is kept")
}

/// Makes the handshake of TLS if connections to the node that is known by `to` are encrypted.
async fn secure(core: &CoreState, socket: runtime::Stream, to: SocketAddr) -> Result<Stream, CallError> {
    if !core.handler.encrypts_to(to) {
        return Ok(socket.into());
    }
    let Some(keys) = core.keys.borrow().outbound.clone() else { return Err(CallError::Unreachable) };
    Stream::connect(socket, &keys).await.map_err(|error| {
        if core.strangers.should_tell(to.ip(), runtime::now()) {
            tracing::warn!(peer = %to, %error, "the TLS handshake with a node failed");
        }
        CallError::Unreachable
    })
}

/// Connects, from a port that names core `.0` of `.1` if given and if one is free.
pub(crate) async fn connect(core: &CoreState, to: SocketAddr, port: Option<(u16, u16)>) -> io::Result<runtime::Stream> {
    let any = if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let source = core.options.source.unwrap_or(any);
    if let Some((shard, shards)) = port.filter(|(_, shards)| *shards > 1) {
        let count = u64::from((u16::MAX - SOURCE_PORT_MIN) / shards);
        let first = runtime::rng::below(count.max(1));
        for n in 0..SOURCE_PORTS_TRIED_MAX {
            let port = source_port((first + u64::from(n)) % count.max(1), shard, shards);
            match runtime::Stream::connect(to, Some(SocketAddr::new(source, port))).await {
                Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {}
                connected => return connected,
            }
        }
    }
    runtime::Stream::connect(to, Some(SocketAddr::new(source, 0))).await
}

/// The `n`th port that names core `shard` of `shards`.
fn source_port(n: u64, shard: u16, shards: u16) -> u16 {
    let shards = u64::from(shards);
    let first = u64::from(SOURCE_PORT_MIN).next_multiple_of(shards) + u64::from(shard);
    (first + n * shards).min(u64::from(u16::MAX)) as u16
}

/// Tells the other side, which is known by the address `to`, who this is, and judges its answer.
async fn greet(core: &CoreState, stream: &Stream, to: SocketAddr, lane: Lane) -> Result<PeerIdentity, CallError> {
    let own = core.identity();
    let hello = Greeting::Hello { lane, clock_micros: micros(runtime::now()), identity: Identity::clone(&own) };
    stream.write(|out| hello.put(out));
    let mut received = Vec::new();
    let (greeting, used) = loop {
        match stream.recv().await {
            Ok(Some(bytes)) => received.extend_from_slice(&bytes),
            Ok(None) | Err(_) => return Err(CallError::Unreachable),
        }
        match Greeting::take(&received) {
            Ok(Some(taken)) => break taken,
            Ok(None) => {}
            Err(_) => return Err(CallError::Unreachable),
        }
    };
    match greeting {
        // The other side speaks when it is asked, so nothing may follow.
        Greeting::Welcome { version, identity } if used == received.len() => {
            own.check_cluster(&identity).map_err(CallError::Refused)?;
            own.common_version(identity.address, identity.versions).map_err(CallError::Refused)?;
            let peer = PeerIdentity { identity, version, socket: to, certificates: certificates_of(stream) };
            core.handler.accept_peer(&peer).map_err(CallError::Refused)?;
            Ok(peer)
        }
        Greeting::Refusal(refusal) => Err(CallError::Refused(refusal)),
        _ => Err(CallError::Unreachable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_name_their_core() {
        for shards in [1, 2, 3, 7, 64, 1000] {
            for shard in [0, shards / 2, shards - 1] {
                let count = u64::from((u16::MAX - SOURCE_PORT_MIN) / shards);
                for n in [0, count / 2, count - 1] {
                    let port = source_port(n, shard, shards);
                    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
                    if port < u16::MAX {
                        assert_eq!(route(address, shards.into()), ShardId(shard), "port {port} of {shards}");
                    }
                    assert!(port >= SOURCE_PORT_MIN);
                }
            }
        }
        assert_eq!(route(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 5), 0), ShardId(0));
    }
}
