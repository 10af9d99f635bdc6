//! A bounded queue with many senders and one receiver, on one shard.

use super::sending::{Channel, Sending};
use openraft::rt::{Mpsc, MpscReceiver, MpscSender, MpscWeakSender, OptionalSend, SendError, TryRecvError};
use runtime::sync::Condition;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// The family of queues.
#[derive(Debug)]
pub(crate) struct Channels;

impl Mpsc for Channels {
    type Sender<T: OptionalSend> = Sender<T>;
    type Receiver<T: OptionalSend> = Receiver<T>;
    type WeakSender<T: OptionalSend> = WeakSender<T>;

    fn channel<T: OptionalSend>(buffer: usize) -> (Sender<T>, Receiver<T>) {
        let queue = Rc::new(Queue {
            items: RefCell::default(),
            capacity: buffer.max(1),
            senders: Cell::new(0),
            closed: Cell::new(false),
            filled: Condition::default(),
            drained: Condition::default(),
        });
        (Sender(Sending::new(queue.clone())), Receiver(queue))
    }
}

struct Queue<T> {
    items: RefCell<VecDeque<T>>,
    capacity: usize,
    senders: Cell<usize>,
    /// Whether the receiver is gone.
    closed: Cell<bool>,
    filled: Condition,
    drained: Condition,
}

impl<T> Channel for Queue<T> {
    fn senders(&self) -> &Cell<usize> {
        &self.senders
    }

    fn ended(&self) {
        self.filled.notify();
    }
}

/// A sending end; the queue ends when all of them are gone.
pub(crate) struct Sender<T>(Sending<Queue<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.clone())
    }
}

impl<T: OptionalSend> MpscSender<Channels, T> for Sender<T> {
    async fn send(&self, message: T) -> Result<(), SendError<T>> {
        let queue = &*self.0;
        let room = || (queue.closed.get() || queue.items.borrow().len() < queue.capacity).then_some(());
        queue.drained.wait(room).await;
        if queue.closed.get() {
            return Err(SendError(message));
        }
        queue.items.borrow_mut().push_back(message);
        queue.filled.notify();
        Ok(())
    }

    fn downgrade(&self) -> WeakSender<T> {
        WeakSender(Rc::downgrade(self.0.channel()))
    }
}

/// A sending end that does not keep the queue from ending.
pub(crate) struct WeakSender<T>(Weak<Queue<T>>);

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> WeakSender<T> {
        WeakSender(self.0.clone())
    }
}

impl<T: OptionalSend> MpscWeakSender<Channels, T> for WeakSender<T> {
    fn upgrade(&self) -> Option<Sender<T>> {
        let queue = self.0.upgrade()?;
        (queue.senders.get() > 0).then(|| Sender(Sending::new(queue)))
    }
}

/// The receiving end.
pub(crate) struct Receiver<T>(Rc<Queue<T>>);

impl<T: OptionalSend> MpscReceiver<T> for Receiver<T> {
    async fn recv(&mut self) -> Option<T> {
        let queue = &*self.0;
        queue
            .filled
            .wait(|| match queue.items.borrow_mut().pop_front() {
                Some(item) => {
                    queue.drained.notify();
                    Some(Some(item))
                }
                None => (queue.senders.get() == 0).then_some(None),
            })
            .await
    }

    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.0.items.borrow_mut().pop_front() {
            Some(item) => {
                self.0.drained.notify();
                Ok(item)
            }
            None if self.0.senders.get() == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.closed.set(true);
        self.0.drained.notify();
        // Dropping an item may use the queue again.
        let items = std::mem::take(&mut *self.0.items.borrow_mut());
        drop(items);
    }
}
