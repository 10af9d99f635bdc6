//! Waiting for what becomes true by itself.

use std::io::BufRead;
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a condition holds. Panics if it does not within [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Asks whoever runs the program to restart the server, and waits until that is done.
pub async fn restarted() {
    println!("restart");
    let read = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new()));
    assert!(read.await.expect("not cancelled").expect("a line") > 0, "nobody restarts the server");
}
