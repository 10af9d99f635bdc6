//! The memory of a core for answers that clients have not read yet.
//!
//! 1. A connection with more than [`UNREAD_BYTES_MIN`] of output queued behind an answer is noted with these bytes. One
//!    that has read some since it was noted is noted anew.
//! 2. When what is noted has grown beyond the most, what each connection has now is looked up, and those that have read
//!    theirs are forgotten.
//! 3. If it is too much still, connections are closed until a quarter of the memory is free, first those that were
//!    noted first: they have not read for the longest time.
//!
//! Invariants: noted output takes at most the most and one part in [`GROWTH_DIVISOR`] of it, with the answer that
//! breaks it; a client that reads is not closed before those that do not.
//!
//! What one connection may have queued is in `connection`.

use crate::cql::connection::Connection;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// Less queued output of a connection than this is not noted.
const UNREAD_BYTES_MIN: usize = 64 << 10;
/// Connections are looked at again once noted output has grown by one part in this many of the most.
const GROWTH_DIVISOR: u64 = 8;

/// The output memory of a core.
pub(crate) struct OutputMemory {
    bytes_max: u64,
    /// At most the bytes that are noted together; connections that have closed or read since still count.
    noted_bytes: Cell<u64>,
    /// At how many noted bytes connections are looked at.
    look_at: Cell<u64>,
    last: Cell<u64>,
    noted: RefCell<BTreeMap<u64, Weak<Connection>>>,
}

/// What is noted of a connection; the number is 0 if nothing is.
#[derive(Clone, Copy, Default)]
pub(crate) struct NotedOutput {
    number: u64,
    bytes: u64,
}

impl OutputMemory {
    /// Memory of `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> OutputMemory {
        OutputMemory {
            bytes_max,
            noted_bytes: Cell::new(0),
            look_at: Cell::new(bytes_max),
            last: Cell::new(0),
            noted: RefCell::default(),
        }
    }

    /// Notes a connection to which an answer has just been queued.
    #[inline]
    pub(crate) fn note(&self, connection: &Rc<Connection>) {
        if connection.stream.queued() > UNREAD_BYTES_MIN {
            self.note_unread(connection);
        }
    }

    #[cold]
    fn note_unread(&self, connection: &Rc<Connection>) {
        let queued = connection.stream.queued() as u64;
        let before = connection.noted_output.get();
        let has_read = queued <= before.bytes;
        let mut number = before.number;
        if number == 0 || has_read {
            let mut noted = self.noted.borrow_mut();
            noted.remove(&number);
            number = self.last.get() + 1;
            self.last.set(number);
            noted.insert(number, Rc::downgrade(connection));
        }
        connection.noted_output.set(NotedOutput { number, bytes: queued });
        self.noted_bytes.set((self.noted_bytes.get() + queued).saturating_sub(before.bytes));
        if self.noted_bytes.get() > self.look_at.get() {
            self.look();
        }
    }

    /// Forgets who has read, and closes connections if it is too much.
    fn look(&self) {
        let mut total = 0;
        let mut noted = self.noted.borrow_mut();
        noted.retain(|number, connection| {
            let Some(connection) = connection.upgrade() else { return false };
            let queued = connection.stream.queued();
            let stays = queued > UNREAD_BYTES_MIN;
            let bytes = if stays { queued as u64 } else { 0 };
            connection.noted_output.set(NotedOutput { number: if stays { *number } else { 0 }, bytes });
            total += bytes;
            stays
        });
        if total > self.bytes_max {
            let enough = self.bytes_max - self.bytes_max / 4;
            while total > enough
                && let Some((_, connection)) = noted.pop_first()
            {
                let Some(connection) = connection.upgrade() else { continue };
                total -= connection.noted_output.take().bytes;
                connection.evict("its answers are not read and take too much memory");
            }
        }
        self.noted_bytes.set(total);
        self.look_at.set(self.bytes_max.max(total + self.bytes_max / GROWTH_DIVISOR));
    }
}
