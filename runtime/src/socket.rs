//! TCP and Unix sockets. Received bytes arrive in buffers that belong to the runtime; bytes to send gather in a queue
//! per connection, which is flushed once per turn of the loop.

use crate::context::{Backend, backend};
#[cfg(feature = "glommio")]
use crate::glommio;
use crate::seal::Seal;
use crate::system::accept_queue;
use crate::time::sleep;
use crate::{sim, uring};
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// How long a failed `accept` takes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A listening socket. `SO_REUSEPORT` is not used: to share a socket among shards, one shard accepts and moves
/// [`Accepted`] to the others.
pub struct Listener(ListenerInner);

enum ListenerInner {
    Uring(uring::socket::Listener),
    #[cfg(feature = "glommio")]
    Glommio(glommio::socket::Listener),
    Sim(sim::network::Listener),
}

impl Listener {
    /// Binds and listens on `address`; port 0 stands for any free port. Fails with the system's errors, for instance
    /// `AddrInUse`.
    pub async fn bind(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener(match backend() {
            Backend::Uring => ListenerInner::Uring(uring::socket::Listener::bind(address).await?),
            #[cfg(feature = "glommio")]
            Backend::Glommio => ListenerInner::Glommio(glommio::socket::Listener::bind(address).await?),
            Backend::Sim => ListenerInner::Sim(sim::network::Listener::bind(address).await?),
        }))
    }

    /// Listens on a Unix socket at `path`, for programs of the same user or root; see [`crate::local`]. Peers have no
    /// meaningful address. The path is removed when the listener is dropped. `AddrInUse` if another process listens
    /// there, `PermissionDenied` if others may access the path's directory, `Unsupported` in simulation.
    pub async fn bind_local(path: &Path) -> io::Result<Listener> {
        Ok(Listener(match backend() {
            Backend::Uring => ListenerInner::Uring(uring::socket::Listener::bind_local(path).await?),
            #[cfg(feature = "glommio")]
            Backend::Glommio => ListenerInner::Glommio(glommio::socket::Listener::bind_local(path).await?),
            Backend::Sim => return Err(io::ErrorKind::Unsupported.into()),
        }))
    }

    /// The address that the socket is bound to.
    pub fn local_address(&self) -> SocketAddr {
        match &self.0 {
            ListenerInner::Uring(l) => l.local_address(),
            #[cfg(feature = "glommio")]
            ListenerInner::Glommio(l) => l.local_address(),
            ListenerInner::Sim(l) => l.local_address(),
        }
    }

    /// Waits for the next connection, which belongs to no shard until it is attached.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let accepted = match &self.0 {
            ListenerInner::Uring(l) => l.accept().await.map(AcceptedInner::Uring),
            #[cfg(feature = "glommio")]
            ListenerInner::Glommio(l) => l.accept().await.map(AcceptedInner::Glommio),
            ListenerInner::Sim(l) => return l.accept().await.map(|accepted| Accepted(AcceptedInner::Sim(accepted))),
        };
        if accepted.is_err() {
            // No descriptors or no memory: the connection stays in the system's queue, and asking again at once would
            // find the same.
            sleep(ACCEPT_PAUSE).await;
        }
        accepted.map(Accepted)
    }
}

/// A connection between `accept` and `attach`; it may move to another shard of the node.
pub struct Accepted(AcceptedInner);

enum AcceptedInner {
    Uring(accept_queue::Accepted),
    #[cfg(feature = "glommio")]
    Glommio(accept_queue::Accepted),
    Sim(sim::network::Accepted),
}

impl Accepted {
    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        match &self.0 {
            AcceptedInner::Uring(a) => a.peer(),
            #[cfg(feature = "glommio")]
            AcceptedInner::Glommio(a) => a.peer(),
            AcceptedInner::Sim(a) => a.peer(),
        }
    }

    /// Makes the connection one of the current shard and starts receiving.
    pub fn attach(self) -> io::Result<Stream> {
        Ok(Stream(match self.0 {
            AcceptedInner::Uring(a) => StreamInner::Uring(uring::socket::attach(a)),
            #[cfg(feature = "glommio")]
            AcceptedInner::Glommio(a) => StreamInner::Glommio(glommio::socket::attach(a)),
            AcceptedInner::Sim(a) => StreamInner::Sim(a.attach()?),
        }))
    }
}

