//! Why a member stopped taking part.

use crate::ports::StoreError;
use runtime::sync::Latch;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// The first error of a member's storage or state machine. Cloning shares it.
#[derive(Clone, Default)]
pub(crate) struct Failure(Rc<FailureState>);

#[derive(Default)]
struct FailureState {
    reason: RefCell<Option<StoreError>>,
    known: Latch,
}

impl Failure {
    /// Keeps `error` if it is the first, and returns it in openraft's form.
    pub(crate) fn set(&self, error: StoreError) -> io::Error {
        let converted = io::Error::other(error.clone());
        self.0.reason.borrow_mut().get_or_insert(error);
        self.0.known.set();
        converted
    }

    /// The first error.
    pub(crate) fn reason(&self) -> Option<StoreError> {
        self.0.reason.borrow().clone()
    }

    /// Waits for the first error.
    pub(crate) async fn wait(&self) -> StoreError {
        self.0.known.wait().await;
        self.reason().unwrap_or_else(|| StoreError(String::new()))
    }
}
