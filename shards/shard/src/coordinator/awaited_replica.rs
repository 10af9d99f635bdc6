//! A replica from which the answer to a read is awaited: how long that takes is a sample of its node's latency.

use cluster::topology::{NodeIndex, Topology};
use model::Failure;
use model::failure::{Detail, FailureReason};
use runtime::Instant;
use std::time::Duration;

/// A replica that was asked. If it is dropped without an answer, the node has taken at least as long as that.
pub(crate) struct AwaitedReplica<'t> {
    topology: &'t Topology,
    node: NodeIndex,
    since: Instant,
    is_awaited: bool,
}

impl AwaitedReplica<'_> {
    /// A node that is asked now.
    pub(crate) fn new(topology: &Topology, node: NodeIndex) -> AwaitedReplica<'_> {
        let now = runtime::now();
        topology.latencies().asked(node, since_begin(now));
        AwaitedReplica { topology, node, since: now, is_awaited: true }
    }

    /// Takes the answer. Other failures than that there was none in time say nothing of how long an answer takes.
    pub(crate) fn has_answered<T>(mut self, answer: Result<T, Failure>) -> Result<T, Failure> {
        let late = Detail::Replica { reason: FailureReason::Timeout };
        self.is_awaited = answer.as_ref().is_err_and(|failure| failure.detail == late);
        if answer.is_ok() {
            let now = runtime::now();
            self.topology.latencies().answered(self.node, now.since(self.since), since_begin(now));
        }
        answer
    }
}

impl Drop for AwaitedReplica<'_> {
    fn drop(&mut self) {
        if self.is_awaited
            && let Some(now) = runtime::now_if_running()
        {
            self.topology.latencies().unanswered(self.node, now.since(self.since), since_begin(now));
        }
    }
}

fn since_begin(now: Instant) -> Duration {
    Duration::from_nanos(now.0)
}
