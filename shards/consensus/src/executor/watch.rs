//! A value that many tasks watch, on one shard.

use super::sending::{Channel, Sending};
use openraft::rt::watch::SendError;
use openraft::rt::{OptionalSend, OptionalSync, RecvError, Watch, WatchReceiver, WatchSender};
use runtime::sync::Condition;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

/// The family of watched values.
#[derive(Debug)]
pub(crate) struct Watched;

impl Watch for Watched {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let cell = Rc::new(Value {
            value: RefCell::new(init),
            version: Cell::new(0),
            senders: Cell::new(0),
            receivers: Cell::new(1),
            changed: Condition::default(),
        });
        (Sender(Sending::new(cell.clone())), Receiver { cell, seen: 0 })
    }
}

struct Value<T> {
    value: RefCell<T>,
    version: Cell<u64>,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    changed: Condition,
}

impl<T> Value<T> {
    fn touch(&self) {
        self.version.set(self.version.get() + 1);
        self.changed.notify();
    }
}

impl<T> Channel for Value<T> {
    fn senders(&self) -> &Cell<usize> {
        &self.senders
    }

    fn ended(&self) {
        self.changed.notify();
    }
}

/// An end that sets the value.
pub(crate) struct Sender<T>(Sending<Value<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.clone())
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<Watched, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.receivers.get() == 0 {
            return Err(SendError(value));
        }
        // The old value is dropped outside the borrow.
        let old = self.0.value.replace(value);
        drop(old);
        self.0.touch();
        Ok(())
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        let modified = modify(&mut self.0.value.borrow_mut());
        if modified {
            self.0.touch();
        }
        modified
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.set(self.0.receivers.get() + 1);
        Receiver { cell: self.0.channel().clone(), seen: self.0.version.get() }
    }
}

/// An end that watches the value.
pub(crate) struct Receiver<T> {
    cell: Rc<Value<T>>,
    seen: u64,
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.cell.receivers.set(self.cell.receivers.get() + 1);
        Receiver { cell: self.cell.clone(), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.cell.receivers.set(self.cell.receivers.get() - 1);
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<Watched, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        let (cell, seen) = (&*self.cell, self.seen);
        let version = cell
            .changed
            .wait(|| match cell.version.get() {
                version if version != seen => Some(Some(version)),
                _ => (cell.senders.get() == 0).then_some(None),
            })
            .await;
        self.seen = version.ok_or(RecvError(()))?;
        Ok(())
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.cell.value.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.cell.version.get();
        self.cell.value.borrow()
    }
}
