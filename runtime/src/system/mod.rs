//! Parts that the backends on a real machine share. How they wait and do I/O is their own.
//!
//! * `thread.rs`: a thread per shard; `node.rs`: what the threads share, and sleep; `slice.rs`: running tasks.
//! * `mesh.rs`, `spsc.rs`: queues between shards.
//! * `helper_pool.rs`, `blocking_files.rs`: blocking calls on helper threads; `direct_io.rs`, `admission.rs`: rules of
//!   direct I/O.
//! * `address.rs`, `unix_socket.rs`: sockets; `accept_queue.rs`, `receive_queue.rs`, `send_queue.rs`: what waits on
//!   them.
//! * `signal.rs`: the stop signals.

pub(crate) mod accept_queue;
pub(crate) mod address;
pub(crate) mod admission;
pub(crate) mod blocking_files;
pub(crate) mod direct_io;
pub(crate) mod helper_pool;
pub(crate) mod mesh;
pub(crate) mod node;
pub(crate) mod receive_queue;
pub(crate) mod send_queue;
pub(crate) mod signal;
pub(crate) mod slice;
mod spsc;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
pub(crate) mod unix_socket;

use crate::generator::Rng;
use std::cell::RefCell;
use std::io;
pub use thread::Options;

/// The parts of a shard that do not depend on the backend.
pub(crate) struct Shard {
    pub(crate) hooks: mesh::Hooks,
    pub(crate) admission: admission::Admission,
    pub(crate) helpers: helper_pool::JobQueue,
    pub(crate) calculators: helper_pool::JobQueue,
    random: RefCell<Rng>,
}

impl Shard {
    /// Creates the parts of a shard of the node whose helpers serve `helpers`. Fails if the system has no random bytes.
    pub(crate) fn new(helpers: helper_pool::JobQueue, calculators: helper_pool::JobQueue) -> io::Result<Shard> {
        let random = RefCell::new(Rng::new(seed()?));
        Ok(Shard {
            hooks: mesh::Hooks::default(),
            admission: admission::Admission::default(),
            helpers,
            calculators,
            random,
        })
    }

    pub(crate) fn random(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }
}

/// A random seed from the system.
#[expect(unsafe_code, reason = "std has no stable source of random bytes")]
fn seed() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the pointer and length are those of the array.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == 8 { Ok(u64::from_le_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
}
