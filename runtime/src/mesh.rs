//! Shards of one node and the bounded mailboxes between them.
//!
//! A [`Mesh`] is made once per node, before its shards start, and cloned into each; every shard calls
//! [`Mesh::attach`] once and holds the [`Endpoint`]. One queue per (from, to) pair keeps messages of a pair in order;
//! order between pairs is not defined (and is shuffled in simulation). Messages are never lost while both shards live.
//!
//! On a real machine: an SPSC ring per pair with cached indices, published once per loop turn; a sleeping peer is woken
//! (by `MSG_RING` on `uring`), an awake one never. `sim`: delivery events with seeded delays.

pub use crate::ids::{NodeId, ShardId};
use crate::{context, sim, system};

/// The shard whose task is being polled.
pub fn current_shard() -> ShardId {
    context::with(|c| c.executor.shard())
}

/// The node whose task is being polled.
pub fn current_node() -> NodeId {
    context::with(|c| c.executor.node())
}

/// How many shards the current node has, at least 1.
pub fn shard_count() -> usize {
    context::with(|c| c.executor.shard_count())
}

/// The queues between all pairs of shards of one node.
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
    /// Queues of `capacity` messages (rounded up to a power of two) for the `shards` shards of a real node.
    pub fn new(shards: usize, capacity: usize) -> Self {
        Mesh(MeshInner::Real(system::mesh::Mesh::new(shards, capacity)))
    }

    /// The same for the simulator.
    pub fn simulated(shards: usize, capacity: usize) -> Self {
        Mesh(MeshInner::Sim(sim::mesh::Mesh::new(shards, capacity)))
    }

    /// The current shard's end. Panics when called twice on one shard.
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
    /// Queues `message` for `to`, or gives it back when that queue is full. `to` may not be the current shard.
    pub fn try_send(&self, to: ShardId, message: M) -> Result<(), M> {
        match &self.0 {
            EndpointInner::Real(e) => e.try_send(to, message),
            EndpointInner::Sim(e) => e.try_send(to, message),
        }
    }

    /// Queues `message` for `to`, waiting for space.
    pub async fn send(&self, to: ShardId, message: M) {
        match &self.0 {
            EndpointInner::Real(e) => e.send(to, message).await,
            EndpointInner::Sim(e) => e.send(to, message).await,
        }
    }

    /// The next message from any shard. Only one task of the shard may wait here.
    pub async fn recv(&self) -> (ShardId, M) {
        match &self.0 {
            EndpointInner::Real(e) => e.recv().await,
            EndpointInner::Sim(e) => e.recv().await,
        }
    }

    /// The next message if one has arrived already: the receiving task drains with this before it waits again.
    pub fn try_recv(&self) -> Option<(ShardId, M)> {
        match &self.0 {
            EndpointInner::Real(e) => e.try_recv(),
            EndpointInner::Sim(e) => e.try_recv(),
        }
    }

    /// Messages sent to `to` that it has not taken; 0 for the current shard.
    pub fn queued(&self, to: ShardId) -> usize {
        match &self.0 {
            EndpointInner::Real(e) => e.queued(to),
            EndpointInner::Sim(e) => e.queued(to),
        }
    }

    /// Messages this end has sent since it was attached.
    pub fn sent(&self) -> u64 {
        match &self.0 {
            EndpointInner::Real(e) => e.sent(),
            EndpointInner::Sim(e) => e.sent(),
        }
    }
}
