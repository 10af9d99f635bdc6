//! Streaming: SSTables, or ranges of them, from other nodes.
//!
//! The receiver leads. It asks for what it lacks and may ask again, so that the end of a link, or of either side, costs
//! what was under way and nothing else.
//!
//! | file | what it is |
//! |---|---|
//! | `plan` | what is fetched, and what comes of it |
//! | `parts` | the tables that it is about, with their sources |
//! | `room` | room on the disks for what comes |
//! | `staging` | where what comes lies until it is its table's |
//! | `fetch` | carrying out a plan, on shard 0 |
//! | `receive` | one core receives from one core of another node |
//! | `healing` | damaged SSTables are replaced by what is fetched |
//! | `handing_out` | all replicas fetch what one node has read from a snapshot |
//! | `source` | what a core answers to those that receive |
//!
//! How SSTables are taken from a table, and how they are written and checked, is in [`engine::streams`]; the bytes of
//! requests are in [`crate::peer::streams`].

mod fetch;
pub(crate) mod handing_out;
pub(crate) mod healing;
mod parts;
mod plan;
mod receive;
mod room;
mod source;
mod staging;

pub use plan::{StreamError, StreamOperation, StreamPart, StreamPlan, StreamSummary};
pub(crate) use source::no_such_core;

use crate::messages::streams::{ReceiveError, StreamAnswer, StreamProgress, StreamVerb};
use crate::messages::{Reply, Request, unexpected};
use crate::operations::table_verbs::part_of;
use crate::shard_state::Shard;
use model::Failure;
use runtime::sync::{Either, race};
use uuid::Uuid;

/// Why a plan failed whose operation was undone.
const ABANDONED: &str = "the stream is not wanted any more";

/// Fetches what a plan names. To be called on shard 0, not within a turn of definitions. Returns when all of it is
/// durable, and readers of this node see it. May be run again at any time, with the same id: then what came before is
/// not fetched again as far as it is known to be complete. Tables that are dropped meanwhile are left out.
///
/// # Errors
/// See [`StreamError`]. A node that does not answer is asked again for a while before.
pub(crate) async fn fetch(shard: &Shard, plan: StreamPlan) -> Result<StreamSummary, StreamError> {
    fetch::fetch(shard, &plan).await
}

/// Forgets which parts of a plan are in, and removes what has come and is not. To be called on shard 0 when an
/// operation has ended or was undone. The next [`fetch`] of another plan does the same.
///
/// # Errors
/// The disk's.
pub(crate) async fn forget(shard: &Shard, plan: Uuid) -> Result<(), StreamError> {
    staging::forget(shard, plan).await
}

/// Ends a plan whose [`fetch`] was dropped. To be called on shard 0.
pub(crate) async fn abandon(shard: &Shard, plan: Uuid) {
    shard.call_all(|| Request::Stream(Box::new(StreamVerb::Abandon { plan }))).await;
}

/// Forgets all plans that are not being carried out now, as [`forget`] does. To be called on shard 0.
///
/// # Errors
/// The disk's.
pub(crate) async fn forget_others(shard: &Shard) -> Result<(), StreamError> {
    staging::forget_others(shard).await
}

/// What is known of all streams, on all cores together; the oldest first.
pub(crate) async fn progress(shard: &Shard) -> Result<Vec<StreamProgress>, Failure> {
    let mut sums: Vec<StreamProgress> = Vec::new();
    for reply in shard.call_all(|| Request::Stream(Box::new(StreamVerb::Progress))).await {
        let Reply::Stream(StreamAnswer::Progress(some)) = reply else { return Err(unexpected()) };
        for progress in some {
            match sums.iter_mut().find(|sum| sum.is_same(&progress)) {
                Some(sum) => sum.add(progress),
                None => sums.push(progress),
            }
        }
    }
    sums.sort_by_key(|progress| (progress.began_at, progress.plan, progress.peer));
    Ok(sums)
}

/// Does what another core of this node asks for.
pub(crate) async fn run(shard: &Shard, verb: StreamVerb) -> StreamAnswer {
    match verb {
        StreamVerb::Serve { verb, body } => StreamAnswer::Served(source::serve(shard, verb, &body).await),
        StreamVerb::Receive(task) => {
            let receiving = shard.clone();
            let noted = shard.streams().receive(task.plan);
            let task = runtime::spawn_in(runtime::Class::Streaming, async move {
                let streams = receiving.streams();
                let in_turn = async {
                    let _turn = streams.receives.acquire(1).await;
                    receive::receive(&receiving, *task).await
                };
                let received = match race(in_turn, streams.abandoned(&noted)).await {
                    Either::Left(received) => received,
                    Either::Right(()) => Err(ReceiveError::Failed(Failure::server(ABANDONED))),
                };
                streams.received(&noted);
                received
            });
            StreamAnswer::Received(task.await)
        }
        StreamVerb::Abandon { plan } => {
            shard.streams().abandon(plan).await;
            shard.streams().plan_ended(plan, Some(ABANDONED));
            StreamAnswer::Done
        }
        StreamVerb::Progress => StreamAnswer::Progress(shard.streams().all_progress()),
        StreamVerb::End { plan, failure } => {
            shard.streams().plan_ended(plan, failure.as_deref());
            StreamAnswer::Done
        }
        StreamVerb::Change(change) => {
            let (which, rate) = (change.which, change.bytes_per_second);
            shard.streams().set_rate(which, rate, part_of(rate));
            StreamAnswer::Done
        }
    }
}
