//! TCP. Received bytes come in buffers lent by the runtime; sent bytes gather in one queue per connection that is
//! flushed once per loop turn.

use crate::context::{Backend, backend};
#[cfg(feature = "glommio")]
use crate::glommio;
use crate::system::accept_queue;
use crate::time::sleep;
use crate::{sim, uring};
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

/// How long an `accept` that failed takes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A listening socket. An address is bound once (`SO_REUSEPORT` is not used): shards share one socket only by
/// accepting on one shard and moving [`Accepted`] to another.
pub struct Listener(ListenerInner);

enum ListenerInner {
    Uring(uring::socket::Listener),
    #[cfg(feature = "glommio")]
    Glommio(glommio::socket::Listener),
    Sim(sim::network::Listener),
}

impl Listener {
    /// Binds and listens on `address` (port 0: any free port). `AddrInUse` and the like as the system gives them.
    pub async fn bind(address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener(match backend() {
            Backend::Uring => ListenerInner::Uring(uring::socket::Listener::bind(address).await?),
            #[cfg(feature = "glommio")]
            Backend::Glommio => ListenerInner::Glommio(glommio::socket::Listener::bind(address).await?),
            Backend::Sim => ListenerInner::Sim(sim::network::Listener::bind(address).await?),
        }))
    }

    /// Listens at a path, for programs of this user on this machine; see [`crate::local`]. The peers' addresses mean
    /// nothing, and peers of other users but root are turned away. The path goes when the listener is dropped.
    /// `AddrInUse` if another process listens there, `PermissionDenied` if the path's directory is not the user's
    /// alone, `Unsupported` in simulation.
    pub async fn bind_local(path: &Path) -> io::Result<Listener> {
        Ok(Listener(match backend() {
            Backend::Uring => ListenerInner::Uring(uring::socket::Listener::bind_local(path).await?),
            #[cfg(feature = "glommio")]
            Backend::Glommio => ListenerInner::Glommio(glommio::socket::Listener::bind_local(path).await?),
            Backend::Sim => return Err(io::ErrorKind::Unsupported.into()),
        }))
    }

    /// The address bound.
    pub fn local_address(&self) -> SocketAddr {
        match &self.0 {
            ListenerInner::Uring(l) => l.local_address(),
            #[cfg(feature = "glommio")]
            ListenerInner::Glommio(l) => l.local_address(),
            ListenerInner::Sim(l) => l.local_address(),
        }
    }

    /// The next connection. It is not attached to any shard yet.
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
    /// The peer's address; its port names the shard on the shard-aware port.
    pub fn peer(&self) -> SocketAddr {
        match &self.0 {
            AcceptedInner::Uring(a) => a.peer(),
            #[cfg(feature = "glommio")]
            AcceptedInner::Glommio(a) => a.peer(),
            AcceptedInner::Sim(a) => a.peer(),
        }
    }

    /// Binds the connection to the current shard's ring and starts receiving.
    pub fn attach(self) -> io::Result<Stream> {
        Ok(Stream(match self.0 {
            AcceptedInner::Uring(a) => StreamInner::Uring(uring::socket::attach(a)),
            #[cfg(feature = "glommio")]
            AcceptedInner::Glommio(a) => StreamInner::Glommio(glommio::socket::attach(a)),
            AcceptedInner::Sim(a) => StreamInner::Sim(a.attach()?),
        }))
    }
}

/// A connection of the current shard; closed on drop after queued bytes have been handed to the system.
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

    /// The next received bytes; `None` at the end of the stream. One task at a time.
    pub async fn recv(&self) -> io::Result<Option<RecvBuf>> {
        Ok(match &self.0 {
            StreamInner::Uring(s) => s.recv().await?.map(RecvInner::Uring),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.recv().await?.map(RecvInner::Glommio),
            StreamInner::Sim(s) => s.recv().await?.map(RecvInner::Sim),
        }
        .map(RecvBuf))
    }

    /// Lets `f` append to the send queue. What it appended leaves with this loop turn's flush.
    pub fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        match &self.0 {
            StreamInner::Uring(s) => s.write(f),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.write(f),
            StreamInner::Sim(s) => s.write(f),
        }
    }

    /// Bytes queued and not yet taken by the system.
    pub fn queued(&self) -> usize {
        match &self.0 {
            StreamInner::Uring(s) => s.queued(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.queued(),
            StreamInner::Sim(s) => s.queued(),
        }
    }

    /// Waits until at most `bytes` are queued; an error if the connection broke.
    pub async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        match &self.0 {
            StreamInner::Uring(s) => s.drained_to(bytes).await,
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.drained_to(bytes).await,
            StreamInner::Sim(s) => s.drained_to(bytes).await,
        }
    }

    /// Stops receiving, so that the peer's window fills: back-pressure.
    pub fn pause(&self) {
        match &self.0 {
            StreamInner::Uring(s) => s.pause(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.pause(),
            StreamInner::Sim(s) => s.pause(),
        }
    }

    /// Receives again after [`Stream::pause`].
    pub fn resume(&self) {
        match &self.0 {
            StreamInner::Uring(s) => s.resume(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.resume(),
            StreamInner::Sim(s) => s.resume(),
        }
    }

    /// Ends both directions at once; a waiting `recv` returns `None` or an error.
    pub fn shutdown(&self) {
        match &self.0 {
            StreamInner::Uring(s) => s.shutdown(),
            #[cfg(feature = "glommio")]
            StreamInner::Glommio(s) => s.shutdown(),
            StreamInner::Sim(s) => s.shutdown(),
        }
    }
}

/// Received bytes, lent by the runtime and given back on drop: copy what must stay.
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
