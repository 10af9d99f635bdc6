//! Streams of one core: sessions in which it sends, what it knows of their progress and of that of streams to it, and
//! how fast it may send.
//!
//! Invariants: at most [`RECEIVES_MAX`] cores of other nodes are received from at a time; at most [`SESSIONS_MAX`]
//! sessions hold SSTables, each until its receiver has ended it or has not been
//! heard of for `streaming_keep_alive_period`; what is remembered of progress is bounded by [`PROGRESS_MAX`].

use crate::config::StreamOptions;
use crate::messages::streams::{StreamProgress, Throughput};
use engine::Throttle;
use engine::streams::source::{ReadySstable, StreamView};
use model::{Failure, TableId};
use runtime::Instant;
use runtime::gate::Semaphore;
use runtime::metrics::Counter;
use runtime::sync::Condition;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// Most sessions of a core.
pub(crate) const SESSIONS_MAX: usize = 256;
/// From most so many cores of other nodes a core receives at a time; the others wait for their turn.
pub(crate) const RECEIVES_MAX: usize = 32;
/// Most whole SSTables of a session whose files are open, because they are offered and were not taken yet.
pub(crate) const WHOLE_READY_MAX: usize = 16;
/// Most extracted SSTables of a session that lie on the disk for the same reason.
pub(crate) const EXTRACTED_MAX: usize = 2;
/// Most streams that are remembered after their end, of each core.
pub(crate) const PROGRESS_MAX: usize = 256;

/// The streams of one core.
pub(crate) struct Streams {
    sessions: RefCell<BTreeMap<Uuid, Rc<SourceSession>>>,
    progress: RefCell<Vec<Rc<RefCell<StreamProgress>>>>,
    throttles: [Throttle; Throughput::ALL.len()],
    rates: [Cell<u64>; Throughput::ALL.len()],
    /// Bytes that this core has sent and received since its start.
    pub(crate) sent_bytes: Counter,
    pub(crate) received_bytes: Counter,
    /// How long a session lives of which nothing is heard.
    pub(crate) lease: Duration,
    /// The plans that shard 0 carries out.
    pub(crate) running: RefCell<Vec<Uuid>>,
    /// What this core receives now.
    receiving: RefCell<Vec<Rc<Receiving>>>,
    receiving_changed: Condition,
    /// The right to receive from one more core of another node.
    pub(crate) receives: Semaphore,
    /// Room on the disks that plans which shard 0 carries out still need, by plan and data directory.
    pub(crate) reserved: RefCell<BTreeMap<Uuid, BTreeMap<PathBuf, u64>>>,
}

/// What a core receives from a core of another node, as part of a plan.
pub(crate) struct Receiving {
    plan: Uuid,
    is_abandoned: Cell<bool>,
}

/// A session in which this core sends.
pub(crate) struct SourceSession {
    pub(crate) id: Uuid,
    pub(crate) table: TableId,
    /// Whether the receiver is in another data centre.
    pub(crate) is_far: bool,
    pub(crate) state: RefCell<SessionState>,
    /// Notified when the state changes.
    pub(crate) changed: Condition,
    used_at: Cell<Instant>,
    pub(crate) progress: Rc<RefCell<StreamProgress>>,
}

/// What a session has.
pub(crate) enum SessionState {
    /// The view is being taken.
    Opening,
    /// It sends.
    Open {
        /// What it holds.
        view: Rc<StreamView>,
        /// The items that are known, in order.
        items: Vec<Item>,
    },
    /// It has failed; the receiver is told.
    Failed(Failure),
    /// The table was truncated: what was sent is void.
    Void,
    /// It is over.
    Ended,
}

/// What is known of an item of a session.
#[derive(Clone)]
pub(crate) enum Item {
    /// It has nothing in the ranges.
    Nothing,
    /// The receiver has what it needs.
    Kept,
    /// Its files can be read.
    Ready(Rc<ReadySstable>),
    /// It was sent.
    Done,
}

