//! Wakes a sleeping shard, by the waker of its driver, which glommio lets other threads use.

use crate::system::node::Bell;
use std::sync::Mutex;
use std::task::Waker;

#[derive(Default)]
pub(super) struct Doorbell {
    driver: Mutex<Option<Waker>>,
}

impl Doorbell {
    /// Sets the driver to wake. The shard's own thread calls this.
    pub(super) fn hang(&self, driver: Option<Waker>) {
        *self.driver.lock().expect("nothing panics here") = driver;
    }
}

impl Bell for Doorbell {
    fn ring(&self) {
        if let Some(driver) = &*self.driver.lock().expect("nothing panics here") {
            driver.wake_by_ref();
        }
    }
}
