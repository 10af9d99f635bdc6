//! The log of one member as openraft uses it: a copy in memory in front of the owner's [`LogStore`](crate::LogStore).
//!
//! 1. Everything is read once, at the start; later reads come from the copy. Snapshots keep it short.
//! 2. A change goes to the copy and to the store; openraft hears that it is done when the store says it is durable.
//!    One change runs at a time.
//! 3. The first error is kept as the member's failure: openraft stops the member, and every later call fails.

use crate::erased::{AnyLogStore, LocalFuture};
use crate::executor::Lock;
use crate::failure::Failure;
use crate::limits::APPEND_BYTES_MAX;
use crate::ports::{Record, StoreError};
use crate::records::{
    entry_bytes, loaded_entry, loaded_mark, loaded_snapshot, loaded_vote, stored_entry, stored_mark, stored_snapshot,
    stored_vote,
};
use crate::types::{Entry, LogId, SnapshotData, SnapshotMeta, Types, Vote};
use openraft::rt::Mutex;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;

/// The log of one member. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Log(Rc<LogInner>);

struct LogInner {
    store: Rc<dyn AnyLogStore>,
    /// Held while the store changes something.
    changing: Lock<()>,
    copy: RefCell<LogCopy>,
    failure: Failure,
}

#[derive(Default)]
struct LogCopy {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    snapshot: Option<(SnapshotMeta, SnapshotData)>,
    /// Entries whose indexes follow each other, the first one's that of the purge mark.
    entries: VecDeque<Entry>,
}

impl LogCopy {
    /// The index of the first entry.
    fn first(&self) -> u64 {
        self.purged.as_ref().map_or(0, |purged| purged.index + 1)
    }

    /// The place of index `index` among the entries, at most their number.
    fn place(&self, index: u64) -> usize {
        index.saturating_sub(self.first()).min(self.entries.len() as u64) as usize
    }

    fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }
}

impl Log {
    /// Reads what `store` holds.
    pub(crate) async fn open(store: Rc<dyn AnyLogStore>, failure: Failure) -> Result<Log, StoreError> {
        let stored = store.load().await?;
        let unreadable = |what: &str| StoreError(format!("the {what} of the metadata log cannot be read"));
        let read = |bytes: Option<&Vec<u8>>, what: &str| match bytes {
            Some(bytes) => loaded_mark(bytes).map(Some).ok_or_else(|| unreadable(what)),
            None => Ok(None),
        };
        let mut copy = LogCopy {
            vote: match &stored.vote {
                Some(bytes) => Some(loaded_vote(bytes).ok_or_else(|| unreadable("vote"))?),
                None => None,
            },
            committed: read(stored.committed.as_ref(), "mark of decided records")?,
            purged: read(stored.purged.as_ref(), "purge mark")?,
            snapshot: match &stored.snapshot {
                Some(bytes) => Some(loaded_snapshot(bytes).ok_or_else(|| unreadable("snapshot"))?),
                None => None,
            },
            entries: VecDeque::new(),
        };
        for record in &stored.records {
            if record.index < copy.first() {
                continue;
            }
            let expected = copy.first() + copy.entries.len() as u64;
            let entry = loaded_entry(&record.bytes).filter(|entry| entry.log_id.index == record.index);
            let entry = entry.ok_or_else(|| unreadable(&format!("record {}", record.index)))?;
            if record.index != expected {
                return Err(StoreError(format!(
                    "the metadata log has record {} where record {expected} belongs",
                    record.index
                )));
            }
            copy.entries.push_back(entry);
        }
        // The mark of decided records is written after the records, and may be older, but never newer than they are.
        copy.committed = copy.committed.min(copy.last());
        Ok(Log(Rc::new(LogInner { store, changing: Lock::new(()), copy: RefCell::new(copy), failure })))
    }

