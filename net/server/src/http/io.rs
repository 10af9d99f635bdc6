//! Adapts a stream of the runtime to the traits through which `hyper` reads and writes.
//!
//! Invariants: at most the given number of bytes is read; beyond it the peer seems to send nothing more.

use hyper::rt::{Read, ReadBufCursor, Write};
use runtime::{RecvBuf, Stream};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

type Receiving = Pin<Box<dyn Future<Output = io::Result<Option<RecvBuf>>>>>;

/// A stream with a limit on the bytes that are read from it.
pub(super) struct Io {
    stream: Rc<Stream>,
    receiving: Option<Receiving>,
    /// The bytes received last, and how many of them were read.
    received: Option<(RecvBuf, usize)>,
    /// Bytes that may still be read.
    left: usize,
}

impl Io {
    /// An adapter that reads at most `bytes_max` bytes.
    pub(super) fn new(stream: Rc<Stream>, bytes_max: usize) -> Io {
        Io { stream, receiving: None, received: None, left: bytes_max }
    }

    /// Waits until something is received; false at the end of the stream.
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.received.is_some() {
            return Poll::Ready(Ok(true));
        }
        let stream = &self.stream;
        let receiving = self.receiving.get_or_insert_with(|| {
            let stream = stream.clone();
            Box::pin(async move { stream.recv().await })
        });
        let received = ready!(receiving.as_mut().poll(cx));
        self.receiving = None;
        self.received = received?.map(|bytes| (bytes, 0));
        Poll::Ready(Ok(self.received.is_some()))
    }
}

impl Read for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            // The time limit of the exchange ends this wait.
            return Poll::Pending;
        }
        if !ready!(self.poll_received(cx))? {
            return Poll::Ready(Ok(()));
        }
        let left = self.left;
        let Some((bytes, read)) = &mut self.received else { return Poll::Ready(Ok(())) };
        let rest = &bytes[*read..];
        let taken = rest.len().min(buf.remaining()).min(left);
        buf.put_slice(&rest[..taken]);
        *read += taken;
        if *read == bytes.len() {
            self.received = None;
        }
        self.left -= taken;
        Poll::Ready(Ok(()))
    }
}

impl Write for Io {
    /// Never waits: all that is written is one answer, which the stream's queue takes whole.
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.write(|out| out.extend_from_slice(buf));
        Poll::Ready(Ok(buf.len()))
    }

    /// Does nothing: the queue is sent with the next turn of the event loop, and the exchange waits for that at its
    /// end.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
