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
use crate::paxos::columns::PaxosColumns;
use crate::paxos::recent::Taken;
use crate::paxos::{Acceptance, Acceptor, Promise, Proposal, Update};
use crate::shard_state::Shard;
use model::failure::Outcome;
use model::mutation::{Clustering, MUTATION_BYTES_MAX, push_clustering};
use model::query::{LiveRow, Partitions, ReadCommand, RowSink, SinkState};
use model::row::{Cell, CellContent, Deletion, RowBuilder};
use model::{ColumnId, DecoratedKey, Failure, Mutation, MutationBuilder, Table, TableId};
use smallvec::SmallVec;

/// The value of the version columns for updates in this form; no version of Cassandra's messages has it.
pub(crate) const UPDATE_VERSION: i32 = 0x4865_0002;
const STORED_VERSION: [u8; 4] = UPDATE_VERSION.to_be_bytes();
/// The value of the version columns for updates that [`engine::Store::mutation_with_lists`] decodes. Read only.
const UPDATE_VERSION_WITH_LISTS: i32 = 0x4865_0001;
/// Shortest time to live of the state, seconds; the table's `gc_grace_seconds` applies if longer.
const TTL_SECONDS_MIN: i32 = 3 * 3600;

/// The acceptor of one partition of one table of this core. Its user must hold the partition's lock.
pub(crate) struct StoredAcceptor<'s> {
    shard: &'s Shard,
    table: &'s Table,
    key: &'s DecoratedKey,
    taken: std::cell::Cell<Taken>,
}

