//! Starting the node of a real process on the backend that the caller names.

pub use crate::system::Options;
use crate::{ShardId, uring};
use std::future::Future;
use std::io;

/// What the shards of a real process run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// A ring per shard.
    #[default]
    Uring,
    /// An executor of the crate glommio per shard.
    Glommio,
}

impl Backend {
    /// Whether this build has it: `Glommio` only with the feature `glommio`.
    pub const fn is_built(self) -> bool {
        match self {
            Backend::Uring => true,
            Backend::Glommio => cfg!(feature = "glommio"),
        }
    }
}

/// Runs `main` on every shard and returns when all of them have returned; tasks they leave behind are dropped.
/// `Unsupported` if this build lacks the backend. Otherwise an error if a ring or a thread cannot be made, or if
/// `options` do not fit (no shard, too few CPUs named, a CPU that does not exist). A panic on any shard aborts the
/// process after naming shard and task.
///
/// SIGTERM and SIGINT are blocked on all threads that this starts; [`crate::signal::terminated`] receives them. Threads
/// that the caller started earlier should block them too. The soft limit of open files is raised to the hard one.
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
