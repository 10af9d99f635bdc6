//! Conditional changes and reads at SERIAL: decisions by Paxos, one partition at a time.
//!
//! 1. If this node is the only replica, the core that owns the partition runs the round, and its clock gives the
//!    ballots. All other rounds run where they were asked for ([`replicated`]).
//! 2. That core holds the partition's lock from the first promise to the commit. So rounds of one node wait for each
//!    other instead of starting again, and changes that read first (elements of lists) come either before or after a
//!    round.
//! 3. [`proposer`] says what to do next; the effects of the acceptor are durable before the proposer is told about
//!    them.
//! 4. While the core is the only replica, a decision is one mutation and waits for the log once. In simulation some
//!    rounds take all steps, as with several replicas, so that crashes between the steps exercise the recovery.
//!
//! Waiting for the lock or for others, and beginning again, ends after `cas_contention_timeout`.
//!
//! Invariants: the lock is held until the round's last write is decided, even if nobody waits for it any more; an
//! accepted proposal is committed by its own round or by the next one, even after a crash; a change that a client was
//! told has failed never happens.

pub(crate) mod finishing;
pub(crate) mod proposer;
mod replicated;
mod twin;

use super::row_source::RowSource;
use super::too_many_calls;
use crate::messages::Request;
use crate::messages::data::{ConditionalRequest, Decision};
use crate::messages::data::{PaxosAnswer, PaxosRequest, PaxosStep};
use crate::metrics::Measure;
use crate::paxos::ballot::{Ballot, Scope};
use crate::paxos::{Promise, Update};
use crate::replica;
use crate::replica::paxos_acceptor::StoredAcceptor;
use crate::shard_state::Shard;
use cluster::plan::CasProgress;
use cluster::topology::Topology;
use model::failure::Outcome;
use model::{Consistency, DecoratedKey, Failure};
use proposer::{Command, Proposer, RoundEnd};
use runtime::ShardId;
use std::cell::Cell;
use std::rc::Rc;

/// How many microseconds a ballot is above one that was heard of, at most.
const ABOVE_MAX: u64 = 16;

/// The progress of a round; `None` while it waits for the partition's lock.
type RoundProgress = Option<CasProgress>;

/// Reads what the conditions look at, tests them and builds the change, under the promise of a ballot of this time
/// (microseconds since 1970). The update is `None` if nothing is to be changed.
pub(crate) trait Decide:
    AsyncFn(&Shard, &ConditionalRequest, &DecoratedKey, i64, &RowSource) -> Result<(Option<Update>, Decision), Failure>
    + 'static
{
}

impl<F> Decide for F where
    F: AsyncFn(
            &Shard,
            &ConditionalRequest,
            &DecoratedKey,
            i64,
            &RowSource,
        ) -> Result<(Option<Update>, Decision), Failure>
        + 'static
{
}

/// Decides a request, and records the latency. `topology` is that of the plan.
pub(crate) async fn coordinate(
    shard: &Shard,
    topology: &Rc<Topology>,
    request: ConditionalRequest,
    decide: impl Decide,
) -> Result<Decision, Failure> {
    let (table, began) = (request.table.id, runtime::now());
    let measure = if request.statements.is_empty() { Measure::CasRead } else { Measure::CasWrite };
    let decided = send(shard, topology, request, decide).await;
    if decided.is_ok() {
        shard.metrics().took(&table, measure, began);
    }
    decided
}

async fn send(
    shard: &Shard,
    topology: &Rc<Topology>,
    request: ConditionalRequest,
    decide: impl Decide,
) -> Result<Decision, Failure> {
    let only = request.plan.only().filter(|replica| replica.node == topology.here());
    let Some(replica) = only else {
        return Box::pin(replicated::decide(shard, request, decide, topology.clone())).await;
    };
    let to = ShardId(replica.shard);
    if to == shard.id() {
        return at_owner(shard, request, decide).await;
    }
    if !shard.mailbox().has_room() {
        return Err(too_many_calls());
    }
    let (plan, timeout) = (request.plan.clone(), request.timeout);
    let call = shard.mailbox().call(to, Request::Decide(Box::new(request)));
    match runtime::timeout(timeout, call).await {
        Some(reply) => reply.decided(),
        None => Err(plan.expired(CasProgress::Preparing, 0, 0)),
    }
}

