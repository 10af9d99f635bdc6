//! Limits the file operations under way per class, so that background work cannot fill the device's queue.

use crate::class::{CLASSES, Class};
use crate::context;
use crate::gate::{Permit, Semaphore};

/// The most operations under way per shard, for each class in the order of [`Class::ALL`].
const IN_FLIGHT_MAX: [u64; CLASSES] = [256, 64, 32, 32, 32];

pub(crate) struct Admission([Semaphore; CLASSES]);

impl Default for Admission {
    fn default() -> Admission {
        Admission(IN_FLIGHT_MAX.map(Semaphore::new))
    }
}

impl Admission {
    /// The number of operations of a class that wait for admission.
    pub(crate) fn waiting(&self, class: Class) -> u64 {
        self.0[class as usize].waiting() as u64
    }
}

/// Waits for admission of an operation of the current task's class. The permit is held until the operation completes.
pub(crate) async fn permit() -> Permit {
    let line = context::with(|c| {
        let class = c.executor.last_polled().class();
        c.system().admission.0[class as usize].clone()
    });
    line.acquire(1).await
}
