//! Accepted connections of a listening socket that wait for a task.
//!
//! 1. The backend accepts into the queue until it is full; the system queues what comes beyond that.
//! 2. A task takes the next connection, and has the backend accept again once half of the queue is free.
//! 3. A failed accept, mostly for want of descriptors, is passed to a task; nothing is accepted until the next one
//!    asks.

use super::address::{NOWHERE, address_of, listening};
use super::{helper_pool, unix_socket};
use crate::sync::Waiters;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::task::{Poll, Waker};

/// Accepted connections that wait for a task.
pub(crate) const ACCEPTED_MAX: usize = 1024;

/// The address or path that a socket listens on.
pub(crate) struct SocketName {
    /// The address; [`NOWHERE`] for a socket with a path.
    pub(crate) address: SocketAddr,
    path: Option<PathBuf>,
}

impl SocketName {
    /// Creates a socket that listens on `address`.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<(OwnedFd, SocketName)> {
        let socket = listening(address)?;
        let address = address_of(&socket, libc::getsockname)?;
        Ok((socket, SocketName { address, path: None }))
    }

    /// Creates a Unix socket that listens at `path`.
    pub(crate) async fn bind_local(path: &Path) -> io::Result<(OwnedFd, SocketName)> {
        let own = path.to_path_buf();
        let socket = helper_pool::run(move || unix_socket::bind(&own)).await?;
        Ok((socket, SocketName { address: NOWHERE, path: Some(path.into()) }))
    }

    pub(crate) fn is_local(&self) -> bool {
        self.path.is_some()
    }

    /// Removes the path. Called before the socket is shut down: otherwise another process could take the path for one
    /// left behind, bind it, and lose it to this call.
    pub(crate) fn remove(&self) {
        if let Some(path) = &self.path {
            // If this fails, the next process to bind the path finds that nobody answers.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A connection that belongs to no shard yet.
pub(crate) struct Accepted {
    pub(crate) descriptor: OwnedFd,
    pub(crate) peer: SocketAddr,
}

impl Accepted {
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

pub(crate) struct AcceptQueue {
    /// Whether the socket has a path instead of an address.
    local: bool,
    ready: RefCell<VecDeque<io::Result<Accepted>>>,
    waiters: Waiters,
}

impl AcceptQueue {
    pub(crate) fn new(local: bool) -> AcceptQueue {
        AcceptQueue { local, ready: RefCell::default(), waiters: Waiters::default() }
    }

    /// Waits for the next connection. Calls `go_on` if more may be accepted.
    pub(crate) async fn next(&self, go_on: impl Fn()) -> io::Result<Accepted> {
        poll_fn(|cx| {
            let next = self.ready.borrow_mut().pop_front();
            if !matches!(next, Some(Err(_))) && self.len() < ACCEPTED_MAX / 2 {
                go_on();
            }
            if let Some(next) = next {
                return Poll::Ready(next);
            }
            self.waiters.add(cx);
            Poll::Pending
        })
        .await
    }

    /// Adds a connection that the system accepted, unless its peer has left or may not connect.
    pub(crate) fn push(&self, descriptor: OwnedFd) {
        let peer = match self.local {
            true => unix_socket::is_friend(&descriptor).then_some(NOWHERE),
            // A peer that has left has no address.
            false => address_of(&descriptor, libc::getpeername).ok(),
        };
        if let Some(peer) = peer {
            self.ready.borrow_mut().push_back(Ok(Accepted { descriptor, peer }));
        }
    }

    /// Passes an error to the next task that takes a connection, but for those that follow one: accepts under way at
    /// the same time fail for the same reason.
    pub(crate) fn fail(&self, e: io::Error) {
        let mut ready = self.ready.borrow_mut();
        if !matches!(ready.back(), Some(Err(_))) {
            ready.push_back(Err(e));
        }
    }

    /// Connections and errors that wait for a task.
    pub(crate) fn len(&self) -> usize {
        self.ready.borrow().len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= ACCEPTED_MAX
    }

    /// The tasks in [`AcceptQueue::next`], which the caller wakes after each accept.
    pub(crate) fn take_waiters(&self) -> Vec<Waker> {
        self.waiters.take()
    }
}
