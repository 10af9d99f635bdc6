//! A group: records that become durable together, with one write.
//!
//! Invariants: header and payload lie in one aligned buffer, which is padded with zeros to whole blocks when the
//! group is written; the group knows the tables of its records, which name them by number.

use super::position::LogPosition;
use super::record::{
    END_BYTES, KIND_CUT_MUTATION, KIND_MUTATION, KIND_ROW, KIND_TABLES, RECORD_HEADER_BYTES, TABLE_ID_BYTES,
    TIMESTAMP_BYTES, record_header,
};
use super::segment::{BLOCK_BYTES, GROUP_HEADER_BYTES, GroupFrame, Header};
use model::TableId;
use model::mutation::{cut_out_row, cut_out_table};
use runtime::AlignedBuf;
use runtime::gate::Permit;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A group takes no further mutation that would make it longer than this many bytes.
pub(crate) const GROUP_BYTES_MAX: usize = 1 << 20;
/// Capacity of a new buffer, bytes.
const GROUP_BYTES_START: usize = 64 << 10;
/// Most buffers kept for later groups.
const SPARE_BUFFERS_MAX: usize = 3;

/// The most bytes that the writer adds to a group besides the ids of its tables: the header of the record of table
/// ids, the end of the previous segment, and a timestamp.
pub(crate) const ADDED_BYTES_MAX: usize = RECORD_HEADER_BYTES + RECORD_HEADER_BYTES + END_BYTES + TIMESTAMP_BYTES;

/// Records that wait to be written, or are being written.
pub(crate) struct Group {
    buffer: AlignedBuf,
    len: usize,
    records: u32,
    /// The tables of the group's mutations; a table's number is its index.
    tables: Vec<TableId>,
    /// Whether a mutation names its table by number, so that the group needs a record of table ids.
    cut: bool,
    permits: Vec<Permit>,
    pub(crate) state: Rc<GroupState>,
}

impl Group {
    pub(crate) fn new(buffers: &Buffers) -> Group {
        Group {
            buffer: buffers.take(),
            len: GROUP_HEADER_BYTES,
            records: 0,
            tables: Vec::new(),
            cut: false,
            permits: Vec::new(),
            state: Rc::default(),
        }
    }

    /// The most bytes that the group may have when it is written, not counting [`ADDED_BYTES_MAX`].
    pub(crate) fn bytes_max(&self) -> usize {
        self.len + self.tables.len() * TABLE_ID_BYTES
    }

    /// What [`Group::bytes_max`] would be with one more mutation of these tables.
    pub(crate) fn bytes_with(&self, mutation: &[u8], tables: impl Iterator<Item = TableId>) -> usize {
        self.bytes_max() + mutation_bytes(mutation, tables.filter(|table| self.number(*table).is_none()))
    }

    fn number(&self, table: TableId) -> Option<usize> {
        self.tables.iter().position(|known| *known == table)
    }

    /// Adds a mutation of `tables`, in the shortest kind of record that can hold it.
    pub(crate) fn push(&mut self, mutation: &[u8], tables: impl Iterator<Item = TableId>, permit: Permit) {
        let mut last = 0;
        for table in tables {
            last = self.number(table).unwrap_or_else(|| {
                self.tables.push(table);
                self.tables.len() - 1
            });
        }
        self.permits.push(permit);
        let Ok(number) = u16::try_from(last) else { return self.push_record(KIND_MUTATION, &[mutation]) };
        if let Some((_, [key, clustering_len, clustering, row])) = cut_out_row(mutation) {
            self.cut = true;
            self.push_record(KIND_ROW, &[&number.to_le_bytes(), key, clustering_len, clustering, row]);
        } else if let Some((head, _, body)) = cut_out_table(mutation) {
            self.cut = true;
            self.push_record(KIND_CUT_MUTATION, &[&number.to_le_bytes(), head, body]);
        } else {
            self.push_record(KIND_MUTATION, &[mutation]);
        }
    }

    /// Adds the record of table ids if a mutation names its table by number. Returns the group's tables.
    pub(crate) fn close_tables(&mut self) -> Vec<TableId> {
        let tables = std::mem::take(&mut self.tables);
        if self.cut {
            let ids: Vec<&[u8]> = tables.iter().map(|table| &table.0[..]).collect();
            self.push_record(KIND_TABLES, &ids);
        }
        tables
    }

    /// Adds an encoded record.
    pub(crate) fn push_encoded(&mut self, record: &[u8]) {
        self.reserve(record.len());
        self.buffer[self.len..self.len + record.len()].copy_from_slice(record);
        self.len += record.len();
        self.records += 1;
    }

    fn push_record(&mut self, kind: u8, body: &[&[u8]]) {
        let bytes = body.iter().map(|part| part.len()).sum();
        self.reserve(RECORD_HEADER_BYTES + bytes);
        for part in std::iter::once(&record_header(kind, bytes)[..]).chain(body.iter().copied()) {
            self.buffer[self.len..self.len + part.len()].copy_from_slice(part);
            self.len += part.len();
        }
        self.records += 1;
    }