/// Decides a request about a partition of this core, within the request's timeout.
pub(crate) async fn at_owner(
    shard: &Shard,
    request: ConditionalRequest,
    decide: impl Decide,
) -> Result<Decision, Failure> {
    let (plan, timeout) = (request.plan.clone(), request.timeout);
    let (progress, contentions) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(0)));
    let mut running = Box::pin(round(shard.clone(), request, decide, progress.clone(), contentions.clone()));
    match runtime::timeout(timeout, running.as_mut()).await {
        Some(result) => result,
        None => {
            // The round must end before the lock is released, so it goes on without its client.
            if progress.get().is_some() {
                runtime::spawn(running);
            }
            Err(plan.expired(progress.get().unwrap_or(CasProgress::Preparing), 0, contentions.get()))
        }
    }
}

/// Takes the partition's lock and decides. Must be polled to its end.
async fn round(
    shard: Shard,
    request: ConditionalRequest,
    decide: impl Decide,
    progress: Rc<Cell<RoundProgress>>,
    contentions: Rc<Cell<u16>>,
) -> Result<Decision, Failure> {
    let key = DecoratedKey::new(shard.partitioner(), &request.key);
    let table = request.table.clone();
    let failed = |error| replica::failure(&shard.schema(), Some(table.id), error);
    let plan = request.plan.clone();
    let contention = shard.request_timeouts().cas_contention;
    let deadline = runtime::now().after(contention);
    let lock = shard.store().lock(table.id, &key);
    let Some(guard) = runtime::timeout(contention, lock).await else {
        return Err(plan.expired(CasProgress::Preparing, 0, 0));
    };
    let _guard = guard.map_err(failed)?;
    if !shard.unsettled().admits(table.id, &key) {
        return Err(too_many_unsettled());
    }
    progress.set(Some(CasProgress::Preparing));
    let acceptor = StoredAcceptor::new(&shard, &table, &key);
    let scope = match plan.serial() {
        Consistency::LocalSerial => Scope::Local,
        _ => Scope::Global,
    };
    let first = ballot(&shard, scope, None);
    // What is committed elsewhere too must be decided before it is committed there.
    let in_steps = twin::has_one(&shard, &table, &request.key) || runtime::fault::buggify("paxos in steps");
    let (mut proposer, mut command) = match in_steps {
        true => Proposer::<Update>::begin(plan.quorum().clone(), plan.commits_needed(), first),
        false => Proposer::alone(first),
    };
    let mut at = Ballot::new(0, scope, 0);
    let mut decided = Decision::unchanged();
    // Whether the change being sent is the one that this request asks for, not one left by an earlier round.
    let mut own = false;
    let mut error: Option<Failure> = None;
    loop {
        let next = match command {
            Command::Prepare(ballot) => {
                (at, own) = (ballot, false);
                progress.set(Some(CasProgress::Preparing));
                let promise = match in_steps {
                    true => acceptor.prepare(ballot).await,
                    false => acceptor.promise(ballot).await,
                };
                match promise {
                    Ok(promise) => proposer.promised(0, ballot, promise),
                    Err(failure) => {
                        error = Some(failure);
                        proposer.failed(0, ballot)
                    }
                }
            }
            Command::Read => {
                let (update, found) = decide(&shard, &request, &key, at.micros(), &RowSource::Here).await?;
                if update.is_some() {
                    plan.check_commit()?;
                }
                (decided, own) = (found, update.is_some());
                proposer.decided(update)
            }
            Command::Propose(proposal) => {
                if own {
                    progress.set(Some(CasProgress::Proposing));
                }
                let answer = match in_steps {
                    true => acceptor.accept(&proposal).await,
                    false => acceptor.settle(&proposal).await,
                };
                match answer {
                    Ok(answer) => proposer.accepted(0, proposal.ballot, answer),
                    Err(failure) => {
                        error = Some(failure);
                        proposer.failed(0, proposal.ballot)
                    }
                }
            }
            Command::Commit { proposal, .. } => {
                if own {
                    progress.set(Some(CasProgress::Committing));
                }
                let place = (&table, &request.key[..]);
                let elsewhere = twin::commit(&shard, place, &proposal, plan.serial(), request.timeout).await;
                let committed = match elsewhere {
                    Ok(()) => acceptor.commit(&proposal).await,
                    Err(failure) => Err(failure),
                };
                match committed {
                    Ok(()) => proposer.committed(0, proposal.ballot),
                    Err(failure) => {
                        tracing::warn!(%failure, "a decided change waits for the next round of its partition");
                        proposer.failed(0, proposal.ballot)
                    }
                }
            }
            Command::Begin(above) => {
                contentions.set(proposer.contentions());
                if runtime::now() >= deadline {
                    return Err(plan.expired(CasProgress::Preparing, 0, proposer.contentions()));
                }
                Some(proposer.prepare(ballot(&shard, scope, Some(above))))
            }
            Command::End(RoundEnd::Applied | RoundEnd::Unchanged) => return Ok(decided),
            Command::End(end) => {
                // A definite refusal by the replica is passed on unchanged.
                if let Some(failure) = error.filter(|failure| failure.outcome == Outcome::NotApplied) {
                    return Err(failure);
                }
                return Err(match end {
                    RoundEnd::Unknown { accepted } => plan.undecided(accepted),
                    RoundEnd::Uncommitted { committed } => {
                        plan.expired(CasProgress::Committing, committed, proposer.contentions())
                    }
                    _ => plan.expired(CasProgress::Preparing, 0, proposer.contentions()),
                });
            }
        };
        // The only replica has answered, so there is always a next step.
        command = next.ok_or_else(|| Failure::server("a round of Paxos came to a halt").unknown())?;
    }
}

