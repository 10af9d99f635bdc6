//! The owner's state machine as openraft uses it, with the window of proposals that makes applying exact.
//!
//! A proposer that gets no answer sends its proposal again, so one proposal may stand in the log twice. Every member
//! keeps the ids of the last proposals with their answers; a second entry with a known id changes nothing and has the
//! first one's answer. The window is part of the state: it goes into snapshots, and all members drop the same ids at
//! the same index.
//!
//! ```text
//! snapshot data  count u32 · per proposal of the window, oldest first: id uuid · index u64 · answer bytes
//!                the state machine's own bytes
//! ```

use crate::bytes::{Put, Take};
use crate::erased::AnyStateMachine;
use crate::failure::Failure;
use crate::limits::{ANSWER_BYTES_MAX, SNAPSHOT_BYTES_MAX};
use crate::log::Log;
use crate::ports::StoreError;
use crate::types::{Applied, LogId, Payload, Proposal, Snapshot, SnapshotData, SnapshotMeta, StoredMembership, Types};
use futures_util::{Stream, StreamExt};
use openraft::OptionalSend;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use runtime::HashMap;
use runtime::sync::Condition;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use uuid::Uuid;

/// How many bytes of ids and answers the window keeps: ten thousand proposals with short answers.
const WINDOW_BYTES_MAX: usize = 1 << 20;
/// What a proposal costs the window besides its answer.
const WINDOW_ITEM_BYTES: usize = 64;

/// The state machine of one member. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Machine(Rc<MachineInner>);

struct MachineInner {
    owner: Rc<dyn AnyStateMachine>,
    log: Log,
    state: RefCell<State>,
    /// Notified when something was applied.
    advanced: Condition,
    failure: Failure,
}

#[derive(Default)]
struct State {
    applied: Option<LogId>,
    membership: StoredMembership,
    window: Window,
}

impl Machine {
    pub(crate) fn new(owner: Rc<dyn AnyStateMachine>, log: Log, failure: Failure) -> Machine {
        let (state, advanced) = (RefCell::default(), Condition::default());
        Machine(Rc::new(MachineInner { owner, log, state, advanced, failure }))
    }

    /// The index of the last applied entry, 0 if there is none.
    pub(crate) fn applied(&self) -> u64 {
        self.0.state.borrow().applied.map_or(0, |applied| applied.index)
    }

    /// Waits until the entry at `index` is applied.
    pub(crate) async fn wait_applied(&self, index: u64) {
        self.0.advanced.wait(|| (self.applied() >= index).then_some(())).await;
    }

    async fn apply_proposal(&self, index: u64, proposal: &Proposal) -> Result<Applied, io::Error> {
        let known = self.0.state.borrow().window.get(proposal.id);
        if let Some(applied) = known {
            return Ok(applied);
        }
        let answer = self.0.owner.apply(index, &proposal.command).await.map_err(|error| self.0.failure.set(error))?;
        if answer.len() > ANSWER_BYTES_MAX {
            let error = StoreError(format!("an answer of {} bytes, more than {ANSWER_BYTES_MAX}", answer.len()));
            return Err(self.0.failure.set(error));
        }
        let applied = Applied { index, answer };
        self.0.state.borrow_mut().window.add(proposal.id, applied.clone());
        Ok(applied)
    }

    /// The bytes of a snapshot of the present state.
    fn data(&self) -> SnapshotData {
        let mut out = Vec::new();
        self.0.state.borrow().window.put(&mut out);
        out.extend_from_slice(&self.0.owner.snapshot());
        Rc::new(out)
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let state = self.0.state.borrow();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let id = entry.log_id;
            let mut applied = Applied { index: id.index, answer: Vec::new() };
            match &entry.payload {
                Payload::Blank => {}
                Payload::Normal(proposal) => applied = self.apply_proposal(id.index, proposal).await?,
                Payload::Membership(membership) => {
                    self.0.state.borrow_mut().membership = StoredMembership::new(Some(id), membership.clone());
                }
            }
            self.0.state.borrow_mut().applied = Some(id);
            self.0.advanced.notify();
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        // Taken here, between two commands; the builder runs beside later ones.
        let state = self.0.state.borrow();
        let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.membership.clone() };
        drop(state);
        SnapshotBuilder { meta, data: self.data(), log: self.0.log.clone(), failure: self.0.failure.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, data: SnapshotData) -> Result<(), io::Error> {
        let unreadable = || StoreError("the snapshot of the metadata log cannot be read".to_owned());
        let mut rest = Take(&data);
        let window = Window::take(&mut rest).ok_or_else(|| self.0.failure.set(unreadable()))?;
        // At a start the snapshot is the stored one.
        if self.0.log.snapshot().is_none_or(|(stored, _)| stored != *meta) {
            self.0.log.save_snapshot(meta.clone(), data.clone()).await?;
        }
        let index = meta.last_log_id.map_or(0, |last| last.index);
        self.0.owner.restore(index, rest.0).await.map_err(|error| self.0.failure.set(error))?;
        let (applied, membership) = (meta.last_log_id, meta.last_membership.clone());
        *self.0.state.borrow_mut() = State { applied, membership, window };
        self.0.advanced.notify();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.0.log.snapshot().map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

/// A snapshot that was taken and is not stored yet.
pub(crate) struct SnapshotBuilder {
    meta: SnapshotMeta,
    data: SnapshotData,
    log: Log,
    failure: Failure,
}

impl RaftSnapshotBuilder<Types> for SnapshotBuilder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        if self.data.len() > SNAPSHOT_BYTES_MAX {
            let error = StoreError(format!("a snapshot of {} bytes, more than {SNAPSHOT_BYTES_MAX}", self.data.len()));
            return Err(self.failure.set(error));
        }
        self.log.save_snapshot(self.meta.clone(), self.data.clone()).await?;
        Ok(Snapshot { meta: self.meta.clone(), snapshot: self.data.clone() })
    }
}

/// The last proposals that were applied, with their answers.
#[derive(Default)]
struct Window {
    order: VecDeque<Uuid>,
    applied: HashMap<Uuid, Applied>,
    bytes: usize,
}

impl Window {
    fn get(&self, id: Uuid) -> Option<Applied> {
        self.applied.get(&id).cloned()
    }

    /// Adds a proposal that is not in the window and drops the oldest ones beyond the limit.
    fn add(&mut self, id: Uuid, applied: Applied) {
        self.bytes += WINDOW_ITEM_BYTES + applied.answer.len();
        self.order.push_back(id);
        self.applied.insert(id, applied);
        while self.bytes > WINDOW_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some(dropped) = self.applied.remove(&oldest) {
                self.bytes -= WINDOW_ITEM_BYTES + dropped.answer.len();
            }
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.order.len() as u32);
        for id in &self.order {
            let applied = &self.applied[id];
            out.put_uuid(*id);
            out.put_u64(applied.index);
            out.put_bytes(&applied.answer);
        }
    }

    fn take(take: &mut Take<'_>) -> Option<Window> {
        let mut window = Window::default();
        for _ in 0..take.count(28)? {
            let (id, index) = (take.uuid()?, take.u64()?);
            window.add(id, Applied { index, answer: take.bytes(ANSWER_BYTES_MAX)?.to_vec() });
        }
        Some(window)
    }
}
