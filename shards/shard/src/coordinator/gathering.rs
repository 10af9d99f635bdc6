//! Asking the replicas that a plan names, and waiting for as many answers as it needs.
//!
//! 1. All targets of the plan are asked at once.
//! 2. Another replica is asked in the place of one that fails, and one more when answers are late.
//! 3. The end is that the plan is complete, that it has failed, or that the request's time is over. Answers that come
//!    later are not waited for.
//!
//! A replica that says that it no longer has what is asked for stops everything: the request must be planned again.

use super::read::ReadPlan;
use crate::messages::data::ReadRequest;
use crate::metrics::Measure;
use crate::shard_state::Shard;
use cluster::placement::{Replica, TablePlacement};
use cluster::plan::{Form, NextRead, PartitionReadPlan};
use cluster::topology::Topology;
use model::Failure;
use model::Table;
use model::failure::{Detail, FailureReason};
use runtime::Instant;
use smallvec::SmallVec;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// Why a read has no result.
#[derive(Debug)]
pub(crate) enum Unread {
    /// By a later epoch, which this core has reached, other nodes have the data.
    Moved,
    /// The client gets this failure.
    Failed(Failure),
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Unread {
        Unread::Failed(failure)
    }
}

/// How long answers are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The end of the request's time.
    pub(crate) deadline: Instant,
    /// When answers are late, so that one more replica is asked; `None` for never.
    pub(crate) late_at: Option<Instant>,
}

impl Patience {
    /// Until `deadline`, and as `speculative_retry` of the table says.
    pub(crate) fn of_table(shard: &Shard, table: &Table, deadline: Instant) -> Patience {
        // There must be time left for the answer of one more replica.
        let latency_max = shard.timeouts().read / 2;
        let delay = shard.metrics().read_patience(table, latency_max);
        Patience { deadline, late_at: delay.map(|delay| runtime::now().after(delay)) }
    }
}

/// A request for rows, and the placement by which its replicas are chosen.
#[derive(Clone, Copy)]
pub(crate) struct PlacedRead<'a> {
    pub(crate) shard: &'a Shard,
    /// The statement's read.
    pub(crate) plan: &'a ReadPlan,
    pub(crate) placement: &'a Rc<TablePlacement>,
    pub(crate) request: &'a ReadRequest,
    pub(crate) patience: Patience,
}

enum Event<T> {
    Answer(Replica, Result<T, Failure>),
    Late,
    Expired,
}

/// Whether a failure of a replica that was chosen by `topology` says that the request must be planned again.
pub(crate) fn is_moved(shard: &Shard, topology: &Topology, failure: &Failure) -> bool {
    let detail = Detail::Replica { reason: FailureReason::IncompatibleSchema };
    failure.detail == detail && shard.topology().epoch() > topology.epoch()
}

/// Asks the targets of `plan` about `table`, whose replicas are nodes of `topology`. Returns the answers that completed
/// it. What `ask` returns is moved about: if it is large it has to be boxed.
pub(crate) async fn gather<T, F: Future<Output = Result<T, Failure>> + Unpin>(
    shard: &Shard,
    plan: &mut PartitionReadPlan,
    table: &Table,
    topology: &Topology,
    patience: Patience,
    ask: impl Fn(Replica, Form) -> F,
) -> Result<Vec<(Replica, T)>, Unread> {
    let began = runtime::now();
    let asked = |(replica, form)| (replica, ask(replica, form));
    let mut open: SmallVec<[(Replica, F); 2]> = plan.targets().map(asked).collect();
    let mut answers = Vec::with_capacity(open.len());
    let mut late_at = patience.late_at.filter(|late_at| *late_at < patience.deadline);
    // One timer: for when answers are late, and then for the end.
    let mut timer = runtime::sleep_until(late_at.unwrap_or(patience.deadline));
    loop {
        let event = poll_fn(|cx| {
            for at in 0..open.len() {
                if let Poll::Ready(answer) = Pin::new(&mut open[at].1).poll(cx) {
                    return Poll::Ready(Event::Answer(open.swap_remove(at).0, answer));
                }
            }
            Pin::new(&mut timer).poll(cx).map(|()| if late_at.is_some() { Event::Late } else { Event::Expired })
        });
        match event.await {
            Event::Answer(replica, Ok(answer)) => {
                answers.push((replica, answer));
                if plan.answered(replica) == Some(NextRead::Complete) {
                    return Ok(answers);
                }
            }
            Event::Answer(_, Err(failure)) if is_moved(shard, topology, &failure) => return Err(Unread::Moved),
            Event::Answer(replica, Err(failure)) => match plan.failed(replica, failure, topology) {
                Some(NextRead::Ask(asks)) => open.extend(asks.into_iter().map(asked)),
                Some(NextRead::Fail(failure)) => return Err(Unread::Failed(failure)),
                Some(NextRead::Complete) | None => {}
            },
            Event::Late => {
                late_at = None;
                timer = runtime::sleep_until(patience.deadline);
                let extra = plan.speculate();
                if !extra.is_empty() {
                    shard.metrics().took(&table.id, Measure::SpeculativeRetry, began);
                    shard.metrics().reads_speculated.increment();
                    open.extend(extra.into_iter().map(asked));
                }
            }
            Event::Expired => return Err(Unread::Failed(plan.expired())),
        }
    }
}
