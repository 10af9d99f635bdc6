//! What the cluster agrees on, as shard 0 of this node has applied it, and the way to propose changes.
//!
//! A proposal of this node is *made* here like one of any other node: when the log has it, the state machine (module
//! `metadata`) applies it in its turn. For a change of the schema that this node has worked out itself it finds the
//! future that makes it ([`MetadataLog::expect_own`]) instead of learning the change from its rows.

use cluster::metadata::{Command, MemberState, Metadata, Rejected};
use consensus::{Group, ProposeError, WeakGroup};
use model::Failure;
use runtime::Instant;
use runtime::gate::{Permit, Semaphore};
use runtime::sync::Condition;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use uuid::Uuid;

/// What makes a change of the schema on this node.
pub(crate) type Making = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// The metadata of shard 0, and its part in the group that agrees on them.
pub(crate) struct MetadataLog {
    current: RefCell<Rc<Metadata>>,
    applied: Condition,
    /// The group refers to the shard, which owns this, so a task owns the group.
    group: OnceCell<WeakGroup>,
    /// One permit: one proposal of a DDL statement at a time.
    proposals: Semaphore,
    /// Changes of the schema that this node has proposed, by the version that they make.
    own: RefCell<BTreeMap<Uuid, Making>>,
    /// One permit: what is left of lost ranges is removed once at a time.
    cleaning: Semaphore,
    /// See [`MetadataLog::clean_since`].
    clean_since: Cell<Option<u64>>,
    /// See [`MetadataLog::is_removed`].
    removed: Cell<bool>,
    /// See [`MetadataLog::has_departed`].
    departed: RefCell<BTreeSet<Uuid>>,
}

/// Why a proposal of this node is not in effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProposalError {
    /// It came when the metadata had changed already.
    Rejected(Rejected),
    /// It is not in the log and never will be.
    NotMade(String),
    /// It may be in the log, now or later.
    Unknown(String),
}

impl Default for MetadataLog {
    fn default() -> MetadataLog {
        MetadataLog {
            current: RefCell::default(),
            applied: Condition::default(),
            group: OnceCell::new(),
            proposals: Semaphore::new(1),
            own: RefCell::default(),
            cleaning: Semaphore::new(1),
            clean_since: Cell::new(None),
            removed: Cell::new(false),
            departed: RefCell::default(),
        }
    }
}

impl MetadataLog {
    /// The metadata after the last entry that this node has applied.
    pub(crate) fn current(&self) -> Rc<Metadata> {
        self.current.borrow().clone()
    }

    /// Makes `metadata` the current ones.
    pub(crate) fn advance(&self, metadata: Metadata) {
        let before = self.current.replace(Rc::new(metadata));
        let after = self.current();
        let was_leaving =
            |id: &&Uuid| before.members.get(id).is_some_and(|member| member.state == MemberState::Leaving);
        let gone = after.left.difference(&before.left).filter(was_leaving);
        self.departed.borrow_mut().extend(gone);
        self.applied.notify();
    }

    /// Waits for its turn to remove what is left of lost ranges.
    pub(crate) async fn cleaning_turn(&self) -> Permit {
        self.cleaning.acquire(1).await
    }

    /// The epoch of the members of which this node has nothing outside of its ranges; `None` if that is not known.
    pub(crate) fn clean_since(&self) -> Option<u64> {
        self.clean_since.get()
    }

    pub(crate) fn set_clean_since(&self, members_epoch: u64) {
        self.clean_since.set(Some(members_epoch));
    }

    /// Whether a node left by itself since this one has run; else others removed it, if it was a member.
    pub(crate) fn has_departed(&self, host_id: Uuid) -> bool {
        self.departed.borrow().contains(&host_id)
    }

    /// Whether the others say that this node is no member any more: the entry that says so cannot reach it.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.get()
    }

    /// Takes the word of the others that this node is no member any more.
    pub(crate) fn set_removed(&self) {
        self.removed.set(true);
        self.applied.notify();
    }

    /// Waits until this node, which has this host id, is no member any more.
    pub(crate) async fn left(&self, host_id: Uuid) {
        let has_left = || self.removed.get() || self.current.borrow().left.contains(&host_id);
        self.applied.wait(|| has_left().then_some(())).await;
    }

    /// Waits until this node has applied the entry at `epoch`.
    pub(crate) async fn wait_for(&self, epoch: u64) {
        self.applied.wait(|| (self.current.borrow().epoch >= epoch).then_some(())).await;
    }

    /// Waits until the metadata that this node has applied are as `is_so` says.
    pub(crate) async fn wait_until(&self, is_so: impl Fn(&Metadata) -> bool) {
        self.applied.wait(|| is_so(&self.current.borrow()).then_some(())).await;
    }

    /// The group that agrees on the metadata; `None` before the node has opened its log, and when it stops.
    pub(crate) fn group(&self) -> Option<Group> {
        self.group.get().and_then(WeakGroup::upgrade)
    }

    /// Takes part in `group` from now on, for as long as somebody keeps it. To be called once.
    pub(crate) fn open(&self, group: &Group) {
        let is_first = self.group.set(group.downgrade()).is_ok();
        debug_assert!(is_first, "the log is opened once");
    }

    /// Waits for the right to propose a change of the schema.
    pub(crate) async fn begin_proposal(&self) -> Permit {
        self.proposals.acquire(1).await
    }

    /// Keeps what makes the change of the schema to `version`, which is going to be proposed.
    pub(crate) fn expect_own(&self, version: Uuid, making: Making) {
        self.own.borrow_mut().insert(version, making);
    }

    /// Forgets a change that is not in the log and never will be.
    pub(crate) fn forget_own(&self, version: Uuid) {
        self.own.borrow_mut().remove(&version);
    }

    /// What makes the change to `version` here, if this node has proposed it.
    pub(crate) fn take_own(&self, version: Uuid) -> Option<Making> {
        self.own.borrow_mut().remove(&version)
    }

    /// Proposes a change. Returns its epoch once this node has applied it.
    pub(crate) async fn propose(&self, command: &Command, deadline: Instant) -> Result<u64, ProposalError> {
        let epoch = self.agree(command, deadline).await?;
        match runtime::timeout(deadline.since(runtime::now()), self.wait_for(epoch)).await {
            Some(()) => Ok(epoch),
            None => Err(ProposalError::Unknown(
                "The cluster agreed on a change of its metadata, but this node did not make it in time".into(),
            )),
        }
    }

    /// Proposes a change. Returns its epoch once the cluster has agreed on it, which this node may not have heard yet.
    pub(crate) async fn agree(&self, command: &Command, deadline: Instant) -> Result<u64, ProposalError> {
        let Some(group) = self.group() else {
            return Err(ProposalError::NotMade("This node has not joined the cluster yet".into()));
        };
        let (epoch, answer) = group.propose(command.encode(), deadline).await.map_err(|error| {
            let text = format!("The cluster did not agree on a change of its metadata: {error}");
            match error {
                ProposeError::Unknown => ProposalError::Unknown(text),
                _ => ProposalError::NotMade(text),
            }
        })?;
        match Rejected::decode_answer(&answer) {
            Ok(Ok(())) => Ok(epoch),
            Ok(Err(rejected)) => {
                // Whoever looks again must see what the command did not fit.
                runtime::timeout(deadline.since(runtime::now()), self.wait_for(epoch)).await;
                Err(ProposalError::Rejected(rejected))
            }
            Err(error) => Err(ProposalError::Unknown(format!("An answer of the metadata log: {error}"))),
        }
    }
}
