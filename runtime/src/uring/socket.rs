//! Listeners by multishot accept, and outgoing connections.

use super::operations::{Operation, OperationId, Payload};
use super::reactor::{self, Core};
pub(crate) use super::stream::{RecvBuf, Stream};
use crate::sync::Waiters;
use crate::system::address::{NOWHERE, SocketAddress, address_of, connecting, listening, shut_down};
use crate::system::{helper, local};
use io_uring::{opcode, types};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Accepted connections that wait for a task; beyond this the system's queue holds them.
pub(super) const ACCEPTED_MAX: usize = 1024;
/// How long an `accept` that failed takes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A descriptor that is used in the ring of a shard and closed through it, after whatever was started with it.
pub(super) struct Descriptor {
    raw: RawFd,
    core: Rc<Core>,
}

impl Descriptor {
    pub(super) fn new(descriptor: OwnedFd, core: Rc<Core>) -> Descriptor {
        Descriptor { raw: descriptor.into_raw_fd(), core }
    }

    pub(super) fn raw(&self) -> RawFd {
        self.raw
    }

    pub(super) fn target(&self) -> types::Fd {
        types::Fd(self.raw)
    }

    pub(super) fn core(&self) -> &Rc<Core> {
        &self.core
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.core.close(self.raw);
    }
}

pub(crate) struct Listener {
    state: Rc<ListenerState>,
    address: SocketAddr,
    /// Of a socket with a path.
    path: Option<PathBuf>,
}

/// What the multishot accept and the tasks that wait for connections share.
pub(super) struct ListenerState {
    descriptor: Descriptor,
    /// Whether it has a path instead of an address.
    local: bool,
    ready: RefCell<VecDeque<io::Result<Accepted>>>,
    waiters: Waiters,
    armed: Cell<Option<OperationId>>,
    closed: Cell<bool>,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Listener> {
        let socket = listening(address)?;
        let address = address_of(&socket, libc::getsockname)?;
        Ok(Listener { state: ListenerState::listen(socket, false), address, path: None })
    }

    pub(crate) async fn bind_local(path: &Path) -> io::Result<Listener> {
        let own = path.to_path_buf();
        let socket = helper::run(move || local::bind(&own)).await?;
        Ok(Listener { state: ListenerState::listen(socket, true), address: NOWHERE, path: Some(path.into()) })
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that wait for `accept`.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.ready.borrow().len()
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        let state = &self.state;
        let accepted = std::future::poll_fn(|cx| {
            let next = state.ready.borrow_mut().pop_front();
            if !matches!(next, Some(Err(_))) && state.ready.borrow().len() < ACCEPTED_MAX / 2 {
                state.arm();
            }
            if let Some(next) = next {
                return Poll::Ready(next);
            }
            state.waiters.add(cx);
            Poll::Pending
        })
        .await;
        if accepted.is_err() {
            // No descriptors or no memory: the connection stays in the system's queue, and asking again at once would
            // find the same.
            crate::time::sleep(ACCEPT_PAUSE).await;
        }
        accepted
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A path that stays is recognised as left behind by the next to bind it.
            let _ = std::fs::remove_file(path);
        }
        self.state.closed.set(true);
        if let Some(id) = self.state.armed.get() {
            self.state.descriptor.core().cancel(id);
        }
        // Frees the port at once; the descriptor is closed when the accept has ended.
        shut_down(self.state.descriptor.raw());
    }
}

impl ListenerState {
    fn listen(socket: OwnedFd, local: bool) -> Rc<ListenerState> {
        let state = Rc::new(ListenerState {
            descriptor: Descriptor::new(socket, reactor::current()),
            local,
            ready: RefCell::default(),
            waiters: Waiters::default(),
            armed: Cell::new(None),
            closed: Cell::new(false),
        });
        state.arm();
        state
    }

    #[expect(unsafe_code, reason = "see Core::start")]
    fn arm(self: &Rc<ListenerState>) {
        let core = self.descriptor.core();
        if self.armed.get().is_some() || self.closed.get() || core.is_stopping() {
            return;
        }
        let entry = opcode::AcceptMulti::new(self.descriptor.target()).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: the entry names only the descriptor, which the operation keeps open.
        let id = unsafe { core.start(Operation::Accept(self.clone()), entry) };
        self.armed.set(Some(id));
    }

    /// One result of the multishot accept.
    #[expect(unsafe_code, reason = "a descriptor arrives as a number")]
    pub(super) fn accepted(self: &Rc<ListenerState>, core: &Core, result: i32, more: bool) {
        if !more {
            self.armed.set(None);
        }
        if result >= 0 {
            // SAFETY: the kernel just made this descriptor for us, and nobody else has the number.
            let descriptor = unsafe { OwnedFd::from_raw_fd(result) };
            let peer = match self.local {
                true => local::is_friend(&descriptor).then_some(NOWHERE),
                // A peer that has left already has no address any more, and is of no interest.
                false => address_of(&descriptor, libc::getpeername).ok(),
            };
            if let Some(peer) = peer {
                self.ready.borrow_mut().push_back(Ok(Accepted { descriptor, peer }));
            }
        } else if !matches!(-result, libc::ECANCELED | libc::ECONNABORTED | libc::EINTR | libc::EAGAIN) {
            // Armed again by the next `accept`, so that a lack of descriptors does not spin here.
            self.ready.borrow_mut().push_back(Err(io::Error::from_raw_os_error(-result)));
        }
        let full = self.ready.borrow().len() >= ACCEPTED_MAX;
        match self.armed.get() {
            Some(id) if full && !self.closed.get() => core.cancel(id),
            None if !full && result >= 0 => self.arm(),
            None if matches!(-result, libc::ECONNABORTED | libc::EINTR | libc::EAGAIN) => self.arm(),
            _ => {}
        }
        let waiters = self.waiters.take();
        waiters.into_iter().for_each(Waker::wake);
    }
}

pub(crate) struct Accepted {
    descriptor: OwnedFd,
    peer: SocketAddr,
}

impl Accepted {
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn attach(self) -> io::Result<Stream> {
        let core = reactor::current();
        Ok(Stream::new(Descriptor::new(self.descriptor, core), self.peer))
    }
}

struct Connecting {
    descriptor: Descriptor,
    address: SocketAddress,
}

impl Payload for Connecting {
    const PASSIVE: bool = true;
}

/// An outgoing connection, bound to `source` if given.
#[expect(unsafe_code, reason = "see Core::single")]
pub(super) async fn connect(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<Descriptor> {
    let core = reactor::current();
    let socket = connecting(address, source)?;
    let descriptor = Descriptor::new(socket, core.clone());
    let payload = Connecting { descriptor, address: SocketAddress::new(address) };
    // SAFETY: the address lies in the payload, and the descriptor is kept open by it.
    let done = unsafe {
        core.single(payload, |p| {
            opcode::Connect::new(p.descriptor.target(), p.address.pointer(), p.address.len).build()
        })
    }
    .await;
    match done.result {
        0 => Ok(done.payload.descriptor),
        e => Err(io::Error::from_raw_os_error(-e)),
    }
}
