//! A connection: a multishot receive into buffers of the ring, and one send per turn of the loop.
//!
//! 1. The flush at the end of a turn starts one send of all that tasks have queued, unless a send is under way.
//! 2. A receive that ends (no buffer, no MORE flag) is armed again, unless the connection is paused or too many pieces
//!    wait for its task.
//! 3. A dropped stream sends what is queued, then closes.
//!
//! Invariants: at most one send and one receive are under way. The queues are in `system/`.

use super::operations::{Operation, OperationId};
use super::reactor::Core;
use super::receive_buffers::{self, Received};
use super::socket::{self, Descriptor};
use crate::seal::Seal;
use crate::system::address::{limit_linger, shut_down};
use crate::system::receive_queue::ReceiveQueue;
use crate::system::send_queue::SendQueue;
use io_uring::{cqueue, opcode, squeue};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::Waker;

/// Received pieces, of at most one buffer each, that wait for the task. At this number receiving stops until half of
/// them are taken, so that the peer's window fills.
const RECEIVED_MAX: usize = 32;
/// The most bytes of one send; the rest follows in the next.
const SEND_BYTES_MAX: usize = 1 << 30;

pub(crate) struct Stream {
    connection: Rc<Connection>,
}

pub(super) struct Connection {
    descriptor: Descriptor,
    peer: SocketAddr,
    received: ReceiveQueue<Received>,
    receiving: Cell<Option<OperationId>>,
    cancelling: Cell<bool>,
    queue: SendQueue,
}

impl Stream {
    pub(super) fn new(descriptor: Descriptor, peer: SocketAddr) -> Stream {
        let connection = Rc::new(Connection {
            descriptor,
            peer,
            received: ReceiveQueue::default(),
            receiving: Cell::new(None),
            cancelling: Cell::new(false),
            queue: SendQueue::default(),
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
        let next = connection.received.next(|| connection.take()).await?;
        Ok(next.map(|received| RecvBuf { core: connection.core().clone(), received }))
    }

    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.connection.queue.write(f, || self.connection.mark_dirty())
    }

    pub(crate) fn seal_with(&self, seal: Rc<dyn Seal>) {
        self.connection.queue.seal_with(seal);
    }

    pub(crate) fn nudge(&self) {
        self.connection.queue.nudge(|| self.connection.mark_dirty());
    }

    pub(crate) fn queued(&self) -> usize {
        self.connection.queue.len()
    }

    pub(crate) async fn drained_to(&self, bytes: usize) -> io::Result<()> {
        self.connection.queue.drained_to(bytes).await
    }

    pub(crate) fn pause(&self) {
        self.connection.received.set_paused(true);
        self.connection.disarm();
    }

    pub(crate) fn resume(&self) {
        self.connection.received.set_paused(false);
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
        connection.received.close();
        connection.disarm();
        connection.discard_received();
        if connection.queue.len() > 0 {
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

    /// The next received piece; receives more once half of the waiting pieces are taken.
    fn take(self: &Rc<Connection>) -> Option<Received> {
        let received = self.received.pop()?;
        if self.received.len() <= self.pieces_max() / 2 {
            self.arm();
        }
        Some(received)
    }

    /// The most received pieces that may wait for the task.
    fn pieces_max(&self) -> usize {
        if self.core().buffers.are_scarce() { 1 } else { RECEIVED_MAX }
    }

    /// Starts receiving, unless a receive is under way or not wanted.
    #[expect(unsafe_code, reason = "see Core::start")]
    fn arm(self: &Rc<Connection>) {
        let wanted = !self.received.is_paused()
            && self.received.is_open()
            && self.received.len() < self.pieces_max()
            && !self.core().is_stopping();
        if !wanted || self.receiving.get().is_some() {
            return;
        }
        let target = self.descriptor.target();
        let entry = if self.core().buffers.are_scarce() {
            let one = opcode::Recv::new(target, std::ptr::null_mut(), 0).buf_group(receive_buffers::GROUP).build();
            one.flags(squeue::Flags::BUFFER_SELECT)
        } else {
            opcode::RecvMulti::new(target, receive_buffers::GROUP).build()
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

    /// Takes one result of the multishot receive.
    pub(super) fn received(self: &Rc<Connection>, result: i32, flags: u32) {
        if !cqueue::more(flags) {
            self.receiving.set(None);
        }
        match cqueue::buffer_select(flags) {
            Some(id) if result > 0 && self.received.is_open() => {
                self.received.push(self.core().buffers.take(id, result as usize));
                if self.received.len() >= self.pieces_max() {
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
        // There are buffers in the ring even after ENOBUFS, because a part of them is never lent.
        self.arm();
    }

    fn end_receiving(&self, e: i32) {
        if self.received.end(e) {
            self.wake_reader();
        }
    }

    fn wake_reader(&self) {
        if let Some(reader) = self.received.take_reader() {
            reader.wake();
        }
    }

    fn discard_received(&self) {
        while let Some(mut received) = self.received.pop() {
            self.core().buffers.give_back(&mut received);
        }
    }

    fn mark_dirty(self: &Rc<Connection>) {
        self.core().dirty.push(self.clone());
    }

    /// Starts the send of everything queued, unless one is under way.
    pub(super) fn flush(self: &Rc<Connection>) {
        if self.queue.begin_flush() && self.queue.take_appended() {
            self.send();
        }
    }

    #[expect(unsafe_code, reason = "see Core::start")]
    fn send(self: &Rc<Connection>) {
        let entry = {
            let rest = self.queue.unsent();
            let len = rest.len().min(SEND_BYTES_MAX) as u32;
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            opcode::Send::new(self.descriptor.target(), rest.as_ptr(), len).flags(flags).build()
        };
        self.queue.set_under_way(true);
        // SAFETY: the operation keeps the connection, whose bytes to send stay where they are until it has completed.
        unsafe { self.core().start(Operation::Send(self.clone()), entry) };
    }

    /// Takes the result of the send under way.
    pub(super) fn sent(self: &Rc<Connection>, result: i32) {
        self.queue.set_under_way(false);
        if self.core().is_cutting() {
            // A cancelled send that has sent some bytes reports their number instead of ECANCELED.
            self.break_off(libc::ECANCELED);
        }
        match -result {
            ..0 => {
                let all = self.queue.advance(result as usize);
                if !all && !self.queue.is_broken() {
                    return self.send();
                }
            }
            libc::EINTR | libc::EAGAIN if !self.queue.is_broken() => return self.send(),
            0 => self.break_off(libc::EPIPE),
            e => self.break_off(e),
        }
        self.queue.recycle();
        self.queue.mark_rest(|| self.mark_dirty());
        self.wake_drainers();
    }

    /// Ends sending and drops what is queued.
    fn break_off(&self, e: i32) {
        self.queue.break_off(e);
        self.wake_drainers();
    }

    fn wake_drainers(&self) {
        self.queue.take_drainers().into_iter().for_each(Waker::wake);
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
