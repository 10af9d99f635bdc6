//! The storage port: accepting connections of other nodes on shard 0 and handing them to their cores.

use super::NodeLinks;
use crate::control::{Control, ControlPort};
use runtime::sync::{Either, Latch, race};
use runtime::{Listener, ShardId};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::Encryption;

/// Pause after a failed accept, for instance when file descriptors have run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Listens for other nodes. A failure has Cassandra's text.
pub(crate) async fn listen(address: SocketAddr) -> Result<Listener, String> {
    Listener::bind(address).await.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => format!(
            "/{address} is in use by another process.  Change listen_address:storage_port in cassandra.yaml to values \
             that do not conflict with other services"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "Unable to bind to address /{address}. Set listen_address in cassandra.yaml to an interface you can bind \
             to, e.g., your private IP address on EC2"
        ),
        _ => format!("failed to bind to: /{address}: {error}"),
    })
}

/// Hands connections to the cores that their source ports name, until `closing`.
pub(crate) async fn serve(
    listener: Listener,
    encryption: Encryption,
    links: NodeLinks,
    control: Rc<ControlPort>,
    closing: Latch,
) {
    loop {
        match race(closing.wait(), listener.accept()).await {
            Either::Left(()) => return,
            Either::Right(Ok(accepted)) => match internode::route(accepted.peer(), runtime::shard_count()) {
                ShardId(0) => links.attach(accepted, encryption),
                shard => control.send(shard, Control::PeerConnection(accepted, encryption)).await,
            },
            Either::Right(Err(error)) => {
                tracing::warn!(%error, "accepting a connection of another node failed");
                if let Either::Left(()) = race(closing.wait(), runtime::sleep(ACCEPT_RETRY)).await {
                    return;
                }
            }
        }
    }
}
