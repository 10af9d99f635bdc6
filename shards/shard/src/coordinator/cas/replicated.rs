//! Rounds among several replicas, or with the only one on another node: the proposer runs on the core that was asked.
//!
//! 0. Rounds of one core about the same partition take turns, until the outcome is written. So the cores that have
//!    clients of a partition compete for it, however many clients these are.
//! 1. Prepare: all live replicas that take part are asked for promises, which are durable, because an acceptor holds no
//!    lock for a proposer that may be gone.
//!    With its promise each gives the fragments that the conditions look at, once all nodes can do so.
//! 2. What earlier rounds left is finished, and replicas that lack the last commit are sent it. Then what came with the
//!    promises is of no use, and all replicas that take part are asked for fragments.
//! 3. Decide here. The fragments of a majority are merged, which meets the majority that has every decision before.
//! 4. Propose. If others were promised a later ballot meanwhile, the round begins again after a random pause, which
//!    grows with every attempt.
//! 5. Commit: the outcome is written to all replicas at the level of the commit, as any mutation is. The only replica
//!    commits what it accepts in one step.
//!
//! Rounds that the only replica runs by itself do not store their promises. They hold the partition's lock from the
//! promise to the commit, and each step of the acceptor for another node takes that lock, so none of these comes in
//! between.
//!
//! Invariants: a step that was sent runs to its end, whether or not its answer is waited for; a replica that is not
//! alive, did not answer or failed counts as lost for the step.

use super::proposer::{Command, Proposer, RoundEnd};
use super::{Decide, accept, ballot, twin};
use crate::coordinator::remote::{Asked, REQUEST_BYTES, failure_of, paxos_answer};
use crate::coordinator::replication;
use crate::coordinator::row_source::{Fastest, RowSource};
use crate::messages::Request;
use crate::messages::data::{ConditionalRequest, Decision, FragmentRequest, PaxosAnswer, PaxosRequest, PaxosStep};
use crate::paxos::ballot::{Ballot, Scope};
use crate::paxos::{Proposal, Update};
use crate::peer::answer::Refusal;
use crate::peer::head::Head;
use crate::peer::paxos::{Round, push_prepare_read};
use crate::replica;
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::placement::Replica;
use cluster::plan::{CasProgress, Votes};
use cluster::topology::Topology;
use model::failure::{Detail, FailureReason};
use model::fragment_block::FragmentBlock;
use model::{Consistency, DecoratedKey, ErrorCode, Failure};
use runtime::{Instant, ShardId};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The longest first pause before a round that others overtook begins again. It doubles with every attempt.
const PAUSE: Duration = Duration::from_millis(2);
/// How often it doubles.
const DOUBLINGS_MAX: u16 = 6;
/// Most bytes of fragments that come with a promise; what lies behind them is read afterwards.
const PROMISED_BYTES_MAX: usize = 64 << 10;

/// A step under way on one replica.
type StepCall = Pin<Box<dyn Future<Output = Result<PaxosAnswer, Refusal>>>>;

/// The step that was sent last.
struct StepUnderWay {
    /// That of the round, or the one of an earlier decision that is sent to replicas which lack it.
    ballot: Ballot,
    /// The replicas that have not answered, by their positions in the plan.
    calls: SmallVec<[(usize, StepCall); 3]>,
    /// Replicas that the step would need but that are not alive, and of which the proposer has not been told.
    dead: SmallVec<[usize; 3]>,
}

impl StepUnderWay {
    fn new(ballot: Ballot) -> StepUnderWay {
        StepUnderWay { ballot, calls: SmallVec::new(), dead: SmallVec::new() }
    }