impl<'s> StoredAcceptor<'s> {
    /// The acceptor of the partition `key` of `table`.
    pub(crate) fn new(shard: &'s Shard, table: &'s Table, key: &'s DecoratedKey) -> StoredAcceptor<'s> {
        StoredAcceptor { shard, table, key, taken: std::cell::Cell::new(shard.recent_acceptors().begin()) }
    }

    /// Asks the only replica for a promise, which is valid while the lock is held and is not stored.
    pub(crate) async fn promise(&self, ballot: Ballot) -> Result<Promise<Update>, Failure> {
        let mut state = self.state().await?;
        let promise = state.prepare(ballot);
        self.put(state);
        Ok(promise)
    }

    /// Asks for a promise, which is durable on return.
    pub(crate) async fn prepare(&self, ballot: Ballot) -> Result<Promise<Update>, Failure> {
        let mut state = self.state().await?;
        let promise = state.prepare(ballot);
        if let Promise::Promised { .. } = &promise {
            let ballot_bytes = ballot.bytes();
            let mut row = self.row(ballot);
            row.set(row.columns.in_progress_ballot, &ballot_bytes);
            self.apply_durably(row.finish(MutationBuilder::new(self.key.partitioner, &self.key.key))).await?;
        }
        self.put(state);
        Ok(promise)
    }

    /// Asks to accept a proposal; durable on return.
    pub(crate) async fn accept(&self, proposal: &Proposal<Update>) -> Result<Acceptance, Failure> {
        let mut state = self.state().await?;
        let answer = state.accept(proposal.clone());
        if answer == Acceptance::Accepted {
            let ballot_bytes = proposal.ballot.bytes();
            let mut row = self.row(proposal.ballot);
            row.set(row.columns.in_progress_ballot, &ballot_bytes);
            row.set(row.columns.proposal, proposal.update.as_deref().unwrap_or_default());
            row.set(row.columns.proposal_ballot, &ballot_bytes);
            row.set(row.columns.proposal_version, &STORED_VERSION);
            self.apply_durably(row.finish(MutationBuilder::new(self.key.partitioner, &self.key.key))).await?;
        }
        self.put(state);
        Ok(answer)
    }

    /// Applies a decided proposal and remembers it.
    pub(crate) async fn commit(&self, proposal: &Proposal<Update>) -> Result<(), Failure> {
        let changes = self.changes(proposal)?;
        let mut state = self.state().await?;
        if !state.commit(proposal.clone()) {
            // Later proposals were committed before; the change must only be in the table.
            self.put(state);
            return match changes.is_empty() {
                true => Ok(()),
                false => mutate(self.shard, changes.finish(), true).await,
            };
        }
        let ballot_bytes = proposal.ballot.bytes();
        let mut row = self.row(proposal.ballot);
        row.set_commit(proposal, &ballot_bytes);
        row.remove_proposal();
        // The change is decided, so there must be room for it.
        mutate(self.shard, row.finish(changes), true).await?;
        self.unsettled_no_more();
        self.put(state);
        Ok(())
    }

    /// Asks the only replica to accept and commit; durable on return.
    pub(crate) async fn settle(&self, proposal: &Proposal<Update>) -> Result<Acceptance, Failure> {
        let changes = self.changes(proposal)?;
        let mut state = self.state().await?;
        let had_proposal = state.accepted.is_some();
        let answer = state.settle(proposal.clone());
        if answer == Acceptance::Accepted {
            let ballot_bytes = proposal.ballot.bytes();
            let mut row = self.row(proposal.ballot);
            row.set(row.columns.in_progress_ballot, &ballot_bytes);
            row.set_commit(proposal, &ballot_bytes);
            if had_proposal {
                row.remove_proposal();
            }
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
        self.put(state);
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

    /// The stored state. Whoever has stored a change of it puts it back.
    async fn state(&self) -> Result<Acceptor<Update>, Failure> {
        self.taken.set(self.shard.recent_acceptors().begin());
        let state = match self.shard.recent_acceptors().take(self.table.id, self.key, runtime::now()) {
            Some(state) => state,
            None => self.load().await?,
        };
        Ok(without_truncated(self.shard, self.table.id, state))
    }

    fn put(&self, state: Acceptor<Update>) {
        self.shard.recent_acceptors().put(self.taken.get(), self.table.id, self.key, state, runtime::now());
    }

    async fn load(&self) -> Result<Acceptor<Update>, Failure> {
        let columns = self.shard.paxos_columns();
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let command = ReadCommand::all(columns.table.id, now_in_seconds, Partitions::Key(self.key.clone()));
        let mut found = Found { now_in_seconds, table: self.table.id, columns, stored: Stored::default() };
        let read = self.shard.store().read(&command, &mut found).await;
        read.map_err(|error| failure(&self.shard.schema(), Some(columns.table.id), error))?;
        if let Some(unsettled) = self.shard.unsettled().get(self.table.id, self.key) {
            // No round came after it, and it is uncertain whether it was committed.
            return Ok(Acceptor { promised: None, accepted: Some(unsettled), committed: None });
        }
        found.stored.acceptor(self.shard)
    }

    fn row<'a>(&self, ballot: Ballot) -> Row<'a>
    where
        's: 'a,
    {
        let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
        let ttl = self.table.options.gc_grace_seconds.max(TTL_SECONDS_MIN);
        let columns = self.shard.paxos_columns();
        Row { columns, table: self.table.id, ballot, now_in_seconds, ttl, cells: SmallVec::new() }
    }

    async fn apply_durably(&self, mutation: Mutation) -> Result<(), Failure> {
        if 2 * mutation.bytes().len() > MUTATION_BYTES_MAX {
            // A commit holds the update twice.
            return Err(oversized(mutation.bytes().len(), &self.table.keyspace, &self.table.name));
        }
        let applied = self.shard.store().apply_durably(mutation, false).await;
        applied.map_err(|error| failure(&self.shard.schema(), Some(self.shard.paxos_columns().table.id), error))
    }
}

/// A state without the changes that were truncated, which must not come back.
pub(super) fn without_truncated(shard: &Shard, table: TableId, state: Acceptor<Update>) -> Acceptor<Update> {
    let kept = |Proposal { ballot, update }| {
        let gone = shard.truncations().covers(table, Ballot::micros(&ballot));
        Proposal { ballot, update: update.filter(|_: &Update| !gone) }
    };
    Acceptor { promised: state.promised, accepted: state.accepted.map(kept), committed: state.committed.map(kept) }
}

/// The failure for an update that does not decode.
fn unreadable() -> Failure {
    Failure::server("system.paxos holds a proposal that cannot be read")
}

/// A row under construction: cells in the order of their columns, which is that of their names; `None` deletes a cell.
struct Row<'p> {
    columns: &'p PaxosColumns,
    table: TableId,
    ballot: Ballot,
    now_in_seconds: i64,
    ttl: i32,
    cells: SmallVec<[RowCell<'p>; 7]>,
}

/// A column and its value; `None` deletes the cell.
type RowCell<'p> = (ColumnId, Option<&'p [u8]>);

impl<'p> Row<'p> {
    fn set(&mut self, column: ColumnId, value: &'p [u8]) {
        self.cells.push((column, Some(value)));
    }

    fn remove_proposal(&mut self) {
        let columns = self.columns;
        self.cells.extend([columns.proposal, columns.proposal_ballot, columns.proposal_version].map(|id| (id, None)));
    }

    fn set_commit(&mut self, proposal: &'p Proposal<Update>, ballot_bytes: &'p [u8]) {
        self.set(self.columns.most_recent_commit, proposal.update.as_deref().unwrap_or_default());
        self.set(self.columns.most_recent_commit_at, ballot_bytes);
        self.set(self.columns.most_recent_commit_version, &STORED_VERSION);
    }

    /// Adds the row to a mutation of its key.
    fn finish(self, mut builder: MutationBuilder) -> Mutation {
        let Row { columns, table, ballot, now_in_seconds, ttl, cells } = self;
        let mut clustering = Vec::with_capacity(2 * table.0.len());
        push_clustering(&mut clustering, &table.0);
        builder.table(columns.table.id).row(Clustering(&clustering), |out| {
            let mut row = RowBuilder::new(out, None, Deletion::LIVE);
            let expires = now_in_seconds.saturating_add(i64::from(ttl));
            for (column, value) in cells {
                let content = match value {
                    Some(value) => CellContent::Expiring { value, ttl, local_deletion_time: expires },
                    None => CellContent::Deleted { local_deletion_time: now_in_seconds },
                };
                row.cell(&Cell { column, timestamp: ballot.micros(), content, path: None });
            }
        });
        builder.finish()
    }
}

/// What the row of one table holds.
#[derive(Default)]
pub(super) struct Stored {
    promised: Option<Ballot>,
    promised_read: Option<Ballot>,
    accepted: StoredProposal,
    committed: StoredProposal,
}

impl Stored {
    /// What a row holds.
    pub(super) fn of(columns: &PaxosColumns, row: &LiveRow<'_>, now_in_seconds: i64) -> Stored {
        let mut stored = Stored::default();
        let version = |value: &[u8]| value.try_into().ok().map(i32::from_be_bytes);
        for cell in row.cells {
            let Some(value) = cell.value_at(now_in_seconds) else { continue };
            match cell.column {
                id if id == columns.in_progress_ballot => stored.promised = Ballot::from_bytes(value),
                id if id == columns.in_progress_read_ballot => stored.promised_read = Ballot::from_bytes(value),
                id if id == columns.most_recent_commit => stored.committed.update = value.to_vec(),
                id if id == columns.most_recent_commit_at => stored.committed.ballot = Ballot::from_bytes(value),
                id if id == columns.most_recent_commit_version => stored.committed.version = version(value),
                id if id == columns.proposal => stored.accepted.update = value.to_vec(),
                id if id == columns.proposal_ballot => stored.accepted.ballot = Ballot::from_bytes(value),
                id if id == columns.proposal_version => stored.accepted.version = version(value),
                _ => {}
            }
        }
        stored
    }

    /// The state that it stands for.
    pub(super) fn acceptor(self, shard: &Shard) -> Result<Acceptor<Update>, Failure> {
        let Stored { promised, promised_read, accepted, committed } = self;
        Ok(Acceptor {
            promised: promised.max(promised_read),
            accepted: accepted.proposal(shard)?,
            committed: committed.proposal(shard)?,
        })
    }
}

/// The cells of a proposal.
#[derive(Default)]
struct StoredProposal {
    ballot: Option<Ballot>,
    version: Option<i32>,
    update: Update,
}

impl StoredProposal {
    fn proposal(self, shard: &Shard) -> Result<Option<Proposal<Update>>, Failure> {
        let StoredProposal { ballot: Some(ballot), version, update } = self else { return Ok(None) };
        let update = match version {
            _ if update.is_empty() => None,
            Some(UPDATE_VERSION) => Some(update),
            Some(UPDATE_VERSION_WITH_LISTS) => {
                let mutation = shard.store().mutation_with_lists(&update).ok_or_else(unreadable)?;
                mutation.map(Mutation::into_bytes)
            }
            // Of Cassandra.
            _ => None,
        };
        Ok(Some(Proposal { ballot, update }))
    }
}

/// Collects the cells of the row of one table.
struct Found<'p> {
    now_in_seconds: i64,
    table: TableId,
    columns: &'p PaxosColumns,
    stored: Stored,
}

impl RowSink for Found<'_> {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        if row.clustering.components().next() != Some(&self.table.0[..]) {
            return SinkState::Rejected;
        }
        self.stored = Stored::of(self.columns, row, self.now_in_seconds);
        SinkState::Full
    }
}
