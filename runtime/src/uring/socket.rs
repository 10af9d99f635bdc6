//! Listeners by multishot accept, outgoing connections, and the addresses of both.

use super::disk;
use super::local;
use super::operations::{Operation, OperationId, Payload};
use super::reactor::{self, Core};
pub(crate) use super::stream::{RecvBuf, Stream};
use io_uring::{opcode, types};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Connections that the system queues before `accept` sees them (it caps this at `net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// Accepted connections that wait for a task; beyond this the system's queue holds them.
pub(super) const ACCEPTED_MAX: usize = 1024;
/// The address of those that have none.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
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
    waiters: RefCell<Vec<Waker>>,
    armed: Cell<Option<OperationId>>,
    closed: Cell<bool>,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Listener> {
        let socket = socket_for(address)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        // Accepted connections inherit both.
        set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        bind(&socket, address)?;
        listen(&socket)?;
        let address = address_of(&socket, libc::getsockname)?;
        Ok(Listener { state: ListenerState::listen(socket, false), address, path: None })
    }

    pub(crate) async fn bind_local(path: &Path) -> io::Result<Listener> {
        let own = path.to_path_buf();
        let socket = disk::on_helper(move || local::bind(&own)).await?;
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
            let mut waiters = state.waiters.borrow_mut();
            if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
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
    #[expect(unsafe_code, reason = "shutdown has no safe wrapper here")]
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
        // SAFETY: the descriptor is open.
        unsafe { libc::shutdown(self.state.descriptor.raw(), libc::SHUT_RDWR) };
    }
}

impl ListenerState {
    fn listen(socket: OwnedFd, local: bool) -> Rc<ListenerState> {
        let state = Rc::new(ListenerState {
            descriptor: Descriptor::new(socket, reactor::current()),
            local,
            ready: RefCell::default(),
            waiters: RefCell::default(),
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
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
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
    let socket = socket_for(address)?;
    set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    if let Some(source) = source {
        if source.port() == 0 {
            // The port is chosen when the peer is known: more connections fit than there are ports.
            set_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        } else {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        }
        bind(&socket, source)?;
    }
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

/// A socket address in the system's form.
struct SocketAddress {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

#[expect(unsafe_code, reason = "addresses of several shapes share one storage")]
impl SocketAddress {
    fn new(address: SocketAddr) -> SocketAddress {
        // SAFETY: a storage is plain bytes, large enough and aligned for either shape.
        unsafe {
            let mut storage: libc::sockaddr_storage = MaybeUninit::zeroed().assume_init();
            let pointer = &raw mut storage;
            let len = match address {
                SocketAddr::V4(v4) => {
                    pointer.cast::<libc::sockaddr_in>().write(libc::sockaddr_in {
                        sin_family: libc::AF_INET as libc::sa_family_t,
                        sin_port: v4.port().to_be(),
                        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                        sin_zero: [0; 8],
                    });
                    size_of::<libc::sockaddr_in>()
                }
                SocketAddr::V6(v6) => {
                    pointer.cast::<libc::sockaddr_in6>().write(libc::sockaddr_in6 {
                        sin6_family: libc::AF_INET6 as libc::sa_family_t,
                        sin6_port: v6.port().to_be(),
                        sin6_flowinfo: v6.flowinfo(),
                        sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                        sin6_scope_id: v6.scope_id(),
                    });
                    size_of::<libc::sockaddr_in6>()
                }
            };
            SocketAddress { storage, len: len as libc::socklen_t }
        }
    }

    fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    fn decode(&self) -> io::Result<SocketAddr> {
        let pointer = &raw const self.storage;
        match self.storage.ss_family as i32 {
            libc::AF_INET if self.len as usize >= size_of::<libc::sockaddr_in>() => {
                // SAFETY: the family says which shape the storage has, and the length covers it.
                let v4 = unsafe { pointer.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 if self.len as usize >= size_of::<libc::sockaddr_in6>() => {
                // SAFETY: as above.
                let v6 = unsafe { pointer.cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not an internet address")),
        }
    }
}

#[expect(unsafe_code, reason = "socket has no safe wrapper here")]
fn socket_for(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: the call takes numbers only; a descriptor it returns is new and ours.
    unsafe {
        let raw = libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if raw < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(raw)) }
    }
}

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "setsockopt has no safe wrapper here")]
pub(super) fn set_option(socket: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let pointer = (&raw const value).cast();
    // SAFETY: the pointer is to an int, as the length says.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, size_of::<i32>() as libc::socklen_t) })
}

#[expect(unsafe_code, reason = "bind has no safe wrapper here")]
fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let address = SocketAddress::new(address);
    // SAFETY: the pointer and length are those of an address of its family.
    checked(unsafe { libc::bind(socket.as_raw_fd(), address.pointer(), address.len) })
}

#[expect(unsafe_code, reason = "listen has no safe wrapper here")]
fn listen(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    checked(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })
}

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

/// The address that `call` (getsockname or getpeername) tells of `socket`.
#[expect(unsafe_code, reason = "getsockname and getpeername have no safe wrapper here")]
fn address_of(socket: &OwnedFd, call: NameCall) -> io::Result<SocketAddr> {
    // SAFETY: a storage is plain bytes; the call writes at most `len` of them.
    let mut address: SocketAddress = SocketAddress {
        storage: unsafe { MaybeUninit::zeroed().assume_init() },
        len: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
    };
    // SAFETY: as above.
    checked(unsafe { call(socket.as_raw_fd(), (&raw mut address.storage).cast(), &mut address.len) })?;
    address.decode()
}
