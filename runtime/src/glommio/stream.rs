//! One connection: a task of glommio that receives, and one send per loop turn.
//!
//! 1. What tasks append during a turn gathers in `out`; the flush at the end of the turn swaps it with `sending` and
//!    sends at once what the system takes. A task of glommio sends the rest, and what was appended meanwhile.
//! 2. The receiving task stops while the connection is paused or its task has not taken what came before.
//! 3. A dropped stream sends what is queued, then closes.
//!
//! Invariants: while a task sends, the flush leaves `sending` alone; the descriptor is closed when neither a task of
//! the shard nor one of glommio has the connection.

use super::core::Core;
use super::socket;
use super::work::UnderWay;
use crate::sync::Waiters;
use crate::system::address::{limit_linger, shut_down};
use ::glommio::net::TcpStream;
use futures_io::{AsyncRead, AsyncWrite};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes of one receive.
pub(super) const READ_BYTES: usize = 32 << 10;
/// Received pieces that wait for the task; beyond this receiving stops, so that the peer's window fills.
const RECEIVED_MAX: usize = 8;
/// Received bytes of a shard that wait for tasks before connections are held to one piece each.
const UNREAD_BYTES_MAX: usize = 16 << 20;
/// Send buffers keep at most this capacity between turns.
const KEPT_BYTES: usize = 64 << 10;

pub(crate) struct Stream {
    connection: Rc<Connection>,
}

pub(super) struct Connection {
    core: Rc<Core>,
    stream: RefCell<TcpStream>,
    raw: RawFd,
    peer: SocketAddr,

    received: RefCell<VecDeque<Box<[u8]>>>,
    /// How receiving ended: 0 at the end of the stream, or an errno.
    end: Cell<Option<i32>>,
    paused: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    /// The receiving task, and whether it waits for room instead of for the peer.
    receiver: RefCell<Option<Waker>>,
    held: Cell<bool>,

    out: RefCell<Vec<u8>>,
    sending: RefCell<Vec<u8>>,
    sent: Cell<usize>,
    dirty: Cell<bool>,
    send_under_way: Cell<bool>,
    /// The sending task while it waits.
    sender: RefCell<Option<Waker>>,
    /// The errno with which sending ended.
    broken: Cell<Option<i32>>,
    drainers: Waiters,

    /// The stream was dropped.
    closed: Cell<bool>,
}

impl Stream {
    pub(super) fn new(core: Rc<Core>, stream: TcpStream, peer: SocketAddr) -> Stream {
        let connection = Rc::new(Connection {
            core,
            raw: stream.as_raw_fd(),
            stream: RefCell::new(stream),
            peer,
            received: RefCell::default(),
            end: Cell::new(None),
            paused: Cell::new(false),
            reader: RefCell::default(),
            receiver: RefCell::default(),
            held: Cell::new(false),
            out: RefCell::default(),
            sending: RefCell::default(),
            sent: Cell::new(0),
            dirty: Cell::new(false),
            send_under_way: Cell::new(false),
            sender: RefCell::default(),
            broken: Cell::new(None),
            drainers: Waiters::default(),
            closed: Cell::new(false),
        });
        let (receiving, under_way) = (connection.clone(), UnderWay::new(&connection.core));
        let task = ::glommio::spawn_local(async move {
            std::future::poll_fn(|cx| receiving.receive(cx)).await;
            drop(under_way);
        });
        drop(task.detach());
        Stream { connection }
    }