    fn reserve(&mut self, more: usize) {
        let needed = self.len + more;
        if needed > self.buffer.capacity() {
            let mut larger = AlignedBuf::zeroed(needed.max(self.buffer.capacity() * 2));
            larger[..self.len].copy_from_slice(&self.buffer[..self.len]);
            self.buffer = larger;
        }
    }

    /// Bytes that the group takes in a segment: whole blocks.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.len.next_multiple_of(BLOCK_BYTES as usize) as u32
    }

    /// Seals the group for its place in a segment. Returns its bytes, padded to whole blocks and followed by `zeros`
    /// more bytes, and its waiters.
    pub(crate) fn into_bytes(mut self, header: &Header, offset: u32, zeros: u32) -> (AlignedBuf, GroupWaiters) {
        let blocks = self.block_bytes() as usize + zeros as usize;
        self.reserve(blocks - self.len);
        let mut buffer = self.buffer;
        GroupFrame::seal(header, offset, self.records, &mut buffer[..self.len]);
        buffer[self.len..blocks].fill(0);
        buffer.set_len(blocks);
        (buffer, GroupWaiters { permits: self.permits, state: self.state })
    }

    /// Ends a group that will not be written.
    pub(crate) fn finish(self, outcome: Outcome) {
        GroupWaiters { permits: self.permits, state: self.state }.finish(outcome);
    }
}

/// The writers that wait for a group, and the permits for its bytes in memory.
pub(crate) struct GroupWaiters {
    permits: Vec<Permit>,
    state: Rc<GroupState>,
}

impl GroupWaiters {
    /// Ends the group: releases its permits and wakes its writers.
    pub(crate) fn finish(self, outcome: Outcome) {
        drop(self.permits);
        self.state.finish(outcome);
    }
}

/// The most bytes that a mutation adds to a group that knows none of `tables`.
pub(crate) fn mutation_bytes(mutation: &[u8], tables: impl Iterator<Item = TableId>) -> usize {
    RECORD_HEADER_BYTES + mutation.len() + tables.count() * TABLE_ID_BYTES
}

/// Spare buffers for groups.
#[derive(Default)]
pub(crate) struct Buffers(RefCell<Vec<AlignedBuf>>);

impl Buffers {
    fn take(&self) -> AlignedBuf {
        self.0.borrow_mut().pop().unwrap_or_else(|| AlignedBuf::zeroed(GROUP_BYTES_START))
    }

    pub(crate) fn give(&self, mut buffer: AlignedBuf) {
        let mut spare = self.0.borrow_mut();
        if buffer.capacity() <= 2 * GROUP_BYTES_MAX && spare.len() < SPARE_BUFFERS_MAX {
            buffer.set_len(buffer.capacity());
            spare.push(buffer);
        }
    }
}

/// How a group ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The group is durable; later groups begin at this position or behind it.
    Durable(LogPosition),
    /// Nothing of the group was written; later groups begin at this position or behind it.
    NotWritten(io::ErrorKind, String, LogPosition),
    /// The write failed: whether the next start will find the group is unknown.
    Failed(io::ErrorKind, String),
}

/// What a writer that stopped waiting left to be done, such as applying its mutation.
pub(crate) type Orphan = Box<dyn FnOnce()>;

/// The state of a group that its writers watch.
#[derive(Default)]
pub(crate) struct GroupState {
    outcome: RefCell<Option<Outcome>>,
    waiters: RefCell<Vec<Waker>>,
    /// Run once the group is durable.
    orphans: RefCell<Vec<Orphan>>,
}

impl GroupState {
    /// How the group ended, once it has.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.outcome.borrow().clone()
    }

    /// Waits until the group has ended, whatever the outcome.
    pub(crate) fn ended(self: &Rc<Self>) -> GroupEnd {
        GroupEnd { state: self.clone(), slot: None }
    }

    /// Runs `work` once the group is durable, or at once if it is. Drops `work` if the group fails.
    pub(crate) fn adopt(&self, work: Orphan) {
        let durable = match &*self.outcome.borrow() {
            None => {
                self.orphans.borrow_mut().push(work);
                return;
            }
            Some(outcome) => matches!(outcome, Outcome::Durable(_)),
        };
        if durable {
            work();
        }
    }

    fn finish(&self, outcome: Outcome) {
        let durable = matches!(outcome, Outcome::Durable(_));
        *self.outcome.borrow_mut() = Some(outcome);
        let orphans = std::mem::take(&mut *self.orphans.borrow_mut());
        if durable {
            orphans.into_iter().for_each(|work| work());
        }
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
        waiters.into_iter().for_each(Waker::wake);
    }
}

/// The future of [`GroupState::ended`].
pub(crate) struct GroupEnd {
    state: Rc<GroupState>,
    slot: Option<usize>,
}

impl Future for GroupEnd {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.state.outcome() {
            return Poll::Ready(outcome);
        }
        let slot = {
            let mut waiters = self.state.waiters.borrow_mut();
            match self.slot.and_then(|slot| waiters.get_mut(slot)) {
                Some(waker) => {
                    waker.clone_from(cx.waker());
                    self.slot
                }
                None => {
                    waiters.push(cx.waker().clone());
                    Some(waiters.len() - 1)
                }
            }
        };
        self.slot = slot;
        Poll::Pending
    }
}