/// A connection of the current shard. When it is dropped, the bytes in its send queue are still sent, then it is
/// closed.
pub struct Stream(StreamInner);

enum StreamInner {
    Uring(uring::socket::Stream),
    #[cfg(feature = "glommio")]
    Glommio(glommio::socket::Stream),
    Sim(sim::network::Stream),
}

impl Stream {
    /// Connects to `address`, from `source` if given.
    pub async fn connect(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<Stream> {
        Ok(Stream(match backend() {
            Backend::Uring => StreamInner::Uring(uring::socket::Stream::connect(address, source).await?),
            #[cfg(feature = "glommio")]
            Backend::Glommio => StreamInner::Glommio(glommio::socket::Stream::connect(address, source).await?),
            Backend::Sim => StreamInner::Sim(sim::network::Stream::connect(address, source).await?),
        }))
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        match &self.0 {
            StreamInner::Uring(s) => s.peer(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.peer(),
            StreamInner::Sim(s) => s.peer(),
        }
    }

    /// Waits for the next received bytes; `None` at the end of the stream. Only one task may wait here.
    pub async fn recv(&self) -> io::Result<Option<RecvBuf>> {
        Ok(match &self.0 {
            StreamInner::Uring(s) => s.recv().await?.map(RecvInner::Uring),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.recv().await?.map(RecvInner::Glommio),
            StreamInner::Sim(s) => s.recv().await?.map(RecvInner::Sim),
        }
        .map(RecvBuf))
    }

    /// Lets `f` append to the send queue, which is flushed at the end of this turn of the loop.
    pub fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        match &self.0 {
            StreamInner::Uring(s) => s.write(f),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.write(f),
            StreamInner::Sim(s) => s.write(f),
        }
    }

    /// Hands what is appended to the send queue to `seal` at each flush, and sends what that makes of it. To be called
    /// once, before anything is written.
    pub fn seal_with(&self, seal: Rc<dyn Seal>) {
        match &self.0 {
            StreamInner::Uring(s) => s.seal_with(seal),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.seal_with(seal),
            StreamInner::Sim(s) => s.seal_with(seal),
        }
    }

    /// Has the seal asked at the end of this turn even if nothing is appended, because it has bytes of its own to send.
    pub fn nudge(&self) {
        match &self.0 {
            StreamInner::Uring(s) => s.nudge(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.nudge(),
            StreamInner::Sim(s) => s.nudge(),
        }
    }

    /// The bytes in the send queue that the system has not taken.
    pub fn queued(&self) -> usize {
        match &self.0 {
            StreamInner::Uring(s) => s.queued(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.queued(),
            StreamInner::Sim(s) => s.queued(),
        }
    }

    /// Waits until at most `bytes` are in the send queue; fails if the connection is broken.
    pub async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        match &self.0 {
            StreamInner::Uring(s) => s.drained_to(bytes).await,
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.drained_to(bytes).await,
            StreamInner::Sim(s) => s.drained_to(bytes).await,
        }
    }

    /// Stops receiving, so that the peer's window fills and the peer stops sending: backpressure.
    pub fn pause(&self) {
        match &self.0 {
            StreamInner::Uring(s) => s.pause(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.pause(),
            StreamInner::Sim(s) => s.pause(),
        }
    }

    /// Starts receiving again after [`Stream::pause`].
    pub fn resume(&self) {
        match &self.0 {
            StreamInner::Uring(s) => s.resume(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.resume(),
            StreamInner::Sim(s) => s.resume(),
        }
    }

    /// Closes both directions at once and drops what is queued; a waiting `recv` returns `None` or an error.
    pub fn shutdown(&self) {
        match &self.0 {
            StreamInner::Uring(s) => s.shutdown(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.shutdown(),
            StreamInner::Sim(s) => s.shutdown(),
        }
    }
}

/// Received bytes in a buffer of the runtime, which gets it back on drop. Bytes that must stay have to be copied.
pub struct RecvBuf(RecvInner);

enum RecvInner {
    Uring(uring::socket::RecvBuf),
    #[cfg(feature = "glommio")]
    Glommio(glommio::socket::RecvBuf),
    Sim(Vec<u8>),
}

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            RecvInner::Uring(b) => b,
            #[cfg(feature = "glommio")]
            RecvInner::Glommio(b) => b,
            RecvInner::Sim(b) => b,
        }
    }
}
