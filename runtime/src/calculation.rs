//! Long calculations off the cores: hashing a password takes as long as thousands of requests.
//!
//! On a real machine they run on a few threads of the node that have a lower priority than shards, in the order in
//! which they were asked for; in simulation at once.

use crate::context::{Backend, backend};
use crate::executor::yield_now;
use crate::system::helper_pool;
use std::io;

/// Runs a calculation that must not keep a core from its requests, and returns its result. It goes on if the future is
/// dropped.
///
/// # Errors
/// `WouldBlock` if too many calculations of the node wait.
pub async fn calculate<T: Send + 'static>(calculation: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match backend() {
        Backend::Sim => {
            yield_now().await;
            Ok(calculation())
        }
        _ => helper_pool::calculate(|| Ok(calculation())).await,
    }
}
