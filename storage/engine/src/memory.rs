//! Memory of memtables: one budget for user tables, and how writes wait for room in it.
//!
//! 1. A write reserves its bytes until it is applied ([`MemoryBudget::reserve`]); from half of the budget on a flush is
//!    asked for.
//! 2. Without room it waits ([`MemoryBudget::wait_for_room`]) until flushed memtables are freed, or flushes fail.
//! 3. A flushed or dropped memtable is freed in pieces ([`MemoryBudget::discard`]), which makes room.
//!
//! Memtables of system tables are counted by themselves and never make a write wait.

use crate::error::Error;
use crate::memtable::{MemoryCounter, Memtable};
use crate::options::Options;
use model::schema::TableOptions;
use model::{MemtableConfigurations, Partitioner, Table};
use runtime::Class;
use runtime::gate::Gate;
use runtime::sync::Condition;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a write waits for room before it looks by itself.
const ROOM_WAIT: Duration = Duration::from_millis(20);
/// Memtables of system tables are flushed at this share of the budget of user tables.
const SYSTEM_SHARE: usize = 8;

/// The memory of a shard's memtables.
pub(crate) struct MemoryBudget {
    bytes_max: usize,
    partitioner: Partitioner,
    memtables: Arc<MemtableConfigurations>,
    gate: Gate,
    user_bytes: MemoryCounter,
    system_bytes: MemoryCounter,
    /// Bytes of writes on their way to a memtable.
    in_flight_bytes: Rc<Cell<usize>>,
    /// Bytes of writes that wait for room.
    waiting_bytes: Rc<Cell<usize>>,
    /// Notified when memory was freed, or will not be.
    room: Condition,
    /// Notified when a flush may be due.
    flush_wanted: Rc<Condition>,
    /// Whether the last flush that memory or the log asked for failed.
    flush_failed: Cell<bool>,
}

impl MemoryBudget {
    /// An unused budget. `flush_wanted` is notified when a flush may be due; writes stop waiting when `gate` is shut.
    pub(crate) fn new(options: &Options, gate: Gate, flush_wanted: Rc<Condition>) -> MemoryBudget {
        MemoryBudget {
            bytes_max: options.memtable_bytes_max,
            partitioner: options.shard_map.partitioner,
            memtables: options.memtables.clone(),
            gate,
            user_bytes: Rc::default(),
            system_bytes: Rc::default(),
            in_flight_bytes: Rc::default(),
            waiting_bytes: Rc::default(),
            room: Condition::default(),
            flush_wanted,
            flush_failed: Cell::new(false),
        }
    }

    /// The memtables that are configured.
    pub(crate) fn memtables(&self) -> &MemtableConfigurations {
        &self.memtables
    }

    /// Whether a memtable is not of the kind that a table's options ask for.
    pub(crate) fn is_of_another_kind(&self, memtable: &Memtable, options: &TableOptions) -> bool {
        self.memtables.kind_of(options) != memtable.read().partitions.kind()
    }

    /// An empty memtable of the kind that a table asks for.
    pub(crate) fn new_memtable(&self, table: &Arc<Table>) -> Rc<Memtable> {
        let kind = self.memtables.kind_of(&table.options);
        let counter = if table.is_system() { &self.system_bytes } else { &self.user_bytes };
        Rc::new(Memtable::new(table.clone(), self.partitioner, kind, counter.clone()))
    }

    /// Bytes in memtables of user tables.
    pub(crate) fn user_bytes(&self) -> usize {
        self.user_bytes.get()
    }

    /// Bytes in memtables of system tables.
    pub(crate) fn system_bytes(&self) -> usize {
        self.system_bytes.get()
    }

    /// The most bytes that memtables of user tables may hold.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes of user tables in memory from which on they are flushed.
    pub(crate) fn flush_at(&self) -> usize {
        self.bytes_max / 2
    }

    /// Bytes of system tables in memory from which on they are flushed.
    pub(crate) fn system_flush_at(&self) -> usize {
        self.bytes_max / SYSTEM_SHARE
    }

    /// Whether writes wait for room.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting_bytes.get() > 0
    }

    /// Reserves room for a write; `None` if there is none yet.
    #[inline]
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reserved> {
        let used = self.in_memory() + bytes;
        if used >= self.flush_at() {
            self.flush_wanted.notify();
        }
        (used <= self.bytes_max).then(|| Reserved::new(&self.in_flight_bytes, bytes))
    }

    /// Waits until a flush makes room.
    ///
    /// # Errors
    /// [`Error::MemtableFull`] if flushes fail, and for a write beyond the whole budget.
    #[cold]
    pub(crate) async fn wait_for_room(&self, bytes: usize) -> Result<Reserved, Error> {
        let _waiting = Reserved::new(&self.waiting_bytes, bytes);
        self.flush_wanted.notify();
        loop {
            let answer = self.room.wait(|| match self.reserve(bytes) {
                Some(reserved) => Some(Ok(reserved)),
                None if self.gate.is_closed() => Some(Err(Error::Closing)),
                None if self.flush_failed.get() || self.in_memory() == 0 => Some(Err(Error::MemtableFull)),
                None => None,
            });
            // The last reader of a flushed memtable frees it without a notification.
            if let Some(answer) = runtime::timeout(ROOM_WAIT, answer).await {
                return answer;
            }
        }
    }

    /// Notes how a flush ended that memory or the log asked for.
    pub(crate) fn flush_ended(&self, failed: bool) {
        self.flush_failed.set(failed);
        self.room.notify();
    }

    /// Has waiting writes look again: memory was freed, or the gate was shut.
    pub(crate) fn notify(&self) {
        self.room.notify();
    }

    /// Frees a memtable in pieces once the writes under way to it are done.
    pub(crate) fn discard(self: &Rc<Self>, memtable: Rc<Memtable>) {
        let Some(pass) = self.gate.enter() else { return };
        let memory = self.clone();
        runtime::spawn_in(Class::Background, async move {
            memtable.seal().await;
            Memtable::dismantle(memtable).await;
            memory.room.notify();
            drop(pass);
        });
    }

    /// Bytes of user tables' memtables and of writes on their way there.
    fn in_memory(&self) -> usize {
        self.user_bytes.get() + self.in_flight_bytes.get()
    }
}

/// Bytes that count against a budget until this is dropped.
pub(crate) struct Reserved {
    counter: Rc<Cell<usize>>,
    bytes: usize,
}

impl Reserved {
    fn new(counter: &Rc<Cell<usize>>, bytes: usize) -> Reserved {
        counter.set(counter.get() + bytes);
        Reserved { counter: counter.clone(), bytes }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.counter.set(self.counter.get() - self.bytes);
    }
}
