//! One connection: multishot receive into lent buffers, one gathered send per loop turn.
//!
//! 1. What tasks append during a turn gathers in `out`; the flush at the end of the turn swaps it with `sending` and
//!    starts one send. While a send is under way `out` waits for the flush after its completion.
//! 2. A receive that ends (no buffer, no MORE) is armed again unless the connection is paused or its task has not taken
//!    what came before.
//! 3. A dropped stream sends what is queued, then closes.
//!
//! Invariants: `sending` is not touched while a send is under way; at most one send and one receive are under way.

use super::lent::{self, Received};
use super::operations::{Operation, OperationId};
use super::reactor::Core;
use super::socket::{self, Descriptor};
use crate::sync::Waiters;
use crate::system::address::{limit_linger, shut_down};
use io_uring::{cqueue, opcode, squeue};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Received pieces (of at most one buffer each) that wait for the task; beyond this receiving stops until half of them
/// are taken, so that the peer's window fills.
const RECEIVED_MAX: usize = 32;
/// Send buffers keep at most this capacity between turns.
const KEPT_BYTES: usize = 64 << 10;
/// Bytes of one send; what is left follows in the next.
const SEND_BYTES_MAX: usize = 1 << 30;

pub(crate) struct Stream {
    connection: Rc<Connection>,
}

pub(super) struct Connection {
    descriptor: Descriptor,
    peer: SocketAddr,

    received: RefCell<VecDeque<Received>>,
    /// How receiving ended: 0 at the end of the stream, or an errno.
    end: Cell<Option<i32>>,
    receiving: Cell<Option<OperationId>>,
    cancelling: Cell<bool>,
    paused: Cell<bool>,
    reader: RefCell<Option<Waker>>,

    out: RefCell<Vec<u8>>,
    sending: RefCell<Vec<u8>>,
    sent: Cell<usize>,
    send_under_way: Cell<bool>,
    dirty: Cell<bool>,
    /// The errno with which sending ended.
    broken: Cell<Option<i32>>,
    drainers: Waiters,

    /// The stream was dropped.
    closed: Cell<bool>,
}

impl Stream {
    pub(super) fn new(descriptor: Descriptor, peer: SocketAddr) -> Stream {
        let connection = Rc::new(Connection {
            descriptor,
            peer,
            received: RefCell::default(),
            end: Cell::new(None),
            receiving: Cell::new(None),
            cancelling: Cell::new(false),
            paused: Cell::new(false),
            reader: RefCell::default(),
            out: RefCell::default(),
            sending: RefCell::default(),
            sent: Cell::new(0),
            send_under_way: Cell::new(false),
            dirty: Cell::new(false),
            broken: Cell::new(None),
            drainers: Waiters::default(),
            closed: Cell::new(false),
        });
        connection.arm();
        Stream { connection }
    }

