//! The server: one thread, one ring, no tasks.
//!
//! 1. Multishot accept; for each connection a multishot receive into buffers that the kernel picks.
//! 2. Each request's worth of received bytes is answered with one send of as many answers as there are requests.
//! 3. When nothing has completed, the thread watches the completion queue for 50 us before it sleeps in the kernel.
//!
//! Flags of the ring and of sends, multishot operations, lengths of buffers and the time before sleep are those of the
//! backend `uring`, so that the difference between a server on `uring` and this one is the server's own work.
//!
//! Invariants: a buffer is in the ring or in a completion that is not handled yet; what the kernel reads or writes
//! lives until the process ends.
#![allow(unsafe_code, reason = "memory shared with the kernel")]

use io_uring::types::BufRingEntry;
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue, types};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

const ENTRIES: u32 = 256;
const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 4096;
const GROUP: u16 = 0;
const SPIN: Duration = Duration::from_micros(50);
/// How often the spinning server looks at memory between two readings of the clock.
const SPINS_PER_CLOCK: u32 = 16;
/// The most requests that arrive in one piece.
const BATCH_MAX: usize = 64;

/// The kinds of completions, in the bits above the descriptor.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1 << 32;
const SEND: u64 = 2 << 32;

/// The buffers from which the kernel picks. Only the lengths of what it receives matter here.
struct Buffers {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    tail: u16,
}

fn zeroed(bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes, 4096).expect("a page's alignment");
    // SAFETY: the size is above zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() { handle_alloc_error(layout) } else { memory }
}

impl Buffers {
    fn register(submitter: &Submitter<'_>) -> io::Result<Buffers> {
        let entries = zeroed(usize::from(BUFFERS) * size_of::<BufRingEntry>()).cast();
        let mut buffers = Buffers { entries, memory: zeroed(usize::from(BUFFERS) * BUFFER_BYTES), tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.put(id));
        // SAFETY: the entries are aligned to a page and never freed.
        unsafe { submitter.register_buf_ring_with_flags(entries as u64, BUFFERS, GROUP, 0)? };
        Ok(buffers)
    }

    /// Gives a buffer to the kernel.
    fn put(&mut self, id: u16) {
        // SAFETY: slot and buffer are inside the allocations; the kernel reads the slot only after the tail has passed
        // it, and the tail is a field of the first entry that the setters leave alone, aligned for an atomic.
        unsafe {
            let entry = &mut *self.entries.add(usize::from(self.tail & (BUFFERS - 1)));
            entry.set_addr(self.memory.add(usize::from(id) * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(self.entries).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}

struct Server {
    ring: &'static IoUring,
    submitter: Submitter<'static>,
    buffers: Buffers,
    listener: TcpListener,
    request_bytes: usize,
    answer_bytes: usize,
    /// [`BATCH_MAX`] answers.
    answers: &'static [u8],
    /// Bytes of a request that has not arrived completely, by descriptor.
    partial: HashMap<i32, usize>,
}

impl Server {
    fn submissions(&self) -> SubmissionQueue<'_> {
        // SAFETY: this thread is the only one that uses the ring, and no caller keeps the view.
        unsafe { self.ring.submission_shared() }
    }

    fn completions(&self) -> CompletionQueue<'_> {
        // SAFETY: as above.
        unsafe { self.ring.completion_shared() }
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: entries name descriptors, the buffers and the answers, which all live until the process ends.
        while unsafe { self.submissions().push(&entry) }.is_err() {
            self.submitter.submit().expect("the ring takes entries");
        }
    }

    fn accept(&mut self) {
        let entry = opcode::AcceptMulti::new(types::Fd(self.listener.as_raw_fd())).flags(libc::SOCK_CLOEXEC).build();
        self.push(entry.user_data(ACCEPT));
    }

    fn receive(&mut self, descriptor: i32) {
        let entry = opcode::RecvMulti::new(types::Fd(descriptor), GROUP).build();
        self.push(entry.user_data(RECEIVE | descriptor as u64));
    }

    fn received(&mut self, descriptor: i32, result: i32, flags: u32) {
        if let Some(buffer) = cqueue::buffer_select(flags) {
            self.buffers.put(buffer);
        }
        if result <= 0 && -result != libc::ENOBUFS {
            self.partial.remove(&descriptor);
            self.push(opcode::Close::new(types::Fd(descriptor)).build().user_data(SEND));
            return;
        }
        let partial = self.partial.entry(descriptor).or_default();
        let bytes = *partial + result.max(0) as usize;
        *partial = bytes % self.request_bytes;
        let requests = bytes / self.request_bytes;
        assert!(requests <= BATCH_MAX, "{requests} requests at once");
        if requests > 0 {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            let len = (requests * self.answer_bytes) as u32;
            let entry = opcode::Send::new(types::Fd(descriptor), self.answers.as_ptr(), len).flags(flags).build();
            self.push(entry.user_data(SEND));
        }
        if !cqueue::more(flags) {
            self.receive(descriptor);
        }
    }

    fn handle(&mut self, completion: &cqueue::Entry) {
        let descriptor = completion.user_data() as u32 as i32;
        match completion.user_data() & !u64::from(u32::MAX) {
            RECEIVE => self.received(descriptor, completion.result(), completion.flags()),
            ACCEPT => {
                if completion.result() >= 0 {
                    self.receive(completion.result());
                }
                if !cqueue::more(completion.flags()) {
                    self.accept();
                }
            }
            _ => {}
        }
    }

    /// Whether something has completed, or would if the kernel were entered. Reads memory only.
    fn has_events(&self) -> bool {
        !self.completions().is_empty() || self.submissions().taskrun()
    }

    fn wait(&self) -> io::Result<()> {
        if !self.submissions().is_empty() {
            self.submitter.submit()?;
        }
        let began = Instant::now();
        while began.elapsed() < SPIN {
            for _ in 0..SPINS_PER_CLOCK {
                if self.has_events() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        match self.submitter.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn run(mut self) -> io::Result<()> {
        self.accept();
        let mut completions = Vec::new();
        loop {
            self.wait()?;
            if self.submissions().taskrun() {
                self.submitter.submit()?;
            }
            completions.extend(self.completions());
            for completion in completions.drain(..) {
                self.handle(&completion);
            }
        }
    }
}

/// Answers requests on `address` until the process ends.
pub(crate) fn serve(address: SocketAddr, request_bytes: usize, answer_bytes: usize) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let on: i32 = 1;
    // SAFETY: the pointer is to an int, as the length says. Accepted connections inherit the option.
    unsafe {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        libc::setsockopt(listener.as_raw_fd(), level, name, (&raw const on).cast(), size_of::<i32>() as u32);
    }
    let ring = IoUring::builder()
        .setup_cqsize(4 * ENTRIES)
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .build(ENTRIES)?;
    let ring: &'static IoUring = Box::leak(Box::new(ring));
    let mut submitter = ring.submitter();
    submitter.register_ring_fd()?;
    let buffers = Buffers::register(&submitter)?;
    let answers = vec![b'a'; BATCH_MAX * answer_bytes].leak();
    let request_bytes = request_bytes.max(1);
    Server { ring, submitter, buffers, listener, request_bytes, answer_bytes, answers, partial: HashMap::new() }.run()
}