    pub(crate) async fn connect(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<Stream> {
        socket::connect(address, source).await
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.connection.peer
    }

    pub(crate) async fn recv(&self) -> io::Result<Option<RecvBuf>> {
        let connection = &self.connection;
        std::future::poll_fn(|cx| {
            if let Some(bytes) = connection.take() {
                return Poll::Ready(Ok(Some(RecvBuf(bytes))));
            }
            match connection.end.get() {
                Some(0) => Poll::Ready(Ok(None)),
                Some(e) => Poll::Ready(Err(io::Error::from_raw_os_error(e))),
                None => {
                    *connection.reader.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let connection = &self.connection;
        let mut out = connection.out.borrow_mut();
        let result = f(&mut out);
        if connection.broken.get().is_some() {
            out.clear();
        } else if !out.is_empty() && !connection.dirty.replace(true) {
            connection.core.mark_dirty(connection.clone());
        }
        result
    }

    pub(crate) fn queued(&self) -> usize {
        self.connection.queued()
    }

    pub(crate) async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        let connection = &self.connection;
        std::future::poll_fn(|cx| {
            if let Some(e) = connection.broken.get() {
                return Poll::Ready(Err(io::Error::from_raw_os_error(e)));
            }
            if connection.queued() <= bytes {
                return Poll::Ready(Ok(()));
            }
            connection.drainers.add(cx);
            Poll::Pending
        })
        .await
    }

    pub(crate) fn pause(&self) {
        self.connection.paused.set(true);
    }

    pub(crate) fn resume(&self) {
        self.connection.paused.set(false);
        if self.connection.held.get() {
            self.connection.wake_receiver();
        }
    }

    pub(crate) fn shutdown(&self) {
        shut_down(self.connection.raw);
        self.connection.end_receiving(0);
        self.connection.break_off(libc::EPIPE);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.closed.set(true);
        while connection.take().is_some() {}
        connection.wake_receiver();
        if connection.queued() > 0 {
            limit_linger(&*connection.stream.borrow());
        }
    }
}

impl Connection {
    fn queued(&self) -> usize {
        // While a task appends, `out` is borrowed; what is there then is counted with the next look.
        let out = self.out.try_borrow().map_or(0, |out| out.len());
        out + self.sending.borrow().len() - self.sent.get()
    }

    /// The next received piece; makes room for more.
    fn take(&self) -> Option<Box<[u8]>> {
        let bytes = self.received.borrow_mut().pop_front()?;
        let unread = &self.core.unread_bytes;
        unread.set(unread.get() - bytes.len());
        if self.held.get() && self.received.borrow().len() <= RECEIVED_MAX / 2 {
            self.wake_receiver();
        }
        Some(bytes)
    }

    fn may_receive(&self) -> bool {
        let scarce = self.core.unread_bytes.get() > UNREAD_BYTES_MAX;
        !self.paused.get() && self.received.borrow().len() < if scarce { 1 } else { RECEIVED_MAX }
    }

    /// Lets the receiving task look at what has changed.
    fn wake_receiver(&self) {
        self.held.set(false);
        let receiver = self.receiver.borrow_mut().take();
        receiver.into_iter().for_each(Waker::wake);
    }

    /// Receives what is there.
    fn receive(&self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.closed.get() && self.end.get().is_none() {
            let held = !self.may_receive();
            self.held.set(held);
            if held {
                self.wait_to_receive(cx);
                return Poll::Pending;
            }
            let mut scratch = self.core.scratch.borrow_mut();
            match Pin::new(&mut *self.stream.borrow_mut()).poll_read(cx, &mut scratch) {
                Poll::Pending => {
                    self.wait_to_receive(cx);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => self.end_receiving(0),
                Poll::Ready(Ok(n)) => {
                    let unread = &self.core.unread_bytes;
                    unread.set(unread.get() + n);
                    self.received.borrow_mut().push_back(scratch[..n].into());
                    self.wake_reader();
                }
                Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(e)) => self.end_receiving(errno(&e)),
            }
        }
        self.receiver.borrow_mut().take();
        Poll::Ready(())
    }

    fn wait_to_receive(&self, cx: &Context<'_>) {
        let mut receiver = self.receiver.borrow_mut();
        if receiver.is_none() {
            *receiver = Some(cx.waker().clone());
        }
    }

    fn end_receiving(&self, e: i32) {
        if self.end.get().is_none() {
            self.end.set(Some(e));
            self.wake_reader();
            self.wake_receiver();
        }
    }

    fn wake_reader(&self) {
        let reader = self.reader.borrow_mut().take();
        if reader.is_some() {
            self.core.wake(reader);
        }
    }

    /// Sends everything queued, unless a task does.
    pub(super) fn flush(self: &Rc<Connection>) {
        self.dirty.set(false);
        if self.send_under_way.get() || self.broken.get().is_some() {
            return;
        }
        if self.send(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.send_the_rest();
        }
    }

    /// A task that goes on until nothing is queued.
    fn send_the_rest(self: &Rc<Connection>) {
        self.send_under_way.set(true);
        let id = self.core.next_sender.get();
        self.core.next_sender.set(id + 1);
        self.core.senders.borrow_mut().insert(id, self.clone());
        let (connection, under_way) = (self.clone(), UnderWay::new(&self.core));
        let task = ::glommio::spawn_local(async move {
            std::future::poll_fn(|cx| {
                let sent = connection.send(cx);
                let waits = sent.is_pending().then(|| cx.waker().clone());
                *connection.sender.borrow_mut() = waits;
                sent
            })
            .await;
            connection.send_under_way.set(false);
            connection.core.senders.borrow_mut().remove(&id);
            drop(under_way);
        });
        drop(task.detach());
    }

    /// Sends until nothing is queued, the system takes no more, or the connection is broken.
    fn send(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.sent.get() == self.sending.borrow().len() {
                recycle(&mut self.sending.borrow_mut());
                self.sent.set(0);
                if self.out.borrow().is_empty() {
                    self.wake_drainers();
                    return Poll::Ready(());
                }
                std::mem::swap(&mut *self.out.borrow_mut(), &mut *self.sending.borrow_mut());
            }
            let result = {
                let sending = self.sending.borrow();
                Pin::new(&mut *self.stream.borrow_mut()).poll_write(cx, &sending[self.sent.get()..])
            };
            match result {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => self.break_off(libc::EPIPE),
                Poll::Ready(Ok(n)) => self.sent.set(self.sent.get() + n),
                Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(e)) => self.break_off(errno(&e)),
            }
        }
    }

    /// Gives up what is left to send: the shard stops.
    pub(super) fn cut(&self) {
        self.break_off(libc::ECANCELED);
    }

    /// Ends sending: what is queued is dropped.
    fn break_off(&self, e: i32) {
        if self.broken.get().is_none() {
            self.broken.set(Some(e));
        }
        self.out.borrow_mut().clear();
        recycle(&mut self.sending.borrow_mut());
        self.sent.set(0);
        let sender = self.sender.borrow_mut().take();
        sender.into_iter().for_each(Waker::wake);
        self.wake_drainers();
    }

    fn wake_drainers(&self) {
        if !self.drainers.is_empty() {
            let drainers = self.drainers.take();
            self.core.wake(drainers);
        }
    }
}

fn errno(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
}

/// Empties a buffer for the next turn; one that had to hold a lot gives its memory back.
fn recycle(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// Received bytes, of their own.
pub(crate) struct RecvBuf(Box<[u8]>);

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
