//! A connection of the current shard, encrypted or not.

use crate::context::{ClientContext, ServerContext};
use crate::options::Encryption;
pub use crate::session::Secured;
use crate::session::Session;
use crate::trust::names_address;
use rustls::pki_types::ServerName;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;

/// The first byte of a connection that begins with TLS: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 22;

/// A connection. When it is dropped, what is queued is still sent, and the peer told that nothing more comes.
pub struct Stream {
    socket: runtime::Stream,
    session: Option<Rc<Session>>,
    /// What was received before the first call of [`Stream::recv`].
    early: RefCell<Option<RecvBuf>>,
    has_early: Cell<bool>,
}

/// Received bytes.
pub struct RecvBuf(Received);

enum Received {
    Plain(runtime::RecvBuf),
    Opened(Vec<u8>),
}

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Received::Plain(bytes) => bytes,
            Received::Opened(bytes) => bytes,
        }
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl From<runtime::Stream> for Stream {
    /// A connection that is not encrypted.
    fn from(socket: runtime::Stream) -> Stream {
        Stream::of(socket, None)
    }
}

impl Stream {
    fn of(socket: runtime::Stream, session: Option<Rc<Session>>) -> Stream {
        if let Some(session) = &session {
            socket.seal_with(session.clone());
        }
        Stream { socket, session, early: RefCell::new(None), has_early: Cell::new(false) }
    }

    /// Makes the handshake with who has connected, if connections are encrypted and it wants one.
    ///
    /// # Errors
    /// As [`Stream::accept`], and `Unsupported` if there are no keys for what must be encrypted.
    pub async fn accept_by(
        encryption: Encryption,
        socket: runtime::Stream,
        context: Option<&ServerContext>,
    ) -> io::Result<Stream> {
        match (encryption, context) {
            (Encryption::Off, _) | (Encryption::Optional, None) => Ok(socket.into()),
            (Encryption::Optional, Some(context)) => Stream::accept_either(socket, context).await,
            (Encryption::Required, Some(context)) => Stream::accept(socket, context).await,
            (Encryption::Required, None) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Makes the handshake with who has connected. The caller limits the time.
    ///
    /// # Errors
    /// If the connection broke, or is not the TLS that is wanted; the peer is told why if it speaks TLS. The text is
    /// for the log.
    pub async fn accept(socket: runtime::Stream, context: &ServerContext) -> io::Result<Stream> {
        Stream::accept_after(socket, context, None).await
    }

    /// Makes the handshake with who has connected if it begins with one; else the connection is not encrypted.
    ///
    /// # Errors
    /// As [`Stream::accept`].
    pub async fn accept_either(socket: runtime::Stream, context: &ServerContext) -> io::Result<Stream> {
        let Some(first) = socket.recv().await? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        match first.first() {
            Some(&HANDSHAKE_RECORD) => Stream::accept_after(socket, context, Some(first)).await,
            _ => {
                let stream = Stream::of(socket, None);
                stream.keep_early(RecvBuf(Received::Plain(first)));
                Ok(stream)
            }
        }
    }

    async fn accept_after(
        socket: runtime::Stream,
        context: &ServerContext,
        first: Option<runtime::RecvBuf>,
    ) -> io::Result<Stream> {
        let session = Rc::new(Session::server(context).map_err(broken)?);
        let stream = Stream::of(socket, Some(session));
        stream.establish(first).await?;
        let address = stream.peer().ip();
        if context.verifies_endpoint
            && let Some(secured) = stream.secured()
            && let Some(certificate) = secured.peer_certificates.first()
            && !names_address(certificate, address)
        {
            return Err(broken(format!("the certificate of /{address} does not name that address")));
        }
        Ok(stream)
    }

    /// Makes the handshake with the node that was connected to.
    ///
    /// # Errors
    /// As [`Stream::accept`].
    pub async fn connect(socket: runtime::Stream, context: &ClientContext) -> io::Result<Stream> {
        let name = ServerName::IpAddress(socket.peer().ip().into());
        let session = Rc::new(Session::client(context, name).map_err(broken)?);
        let stream = Stream::of(socket, Some(session));
        stream.socket.nudge();
        stream.establish(None).await?;
        Ok(stream)
    }

    /// Receives until the handshake has ended.
    async fn establish(&self, mut received: Option<runtime::RecvBuf>) -> io::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        let mut plain = Vec::new();
        while !session.is_established() {
            let piece = match received.take() {
                Some(piece) => piece,
                None => self.socket.recv().await?.ok_or(io::ErrorKind::UnexpectedEof)?,
            };
            self.open(session, &piece, &mut plain)?;
            runtime::yield_if_needed().await;
        }
        if !plain.is_empty() {
            self.keep_early(RecvBuf(Received::Opened(plain)));
        }
        Ok(())
    }

    /// Has the session look at received bytes, and sends what it has to say.
    fn open(&self, session: &Session, piece: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        let opened = session.open(piece, plain);
        if session.has_outgoing() {
            self.socket.nudge();
        }
        opened.map_err(broken)
    }

    fn keep_early(&self, bytes: RecvBuf) {
        self.early.replace(Some(bytes));
        self.has_early.set(true);
    }

    /// What both sides have agreed on; `None` if the connection is not encrypted.
    pub fn secured(&self) -> Option<Secured> {
        self.session.as_ref().map(|session| session.secured())
    }

    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.socket.peer()
    }

    /// Waits for the next received bytes; `None` at the end of the stream. Only one task may wait here.
    ///
    /// # Errors
    /// If the connection broke, or what was received is not what the peer has sent.
    pub async fn recv(&self) -> io::Result<Option<RecvBuf>> {
        if self.has_early.take() {
            return Ok(self.early.take());
        }
        let Some(session) = &self.session else {
            return Ok(self.socket.recv().await?.map(|bytes| RecvBuf(Received::Plain(bytes))));
        };
        loop {
            if session.is_peer_done() {
                return Ok(None);
            }
            // Frames say themselves where they end, so that an end without a word loses nothing.
            let Some(piece) = self.socket.recv().await? else { return Ok(None) };
            let mut plain = Vec::new();
            self.open(session, &piece, &mut plain)?;
            if !plain.is_empty() {
                return Ok(Some(RecvBuf(Received::Opened(plain))));
            }
        }
    }

    /// Lets `f` append to the send queue, which is flushed at the end of this turn of the loop.
    pub fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.socket.write(f)
    }

    /// The bytes in the send queue that the system has not taken.
    pub fn queued(&self) -> usize {
        self.socket.queued()
    }

    /// Waits until at most `bytes` are in the send queue; fails if the connection is broken.
    ///
    /// # Errors
    /// If the connection is broken.
    pub async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        self.socket.drained_to(bytes).await
    }

    /// Stops receiving, so that the peer's window fills and the peer stops sending: backpressure.
    pub fn pause(&self) {
        self.socket.pause();
    }

    /// Starts receiving again after [`Stream::pause`].
    pub fn resume(&self) {
        self.socket.resume();
    }

    /// Tells the peer, behind what is queued, that nothing more comes. Nothing may be written afterwards.
    pub fn finish(&self) {
        if let Some(session) = &self.session {
            session.close();
            self.socket.nudge();
        }
    }

    /// Closes both directions at once and drops what is queued; a waiting `recv` returns `None` or an error.
    pub fn shutdown(&self) {
        self.socket.shutdown();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A node that has stopped has no connections any more.
        if self.session.is_some() && runtime::now_if_running().is_some() {
            self.finish();
        }
    }
}
