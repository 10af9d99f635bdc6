//! Tests of what only this backend has: full rings, devices as files, buffers of the ring. Tests for all backends are
//! in `system/tests.rs` and `tests/backend`.

use super::operations::Payload;
use super::{Options, reactor, run};
use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::file::OpenOptions;
use crate::socket::{Listener, Stream};
use crate::system::accept_queue::ACCEPTED_MAX;
use crate::{File, sleep, spawn, timeout};
use io_uring::opcode;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

const WRITE: OpenOptions = OpenOptions { write: true, create: true, exclusive: false };

fn on_one_shard<T: Send + 'static>(main: impl AsyncFn() -> T + Copy + Send + Sync + 'static) -> T {
    run(Options::default(), move |_| async move { main().await }).unwrap().pop().unwrap()
}

async fn pair() -> (Stream, Stream) {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let address = listener.local_address();
    let connecting = spawn(async move { Stream::connect(address, None).await.unwrap() });
    let accepted = listener.accept().await.unwrap().attach().unwrap();
    (connecting.await, accepted)
}

/// Waits for a condition; panics after ten seconds.
async fn until(condition: impl Fn() -> bool) {
    let patience = timeout(Duration::from_secs(10), async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    });
    patience.await.expect("the condition comes true in time");
}

struct Nothing;

impl Payload for Nothing {}

#[test]
#[expect(unsafe_code, reason = "see Core::single")]
fn more_operations_than_the_ring_holds() {
    on_one_shard(async || {
        let core = reactor::current();
        // Three times as many as the completion queue holds, started within one poll.
        // SAFETY: a no-op points to nothing.
        let all: Vec<_> =
            (0..12_288).map(|_| unsafe { core.single(Nothing, |_| opcode::Nop::new().build()) }).collect();
        for running in all {
            assert_eq!(running.await.result, 0);
        }
    });
}

#[test]
fn a_failed_sync_poisons_the_file() {
    on_one_shard(async || {
        // A character device accepts writes but neither syncs nor direct I/O, so it is opened without.
        let file = File::open(Path::new("/dev/null"), OpenOptions { create: false, ..WRITE }).await.unwrap();
        let block = AlignedBuf::zeroed(ALIGNMENT);
        let (result, block) = file.write_at(block, 0).await;
        result.unwrap();
        assert_eq!(file.sync().await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let (result, block) = file.write_at(block, 0).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(file.read_at(block, 0).await.0.unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(file.sync().await.unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(file.len().await.unwrap_err().kind(), ErrorKind::Other);
    });
}

#[test]
fn a_full_device_is_a_definite_error() {
    on_one_shard(async || {
        let file = File::open(Path::new("/dev/full"), OpenOptions { create: false, ..WRITE }).await.unwrap();
        let (result, block) = file.write_durable(AlignedBuf::zeroed(ALIGNMENT), 0).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
        // The file is not poisoned, because the write was refused.
        assert_eq!(file.read_at(block, 0).await.0.unwrap(), ALIGNMENT);
    });
}

#[test]
fn buffers_of_lazy_readers_are_bounded() {
    const CONNECTIONS: usize = 300;
    const EACH: usize = 150_000;
    on_one_shard(async || {
        let core = reactor::current();
        let mut pairs = Vec::new();
        for _ in 0..CONNECTIONS {
            let (a, b) = pair().await;
            a.write(|out| out.resize(EACH, 1));
            pairs.push((a, b));
        }
        // 45 MB are on their way.
        until(|| core.buffers.are_scarce()).await;
        sleep(Duration::from_millis(20)).await;
        assert!(core.buffers.copied_bytes() < 24 << 20, "{}", core.buffers.copied_bytes());
        for (_, b) in &pairs {
            let mut left = EACH;
            while left > 0 {
                left -= b.recv().await.unwrap().expect("more bytes").len();
            }
        }
        assert_eq!(core.buffers.copied_bytes(), 0);
    });
}

#[test]
fn connections_nobody_accepts_are_bounded() {
    const CONNECTIONS: usize = ACCEPTED_MAX + 500;
    on_one_shard(async || {
        let listener = super::socket::Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.local_address();
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            streams.push(Stream::connect(address, None).await.unwrap());
        }
        // A few arrive between the limit and the end of the accept.
        assert!((ACCEPTED_MAX..ACCEPTED_MAX + 64).contains(&listener.waiting()), "{}", listener.waiting());
        for _ in 0..CONNECTIONS {
            drop(listener.accept().await.unwrap());
        }
        assert!(timeout(Duration::from_millis(5), listener.accept()).await.is_none());
    });
}
