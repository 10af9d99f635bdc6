//! The barrier between two epochs: after it, no request of the older one has an effect where data is about to move.
//!
//! 1. Every live node has applied the entry ([`Shard::confirm`] and its verb, `AwaitEpoch`).
//! 2. Every live node has ended the requests that it had planned before. They hold the topology by which they were
//!    planned, so a core knows ([`crate::shard_state::Shard::older_topologies`]).
//! 3. Every live node refuses such requests of others from now on. They can only come from a node that was not asked,
//!    because it was taken for dead: it may have stood still, and go on with what it had begun.
//!
//! Body of the verb `EndOlder`:
//! ```text
//! epoch u64 (little-endian)
//! step u8: 0 for the second one, 1 for the third
//! ```

use crate::messages::{Reply, Request};
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::topology::{Node, NodeIndex};
use model::Failure;
use runtime::Instant;
use runtime::sync::join_all;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// Pause before a core looks again whether older requests have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Pause before the others are asked again whether they take this node for alive.
const SEEN_PAUSE: Duration = Duration::from_millis(50);
/// How long they may take to say so.
const SEEN_PATIENCE: Duration = Duration::from_millis(500);
/// After so long, a node that says nothing counts as dead.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// What one node asks of another for a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EndOlder {
    pub(super) epoch: u64,
    pub(super) fence: bool,
}

impl EndOlder {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = self.epoch.to_le_bytes().to_vec();
        out.push(u8::from(self.fence));
        out
    }

    pub(super) fn decode(body: &[u8]) -> Option<EndOlder> {
        let (epoch, step) = body.split_first_chunk()?;
        let fence = match step {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        Some(EndOlder { epoch: u64::from_le_bytes(*epoch), fence })
    }

    /// Serves the request on shard 0. Returns false if it could not be done.
    pub(super) async fn serve(self, shard: &Shard) -> bool {
        let EndOlder { epoch, fence } = self;
        if shard.epoch() < epoch {
            // The one who asks has waited for that; this node has been restarted since.
            return false;
        }
        let replies = shard.call_all(|| Request::EndOlder { epoch, fence }).await;
        replies.into_iter().try_for_each(Reply::done).is_ok()
    }
}

impl Shard {
    /// Waits until every other node takes this one for alive, or the deadline has come. A write that waits for a
    /// pending replica must not find it dead only because it is new. Nodes that say nothing for [`SILENT_MAX`] count as
    /// dead; what this node believes of them does not count, because it is new itself. To be called on shard 0.
    pub(super) async fn seen_by_all(&self, deadline: Instant) {
        let (own, began) = (self.host_id(), runtime::now());
        while runtime::now() < deadline {
            let mut others = self.topology().nodes().to_vec();
            others.retain(|node| node.host_id != own);
            let answered_by = deadline.min(runtime::now().after(SEEN_PATIENCE));
            let ask = |node: Node| async move {
                let call = self.peers().call(&node, PeerLane::Urgent, Verb::IsLive, own.as_bytes(), answered_by);
                call.await.ok().map(|answer| answer == [1])
            };
            let ignores_silence = runtime::now().since(began) > SILENT_MAX;
            let answers = join_all(others.into_iter().map(ask).collect()).await;
            if answers.iter().all(|answer| answer.unwrap_or(ignores_silence)) {
                return;
            }
            runtime::sleep(SEEN_PAUSE).await;
        }
    }

    /// Waits until this core has ended the requests that it planned before `epoch`.
    pub(crate) async fn older_ended(&self, epoch: u64) -> Result<(), Failure> {
        while self.older_topologies().in_use(epoch, runtime::now()) {
            let _pass = self.enter()?;
            runtime::sleep(LOOK_PAUSE).await;
        }
        Ok(())
    }

    /// Refuses requests of other nodes on this core that were planned before `epoch`.
    pub(crate) fn fence_older(&self, epoch: u64) -> Result<(), Failure> {
        self.older_topologies().raise_fence(epoch);
        Ok(())
    }

    /// Makes sure that no request has an effect that was planned before the members were those of `epoch`, an entry
    /// that this node has applied. To be called on shard 0. Returns the host ids of the nodes that have ended such
    /// requests of their own and refuse those of others now; `None` if a live node could not be brought to that before
    /// the deadline.
    pub(crate) async fn end_older(&self, epoch: u64, deadline: Instant) -> Option<BTreeSet<Uuid>> {
        if !self.confirm(epoch, deadline).await.is_empty() {
            return None;
        }
        let mut passed: Option<BTreeSet<Uuid>> = None;
        for fence in [false, true] {
            let asked = EndOlder { epoch, fence };
            let topology = self.topology();
            let others = (0..topology.nodes().len() as u16).map(NodeIndex);
            let others = others.filter(|at| *at != topology.here() && topology.live().contains(*at));
            let nodes: Vec<_> = others.map(|at| topology.node(at).clone()).collect();
            // Else this node would wait for itself.
            drop(topology);
            let asked_now: BTreeSet<Uuid> = nodes.iter().map(|node| node.host_id).chain([self.host_id()]).collect();
            passed = Some(passed_by(passed, asked_now));
            let ask = |node| async move {
                self.peers().call(&node, PeerLane::Urgent, Verb::EndOlder, &asked.encode(), deadline).await.is_ok()
            };
            let answers = join_all(nodes.into_iter().map(ask).collect()).await;
            if !asked.serve(self).await || answers.contains(&false) {
                return None;
            }
        }
        passed
    }
}

/// The nodes that pass a step, of those that have passed the one before, if there was one: one that has come to life in
/// between has not ended what it had begun itself.
fn passed_by(before: Option<BTreeSet<Uuid>>, asked_now: BTreeSet<Uuid>) -> BTreeSet<Uuid> {
    match before {
        None => asked_now,
        Some(before) => before.intersection(&asked_now).copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such a node may still acknowledge writes that it has begun before; it must not be a source.
    #[test]
    fn d2_a_node_that_comes_to_life_between_the_steps_has_not_passed() {
        let nodes = |ids: &[u128]| ids.iter().map(|id| Uuid::from_u128(*id)).collect::<BTreeSet<_>>();
        let ended = passed_by(None, nodes(&[1, 2]));
        assert_eq!(ended, nodes(&[1, 2]));
        assert_eq!(passed_by(Some(ended.clone()), nodes(&[1, 2, 3])), nodes(&[1, 2]), "it came to life");
        assert_eq!(passed_by(Some(ended), nodes(&[1])), nodes(&[1]), "it died");
    }

    #[test]
    fn golden_bytes() {
        let asked = EndOlder { epoch: 0x0102, fence: true };
        assert_eq!(asked.encode(), [2, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(EndOlder::decode(&asked.encode()), Some(asked));
        for damaged in [&[][..], &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 0, 2], &[0; 10]] {
            assert_eq!(EndOlder::decode(damaged), None);
        }
    }
}
