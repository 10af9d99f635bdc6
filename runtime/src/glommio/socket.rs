//! Listeners and outgoing connections.

use super::core::{self, Core};
use super::error;
use super::operations::UnderWay;
pub(crate) use super::stream::{RecvBuf, Stream};
use crate::system::accept_queue::{AcceptQueue, Accepted, SocketName};
use crate::system::address::{SocketAddress, connecting, shut_down};
use ::glommio::net::{TcpListener, TcpStream};
use futures_io::AsyncWrite;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub(crate) struct Listener {
    state: Rc<ListenerState>,
    name: SocketName,
}

/// State that the accepting glommio task shares with the tasks that wait for connections.
struct ListenerState {
    core: Rc<Core>,
    listener: TcpListener,
    raw: RawFd,
    queue: AcceptQueue,
    /// The accepting task, while it waits for room or, after an error, for the next `accept`.
    held: RefCell<Option<Waker>>,
    failed: Cell<bool>,
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

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        self.state.queue.next(|| self.state.go_on()).await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.name.remove();
        self.state.closed.set(true);
        // This frees the port at once and ends the accept; then the descriptor is closed.
        shut_down(self.state.raw);
        self.state.go_on();
    }
}

impl ListenerState {
    /// Starts to accept connections, also for a Unix socket, which glommio treats like any other.
    #[expect(unsafe_code, reason = "glommio takes a descriptor by number")]
    fn listen(socket: OwnedFd, local: bool) -> Rc<ListenerState> {
        let raw = socket.as_raw_fd();
        let state = Rc::new(ListenerState {
            core: core::current(),
            // SAFETY: the descriptor is open and given away.
            listener: unsafe { TcpListener::from_raw_fd(socket.into_raw_fd()) },
            raw,
            queue: AcceptQueue::new(local),
            held: RefCell::default(),
            failed: Cell::new(false),
            closed: Cell::new(false),
        });
        let under_way = UnderWay::new(&state.core);
        let accepting = state.clone();
        let task = ::glommio::spawn_local(async move {
            accepting.accept_all().await;
            drop(under_way);
        });
        drop(task.detach());
        state
    }

    /// Lets the accepting task continue.
    fn go_on(&self) {
        self.failed.set(false);
        let held = self.held.borrow_mut().take();
        held.into_iter().for_each(Waker::wake);
    }

    async fn accept_all(&self) {
        loop {
            let room = std::future::poll_fn(|cx| {
                if self.closed.get() {
                    return Poll::Ready(false);
                }
                if !self.failed.get() && !self.queue.is_full() {
                    return Poll::Ready(true);
                }
                *self.held.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            });
            if !room.await {
                return;
            }
            let accepted = match self.listener.shared_accept().await.map_err(error) {
                Ok(accepted) => own(accepted.bind_to_executor()),
                Err(e) => Err(e),
            };
            if self.closed.get() {
                return;
            }
            self.accepted(accepted);
        }
    }

    fn accepted(&self, accepted: io::Result<OwnedFd>) {
        match accepted {
            Ok(descriptor) => self.queue.push(descriptor),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR | libc::EAGAIN)) => {}
            Err(e) => {
                // The next `accept` continues, so that a lack of descriptors does not make this spin.
                self.failed.set(true);
                self.queue.fail(e);
            }
        }
        self.core.wake(self.queue.take_waiters());
    }
}

/// Duplicates the descriptor of an accepted connection, because glommio binds its own to an executor.
#[expect(unsafe_code, reason = "glommio lends a descriptor by number")]
fn own(stream: TcpStream) -> io::Result<OwnedFd> {
    // SAFETY: the stream keeps the descriptor open during the call.
    unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) }.try_clone_to_owned()
}

/// Makes an accepted connection one of the current shard.
pub(crate) fn attach(accepted: Accepted) -> Stream {
    Stream::new(core::current(), stream_of(accepted.descriptor), accepted.peer)
}

#[expect(unsafe_code, reason = "glommio takes a descriptor by number")]
fn stream_of(socket: OwnedFd) -> TcpStream {
    // SAFETY: the descriptor is open and given away.
    unsafe { TcpStream::from_raw_fd(socket.into_raw_fd()) }
}

/// Connects to `address`, from `source` if given, which glommio's own `connect` cannot do.
pub(super) async fn connect(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<Stream> {
    let core = core::current();
    let socket = connecting(address, source)?;
    begin_to_connect(&socket, address)?;
    let connected = core.start_cancellable(async move {
        let mut stream = stream_of(socket);
        // Sending nothing waits until the connection is established or has failed, and returns the error.
        std::future::poll_fn(|cx| send_nothing(&mut stream, cx)).await?;
        Ok::<_, io::Error>(stream)
    });
    Ok(Stream::new(core.clone(), connected.await?, address))
}

fn send_nothing(stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    Pin::new(stream).poll_write(cx, &[])
}

/// Starts a connection that is established in the background.
#[expect(unsafe_code, reason = "fcntl and connect have no safe wrappers here")]
fn begin_to_connect(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let (raw, address) = (socket.as_raw_fd(), SocketAddress::new(address));
    // SAFETY: the calls take numbers, and an address of its family with its length.
    let result = unsafe {
        match libc::fcntl(raw, libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK) {
            0 => libc::connect(raw, address.pointer(), address.len),
            failed => failed,
        }
    };
    match io::Error::last_os_error() {
        e if result != 0 && e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(()),
    }
}