    pub(crate) async fn connect(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<Stream> {
        Ok(Stream::new(socket::connect(address, source).await?, address))
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.connection.peer
    }

    pub(crate) async fn recv(&self) -> io::Result<Option<RecvBuf>> {
        let connection = &self.connection;
        std::future::poll_fn(|cx| {
            let (next, left) = {
                let mut received = connection.received.borrow_mut();
                (received.pop_front(), received.len())
            };
            if let Some(received) = next {
                if left <= connection.pieces_max() / 2 {
                    connection.arm();
                }
                return Poll::Ready(Ok(Some(RecvBuf { core: connection.core().clone(), received })));
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
        } else if !out.is_empty() {
            connection.mark_dirty();
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
        self.connection.disarm();
    }

    pub(crate) fn resume(&self) {
        self.connection.paused.set(false);
        self.connection.arm();
    }

    pub(crate) fn shutdown(&self) {
        let connection = &self.connection;
        shut_down(connection.descriptor.raw());
        connection.end_receiving(0);
        connection.break_off(libc::EPIPE);
    }
}

impl Drop for Stream {
    #[expect(unsafe_code, reason = "a descriptor that lives elsewhere is borrowed")]
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.closed.set(true);
        connection.disarm();
        connection.discard_received();
        if connection.queued() > 0 {
            // SAFETY: the connection keeps the descriptor open.
            let socket = unsafe { BorrowedFd::borrow_raw(connection.descriptor.raw()) };
            limit_linger(&socket);
        }
    }
}

impl Connection {
    fn core(&self) -> &Rc<Core> {
        self.descriptor.core()
    }

    fn queued(&self) -> usize {
        // While a task appends, `out` is borrowed; what is there then is counted with the next look.
        let out = self.out.try_borrow().map_or(0, |out| out.len());
        out + self.sending.borrow().len() - self.sent.get()
    }

    /// How many received pieces may wait for the task.
    fn pieces_max(&self) -> usize {
        if self.core().buffers.are_scarce() { 1 } else { RECEIVED_MAX }
    }

    /// Starts receiving unless it is under way or not wanted.
    #[expect(unsafe_code, reason = "see Core::start")]
    fn arm(self: &Rc<Connection>) {
        let wanted = !self.paused.get()
            && !self.closed.get()
            && self.end.get().is_none()
            && self.received.borrow().len() < self.pieces_max()
            && !self.core().is_stopping();
        if !wanted || self.receiving.get().is_some() {
            return;
        }
        let target = self.descriptor.target();
        let entry = if self.core().buffers.are_scarce() {
            let one = opcode::Recv::new(target, std::ptr::null_mut(), 0).buf_group(lent::GROUP).build();
            one.flags(squeue::Flags::BUFFER_SELECT)
        } else {
            opcode::RecvMulti::new(target, lent::GROUP).build()
        };
        // SAFETY: the entry names the descriptor, which the operation keeps open, and the buffers of the core, which
        // live as long as the ring.
        let id = unsafe { self.core().start(Operation::Receive(self.clone()), entry) };
        self.receiving.set(Some(id));
        self.cancelling.set(false);
    }

    fn disarm(&self) {
        if let Some(id) = self.receiving.get()
            && !self.cancelling.replace(true)
        {
            self.core().cancel(id);
        }
    }

    /// One result of the multishot receive.
    pub(super) fn received(self: &Rc<Connection>, result: i32, flags: u32) {
        if !cqueue::more(flags) {
            self.receiving.set(None);
        }
        match cqueue::buffer_select(flags) {
            Some(id) if result > 0 && !self.closed.get() && self.end.get().is_none() => {
                let received = self.core().buffers.take(id, result as usize);
                self.received.borrow_mut().push_back(received);
                if self.received.borrow().len() >= self.pieces_max() {
                    self.disarm();
                }
                self.wake_reader();
            }
            Some(id) => self.core().buffers.put(id),
            None => {}
        }
        match -result {
            0 => self.end_receiving(0),
            ..0 | libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
            e => self.end_receiving(e),
        }
        // Buffers are back in the ring by now, also after ENOBUFS: see the invariant of `LentBuffers`.
        self.arm();
    }

    fn end_receiving(&self, e: i32) {
        if self.end.get().is_none() {
            self.end.set(Some(e));
            self.wake_reader();
        }
    }

    fn wake_reader(&self) {
        let reader = self.reader.borrow_mut().take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn discard_received(&self) {
        let mut received = std::mem::take(&mut *self.received.borrow_mut());
        received.iter_mut().for_each(|received| self.core().buffers.give_back(received));
    }

    fn mark_dirty(self: &Rc<Connection>) {
        if !self.dirty.replace(true) {
            self.core().mark_dirty(self.clone());
        }
    }

    /// Starts the send of everything queued, unless one is under way.
    pub(super) fn flush(self: &Rc<Connection>) {
        self.dirty.set(false);
        if self.send_under_way.get() || self.broken.get().is_some() || self.out.borrow().is_empty() {
            return;
        }
        std::mem::swap(&mut *self.out.borrow_mut(), &mut *self.sending.borrow_mut());
        self.sent.set(0);
        self.send();
    }

    #[expect(unsafe_code, reason = "see Core::start")]
    fn send(self: &Rc<Connection>) {
        let entry = {
            let sending = self.sending.borrow();
            let rest = &sending[self.sent.get()..];
            let len = rest.len().min(SEND_BYTES_MAX) as u32;
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            opcode::Send::new(self.descriptor.target(), rest.as_ptr(), len).flags(flags).build()
        };
        self.send_under_way.set(true);
        // SAFETY: the operation keeps the connection, and `sending` is left alone until it has completed.
        unsafe { self.core().start(Operation::Send(self.clone()), entry) };
    }

    /// The result of the send under way.
    pub(super) fn sent(self: &Rc<Connection>, result: i32) {
        self.send_under_way.set(false);
        if self.core().is_cutting() {
            // A cancelled send that got somewhere tells how far instead of that it was cancelled.
            self.break_off(libc::ECANCELED);
        }
        match -result {
            ..0 => {
                let sent = self.sent.get() + result as usize;
                self.sent.set(sent);
                if sent < self.sending.borrow().len() && self.broken.get().is_none() {
                    return self.send();
                }
            }
            libc::EINTR | libc::EAGAIN if self.broken.get().is_none() => return self.send(),
            0 => self.break_off(libc::EPIPE),
            e => self.break_off(e),
        }
        recycle(&mut self.sending.borrow_mut());
        self.sent.set(0);
        if !self.out.borrow().is_empty() {
            self.mark_dirty();
        }
        self.wake_drainers();
    }

    /// Ends sending: what is queued is dropped.
    fn break_off(&self, e: i32) {
        if self.broken.get().is_none() {
            self.broken.set(Some(e));
        }
        self.out.borrow_mut().clear();
        if !self.send_under_way.get() {
            recycle(&mut self.sending.borrow_mut());
            self.sent.set(0);
        }
        self.wake_drainers();
    }

    fn wake_drainers(&self) {
        let drainers = self.drainers.take();
        drainers.into_iter().for_each(Waker::wake);
    }
}

/// Empties a buffer for the next turn; one that had to hold a lot gives its memory back.
fn recycle(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

pub(crate) struct RecvBuf {
    core: Rc<Core>,
    received: Received,
}

impl Deref for RecvBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.core.buffers.slice(&self.received)
    }
}

impl Drop for RecvBuf {
    fn drop(&mut self) {
        self.core.buffers.give_back(&mut self.received);
    }
}
