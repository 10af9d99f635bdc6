//! A connection: a glommio task that receives, and one send per turn of the loop.
//!
//! 1. The flush at the end of a turn sends what the system takes at once. A glommio task sends the rest, and what is
//!    queued meanwhile.
//! 2. The receiving task pauses while the connection is paused or too many pieces wait for its task.
//! 3. A dropped stream sends what is queued, then closes.
//!
//! Invariants: while a glommio task sends, the flush does nothing; the descriptor is closed when neither a task of the
//! shard nor one of glommio has the connection. The queues are in `system/`.

use super::core::Core;
use super::operations::UnderWay;
use super::socket;
use crate::seal::Seal;
use crate::system::address::{limit_linger, shut_down};
use crate::system::receive_queue::ReceiveQueue;
use crate::system::send_queue::SendQueue;
use ::glommio::net::TcpStream;
use futures_io::{AsyncRead, AsyncWrite};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The most bytes of one receive.
pub(super) const READ_BYTES: usize = 32 << 10;
/// The most received pieces that wait for the task; then receiving stops, so that the peer's window fills.
const RECEIVED_MAX: usize = 8;
/// Received bytes of a shard that wait for tasks, beyond which each connection receives one piece at a time.
const UNREAD_BYTES_MAX: usize = 16 << 20;

pub(crate) struct Stream {
    connection: Rc<Connection>,
}

pub(super) struct Connection {
    core: Rc<Core>,
    stream: RefCell<TcpStream>,
    raw: RawFd,
    peer: SocketAddr,

    received: ReceiveQueue<Box<[u8]>>,
    /// The receiving task, and whether it waits for room instead of for the peer.
    receiver: RefCell<Option<Waker>>,
    held: Cell<bool>,

    queue: SendQueue,
    /// Whether there is a sending task, and how to wake it while it waits.
    send_under_way: Cell<bool>,
    sender: RefCell<Option<Waker>>,
}

impl Stream {
    pub(super) fn new(core: Rc<Core>, stream: TcpStream, peer: SocketAddr) -> Stream {
        let connection = Rc::new(Connection {
            core,
            raw: stream.as_raw_fd(),
            stream: RefCell::new(stream),
            peer,
            received: ReceiveQueue::default(),
            receiver: RefCell::default(),
            held: Cell::new(false),
            queue: SendQueue::default(),
            send_under_way: Cell::new(false),
            sender: RefCell::default(),
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
        let next = self.connection.received.next(|| self.connection.take()).await?;
        Ok(next.map(RecvBuf))
    }

    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let connection = &self.connection;
        connection.queue.write(f, || connection.core.dirty.push(connection.clone()))
    }

    pub(crate) fn seal_with(&self, seal: Rc<dyn Seal>) {
        self.connection.queue.seal_with(seal);
    }

    pub(crate) fn nudge(&self) {
        let connection = &self.connection;
        connection.queue.nudge(|| connection.core.dirty.push(connection.clone()));
    }

    pub(crate) fn queued(&self) -> usize {
        self.connection.queue.len()
    }

    pub(crate) async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        self.connection.queue.drained_to(bytes).await
    }

    pub(crate) fn pause(&self) {
        self.connection.received.set_paused(true);
    }

    pub(crate) fn resume(&self) {
        self.connection.received.set_paused(false);
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
        connection.received.close();
        while connection.take().is_some() {}
        connection.wake_receiver();
        if connection.queue.len() > 0 {
            limit_linger(&*connection.stream.borrow());
        }
    }
}

impl Connection {
    /// The next received piece; continues receiving once half of the waiting pieces are taken.
    fn take(&self) -> Option<Box<[u8]>> {
        let bytes = self.received.pop()?;
        let unread = &self.core.unread_bytes;
        unread.set(unread.get() - bytes.len());
        if self.held.get() && self.received.len() <= RECEIVED_MAX / 2 {
            self.wake_receiver();
        }
        Some(bytes)
    }

    fn may_receive(&self) -> bool {
        let scarce = self.core.unread_bytes.get() > UNREAD_BYTES_MAX;
        !self.received.is_paused() && self.received.len() < if scarce { 1 } else { RECEIVED_MAX }
    }

    /// Wakes the receiving task, to look at what has changed.
    fn wake_receiver(&self) {
        self.held.set(false);
        let receiver = self.receiver.borrow_mut().take();
        receiver.into_iter().for_each(Waker::wake);
    }

    /// Receives until nothing more is there or wanted.
    fn receive(&self, cx: &mut Context<'_>) -> Poll<()> {
        while self.received.is_open() {
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
                    self.received.push(scratch[..n].into());
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
        if self.received.end(e) {
            self.wake_reader();
            self.wake_receiver();
        }
    }

    fn wake_reader(&self) {
        let reader = self.received.take_reader();
        if reader.is_some() {
            self.core.wake(reader);
        }
    }

    /// Sends everything queued, unless a glommio task does.
    pub(super) fn flush(self: &Rc<Connection>) {
        if !self.queue.begin_flush() || self.send_under_way.get() {
            return;
        }
        if self.send(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.send_the_rest();
        }
    }

    /// Starts a glommio task that sends until nothing is queued.
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
            if self.queue.unsent().is_empty() {
                self.queue.recycle();
                if !self.queue.take_appended() {
                    self.wake_drainers();
                    return Poll::Ready(());
                }
            }
            let result = Pin::new(&mut *self.stream.borrow_mut()).poll_write(cx, &self.queue.unsent());
            match result {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => self.break_off(libc::EPIPE),
                Poll::Ready(Ok(n)) => _ = self.queue.advance(n),
                Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(e)) => self.break_off(errno(&e)),
            }
        }
    }

    /// Drops what is left to send, because the shard stops.
    pub(super) fn cut(&self) {
        self.break_off(libc::ECANCELED);
    }

    /// Ends sending and drops what is queued.
    fn break_off(&self, e: i32) {
        self.queue.break_off(e);
        let sender = self.sender.borrow_mut().take();
        sender.into_iter().for_each(Waker::wake);
        self.wake_drainers();
    }

    fn wake_drainers(&self) {
        let drainers = self.queue.take_drainers();
        if !drainers.is_empty() {
            self.core.wake(drainers);
        }
    }
}

fn errno(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
}

/// Received bytes.
pub(crate) struct RecvBuf(Box<[u8]>);

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
