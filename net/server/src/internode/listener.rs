//! The storage port: accepting connections of other nodes on shard 0 and handing them to their cores.

use super::NodeLinks;
use crate::control::{Control, ControlPort};
use runtime::sync::{Either, Latch, race};
use runtime::{Listener, ShardId};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Pause after a failed accept, for instance when file descriptors have run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Listens for other nodes.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<Listener> {
    Listener::bind(address).await
}

/// Hands connections to the cores that their source ports name, until `closing`.
pub(crate) async fn serve(listener: Listener, links: NodeLinks, control: Rc<ControlPort>, closing: Latch) {
    loop {
        match race(closing.wait(), listener.accept()).await {
            Either::Left(()) => return,
            Either::Right(Ok(accepted)) => match internode::route(accepted.peer(), runtime::shard_count()) {
                ShardId(0) => links.attach(accepted),
                shard => control.send(shard, Control::PeerConnection(accepted)).await,
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
