//! The memtables that a write goes to, and how it reaches them once it is durable. Writes of a keyspace without
//! `durable_writes` reach them at once.
//!
//! Invariants: a durable record is applied even if the caller's future was dropped: the caller, who never learned the
//! outcome, must expect either. Passes on the memtables are held from the append to the apply.

use crate::commitlog::group::GroupState;
use crate::error::Error;
use crate::index::{IndexState, IndexTarget};
use crate::memory::Reserved;
use crate::memtable::Memtable;
use crate::memtable::partitions::PrefetchStage;
use crate::tables::Tables;
use crate::tables::table_state::TableState;
use model::{IdMap, Mutation, TableId};
use runtime::gate::Pass;
use std::rc::Rc;

/// Where one table's part of a mutation goes.
pub(crate) struct Target {
    pub(crate) table: TableId,
    /// Whether the table's writes go to the log.
    is_logged: bool,
    pub(crate) memtable: Rc<Memtable>,
    pub(crate) _pass: Pass,
    /// The memtables of the table's indexes; most tables have none.
    pub(crate) indexes: Vec<IndexTarget>,
}

/// One target per update of a mutation, in their order. Most mutations have one.
pub(crate) enum Targets {
    One([Target; 1]),
    Many(Vec<Target>),
}

impl Targets {
    pub(crate) fn as_slice(&self) -> &[Target] {
        match self {
            Targets::One(target) => target,
            Targets::Many(targets) => targets,
        }
    }

    /// Whether the mutation goes to the log, which it does whole if one of its tables asks for it.
    #[inline]
    pub(crate) fn are_logged(&self) -> bool {
        self.as_slice().iter().any(|target| target.is_logged)
    }
}

/// The memtables that a mutation goes to; `None` if it changes nothing.
pub(crate) fn targets(known: &Tables, mutation: &Mutation) -> Result<Option<Targets>, Error> {
    let tables = known.borrow();
    let mut first = None;
    let mut more = Vec::new();
    for update in mutation.updates() {
        let state = tables.get(&update.table).ok_or(Error::UnknownTable(update.table))?;
        let owner = state.home.owner(known.shard_map, mutation.token());
        assert_eq!(
            owner, known.shard,
            "a write of {} came to a shard that replay will not give it to",
            state.table.name
        );
        let pass = state.memtable.enter().expect("an active memtable takes writes");
        state.memtable.prefetch(mutation.token(), PrefetchStage::Way);
        let indexes = match state.indexes.is_empty() {
            true => Vec::new(),
            false => index_targets(&tables, state),
        };
        let (table, memtable) = (update.table, state.memtable.clone());
        let target = Target { table, is_logged: state.durable_writes, memtable, _pass: pass, indexes };
        match first {
            None => first = Some(target),
            Some(_) => more.push(target),
        }
    }
    Ok(match (first, more) {
        (None, _) => None,
        (Some(target), more) if more.is_empty() => Some(Targets::One([target])),
        (Some(target), mut more) => {
            more.insert(0, target);
            Some(Targets::Many(more))
        }
    })
}

/// The memtables of a table's indexes.
#[cold]
fn index_targets(tables: &IdMap<TableId, TableState>, state: &TableState) -> Vec<IndexTarget> {
    let target = |index: &Rc<IndexState>| {
        let memtable = tables.get(&index.id())?.memtable.clone();
        let pass = memtable.enter().expect("an active memtable takes writes");
        Some(IndexTarget { index: index.clone(), memtable, _pass: pass })
    };
    state.indexes.iter().filter_map(target).collect()
}

/// A mutation that is in the log's buffer.
pub(crate) struct Write {
    pub(crate) mutation: Mutation,
    pub(crate) targets: Targets,
    pub(crate) _reserved: Option<Reserved>,
    /// Keeps the store from closing.
    pub(crate) _pass: Pass,
}

impl Write {
    /// Makes the mutation visible, all of it within this call.
    pub(crate) fn apply(&self) {
        for (update, target) in self.mutation.updates().zip(self.targets.as_slice()) {
            let (token, key) = (self.mutation.token(), self.mutation.key());
            for IndexTarget { index, memtable, .. } in &target.indexes {
                index.forget(&target.memtable, memtable, token, key, &update);
            }
            target.memtable.apply(token, key, &update);
            for IndexTarget { index, memtable, .. } in &target.indexes {
                index.note(memtable, token, key, &update);
            }
        }
    }
}

/// A write that waits for its group. If it is dropped before the group has ended, the group applies it.
pub(crate) struct Undecided {
    write: Option<Write>,
    group: Rc<GroupState>,
}

impl Undecided {
    pub(crate) fn new(write: Write, group: Rc<GroupState>) -> Undecided {
        Undecided { write: Some(write), group }
    }

    /// Takes the write back once its group has ended; `None` if the group has applied it.
    pub(crate) fn decided(mut self) -> Option<Write> {
        self.write.take()
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        if let Some(write) = self.write.take() {
            self.group.adopt(Box::new(move || write.apply()));
        }
    }
}