    /// Makes one change of the store durable.
    async fn change<'a>(
        &'a self,
        make: impl FnOnce(&'a dyn AnyLogStore) -> LocalFuture<'a, Result<(), StoreError>>,
    ) -> Result<(), io::Error> {
        let _changing = self.0.changing.lock().await;
        if let Some(reason) = self.0.failure.reason() {
            return Err(io::Error::other(reason));
        }
        make(&*self.0.store).await.map_err(|error| self.0.failure.set(error))
    }

    /// The last snapshot.
    pub(crate) fn snapshot(&self) -> Option<(SnapshotMeta, SnapshotData)> {
        self.0.copy.borrow().snapshot.clone()
    }

    /// Replaces the snapshot.
    pub(crate) async fn save_snapshot(&self, meta: SnapshotMeta, data: SnapshotData) -> Result<(), io::Error> {
        let bytes = stored_snapshot(&meta, &data);
        self.change(|store| store.save_snapshot(bytes)).await?;
        self.0.copy.borrow_mut().snapshot = Some((meta, data));
        Ok(())
    }

    /// The stored vote.
    pub(crate) fn vote(&self) -> Option<Vote> {
        self.0.copy.borrow().vote
    }

    /// The id of the last entry.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.0.copy.borrow().last()
    }

    /// Replaces the vote.
    pub(crate) async fn put_vote(&self, vote: Vote) -> Result<(), io::Error> {
        self.change(|store| store.save_vote(stored_vote(&vote))).await?;
        self.0.copy.borrow_mut().vote = Some(vote);
        Ok(())
    }

    /// Adds entries.
    pub(crate) async fn put_entries(&self, entries: Vec<Entry>) -> Result<(), io::Error> {
        let record = |entry: &Entry| Record { index: entry.log_id.index, bytes: stored_entry(entry) };
        let records = entries.iter().map(record).collect();
        // Replication may read entries of a leader before they are durable there.
        self.0.copy.borrow_mut().entries.extend(entries);
        self.change(|store| store.append(records)).await
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, io::Error> {
        let copy = self.0.copy.borrow();
        let from = match range.start_bound() {
            Bound::Included(from) => copy.place(*from),
            Bound::Excluded(before) => copy.place(before.saturating_add(1)),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(last) => copy.place(last.saturating_add(1)),
            Bound::Excluded(end) => copy.place(*end),
            Bound::Unbounded => copy.entries.len(),
        };
        Ok(copy.entries.range(from..to.max(from)).cloned().collect())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let mut bytes = 0;
        let mut entries = self.try_get_log_entries(start..end).await?;
        let fits = |entry: &Entry| {
            bytes += entry_bytes(entry);
            bytes <= APPEND_BYTES_MAX
        };
        let count = entries.iter().map(fits).take_while(|fits| *fits).count();
        entries.truncate(count.max(1));
        Ok(entries)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.0.copy.borrow().vote)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let copy = self.0.copy.borrow();
        Ok(LogState { last_purged_log_id: copy.purged, last_log_id: copy.last() })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.put_vote(*vote).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let Some(committed) = committed else { return Ok(()) };
        self.0.copy.borrow_mut().committed = Some(committed);
        self.change(|store| store.save_committed(stored_mark(&committed))).await
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.0.copy.borrow().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.put_entries(entries.into_iter().collect()).await?;
        callback.io_completed(Ok(()));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = last.map_or(0, |last| last.index + 1);
        {
            let mut copy = self.0.copy.borrow_mut();
            let keep = copy.place(from);
            copy.entries.truncate(keep);
        }
        self.change(|store| store.truncate(from)).await
    }

    async fn purge(&mut self, up_to: LogId) -> Result<(), io::Error> {
        self.change(|store| store.purge(up_to.index, stored_mark(&up_to))).await?;
        let mut copy = self.0.copy.borrow_mut();
        let purged = copy.place(up_to.index.saturating_add(1));
        copy.entries.drain(..purged);
        copy.purged = Some(up_to);
        Ok(())
    }
}
