//! Links between nodes in the simulator: what is sent arrives in order or fails in time, whatever the network, the
//! other node or a stranger does.

#[path = "links/faults.rs"]
mod faults;
#[path = "links/messages.rs"]
mod messages;
#[path = "links/world.rs"]
mod world;