/// Whether a session may make one more item ready of those that are whole, or of the extracted ones; `ready` says of
/// those that are ready and were not taken yet whether they are whole.
pub(crate) fn has_turn(ready: impl Iterator<Item = bool>, is_whole: bool) -> bool {
    let most = if is_whole { WHOLE_READY_MAX } else { EXTRACTED_MAX };
    ready.filter(|of_it| *of_it == is_whole).count() < most
}

impl SourceSession {
    /// A session that begins now.
    pub(crate) fn new(id: Uuid, table: TableId, is_far: bool, progress: Rc<RefCell<StreamProgress>>) -> SourceSession {
        SourceSession {
            id,
            table,
            is_far,
            state: RefCell::new(SessionState::Opening),
            changed: Condition::default(),
            used_at: Cell::new(runtime::now()),
            progress,
        }
    }

    /// Whether nothing was heard of it for too long.
    pub(crate) fn is_stale(&self, lease: Duration) -> bool {
        runtime::now().since(self.used_at.get()) > lease
    }

    /// Ends it in a state that does not change any more.
    pub(crate) fn end(&self, state: SessionState) {
        *self.state.borrow_mut() = state;
        self.changed.notify();
    }
}

impl Streams {
    /// No streams, and the limits that a node starts with.
    pub(crate) fn new(options: &StreamOptions) -> Streams {
        let streams = Streams {
            sessions: RefCell::default(),
            progress: RefCell::default(),
            throttles: Default::default(),
            rates: Default::default(),
            sent_bytes: Counter::default(),
            received_bytes: Counter::default(),
            lease: options.keep_alive,
            running: RefCell::default(),
            receiving: RefCell::default(),
            receiving_changed: Condition::default(),
            receives: Semaphore::new(RECEIVES_MAX as u64),
            reserved: RefCell::default(),
        };
        for (which, rate) in [
            (Throughput::Ranges, options.throughput),
            (Throughput::RangesBetweenCenters, options.far_throughput),
            (Throughput::Whole, options.whole_throughput),
            (Throughput::WholeBetweenCenters, options.far_whole_throughput),
        ] {
            streams.set_rate(which, rate, rate.div_ceil(runtime::shard_count() as u64));
        }
        streams
    }

    /// Notes that something is received as part of a plan, until [`Streams::received`].
    pub(crate) fn receive(&self, plan: Uuid) -> Rc<Receiving> {
        let receiving = Rc::new(Receiving { plan, is_abandoned: Cell::new(false) });
        self.receiving.borrow_mut().push(receiving.clone());
        receiving
    }

    /// Notes that something is not received any more.
    pub(crate) fn received(&self, ended: &Rc<Receiving>) {
        self.receiving.borrow_mut().retain(|receiving| !Rc::ptr_eq(receiving, ended));
        self.receiving_changed.notify();
    }

    /// Waits until nobody wants any more what is received.
    pub(crate) async fn abandoned(&self, receiving: &Receiving) {
        self.receiving_changed.wait(|| receiving.is_abandoned.get().then_some(())).await;
    }

    /// Lets everything end that is received as part of a plan, and waits for that.
    pub(crate) async fn abandon(&self, plan: Uuid) {
        let is_of_plan = |receiving: &&Rc<Receiving>| receiving.plan == plan;
        self.receiving.borrow().iter().filter(is_of_plan).for_each(|receiving| receiving.is_abandoned.set(true));
        self.receiving_changed.notify();
        self.receiving_changed.wait(|| self.receiving.borrow().iter().all(|of| of.plan != plan).then_some(())).await;
    }

