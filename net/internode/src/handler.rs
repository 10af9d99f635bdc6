//! What this crate asks of the node.

use crate::identity::{PeerIdentity, Refusal};
use crate::lane::Lane;
use crate::replier::Replier;
use std::net::SocketAddr;
use std::rc::Rc;

/// The node on one core: it judges other nodes and serves what they send.
pub trait Handler {
    /// Whether connections that this node makes to the one that is known by `to` are encrypted.
    fn encrypts_to(&self, to: SocketAddr) -> bool;

    /// Whether to talk to a node of this cluster, for instance because it has left. Asked once per connection, on both
    /// sides; nodes of other clusters have been refused before.
    fn accept_peer(&self, peer: &PeerIdentity) -> Result<(), Refusal>;

    /// Serves a message, in the order of its lane. What takes long goes on in a task and keeps `reply`; the body is
    /// borrowed from the connection. A message that has expired does not come here.
    fn serve(&self, from: &Rc<PeerIdentity>, lane: Lane, verb: u8, body: &[u8], reply: Replier);
}
