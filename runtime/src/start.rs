//! Starting a node on a real machine.

pub use crate::system::Options;
use crate::{ShardId, uring};
use std::future::Future;
use std::io;

/// What the shards of a real machine run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// One io_uring per shard.
    #[default]
    Uring,
    /// One executor of the crate glommio per shard.
    Glommio,
}

impl Backend {
    /// Whether this build includes the backend: `Glommio` needs the feature `glommio`.
    pub const fn is_built(self) -> bool {
        match self {
            Backend::Uring => true,
            Backend::Glommio => cfg!(feature = "glommio"),
        }
    }
}

/// Runs `main` on every shard and returns the results, in the order of the shards, once all have returned. Tasks that
/// are still running are dropped. A panic on any shard aborts the process after naming shard and task.
///
/// Fails with `Unsupported` if this build lacks the backend, with `InvalidInput` if the options are wrong (no shard,
/// too few CPUs, a CPU that does not exist), and if a ring or a thread cannot be created.
///
/// SIGTERM and SIGINT are blocked on all threads that this starts; [`crate::signal::terminated`] receives them. Threads
/// that the caller has started before should block them too. The soft limit of open files is raised to the hard one.
pub fn start<F, Fut, T>(backend: Backend, options: Options, main: F) -> io::Result<Vec<T>>
where
    F: Fn(ShardId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    match backend {
        Backend::Uring => uring::run(options, main),
        #[cfg(feature = "glommio")]
        Backend::Glommio => crate::glommio::run(options, main),
        #[cfg(not(feature = "glommio"))]
        Backend::Glommio => Err(io::Error::new(io::ErrorKind::Unsupported, "this build has no glommio")),
    }
}
