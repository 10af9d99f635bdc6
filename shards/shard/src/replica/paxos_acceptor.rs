//! The state of a Paxos acceptor in `system.paxos`: one row per partition and table, with Cassandra's columns. It is
//! stored on the core that owns the partition and lives as long as in Cassandra.
//!
//! An update is an encoded mutation; the version columns have [`UPDATE_VERSION`], because the form is not one of
//! Cassandra's messages, or [`UPDATE_VERSION_WITH_LISTS`] in rows that earlier versions wrote. The timestamp of every
//! cell is the time of its ballot, so that the later ballot wins, and the deletion of a proposal by its commit wins
//! over the proposal.
//!
//! Invariants: promises, proposals and commits are durable before they are answered, in every mode of the log, except
//! for the promise of an only replica; a commit and what it writes are one mutation, seen and recovered together.

use super::{failure, mutate, mutate_durably, oversized};
use crate::paxos::ballot::Ballot;
use crate::paxos::{Acceptance, Acceptor, Promise, Proposal, Update};
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use model::failure::Outcome;
use model::mutation::{Clustering, MUTATION_BYTES_MAX, push_clustering};
use model::query::{LiveRow, Partitions, ReadCommand, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, RowBuilder};
use model::{ColumnId, DecoratedKey, Failure, Mutation, MutationBuilder, Table, TableId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of the version columns for updates in this form; no version of Cassandra's messages has it.
pub(crate) const UPDATE_VERSION: i32 = 0x4865_0002;
/// The value of the version columns for updates that [`engine::Store::mutation_with_lists`] decodes. Read only.
const UPDATE_VERSION_WITH_LISTS: i32 = 0x4865_0001;
/// Shortest time to live of the state, seconds; the table's `gc_grace_seconds` applies if longer.
const TTL_SECONDS_MIN: i32 = 3 * 3600;

/// The acceptor of one partition of one table of this core. Its user must hold the partition's lock.
pub(crate) struct StoredAcceptor<'s> {
    shard: &'s Shard,
    paxos: Arc<Table>,
    table: &'s Table,
    key: &'s DecoratedKey,
    /// The stored state, once it was read; `None` while it is being changed.
    state: RefCell<Option<Acceptor<Update>>>,
}

