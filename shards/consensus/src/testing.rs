//! A log store in memory that crashes as a disk does, and surroundings in which nothing happens, for tests of groups.

use crate::ports::{LogStore, Record, StateMachine, StoreError, Stored, Transport, Unreachable};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// A [`LogStore`] in memory. Cloning shares it; keep a clone beyond the member's node to start it again.
///
/// A call takes a random time. What it does happens somewhere within that time, so that a member that is dropped
/// meanwhile leaves it done or undone, and an append done in part.
#[derive(Clone, Default)]
pub struct MemoryStore(Rc<Disk>);

#[derive(Default)]
struct Disk {
    stored: RefCell<Stored>,
    writes: Cell<u64>,
    slowest: Cell<Duration>,
    failing: Cell<Option<u64>>,
}

impl MemoryStore {
    /// An empty store whose calls take up to `slowest`.
    pub fn new(slowest: Duration) -> MemoryStore {
        let store = MemoryStore::default();
        store.0.slowest.set(slowest);
        store
    }

    /// What is stored.
    pub fn stored(&self) -> Stored {
        self.0.stored.borrow().clone()
    }

    /// The number of writes that have begun.
    pub fn writes(&self) -> u64 {
        self.0.writes.get()
    }

    /// Makes the write that follows `after` more fail, and all later ones, until [`MemoryStore::mend`].
    pub fn fail_after(&self, after: u64) {
        self.0.failing.set(Some(self.0.writes.get() + after));
    }

    /// Lets writes succeed again.
    pub fn mend(&self) {
        self.0.failing.set(None);
    }

    async fn pause(&self) {
        let most = self.0.slowest.get().as_nanos() as u64;
        runtime::sleep(Duration::from_nanos(runtime::rng::below(most.max(1)))).await;
    }

    async fn write(&self, effect: impl FnOnce(&mut Stored)) -> Result<(), StoreError> {
        let number = self.0.writes.get();
        self.0.writes.set(number + 1);
        self.pause().await;
        if self.0.failing.get().is_some_and(|from| number >= from) {
            return Err(StoreError("the disk of the test has failed".to_owned()));
        }
        effect(&mut self.0.stored.borrow_mut());
        self.pause().await;
        Ok(())
    }
}

impl LogStore for MemoryStore {
    async fn load(&self) -> Result<Stored, StoreError> {
        self.pause().await;
        Ok(self.stored())
    }

    async fn save_vote(&self, vote: Vec<u8>) -> Result<(), StoreError> {
        self.write(|stored| stored.vote = Some(vote)).await
    }

    async fn save_committed(&self, mark: Vec<u8>) -> Result<(), StoreError> {
        // Lost now and then, as what is not durable is in a crash.
        if runtime::rng::below(4) == 0 {
            return Ok(());
        }
        self.write(|stored| stored.committed = Some(mark)).await
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        for record in records {
            self.write(|stored| {
                let next = stored.records.last().map(|last| last.index + 1);
                assert!(next.is_none_or(|next| next == record.index), "record {} does not follow", record.index);
                stored.records.push(record);
            })
            .await?;
        }
        Ok(())
    }

    async fn truncate(&self, from: u64) -> Result<(), StoreError> {
        self.write(|stored| stored.records.retain(|record| record.index < from)).await
    }

    async fn purge(&self, up_to: u64, mark: Vec<u8>) -> Result<(), StoreError> {
        self.write(|stored| {
            stored.purged = Some(mark);
            stored.records.retain(|record| record.index > up_to);
        })
        .await
    }

    async fn save_snapshot(&self, snapshot: Vec<u8>) -> Result<(), StoreError> {
        self.write(|stored| stored.snapshot = Some(snapshot)).await
    }
}

/// No other member can be reached, and commands change nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Transport for Nothing {
    async fn call(&self, _: Uuid, _: Vec<u8>) -> Result<Vec<u8>, Unreachable> {
        Err(Unreachable::NotSent)
    }
}

impl StateMachine for Nothing {
    async fn apply(&self, _: u64, _: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok(Vec::new())
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    async fn restore(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
}
