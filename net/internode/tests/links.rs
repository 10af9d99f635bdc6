//! Links between nodes in the simulator: what is sent arrives in order or fails in time, whatever the network, the
//! other node or a stranger does.

#[path = "links/faults.rs"]
mod faults;
#[path = "links/handshake.rs"]
mod handshake;
#[path = "links/limits.rs"]
mod limits;
#[path = "links/messages.rs"]
mod messages;
#[path = "links/world.rs"]
mod world;
