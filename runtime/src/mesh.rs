//! The shards of a node, and the bounded queues between them.
//!
//! 1. A [`Mesh`] is created once per node, before its shards start, and cloned into each.
//! 2. Every shard calls [`Mesh::attach`] once and keeps the [`Endpoint`], with which it sends and receives.
//!
//! Invariants: one queue per pair of shards keeps the messages of a pair in order; the order between pairs is
//! undefined, and shuffled in simulation. No message is lost while both shards live.
//!
//! On a real machine a queue is a ring buffer with one producer and one consumer, published once per turn of the loop;
//! a sleeping receiver is woken (see `system/mesh.rs`). In simulation messages are events with random delays.

pub use crate::ids::{NodeId, ShardId};
use crate::{context, sim, system};

/// The current shard's number.
pub fn current_shard() -> ShardId {
    context::with(|c| c.executor.shard())
}

/// The current node's number.
pub fn current_node() -> NodeId {
    context::with(|c| c.executor.node())
}

/// The number of shards of the current node, at least 1.
pub fn shard_count() -> usize {
    context::with(|c| c.executor.shard_count())
}

/// The queues between all pairs of shards of a node.
pub struct Mesh<M>(MeshInner<M>);

enum MeshInner<M> {
    Real(system::mesh::Mesh<M>),
    Sim(sim::mesh::Mesh<M>),
}

impl<M> Clone for Mesh<M> {
    fn clone(&self) -> Self {
        Mesh(match &self.0 {
            MeshInner::Real(m) => MeshInner::Real(m.clone()),
            MeshInner::Sim(m) => MeshInner::Sim(m.clone()),
        })
    }
}

impl<M: Send + 'static> Mesh<M> {
    /// Creates the queues of a node with `shards` shards on a real machine, each for `capacity` messages, rounded up to
    /// a power of two.
    pub fn new(shards: usize, capacity: usize) -> Self {
        Mesh(MeshInner::Real(system::mesh::Mesh::new(shards, capacity)))
    }

    /// Creates the queues of a simulated node, see [`Mesh::new`].
    pub fn simulated(shards: usize, capacity: usize) -> Self {
        Mesh(MeshInner::Sim(sim::mesh::Mesh::new(shards, capacity)))
    }

    /// Returns the current shard's end. Panics if the shard has attached before.
    pub fn attach(&self) -> Endpoint<M> {
        Endpoint(match &self.0 {
            MeshInner::Real(m) => EndpointInner::Real(m.attach()),
            MeshInner::Sim(m) => EndpointInner::Sim(m.attach()),
        })
    }
}

/// One shard's end of a [`Mesh`]: sends to every other shard and receives from all of them.
pub struct Endpoint<M>(EndpointInner<M>);

enum EndpointInner<M> {
    Real(system::mesh::Endpoint<M>),
    Sim(sim::mesh::Endpoint<M>),
}

impl<M: Send + 'static> Endpoint<M> {
    /// Queues `message` for `to`, or returns it if the queue is full. Panics if `to` is the current shard.
    pub fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        match &self.0 {
            EndpointInner::Real(e) => e.try_send(to, message),
            EndpointInner::Sim(e) => e.try_send(to, message),
        }
    }

    /// Queues `message` for `to`, waiting for space. Panics if `to` is the current shard.
    pub async fn send(&self, to: ShardId, message: M) {
        match &self.0 {
            EndpointInner::Real(e) => e.send(to, message).await,
            EndpointInner::Sim(e) => e.send(to, message).await,
        }
    }

    /// Waits for the next message from any shard. Only one task of the shard may wait here.
    pub async fn recv(&self) -> (ShardId, M) {
        match &self.0 {
            EndpointInner::Real(e) => e.recv().await,
            EndpointInner::Sim(e) => e.recv().await,
        }
    }

    /// Returns the next message if one has arrived. The receiving task empties the queues with this before it waits
    /// again.
    pub fn try_recv(&self) -> Option<(ShardId, M)> {
        match &self.0 {
            EndpointInner::Real(e) => e.try_recv(),
            EndpointInner::Sim(e) => e.try_recv(),
        }
    }

    /// The number of messages to `to` that it has not taken; 0 for the current shard.
    pub fn queued(&self, to: ShardId) -> usize {
        match &self.0 {
            EndpointInner::Real(e) => e.queued(to),
            EndpointInner::Sim(e) => e.queued(to),
        }
    }

    /// The number of messages sent since the shard attached.
    pub fn sent(&self) -> u64 {
        match &self.0 {
            EndpointInner::Real(e) => e.sent(),
            EndpointInner::Sim(e) => e.sent(),
        }
    }
}