impl<'s> StoredAcceptor<'s> {
    /// The acceptor of the partition `key` of `table`.
    pub(crate) fn new(shard: &'s Shard, table: &'s Table, key: &'s DecoratedKey) -> StoredAcceptor<'s> {
        let paxos = system_table(&shard.schema_ref(), "system", "paxos").clone();
        StoredAcceptor { shard, paxos, table, key, state: RefCell::default() }
    }

    /// Asks the only replica for a promise, which is valid while the lock is held and is not stored.
    pub(crate) async fn promise(&self, ballot: Ballot) -> Result<Promise<Update>, Failure> {
        let mut state = self.state().await?;
        let promise = state.prepare(ballot);
        self.state.replace(Some(state));
        Ok(promise)
    }

    /// Asks for a promise, which is durable on return.
    pub(crate) async fn prepare(&self, ballot: Ballot) -> Result<Promise<Update>, Failure> {
        let mut state = self.state().await?;
        let promise = state.prepare(ballot);
        if let Promise::Promised { .. } = &promise {
            let mut row = self.row(ballot);
            row.set("in_progress_ballot", ballot.bytes());
            self.apply_durably(row.finish(MutationBuilder::new(self.key.partitioner, &self.key.key))).await?;
        }
        self.state.replace(Some(state));
        Ok(promise)
    }

    /// Asks to accept a proposal; durable on return.
    pub(crate) async fn accept(&self, proposal: &Proposal<Update>) -> Result<Acceptance, Failure> {
        let mut state = self.state().await?;
        let answer = state.accept(proposal.clone());
        if answer == Acceptance::Accepted {
            let mut row = self.row(proposal.ballot);
            row.set("in_progress_ballot", proposal.ballot.bytes());
            row.set("proposal_ballot", proposal.ballot.bytes());
            row.set("proposal", proposal.update.as_deref().unwrap_or_default());
            row.set("proposal_version", UPDATE_VERSION.to_be_bytes());
            self.apply_durably(row.finish(MutationBuilder::new(self.key.partitioner, &self.key.key))).await?;
        }
        self.state.replace(Some(state));
        Ok(answer)
    }

    /// Applies a decided proposal and remembers it.
    pub(crate) async fn commit(&self, proposal: &Proposal<Update>) -> Result<(), Failure> {
        let changes = self.changes(proposal)?;
        let mut state = self.state().await?;
        if !state.commit(proposal.clone()) {
            // Later proposals were committed before; the change must only be in the table.
            self.state.replace(Some(state));
            return match changes.is_empty() {
                true => Ok(()),
                false => mutate(self.shard, changes.finish(), true).await,
            };
        }
        let mut row = self.row(proposal.ballot);
        row.remove_proposal();
        row.set_commit(proposal);
        // The change is decided, so there must be room for it.
        mutate(self.shard, row.finish(changes), true).await?;
        self.unsettled_no_more();
        self.state.replace(Some(state));
        Ok(())
    }

    /// Asks the only replica to accept and commit; durable on return.
    pub(crate) async fn settle(&self, proposal: &Proposal<Update>) -> Result<Acceptance, Failure> {
        let changes = self.changes(proposal)?;
        let mut state = self.state().await?;
        let had_proposal = state.accepted.is_some();
        let answer = state.settle(proposal.clone());
        if answer == Acceptance::Accepted {
            let mut row = self.row(proposal.ballot);
            row.set("in_progress_ballot", proposal.ballot.bytes());
            if had_proposal {
                row.remove_proposal();
            }
            row.set_commit(proposal);
            let mutation = row.finish(changes);
            if mutation.bytes().len() > MUTATION_BYTES_MAX {
                return Err(oversized(mutation.bytes().len(), &self.table.keyspace, &self.table.name));
            }
            if let Err(failure) = mutate_durably(self.shard, mutation).await {
                if failure.outcome != Outcome::NotApplied {
                    self.shard.unsettled().keep(self.table.id, self.key, proposal.clone());
                }
                return Err(failure);
            }
            self.unsettled_no_more();
        }
        self.state.replace(Some(state));
        Ok(answer)
    }

    fn unsettled_no_more(&self) {
        self.shard.unsettled().forget(self.table.id, self.key);
    }

    /// The mutation that a proposal makes in the table.
    fn changes(&self, proposal: &Proposal<Update>) -> Result<MutationBuilder, Failure> {
        let Some(update) = &proposal.update else {
            return Ok(MutationBuilder::new(self.key.partitioner, &self.key.key));
        };
        let mutation = Mutation::decode(self.key.partitioner, update.clone()).map_err(|_| unreadable())?;
        Ok(MutationBuilder::continuing(mutation))
    }

    async fn state(&self) -> Result<Acceptor<Update>, Failure> {
        match self.state.take() {
            Some(state) => Ok(state),
            None => self.load().await,
        }
    }

    async fn load(&self) -> Result<Acceptor<Update>, Failure> {
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let command = ReadCommand::all(self.paxos.id, now_in_seconds, Partitions::Key(self.key.clone()));
        let mut found = Found { now_in_seconds, table: self.table.id, cells: BTreeMap::new() };
        let read = self.shard.store().read(&command, &mut found).await;
        read.map_err(|error| failure(&self.shard.schema(), Some(self.paxos.id), error))?;
        let value = |name: &str| found.cells.get(&id_of(&self.paxos, name));
        let ballot = |name: &str| value(name).and_then(|bytes| Ballot::from_bytes(bytes));
        let update = |name: &str, version: &str| {
            let update = value(name).filter(|update| !update.is_empty());
            let (Some(update), Some(version)) = (update, value(version)) else { return Ok(None) };
            match <[u8; 4]>::try_from(&version[..]).map(i32::from_be_bytes) {
                Ok(UPDATE_VERSION) => Ok(Some(update.clone())),
                Ok(UPDATE_VERSION_WITH_LISTS) => {
                    let mutation = self.shard.store().mutation_with_lists(update).ok_or_else(unreadable)?;
                    Ok(mutation.map(Mutation::into_bytes))
                }
                // Of Cassandra.
                _ => Ok(None),
            }
        };
        // A change that was truncated must not come back.
        let kept = |Proposal { ballot, update }| {
            let gone = self.shard.truncations().covers(self.table.id, Ballot::micros(&ballot));
            Proposal { ballot, update: update.filter(|_: &Update| !gone) }
        };
        let proposal = |ballot_name: &str, name: &str, version: &str| {
            let Some(ballot) = ballot(ballot_name) else { return Ok(None) };
            Ok(Some(kept(Proposal { ballot, update: update(name, version)? })))
        };
        if let Some(unsettled) = self.shard.unsettled().get(self.table.id, self.key) {
            // No round came after it, and it is uncertain whether it was committed.
            return Ok(Acceptor { promised: None, accepted: Some(kept(unsettled)), committed: None });
        }
        Ok(Acceptor {
            promised: ballot("in_progress_ballot").max(ballot("in_progress_read_ballot")),
            accepted: proposal("proposal_ballot", "proposal", "proposal_version")?,
            committed: proposal("most_recent_commit_at", "most_recent_commit", "most_recent_commit_version")?,
        })
    }

    fn row(&self, ballot: Ballot) -> Row<'_> {
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let ttl = self.table.options.gc_grace_seconds.max(TTL_SECONDS_MIN);
        Row { paxos: &self.paxos, table: self.table.id, ballot, now_in_seconds, ttl, cells: BTreeMap::new() }
    }

