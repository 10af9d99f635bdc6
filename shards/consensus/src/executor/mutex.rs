//! A lock that tasks of one shard wait for.

use openraft::rt::{Mutex, OptionalSend};
use runtime::sync::Condition;
use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::ops::{Deref, DerefMut};

/// A value that one task at a time may use.
pub(crate) struct Lock<T> {
    value: RefCell<T>,
    released: Condition,
}

impl<T: OptionalSend + 'static> Mutex<T> for Lock<T> {
    type Guard<'a> = Guard<'a, T>;

    fn new(value: T) -> Lock<T> {
        Lock { value: RefCell::new(value), released: Condition::default() }
    }

    fn lock(&self) -> impl Future<Output = Guard<'_, T>> {
        self.released.wait(|| {
            let value = self.value.try_borrow_mut().ok()?;
            Some(Guard { value: Some(value), released: &self.released })
        })
    }
}

/// The use of a locked value; dropping it lets the next task go on.
pub(crate) struct Guard<'a, T> {
    /// `None` only while the guard is dropped.
    value: Option<RefMut<'a, T>>,
    released: &'a Condition,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_deref().expect("not dropped yet")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect("not dropped yet")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.released.notify();
    }
}
