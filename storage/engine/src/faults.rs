//! Failures of the disk that concern more than the request that met them: the node's policies decide what follows.
//!
//! A full disk is not such a failure: writes are refused until there is room.

use crate::error::Error;
use runtime::sync::Condition;
use std::cell::{Cell, RefCell};
use std::io;

/// What failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A call on the files of tables.
    Disk,
    /// Bytes of one SSTable are not what was written.
    Sstable,
    /// The commit log takes no more writes.
    Log,
}

const KINDS: usize = 3;

/// A failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What failed.
    pub kind: FaultKind,
    /// The error's text, for the node's log.
    pub text: String,
}

/// The first failure of each kind since the start.
#[derive(Default)]
pub(crate) struct Faults {
    seen: [Cell<bool>; KINDS],
    untold: RefCell<Vec<Fault>>,
    raised: Condition,
}

impl Faults {
    /// Records an error that is also returned to its caller.
    #[cold]
    pub(crate) fn note(&self, error: &Error) {
        let kind = match error {
            Error::Io(error) if is_room(error) => return,
            Error::Io(_) => FaultKind::Disk,
            Error::BadSstable { .. } => FaultKind::Sstable,
            Error::LogFailed(error) if is_room(error) => return,
            Error::LogFailed(_) => FaultKind::Log,
            _ => return,
        };
        if !self.seen[kind as usize].replace(true) {
            self.untold.borrow_mut().push(Fault { kind, text: error.to_string() });
            self.raised.notify();
        }
    }

    /// Waits for the first failure of a kind that was not told before.
    pub(crate) async fn next(&self) -> Fault {
        self.raised.wait(|| self.untold.borrow_mut().pop()).await
    }

    /// Returns `result`, after recording its error.
    pub(crate) fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.note(error);
        }
        result
    }
}

/// Whether a call failed for want of room.
fn is_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
