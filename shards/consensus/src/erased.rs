//! The owner's ports behind pointers, so that a group has no type parameters.

use crate::ports::{LogStore, Record, StateMachine, StoreError, Stored, Transport, Unreachable};
use std::future::Future;
use std::pin::Pin;
use uuid::Uuid;

/// A future on the current shard.
pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// [`LogStore`] as an object.
pub(crate) trait AnyLogStore {
    fn load(&self) -> LocalFuture<'_, Result<Stored, StoreError>>;
    fn save_vote(&self, vote: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>>;
    fn save_committed(&self, mark: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>>;
    fn append(&self, records: Vec<Record>) -> LocalFuture<'_, Result<(), StoreError>>;
    fn truncate(&self, from: u64) -> LocalFuture<'_, Result<(), StoreError>>;
    fn purge(&self, up_to: u64, mark: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>>;
    fn save_snapshot(&self, snapshot: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>>;
}

impl<S: LogStore> AnyLogStore for S {
    fn load(&self) -> LocalFuture<'_, Result<Stored, StoreError>> {
        Box::pin(LogStore::load(self))
    }

    fn save_vote(&self, vote: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(LogStore::save_vote(self, vote))
    }

    fn save_committed(&self, mark: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(LogStore::save_committed(self, mark))
    }

    fn append(&self, records: Vec<Record>) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(LogStore::append(self, records))
    }

    fn truncate(&self, from: u64) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(LogStore::truncate(self, from))
    }

    fn purge(&self, up_to: u64, mark: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(LogStore::purge(self, up_to, mark))
    }

    fn save_snapshot(&self, snapshot: Vec<u8>) -> LocalFuture<'_, Result<(), StoreError>> {
        Box::pin(LogStore::save_snapshot(self, snapshot))
    }
}

/// [`Transport`] as an object.
pub(crate) trait AnyTransport {
    fn call(&self, target: Uuid, message: Vec<u8>) -> LocalFuture<'_, Result<Vec<u8>, Unreachable>>;
}

impl<T: Transport> AnyTransport for T {
    fn call(&self, target: Uuid, message: Vec<u8>) -> LocalFuture<'_, Result<Vec<u8>, Unreachable>> {
        Box::pin(Transport::call(self, target, message))
    }
}

/// [`StateMachine`] as an object.
pub(crate) trait AnyStateMachine {
    fn apply<'a>(&'a self, index: u64, command: &'a [u8]) -> LocalFuture<'a, Result<Vec<u8>, StoreError>>;
    fn snapshot(&self) -> Vec<u8>;
    fn restore<'a>(&'a self, index: u64, snapshot: &'a [u8]) -> LocalFuture<'a, Result<(), StoreError>>;
}

impl<M: StateMachine> AnyStateMachine for M {
    fn apply<'a>(&'a self, index: u64, command: &'a [u8]) -> LocalFuture<'a, Result<Vec<u8>, StoreError>> {
        Box::pin(StateMachine::apply(self, index, command))
    }

    fn snapshot(&self) -> Vec<u8> {
        StateMachine::snapshot(self)
    }

    fn restore<'a>(&'a self, index: u64, snapshot: &'a [u8]) -> LocalFuture<'a, Result<(), StoreError>> {
        Box::pin(StateMachine::restore(self, index, snapshot))
    }
}
