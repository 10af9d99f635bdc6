//! Calls between cores: the own core's requests are served here, all others are sent through the mailbox.

use super::Shard;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::messages::{Reply, Request};
use model::{Failure, Table};
use runtime::ShardId;
use runtime::sync::join_all;
use std::pin::Pin;

/// A future of one core.
pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What modules above this one do for a shard; plugged in when it starts. Reads and writes of what the own core owns do
/// not come this way: they are direct calls of `replica`.
#[derive(Clone, Copy)]
pub(crate) struct Handlers {
    /// Serves a request on this core.
    pub(crate) serve: fn(&Shard, Request) -> LocalFuture<'_, Reply>,
    /// Reads a table without storage.
    pub(crate) read_virtual:
        for<'a> fn(&'a Shard, &'a Table, &'a ReadRequest) -> LocalFuture<'a, Result<ReadReply, Failure>>,
}

impl Shard {
    /// Asks shard `to`, which may be this one, and waits for its answer.
    pub(crate) async fn call(&self, to: ShardId, request: Request) -> Reply {
        if to == self.id() {
            (self.inner.handlers.serve)(self, request).await
        } else {
            self.mailbox().call(to, request).await
        }
    }

    /// Asks every shard, this one too, at the same time; replies in the order of the shards.
    pub(crate) async fn call_all(&self, request: impl Fn() -> Request) -> Vec<Reply> {
        let shards = 0..runtime::shard_count() as u16;
        join_all(shards.map(|to| self.call(ShardId(to), request())).collect()).await
    }

    /// Reads a table without storage, on this core.
    pub(crate) async fn read_virtual(&self, table: &Table, request: &ReadRequest) -> Result<ReadReply, Failure> {
        (self.inner.handlers.read_virtual)(self, table, request).await
    }
}
