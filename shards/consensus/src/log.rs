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
        self.change_locked(make).await
    }

    /// Makes one change of the store durable, for callers that hold the lock.
    async fn change_locked<'a>(
        &'a self,
        make: impl FnOnce(&'a dyn AnyLogStore) -> LocalFuture<'a, Result<(), StoreError>>,
    ) -> Result<(), io::Error> {
        if let Some(reason) = self.0.failure.reason() {
            return Err(io::Error::other(reason));
        }
        make(&*self.0.store).await.map_err(|error| self.0.failure.set(error))
    }

    /// The last snapshot.
    pub(crate) fn snapshot(&self) -> Option<(SnapshotMeta, SnapshotData)> {
        self.0.copy.borrow().snapshot.clone()
    }

    /// Replaces the snapshot, unless there is a later one: one that was taken here may be stored after one that came
    /// from the leader, and records may have been purged up to that.
    pub(crate) async fn save_snapshot(&self, meta: SnapshotMeta, data: SnapshotData) -> Result<(), io::Error> {
        let bytes = stored_snapshot(&meta, &data);
        let _changing = self.0.changing.lock().await;
        let later = |(stored, _): &(SnapshotMeta, SnapshotData)| stored.last_log_id > meta.last_log_id;
        if self.0.copy.borrow().snapshot.as_ref().is_some_and(later) {
            return Ok(());
        }
        self.change_locked(|store| store.save_snapshot(bytes)).await?;
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

    /// The id of the entry at `index`, if it is in the log.
    pub(crate) fn at(&self, index: u64) -> Option<LogId> {
        let copy = self.0.copy.borrow();
        let place = usize::try_from(index.checked_sub(copy.first())?).ok()?;
        copy.entries.get(place).map(|entry| entry.log_id)
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
        let mut calls: Vec<Vec<Record>> = Vec::new();
        let mut bytes = 0;
        for record in entries.iter().map(record) {
            bytes += record.bytes.len();
            match calls.last_mut() {
                Some(call) if bytes <= APPEND_BYTES_MAX => call.push(record),
                _ => {
                    bytes = record.bytes.len();
                    calls.push(vec![record]);
                }
            }
        }
        // Replication may read entries of a leader before they are durable there.
        self.0.copy.borrow_mut().entries.extend(entries);
        for records in calls {
            self.change(|store| store.append(records)).await?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::Log;
    use crate::failure::Failure;
    use crate::ports::{LogStore, Record, StoreError};
    use crate::records::{stored_entry, stored_mark};
    use crate::testing::MemoryStore;
    use crate::types::{Entry, LogId, Payload, Proposal, SnapshotMeta, log_id};
    use openraft::{RaftLogReader, StoredMembership};
    use runtime::mesh::NodeId;
    use runtime::sim::{Options, Sim};
    use std::future::Future;
    use std::rc::Rc;
    use std::time::Duration;
    use uuid::Uuid;

    /// Runs `test` on a shard with an empty store.
    fn on_a_shard<F: Future<Output = ()> + 'static>(test: impl FnOnce(MemoryStore) -> F + 'static) {
        let mut sim = Sim::new(1, Options::default());
        sim.run_node(NodeId(1), Duration::from_secs(10), || test(MemoryStore::default()));
    }

    fn entry(index: u64, bytes: usize) -> Entry {
        let proposal = Proposal { id: Uuid::from_u128(index.into()), command: vec![1; bytes] };
        Entry { log_id: log_id(1, index), payload: Payload::Normal(proposal) }
    }

    fn meta(last: LogId) -> SnapshotMeta {
        SnapshotMeta { last_log_id: Some(last), last_membership: StoredMembership::default() }
    }

    async fn open(store: &MemoryStore) -> Result<Log, StoreError> {
        Log::open(Rc::new(store.clone()), Failure::default()).await
    }

    #[test]
    fn an_older_snapshot_does_not_replace_a_later_one() {
        on_a_shard(|store| async move {
            let log = open(&store).await.expect("empty");
            let data = |bytes: &[u8]| Rc::new(bytes.to_vec());
            log.save_snapshot(meta(log_id(1, 7)), data(b"later")).await.expect("saved");
            log.save_snapshot(meta(log_id(1, 5)), data(b"older")).await.expect("nothing to do");
            let log = open(&store).await.expect("readable");
            assert_eq!(log.snapshot(), Some((meta(log_id(1, 7)), data(b"later"))));
        });
    }

    #[test]
    fn what_was_stored_is_there_after_a_start() {
        on_a_shard(|store| async move {
            let log = open(&store).await.expect("empty");
            log.put_entries((0..5).map(|index| entry(index, 600 << 10)).collect()).await.expect("stored");
            assert_eq!(store.writes(), 5, "records of more than 1 MiB together go one after another");
            let mut log = open(&store).await.expect("readable");
            assert_eq!(log.last(), Some(log_id(1, 4)));
            assert_eq!((log.at(3), log.at(5)), (Some(log_id(1, 3)), None));
            assert_eq!(log.limited_get_log_entries(1, 5).await.expect("read"), [entry(1, 600 << 10)]);
            assert_eq!(log.try_get_log_entries(3..9).await.expect("read").len(), 2);
        });
    }

    #[test]
    fn records_before_the_purge_mark_do_not_count_and_holes_are_refused() {
        on_a_shard(|store| async move {
            let record = |index| Record { index, bytes: stored_entry(&entry(index, 1)) };
            store.append((2..6).map(record).collect()).await.expect("stored");
            let error = open(&store).await.err().expect("the log begins at 0");
            assert_eq!(error.0, "the metadata log has record 2 where record 0 belongs");
            store.purge(1, stored_mark(&log_id(1, 3))).await.expect("stored");
            let mut log = open(&store).await.expect("4 and 5 are left");
            assert_eq!(log.try_get_log_entries(..).await.expect("read"), [entry(4, 1), entry(5, 1)]);
            store.append(vec![Record { index: 6, bytes: vec![1, 2] }]).await.expect("stored");
            let error = open(&store).await.err().expect("damaged");
            assert_eq!(error.0, "the record 6 of the metadata log cannot be read");
        });
    }
}
