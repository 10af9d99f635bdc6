//! Sending ends that count themselves, so that a channel ends with the last of them.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

/// What both sides of a channel share.
pub(super) trait Channel {
    /// The number of sending ends.
    fn senders(&self) -> &Cell<usize>;

    /// Called when the last sending end is gone.
    fn ended(&self);
}

/// A sending end of a channel.
pub(super) struct Sending<C: Channel>(Rc<C>);

impl<C: Channel> Sending<C> {
    /// One more sending end.
    pub(super) fn new(channel: Rc<C>) -> Sending<C> {
        channel.senders().update(|senders| senders + 1);
        Sending(channel)
    }

    /// What both sides share.
    pub(super) fn channel(&self) -> &Rc<C> {
        &self.0
    }
}

impl<C: Channel> Deref for Sending<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C: Channel> Clone for Sending<C> {
    fn clone(&self) -> Sending<C> {
        Sending::new(self.0.clone())
    }
}

impl<C: Channel> Drop for Sending<C> {
    fn drop(&mut self) {
        self.0.senders().update(|senders| senders - 1);
        if self.0.senders().get() == 0 {
            self.0.ended();
        }
    }
}