/// A ballot of the current time, above `above`. If it must be ahead of the clock, the clock itself is not advanced, so
/// that one node with a wrong clock does not drag the others along. Rounds that heard of the same ballot rarely choose
/// the same microsecond, of which one ballot is promised.
fn ballot(shard: &Shard, scope: Scope, above: Option<Ballot>) -> Ballot {
    let (now, random) = (shard.clock().timestamp(), runtime::rng::u64());
    let step = 1 + (random % ABOVE_MAX) as i64;
    let micros = above.map_or(now, |above| now.max(above.micros().saturating_add(step)));
    Ballot::new(micros, scope, random)
}

/// Does a step of a round that another node runs about a partition of this core. Must be polled to its end.
pub(crate) async fn accept(shard: &Shard, request: PaxosRequest) -> Result<PaxosAnswer, Failure> {
    let PaxosRequest { table, key, step } = request;
    let table = replica::wait_for_table(shard, table).await?;
    let failed = |error| replica::failure(&shard.schema(), Some(table.id), error);
    let lock = shard.store().lock(table.id, &key);
    let Some(guard) = runtime::timeout(shard.timeouts().cas_contention, lock).await else {
        return Err(Failure::overloaded("Too many conditional changes wait for this partition; nothing was written"));
    };
    let _guard = guard.map_err(failed)?;
    let acceptor = StoredAcceptor::new(shard, &table, &key);
    // What is decided needs no room.
    if !matches!(step, PaxosStep::Commit(_)) && !shard.unsettled().admits(table.id, &key) {
        return Err(too_many_unsettled());
    }
    Ok(match step {
        PaxosStep::Prepare(ballot) => PaxosAnswer::Promise(acceptor.prepare(ballot).await?),
        PaxosStep::PrepareRead(ballot, request) => match acceptor.prepare(ballot).await? {
            refused @ Promise::Refused(_) => PaxosAnswer::Promise(refused),
            // Under the lock, so nothing is accepted or committed between the promise and the read.
            promise => PaxosAnswer::PromiseRead(promise, replica::fragments::read_fragments(shard, &request).await?),
        },
        PaxosStep::Accept(proposal) => PaxosAnswer::Acceptance(acceptor.accept(&proposal).await?),
        PaxosStep::Settle(proposal) => PaxosAnswer::Acceptance(acceptor.settle(&proposal).await?),
        PaxosStep::Commit(proposal) => {
            acceptor.commit(&proposal).await?;
            PaxosAnswer::Committed
        }
    })
}

fn too_many_unsettled() -> Failure {
    Failure::overloaded("Too many conditional changes of this core wait for the commit log")
}