    /// The next answer, and the position of its replica.
    async fn next_answer(&mut self) -> (usize, Result<PaxosAnswer, Refusal>) {
        let calls = &mut self.calls;
        std::future::poll_fn(|context| {
            for place in 0..calls.len() {
                if let Poll::Ready(answer) = calls[place].1.as_mut().poll(context) {
                    return Poll::Ready((calls.swap_remove(place).0, answer));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// How the decision of a request ended.
enum Decided {
    /// Nothing is left to do.
    Done(Decision),
    /// A majority has accepted the change, which is to be written.
    Change(Decision, Proposal<Update>),
}

/// Why a round ended without a decision.
enum Stopped {
    /// The client gets this failure.
    Failed(Failure),
    /// By this epoch other nodes have the partition.
    Moved(u64),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

/// Decides a request with the replicas of its plan, which was made by `topology`, within the request's timeout.
pub(super) async fn decide(
    shard: &Shard,
    mut request: ConditionalRequest,
    decide: impl Decide,
    mut topology: Rc<Topology>,
) -> Result<Decision, Failure> {
    let deadline = runtime::now().after(request.timeout);
    let left = || deadline.since(runtime::now());
    let key = DecoratedKey::new(shard.partitioner(), &request.key);
    let turn = shard.decision_turns().lock(request.table.id, key.token);
    let Some(turn) = runtime::timeout(left().min(shard.timeouts().cas_contention), turn).await else {
        return Err(request.plan.expired(CasProgress::Preparing, 0, 0));
    };
    let _turn = turn.map_err(|error| replica::failure(&shard.schema(), Some(request.table.id), error))?;
    loop {
        let mut rounds = Rounds::new(shard, &request, &key, topology, deadline);
        let ended = runtime::timeout(left(), Box::pin(rounds.run(&decide))).await;
        let contentions = rounds.proposer.contentions();
        match ended {
            Some(Ok(Decided::Done(decision))) => return Ok(decision),
            Some(Ok(Decided::Change(decision, proposal))) => {
                let place = (&request.table, &request.key[..]);
                let committed = twin::commit(shard, place, &proposal, request.plan.serial(), left()).await;
                if committed.is_err() {
                    // The next round of the partition commits it.
                    return Err(request.plan.expired(CasProgress::Committing, 0, contentions));
                }
                let committing = replication::commit(shard, &request, &key, proposal, contentions, left());
                return Box::pin(committing).await.map(|()| decision);
            }
            Some(Err(Stopped::Failed(failure))) => return Err(failure),
            Some(Err(Stopped::Moved(epoch))) => {
                if runtime::timeout(left(), shard.epoch_reached(epoch)).await.is_none() {
                    return Err(request.plan.expired(CasProgress::Preparing, 0, contentions));
                }
                let placement = shard.placement_of(&request.table)?;
                let replicas = placement.replicas(key.token, &key.key);
                request.plan = request.plan.again(replicas, placement.live())?;
                topology = placement.keyspace().topology().clone();
            }
            None => return Err(rounds.expired()),
        }
    }
}

/// The rounds of one request, one after another.
struct Rounds<'r> {
    shard: &'r Shard,
    request: &'r ConditionalRequest,
    key: &'r DecoratedKey,
    topology: Rc<Topology>,
    deadline: Instant,
    scope: Scope,
    proposer: Proposer<Update>,
    /// Whether the only replica commits what it accepts in one step.
    settles: bool,
    /// The first command of the proposer.
    first: Option<Command<Update>>,
    step: StepUnderWay,
    /// What came with the promises of the round under way, and from whom.
    promised: (Vec<FragmentBlock>, Votes),
    progress: CasProgress,
    /// Why replicas failed.
    failures: Vec<(IpAddr, FailureReason)>,
    /// What the replica that failed last said.
    last: Option<Failure>,
}

impl<'r> Rounds<'r> {
    fn new(
        shard: &'r Shard,
        request: &'r ConditionalRequest,
        key: &'r DecoratedKey,
        topology: Rc<Topology>,
        deadline: Instant,
    ) -> Rounds<'r> {
        let scope = match request.plan.serial() {
            Consistency::LocalSerial => Scope::Local,
            _ => Scope::Global,
        };
        let ballot = ballot(shard, scope, None);
        let settles = request.plan.replicas() == 1 && !twin::has_one(shard, &request.table, &request.key);
        let (proposer, first) = match settles {
            true => Proposer::alone(ballot),
            false => Proposer::begin(request.plan.quorum().clone(), request.plan.commits_needed(), ballot),
        };
        Rounds {
            shard,
            request,
            key,
            topology,
            deadline,
            scope,
            proposer,
            settles,
            first: Some(first),
            step: StepUnderWay::new(ballot),
            promised: Default::default(),
            progress: CasProgress::Preparing,
            failures: Vec::new(),
            last: None,
        }
    }

    /// Runs rounds until one ends with a decision.
    async fn run(&mut self, decide: &impl Decide) -> Result<Decided, Stopped> {
        let plan = &self.request.plan;
        let contended_until = runtime::now().after(self.shard.timeouts().cas_contention);
        let mut decided = Decision::unchanged();
        // Whether the change being sent is the one that this request asks for, not one left by an earlier round.
        let mut own = false;
        let mut command = self.first.take();
        loop {
            let next = match command.take() {
                None => self.answered().await?,
                Some(next) => next,
            };
            command = match next {
                Command::Prepare(ballot) => {
                    own = false;
                    self.progress = CasProgress::Preparing;
                    self.promised = Default::default();
                    self.ask_all(ballot, &self.first_step(ballot));
                    None
                }
                Command::Read => {
                    let at = self.proposer.ballot().micros();
                    let source = RowSource::Fastest(Box::new(self.source()));
                    let read = decide(self.shard, self.request, self.key, at, &source).await;
                    let (update, found) = match read {
                        Err(failure) if matches!(failure.detail, Detail::Replica { .. }) => {
                            self.last = Some(failure);
                            return Err(self.failure(RoundEnd::Unprepared).into());
                        }
                        read => read?,
                    };
                    if update.is_some() {
                        plan.check_commit()?;
                    }
                    (decided, own) = (found, update.is_some());
                    self.proposer.decided(update)
                }
                Command::Propose(proposal) => {
                    if own {
                        self.progress = CasProgress::Proposing;
                    }
                    let ballot = proposal.ballot;
                    let step = match self.settles {
                        true => PaxosStep::Settle(proposal),
                        false => PaxosStep::Accept(proposal),
                    };
                    self.ask_all(ballot, &step);
                    None
                }
                Command::Commit { proposal, .. } if own => return Ok(Decided::Change(decided, proposal)),
                Command::Commit { proposal, to } => {
                    self.promised = Default::default();
                    let (place, left) =
                        ((&self.request.table, &self.request.key[..]), self.deadline.since(runtime::now()));
                    twin::commit(self.shard, place, &proposal, plan.serial(), left).await?;
                    self.ask(proposal.ballot, &PaxosStep::Commit(proposal), &to);
                    None
                }
                Command::Begin(above) => {
                    if runtime::now() >= contended_until {
                        return Err(plan.expired(CasProgress::Preparing, 0, self.proposer.contentions()).into());
                    }
                    pause(self.proposer.contentions()).await;
                    Some(self.proposer.prepare(ballot(self.shard, self.scope, Some(above))))
                }
                Command::End(RoundEnd::Applied | RoundEnd::Unchanged) => return Ok(Decided::Done(decided)),
                Command::End(end) => return Err(self.failure(end).into()),
            };
        }
    }

    /// The first step of a round.
    fn first_step(&self, ballot: Ballot) -> PaxosStep {
        match &self.request.read {
            Some(command) if self.topology.reads_with_promises() => {
                let command = command.clone();
                PaxosStep::PrepareRead(ballot, FragmentRequest { command, bytes_max: PROMISED_BYTES_MAX })
            }
            _ => PaxosStep::Prepare(ballot),
        }
    }

    /// What the decision reads from: what came with the promises, and replicas that are asked for the rest.
    fn source(&mut self) -> Fastest {
        let plan = &self.request.plan;
        let (promised, votes) = std::mem::take(&mut self.promised);
        let command = self.request.read.clone().filter(|_| plan.quorum().is_met_by(votes));
        Fastest {
            topology: self.topology.clone(),
            replicas: SmallVec::from_slice(plan.participants()),
            quorum: plan.quorum().clone(),
            deadline: self.deadline,
            answered: RefCell::new(command.map(|command| (command, promised))),
        }
    }

    /// Sends a step to all replicas.
    fn ask_all(&mut self, ballot: Ballot, step: &PaxosStep) {
        let all: SmallVec<[usize; 5]> = (0..self.request.plan.replicas()).collect();
        self.ask(ballot, step, &all);
    }

    /// Sends a step to replicas by their positions; those past the live ones are dead.
    fn ask(&mut self, ballot: Ballot, step: &PaxosStep, to: &[usize]) {
        let (verb, body) = self.body(step);
        let mut sent = StepUnderWay::new(ballot);
        for at in to {
            match self.request.plan.participants().get(*at) {
                None => sent.dead.push(*at),
                Some(replica) if replica.node == self.topology.here() => {
                    sent.calls.push((*at, self.step_here(*replica, step.clone())));
                }
                Some(replica) => {
                    let asked = Asked::until(&self.topology, replica.node, self.deadline);
                    let call = asked.call(self.shard, verb, &body);
                    let partitioner = self.key.partitioner;
                    sent.calls.push((*at, Box::pin(async move { paxos_answer(partitioner, verb, call.await) })));
                }
            }
        }
        self.step = sent;
    }

    /// A step as a request to another node.
    fn body(&self, step: &PaxosStep) -> (Verb, Vec<u8>) {
        let (table, key) = (self.request.table.id, self.key);
        let head = Head { epoch: self.topology.epoch() };
        let room = |proposal: &Proposal<Update>| REQUEST_BYTES + proposal.update.as_ref().map_or(0, Vec::len);
        let proposing = |proposal: &Proposal<Update>| {
            let mut body = head.body(room(proposal));
            Round { table, key: key.clone(), asked: proposal.clone() }.encode(&mut body);
            body
        };
        match step {
            PaxosStep::Prepare(ballot) => {
                let mut body = head.body(REQUEST_BYTES);
                Round { table, key: key.clone(), asked: *ballot }.encode(&mut body);
                (Verb::PaxosPrepare, body)
            }
            PaxosStep::PrepareRead(ballot, request) => {
                let mut body = head.body(REQUEST_BYTES);
                push_prepare_read(&mut body, *ballot, request);
                (Verb::PaxosPrepareRead, body)
            }
            PaxosStep::Accept(proposal) => (Verb::PaxosPropose, proposing(proposal)),
            PaxosStep::Settle(proposal) => (Verb::PaxosSettle, proposing(proposal)),
            PaxosStep::Commit(proposal) => (Verb::PaxosCommit, proposing(proposal)),
        }
    }

    /// A step on this node, in a task of its own.
    fn step_here(&self, replica: Replica, step: PaxosStep) -> StepCall {
        let request = PaxosRequest { table: self.request.table.id, key: self.key.clone(), step };
        let running = runtime::spawn(step_here(self.shard.clone(), replica, request));
        Box::pin(async move { running.await.map_err(Refusal::Failed) })
    }

    /// Waits until the answers to the step under way say what is to be done next.
    async fn answered(&mut self) -> Result<Command<Update>, Stopped> {
        let ballot = self.step.ballot;
        while let Some(at) = self.step.dead.pop() {
            if let Some(next) = self.proposer.failed(at, ballot) {
                return Ok(next);
            }
        }
        while !self.step.calls.is_empty() {
            let (at, answer) = self.step.next_answer().await;
            let next = match answer {
                Ok(PaxosAnswer::Promise(promise)) => self.proposer.promised(at, ballot, promise),
                Ok(PaxosAnswer::PromiseRead(promise, block)) => {
                    self.promised.0.push(block);
                    self.promised.1 += self.request.plan.quorum().votes_of(at);
                    self.proposer.promised(at, ballot, promise)
                }
                Ok(PaxosAnswer::Acceptance(acceptance)) => self.proposer.accepted(at, ballot, acceptance),
                Ok(PaxosAnswer::Committed) => self.proposer.committed(at, ballot),
                Err(Refusal::Moved(epoch)) if self.plans_again(epoch) => return Err(Stopped::Moved(epoch)),
                Err(refusal) => {
                    self.note(at, refusal);
                    self.proposer.failed(at, ballot)
                }
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
        Err(Failure::server("a round of Paxos came to a halt").unknown().into())
    }

    /// Whether everything can be planned again by the nodes of a later epoch: nothing of this request was proposed.
    fn plans_again(&self, epoch: u64) -> bool {
        self.progress == CasProgress::Preparing && epoch > self.topology.epoch()
    }

    /// Notes why a replica failed.
    fn note(&mut self, at: usize, refusal: Refusal) {
        let failure = failure_of(Verb::PaxosPropose, refusal);
        let reason = match failure.detail {
            Detail::Replica { reason } => reason,
            _ => FailureReason::Unknown,
        };
        if let Some(replica) = self.request.plan.participants().get(at) {
            let address = self.topology.node(replica.node).address.ip();
            self.failures.retain(|(other, _)| *other != address);
            self.failures.push((address, reason));
        }
        self.last = Some(failure);
    }

    /// What the client gets if a round ended so.
    fn failure(&mut self, end: RoundEnd) -> Failure {
        let plan = &self.request.plan;
        let contentions = self.proposer.contentions();
        match end {
            RoundEnd::Unknown { accepted } => return plan.undecided(accepted),
            RoundEnd::Uncommitted { committed } => {
                return plan.expired(CasProgress::Committing, committed, contentions);
            }
            RoundEnd::Applied | RoundEnd::Unchanged | RoundEnd::Unprepared => {}
        }
        // What the only replica refuses is passed on as it is.
        if plan.replicas() == 1
            && let Some(failure) = self.last.take_if(|failure| !matches!(failure.detail, Detail::Replica { .. }))
        {
            return failure;
        }
        let received = self.proposer.received();
        if self.failures.iter().all(|(_, reason)| *reason == FailureReason::Timeout) {
            return plan.expired(CasProgress::Preparing, received, contentions);
        }
        let reasons: Vec<String> =
            self.failures.iter().map(|(address, reason)| format!("{} from /{address}", reason.name())).collect();
        let count = reasons.len();
        let text =
            format!("Operation failed - received {received} responses and {count} failures: {}", reasons.join(", "));
        Failure::new(ErrorCode::WriteFailure, text).with(Detail::WriteFailure {
            consistency: plan.serial(),
            received: received as i32,
            block_for: plan.needed() as i32,
            failures: std::mem::take(&mut self.failures),
            write_type: "CAS",
        })
    }

    /// What the client gets when the request's time has ended.
    fn expired(&self) -> Failure {
        self.request.plan.expired(self.progress, self.proposer.received(), self.proposer.contentions())
    }
}

/// Does a step on this node. Must be polled to its end.
async fn step_here(shard: Shard, replica: Replica, request: PaxosRequest) -> Result<PaxosAnswer, Failure> {
    let to = ShardId(replica.shard);
    match to == shard.id() {
        true => Box::pin(accept(&shard, request)).await,
        false => shard.call(to, Request::Paxos(Box::new(request))).await.paxos().map(|reply| reply.0),
    }
}

/// Waits for a random time, so that rounds which overtake each other come apart.
async fn pause(attempts: u16) {
    let longest = PAUSE * (1 << attempts.min(DOUBLINGS_MAX));
    runtime::sleep(longest.mul_f64(runtime::rng::u64() as f64 / u64::MAX as f64)).await;
}
