//! Listeners and outgoing connections.
//!
//! A listener has a few accepts under way at a time. One multishot accept would have the kernel accept all clients that
//! connect at once before any other task of the shard runs again.

use super::operations::{Operation, OperationId, Payload};
use super::reactor::{self, Core};
pub(crate) use super::stream::{RecvBuf, Stream};
use crate::system::accept_queue::{AcceptQueue, Accepted, SocketName};
use crate::system::address::{SocketAddress, connecting, shut_down};
use io_uring::{opcode, types};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::rc::Rc;
use std::task::Waker;

/// Accepts of a listener under way at a time.
const ACCEPTS: usize = 8;

/// A descriptor that is closed through the ring, after all operations that were started on it.
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
    name: SocketName,
}

/// State that accepts share with the tasks that wait for connections.
pub(super) struct ListenerState {
    descriptor: Descriptor,
    queue: AcceptQueue,
    /// The accepts under way.
    armed: RefCell<Vec<OperationId>>,
    closed: Cell<bool>,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Listener> {
        let (socket, name) = SocketName::bind(address)?;
        Ok(Listener { state: ListenerState::listen(socket, name.is_local()), name })
    }

    pub(crate) async fn bind_local(path: &Path) -> io::Result<Listener> {
        let (socket, name) = SocketName::bind_local(path).await?;
        Ok(Listener { state: ListenerState::listen(socket, name.is_local()), name })
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        self.name.address
    }

    /// The number of connections that wait for `accept`.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.queue.len()
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        self.state.queue.next(|| self.state.arm()).await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.name.remove();
        self.state.closed.set(true);
        self.state.armed.borrow().iter().for_each(|id| self.state.descriptor.core().cancel(*id));
        // This frees the port at once; the descriptor is closed when the accepts have ended.
        shut_down(self.state.descriptor.raw());
    }
}

impl ListenerState {
    fn listen(socket: OwnedFd, local: bool) -> Rc<ListenerState> {
        let state = Rc::new(ListenerState {
            descriptor: Descriptor::new(socket, reactor::current()),
            queue: AcceptQueue::new(local),
            armed: RefCell::default(),
            closed: Cell::new(false),
        });
        state.arm();
        state
    }

    #[expect(unsafe_code, reason = "see Core::start")]
    fn arm(self: &Rc<ListenerState>) {
        let core = self.descriptor.core();
        if self.closed.get() || core.is_stopping() {
            return;
        }
        let mut armed = self.armed.borrow_mut();
        while armed.len() < ACCEPTS {
            let accept = opcode::Accept::new(self.descriptor.target(), ptr::null_mut(), ptr::null_mut());
            let entry = accept.flags(libc::SOCK_CLOEXEC).build();
            // SAFETY: the entry names only the descriptor, which the operation keeps open.
            armed.push(unsafe { core.start(Operation::Accept(self.clone()), entry) });
        }
    }

    /// Takes the result of an accept.
    #[expect(unsafe_code, reason = "a descriptor arrives as a number")]
    pub(super) fn accepted(self: &Rc<ListenerState>, id: OperationId, result: i32) {
        self.armed.borrow_mut().retain(|armed| *armed != id);
        if result >= 0 {
            // SAFETY: the kernel has just created this descriptor for us, and nobody else has its number.
            let descriptor = unsafe { OwnedFd::from_raw_fd(result) };
            self.queue.push(descriptor);
        } else if !matches!(-result, libc::ECANCELED | libc::ECONNABORTED | libc::EINTR | libc::EAGAIN) {
            // The next `accept` goes on, so that a lack of descriptors does not make this spin.
            self.queue.fail(io::Error::from_raw_os_error(-result));
        }
        let goes_on = result >= 0 || matches!(-result, libc::ECONNABORTED | libc::EINTR | libc::EAGAIN);
        if goes_on && !self.queue.is_full() {
            self.arm();
        }
        self.queue.take_waiters().into_iter().for_each(Waker::wake);
    }
}

/// Makes an accepted connection one of the current shard.
pub(crate) fn attach(accepted: Accepted) -> Stream {
    Stream::new(Descriptor::new(accepted.descriptor, reactor::current()), accepted.peer)
}

struct Connecting {
    descriptor: Descriptor,
    address: SocketAddress,
}

impl Payload for Connecting {
    const PASSIVE: bool = true;
}

/// Connects to `address`, from `source` if given.
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