    /// Adds a session.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn add(&self, session: Rc<SourceSession>) -> Result<(), Failure> {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() >= SESSIONS_MAX {
            return Err(Failure::overloaded("Too many streams at a time"));
        }
        sessions.insert(session.id, session);
        Ok(())
    }

    /// A session that the receiver has asked for now.
    pub(crate) fn session(&self, id: Uuid) -> Option<Rc<SourceSession>> {
        let session = self.sessions.borrow().get(&id).cloned();
        if let Some(session) = &session {
            session.used_at.set(runtime::now());
        }
        session
    }

    /// Forgets a session.
    pub(crate) fn remove(&self, id: Uuid) {
        self.sessions.borrow_mut().remove(&id);
    }

    /// Whether a session is under way that belongs to this progress.
    pub(crate) fn sends(&self, progress: &Rc<RefCell<StreamProgress>>) -> bool {
        self.sessions.borrow().values().any(|session| Rc::ptr_eq(&session.progress, progress))
    }

    /// How many sessions there are.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.borrow().len()
    }

    /// Makes what was sent of a table void: it was truncated or dropped.
    pub(crate) fn void(&self, table: TableId) {
        let sessions: Vec<Rc<SourceSession>> = self.sessions.borrow().values().cloned().collect();
        sessions.iter().filter(|session| session.table == table).for_each(|session| session.end(SessionState::Void));
    }

    /// The progress of a stream of a plan, in one direction with one node; made if there is none.
    pub(crate) fn progress(
        &self,
        plan: Uuid,
        operation: u8,
        peer: Uuid,
        is_incoming: bool,
    ) -> Rc<RefCell<StreamProgress>> {
        let mut all = self.progress.borrow_mut();
        let is_it = |of: &StreamProgress| of.plan == plan && of.peer == peer && of.is_incoming == is_incoming;
        if let Some(known) = all.iter().find(|known| is_it(&known.borrow())) {
            let mut progress = known.borrow_mut();
            (progress.is_done, progress.failure) = (false, None);
            return known.clone();
        }
        if all.len() >= PROGRESS_MAX {
            let oldest = all.iter().position(|known| known.borrow().is_done).unwrap_or(0);
            all.remove(oldest);
        }
        let now = runtime::wall_micros().div_euclid(1000);
        let progress = Rc::new(RefCell::new(StreamProgress {
            plan,
            operation,
            peer,
            is_incoming,
            began_at: now,
            changed_at: now,
            files_done: 0,
            files: 0,
            bytes_done: 0,
            bytes: 0,
            is_done: false,
            failure: None,
            current: Vec::new(),
        }));
        all.push(progress.clone());
        progress
    }

    /// What is known of all streams.
    pub(crate) fn all_progress(&self) -> Vec<StreamProgress> {
        self.progress.borrow().iter().map(|progress| progress.borrow().clone()).collect()
    }

    /// Notes that a plan that this node has carried out has ended.
    pub(crate) fn plan_ended(&self, plan: Uuid, failure: Option<&str>) {
        let now = runtime::wall_micros().div_euclid(1000);
        for progress in self.progress.borrow().iter().filter(|progress| progress.borrow().plan == plan) {
            let mut progress = progress.borrow_mut();
            if progress.is_incoming && !progress.is_done {
                (progress.is_done, progress.changed_at) = (true, now);
                (progress.failure, progress.current) = (failure.map(str::to_owned), Vec::new());
            }
        }
    }

    /// Sets a limit of this core, and what that is for the whole node; bytes per second, 0: no limit.
    pub(crate) fn set_rate(&self, which: Throughput, node: u64, core: u64) {
        self.rates[which as usize].set(node);
        self.throttles[which as usize].set(core);
    }

    /// A limit of the whole node, bytes per second; 0: no limit.
    pub(crate) fn rate(&self, which: Throughput) -> u64 {
        self.rates[which as usize].get()
    }

    /// The limits that a stream keeps.
    pub(crate) fn throttles(&self, is_whole: bool, is_far: bool) -> impl Iterator<Item = &Throttle> {
        let (near, far) = match is_whole {
            true => (Throughput::Whole, Throughput::WholeBetweenCenters),
            false => (Throughput::Ranges, Throughput::RangesBetweenCenters),
        };
        [Some(near), is_far.then_some(far)].into_iter().flatten().map(|which| &self.throttles[which as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::NodeId;
    use runtime::sim::{Options, Sim};

    #[test]
    fn nothing_is_received_any_more_once_a_plan_is_abandoned() {
        let mut sim = Sim::new(2, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(60), || async {
            let streams = Rc::new(Streams::new(&StreamOptions::default()));
            let (plan, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
            let (unwanted, wanted) = (streams.receive(plan), streams.receive(other));
            let (receiver, ended) = (streams.clone(), Rc::new(Cell::new(false)));
            let seen = ended.clone();
            runtime::spawn(async move {
                receiver.abandoned(&unwanted).await;
                runtime::sleep(Duration::from_secs(1)).await;
                seen.set(true);
                receiver.received(&unwanted);
            });
            streams.abandon(plan).await;
            assert!(ended.get(), "it is waited for");
            let goes_on = runtime::timeout(Duration::from_secs(9), streams.abandoned(&wanted)).await;
            assert!(goes_on.is_none(), "another plan goes on");
        });
    }

    #[test]
    fn what_is_ready_in_a_session_is_bounded() {
        let ready = |whole: usize, extracted: usize| {
            std::iter::repeat_n(true, whole).chain(std::iter::repeat_n(false, extracted)).collect::<Vec<_>>()
        };
        let has_turn = |ready: Vec<bool>, is_whole| has_turn(ready.into_iter(), is_whole);
        assert!(has_turn(ready(WHOLE_READY_MAX - 1, EXTRACTED_MAX), true));
        assert!(!has_turn(ready(WHOLE_READY_MAX, 0), true), "one past it");
        assert!(has_turn(ready(WHOLE_READY_MAX, EXTRACTED_MAX - 1), false));
        assert!(!has_turn(ready(0, EXTRACTED_MAX), false), "one past it");
    }

    #[test]
    fn what_is_received_at_a_time_is_bounded() {
        let mut sim = Sim::new(3, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(60), || async {
            let streams = Streams::new(&StreamOptions::default());
            let mut turns: Vec<_> =
                (0..RECEIVES_MAX).map(|_| streams.receives.try_acquire(1).expect("a turn")).collect();
            assert!(streams.receives.try_acquire(1).is_none(), "one past it");
            turns.pop();
            streams.receives.acquire(1).await;
        });
    }

    #[test]
    fn sessions_and_what_is_remembered_are_bounded() {
        let mut sim = Sim::new(1, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(60), || async {
            let streams = Streams::new(&StreamOptions::default());
            let (plan, table) = (Uuid::from_u128(1), TableId([1; 16]));
            let session = |number: usize| {
                let progress = streams.progress(plan, 1, plan, false);
                Rc::new(SourceSession::new(Uuid::from_u128(number as u128), table, false, progress))
            };
            (0..SESSIONS_MAX).for_each(|number| streams.add(session(number)).expect("room"));
            assert!(streams.add(session(SESSIONS_MAX)).is_err(), "one past it");
            streams.remove(Uuid::from_u128(0));
            streams.add(session(SESSIONS_MAX)).expect("room again");
            streams.void(table);
            let voided = streams.session(Uuid::from_u128(1)).expect("a session");
            assert!(matches!(*voided.state.borrow(), SessionState::Void));
            assert!(!voided.is_stale(Duration::from_secs(9)));
            runtime::sleep(Duration::from_secs(10)).await;
            assert!(voided.is_stale(Duration::from_secs(9)));
            (0..2 * PROGRESS_MAX).for_each(|peer| drop(streams.progress(plan, 1, Uuid::from_u128(peer as u128), true)));
            assert_eq!(streams.all_progress().len(), PROGRESS_MAX);
        });
    }
}
