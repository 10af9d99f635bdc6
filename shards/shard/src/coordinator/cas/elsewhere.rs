//! Rounds about partitions of other nodes: the proposer runs here, the only acceptor is on the node that has the
//! partition.
//!
//! 1. Prepare: the acceptor's promise is durable, because it holds no lock for a proposer that may be gone.
//! 2. Read and decide here, from fragments.
//! 3. Propose: the acceptor accepts and commits in one step, unless a later round was promised meanwhile; then the
//!    round begins again after a random pause, which grows with every attempt.
//!
//! Rounds that the node with the partition runs by itself do not store their promises. They hold the partition's lock
//! from the promise to the commit, and each step of the acceptor for another node takes that lock, so none of these
//! comes in between.

use super::proposer::{Command, Proposer, RoundEnd};
use super::{Decide, ballot};
use crate::coordinator::remote::Asked;
use crate::coordinator::row_source::RowSource;
use crate::messages::data::{ConditionalRequest, Decision};
use crate::paxos::Update;
use crate::paxos::ballot::{Ballot, Scope};
use crate::shard_state::Shard;
use cluster::plan::CasProgress;
use cluster::topology::{NodeIndex, Topology};
use model::failure::{Detail, FailureReason, Outcome};
use model::{Consistency, DecoratedKey, ErrorCode, Failure};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The longest first pause before a round that others overtook begins again. It doubles with every attempt.
const PAUSE: Duration = Duration::from_millis(2);
/// How often it doubles.
const DOUBLINGS_MAX: u16 = 6;

/// Decides a request about a partition of the node at a position of `topology`, within the request's timeout.
pub(super) async fn decide(
    shard: &Shard,
    request: ConditionalRequest,
    decide: impl Decide,
    topology: Rc<Topology>,
    node: NodeIndex,
) -> Result<Decision, Failure> {
    let (plan, timeout) = (request.plan.clone(), request.timeout);
    let asked = Asked::new(&topology, node, timeout);
    let address = topology.node(node).address.ip();
    let (progress, contentions) = (Cell::new(CasProgress::Preparing), Cell::new(0));
    let running = Box::pin(round(shard, &request, decide, asked, &progress, &contentions));
    let failure = match runtime::timeout(timeout, running).await {
        Some(Ok(decision)) => return Ok(decision),
        Some(Err(failure)) => failure,
        None => return Err(plan.expired(progress.get(), 0, contentions.get())),
    };
    match failure.detail {
        Detail::Replica { reason: FailureReason::Timeout } => Err(plan.expired(progress.get(), 0, contentions.get())),
        Detail::Replica { reason } => {
            let text =
                format!("Operation failed - received 0 responses and 1 failures: {} from /{address}", reason.name());
            let told = Failure::new(ErrorCode::WriteFailure, text).with(Detail::WriteFailure {
                consistency: plan.serial(),
                received: 0,
                block_for: 1,
                failures: vec![(address, reason)],
                write_type: "CAS",
            });
            Err(if failure.outcome == Outcome::Unknown { told.unknown() } else { told })
        }
        _ => Err(failure),
    }
}

async fn round(
    shard: &Shard,
    request: &ConditionalRequest,
    decide: impl Decide,
    asked: Asked,
    progress: &Cell<CasProgress>,
    contentions: &Cell<u16>,
) -> Result<Decision, Failure> {
    let key = DecoratedKey::new(shard.partitioner(), &request.key);
    let (table, plan) = (&*request.table, &request.plan);
    let scope = match plan.serial() {
        Consistency::LocalSerial => Scope::Local,
        _ => Scope::Global,
    };
    let deadline = runtime::now().after(shard.config().cas_contention_timeout);
    let source = RowSource::Node(asked.clone());
    let first = ballot(shard, scope, None);
    let (mut proposer, mut command) = Proposer::<Update>::alone(first);
    let mut at = first;
    let mut decided = Decision::unchanged();
    let mut own = false;
    loop {
        let next = match command {
            Command::Prepare(ballot) => {
                (at, own) = (ballot, false);
                progress.set(CasProgress::Preparing);
                proposer.promised(0, ballot, asked.prepare(shard, table, &key, ballot).await?)
            }
            Command::Read => {
                let (update, found) = decide(shard, request, &key, at.micros(), &source).await?;
                if update.is_some() {
                    plan.check_commit()?;
                }
                (decided, own) = (found, update.is_some());
                proposer.decided(update)
            }
            Command::Propose(proposal) => {
                if own {
                    progress.set(CasProgress::Proposing);
                }
                let ballot = proposal.ballot;
                match asked.settle(shard, table, &key, proposal).await {
                    Ok(acceptance) => proposer.accepted(ballot, acceptance),
                    Err(failure) if failure.outcome == Outcome::Unknown && own => return Err(plan.undecided(0)),
                    Err(failure) => return Err(failure),
                }
            }
            Command::Begin(above) => {
                contentions.set(proposer.contentions());
                if runtime::now() >= deadline {
                    return Err(plan.expired(CasProgress::Preparing, 0, proposer.contentions()));
                }
                pause(proposer.contentions()).await;
                Some(proposer.prepare(above_all(shard, scope, above)))
            }
            Command::End(RoundEnd::Applied | RoundEnd::Unchanged) => return Ok(decided),
            Command::End(_) | Command::Commit { .. } => None,
        };
        // The only acceptor has answered, so there is always a next step.
        command = next.ok_or_else(|| Failure::server("a round of Paxos came to a halt").unknown())?;
    }
}

fn above_all(shard: &Shard, scope: Scope, above: Ballot) -> Ballot {
    ballot(shard, scope, Some(above))
}

/// Waits for a random time, so that rounds which overtake each other come apart.
async fn pause(attempts: u16) {
    let longest = PAUSE * (1 << attempts.min(DOUBLINGS_MAX));
    runtime::sleep(longest.mul_f64(runtime::rng::u64() as f64 / u64::MAX as f64)).await;
}
