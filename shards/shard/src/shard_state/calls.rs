//! Calls between cores: requests to the own core are served directly, all others are sent through the mailbox.

use super::Shard;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::messages::{Reply, Request};
use crate::ports::Unreadable;
use crate::verbs::Verb;
use model::{Failure, Table};
use runtime::ShardId;
use runtime::sync::join_all;
use std::pin::Pin;

/// A future that stays on its core.
pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Answers a request of this node to itself.
pub(crate) type ServeOwn = for<'a> fn(&'a Shard, Verb, &'a [u8]) -> LocalFuture<'a, Result<Vec<u8>, Unreadable>>;

/// Functions of the modules above this one, plugged in when the shard starts. Reads and writes of what the own core
/// owns do not pass through here: they are direct calls of `replica`.
#[derive(Clone, Copy)]
pub(crate) struct Handlers {
    /// Serves a request on this core.
    pub(crate) serve: fn(&Shard, Request) -> LocalFuture<'_, Reply>,
    /// Serves a request of this node to itself, as one of another node is served.
    pub(crate) serve_own: ServeOwn,
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

    /// Asks every shard, including this one, concurrently; returns the replies in the order of the shards.
    pub(crate) async fn call_all(&self, request: impl Fn() -> Request) -> Vec<Reply> {
        let shards = 0..runtime::shard_count() as u16;
        join_all(shards.map(|to| self.call(ShardId(to), request())).collect()).await
    }

    /// Serves a request of this node to itself as if it came from another one. A write goes on if this is dropped.
    pub(crate) async fn serve_as_peer(&self, verb: Verb, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
        (self.inner.handlers.serve_own)(self, verb, body).await
    }

    /// Reads a table without storage, on this core.
    pub(crate) async fn read_virtual(&self, table: &Table, request: &ReadRequest) -> Result<ReadReply, Failure> {
        (self.inner.handlers.read_virtual)(self, table, request).await
    }
}