    async fn apply_durably(&self, mutation: Mutation) -> Result<(), Failure> {
        if 2 * mutation.bytes().len() > MUTATION_BYTES_MAX {
            // A commit holds the update twice.
            return Err(oversized(mutation.bytes().len(), &self.table.keyspace, &self.table.name));
        }
        let applied = self.shard.store().apply_durably(mutation, false).await;
        applied.map_err(|error| failure(&self.shard.schema(), Some(self.paxos.id), error))
    }
}

/// The failure for an update that does not decode.
fn unreadable() -> Failure {
    Failure::server("system.paxos holds a proposal that cannot be read")
}

/// A column of `system.paxos`.
fn id_of(paxos: &Table, name: &str) -> ColumnId {
    paxos.column(name).map_or_else(|| panic!("system.paxos has no column {name}"), |column| column.id)
}

/// A row under construction; `None` deletes a cell.
struct Row<'p> {
    paxos: &'p Table,
    table: TableId,
    ballot: Ballot,
    now_in_seconds: i64,
    ttl: i32,
    cells: BTreeMap<ColumnId, Option<Vec<u8>>>,
}

impl Row<'_> {
    fn set(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.cells.insert(id_of(self.paxos, name), Some(value.into()));
    }

    fn remove_proposal(&mut self) {
        for name in ["proposal", "proposal_ballot", "proposal_version"] {
            self.cells.insert(id_of(self.paxos, name), None);
        }
    }

    fn set_commit(&mut self, proposal: &Proposal<Update>) {
        self.set("most_recent_commit", proposal.update.as_deref().unwrap_or_default());
        self.set("most_recent_commit_at", proposal.ballot.bytes());
        self.set("most_recent_commit_version", UPDATE_VERSION.to_be_bytes());
    }

    /// Adds the row to a mutation of its key.
    fn finish(self, mut builder: MutationBuilder) -> Mutation {
        let Row { paxos, table, ballot, now_in_seconds, ttl, cells } = self;
        let mut clustering = Vec::new();
        push_clustering(&mut clustering, &table.0);
        builder.table(paxos.id).row(Clustering(&clustering), |out| {
            let mut row = RowBuilder::new(out, None, Deletion::LIVE);
            let expires = now_in_seconds.saturating_add(i64::from(ttl));
            for (column, value) in &cells {
                let content = match value {
                    Some(value) => CellContent::Expiring { value, ttl, local_deletion_time: expires },
                    None => CellContent::Deleted { local_deletion_time: now_in_seconds },
                };
                row.cell(&Cell { column: *column, timestamp: ballot.micros(), content, path: None });
            }
        });
        builder.finish()
    }
}

/// Collects the cells of the row of one table.
struct Found {
    now_in_seconds: i64,
    table: TableId,
    cells: BTreeMap<ColumnId, Vec<u8>>,
}

impl RowSink for Found {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        if row.clustering.components().next() != Some(&self.table.0[..]) {
            return SinkState::Rejected;
        }
        for cell in row.cells {
            if let Some(value) = cell.value_at(self.now_in_seconds) {
                self.cells.insert(cell.column, value.to_vec());
            }
        }
        SinkState::Full
    }
}
