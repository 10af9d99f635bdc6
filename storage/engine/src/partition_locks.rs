//! An async lock per partition, which every change that reads first holds.
//!
//! 1. A caller that finds the lock free takes it at once, at the cost of one map entry.
//! 2. Other callers wait in a queue; the holder hands the lock to the first of them when its guard is dropped.
//! 3. A caller that needs several locks takes them in one order (`PartitionLocks::lock_all`), so that no two callers
//!    wait for each other.
//!
//! A lock is named by table and token. Keys whose tokens collide share a lock, which costs waiting and nothing else.
//!
//! Invariants: one guard per lock; first come, first served; a waiter whose future is dropped leaves the queue, and
//! hands on a lock that it was already given; at most [`WAITERS_MAX`] wait for a lock.

use crate::error::Error;
use model::{DecoratedKey, TableId, Token};
use runtime::HashMap;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Most tasks that wait for one lock; one more gets [`Error::LockQueueFull`].
pub const WAITERS_MAX: usize = 1024;

/// What a lock protects.
type LockName = (TableId, Token);

/// The locks of a shard. Cloning shares them.
#[derive(Clone, Default)]
pub struct PartitionLocks(Rc<RefCell<HashMap<LockName, VecDeque<Rc<Waiter>>>>>);

#[derive(Default)]
struct Waiter {
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl PartitionLocks {
    /// Waits for the lock of a partition.
    ///
    /// # Errors
    /// [`Error::LockQueueFull`] if [`WAITERS_MAX`] others wait.
    pub async fn lock(&self, table: TableId, token: Token) -> Result<PartitionLockGuard, Error> {
        use std::collections::hash_map::Entry;
        let name = (table, token);
        let waiter = match self.0.borrow_mut().entry(name) {
            Entry::Vacant(vacant) => {
                vacant.insert(VecDeque::new());
                return Ok(PartitionLockGuard { locks: self.clone(), name });
            }
            Entry::Occupied(line) if line.get().len() >= WAITERS_MAX => return Err(Error::LockQueueFull),
            Entry::Occupied(mut line) => {
                let waiter = Rc::new(Waiter::default());
                line.get_mut().push_back(waiter.clone());
                waiter
            }
        };
        let mut queued = QueuedWaiter { locks: self, name, waiter, taken: false };
        std::future::poll_fn(|cx| {
            if queued.waiter.granted.get() {
                return Poll::Ready(());
            }
            *queued.waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        queued.taken = true;
        Ok(PartitionLockGuard { locks: self.clone(), name })
    }

    /// Waits for the locks of several partitions, each once.
    pub(crate) async fn lock_all<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Result<Vec<PartitionLockGuard>, Error> {
        let mut names: Vec<LockName> = partitions.map(|(table, key)| (table, key.token)).collect();
        names.sort_unstable();
        names.dedup();
        let mut guards = Vec::with_capacity(names.len());
        for (table, token) in names {
            guards.push(self.lock(table, token).await?);
        }
        Ok(guards)
    }

    /// Hands the lock to the next waiter, or removes it.
    fn pass_on(&self, name: LockName) {
        let mut lines = self.0.borrow_mut();
        let Some(next) = lines.get_mut(&name).and_then(VecDeque::pop_front) else {
            lines.remove(&name);
            return;
        };
        drop(lines);
        next.granted.set(true);
        if let Some(waker) = next.waker.take() {
            waker.wake();
        }
    }
}

/// A waiter in the queue of a lock. It leaves the queue when its future is dropped.
struct QueuedWaiter<'l> {
    locks: &'l PartitionLocks,
    name: LockName,
    waiter: Rc<Waiter>,
    taken: bool,
}

impl Drop for QueuedWaiter<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        if self.waiter.granted.get() {
            self.locks.pass_on(self.name);
        } else if let Some(line) = self.locks.0.borrow_mut().get_mut(&self.name) {
            line.retain(|other| !Rc::ptr_eq(other, &self.waiter));
        }
    }
}

/// Holds a partition's lock until it is dropped.
#[must_use]
pub struct PartitionLockGuard {
    locks: PartitionLocks,
    name: LockName,
}

impl Drop for PartitionLockGuard {
    fn drop(&mut self) {
        self.locks.pass_on(self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Partitioner;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::Context;

    const TABLE: TableId = TableId([1; 16]);

    type Locking<'l> = Pin<Box<dyn Future<Output = Result<PartitionLockGuard, Error>> + 'l>>;

    fn locking(locks: &PartitionLocks, token: i64) -> Locking<'_> {
        Box::pin(locks.lock(TABLE, Token(token)))
    }

    fn poll(future: &mut Locking<'_>) -> Option<Result<PartitionLockGuard, Error>> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn guard(future: &mut Locking<'_>) -> PartitionLockGuard {
        poll(future).expect("free").expect("a guard")
    }

    #[test]
    fn the_lock_goes_down_the_line_past_those_who_gave_up() {
        let locks = PartitionLocks::default();
        let first = guard(&mut locking(&locks, 1));
        let mut line: Vec<Locking<'_>> = (0..5).map(|_| locking(&locks, 1)).collect();
        assert!(line.iter_mut().all(|waiting| poll(waiting).is_none()));
        // Another partition is free.
        drop(guard(&mut locking(&locks, 2)));
        drop(line.remove(2));
        drop(first);
        assert!(poll(&mut line[1]).is_none());
        // The second was handed the lock and gives up before it has taken it.
        drop(line.remove(0));
        let second = guard(&mut line[0]);
        assert!(poll(&mut line[1]).is_none());
        drop(second);
        let third = guard(&mut line[1]);
        drop(line);
        drop(third);
        assert!(locks.0.borrow().is_empty(), "a free lock leaves nothing");
    }

    #[test]
    fn the_line_takes_its_longest_and_refuses_one_more() {
        let locks = PartitionLocks::default();
        let held = guard(&mut locking(&locks, 1));
        let mut line: Vec<Locking<'_>> = (0..WAITERS_MAX).map(|_| locking(&locks, 1)).collect();
        assert!(line.iter_mut().all(|waiting| poll(waiting).is_none()));
        assert!(matches!(poll(&mut locking(&locks, 1)), Some(Err(Error::LockQueueFull))));
        drop(line.pop());
        assert!(poll(&mut locking(&locks, 1)).is_none());
        drop(held);
    }

    #[test]
    fn several_locks_are_taken_once_each_in_one_order() {
        let locks = PartitionLocks::default();
        let (a, b) = (DecoratedKey::new(Partitioner::Murmur3, b"a"), DecoratedKey::new(Partitioner::Murmur3, b"b"));
        let mut one = pin!(locks.lock_all([(TABLE, &a), (TABLE, &b), (TABLE, &a)].into_iter()));
        let mut other = pin!(locks.lock_all([(TABLE, &b), (TABLE, &a)].into_iter()));
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(guards)) = one.as_mut().poll(&mut cx) else { panic!("free") };
        assert_eq!(guards.len(), 2);
        assert!(other.as_mut().poll(&mut cx).is_pending());
        drop(guards);
        assert!(matches!(other.as_mut().poll(&mut cx), Poll::Ready(Ok(guards)) if guards.len() == 2));
        assert!(locks.0.borrow().is_empty());
    }
}
