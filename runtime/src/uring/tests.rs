//! What only this backend has: signals, full rings, poisoned files, teardown, panics. The rest is in `tests/backend`.

use super::operations::Payload;
use super::socket::ACCEPTED_MAX;
use super::{Options, reactor, run};
use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::file::{self, OpenOptions};
use crate::mesh::{Mesh, ShardId};
use crate::socket::{Listener, Stream};
use crate::{File, signal, sleep, spawn, timeout, yield_now};
use io_uring::opcode;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// Descriptors of this process that are open on `path`.
fn open_on(path: &Path) -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.filter(|entry| std::fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to == path)).count()
}

/// Waits for a condition; a test that waits too long has failed.
async fn until(condition: impl Fn() -> bool) {
    let patience = timeout(Duration::from_secs(10), async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    });
    patience.await.expect("the condition comes true in time");
}

#[test]
fn options_are_checked() {
    let try_run = |options: Options| run(options, |_| async {}).err().map(|e| e.kind());
    assert_eq!(try_run(Options { shards: 0, ..Options::default() }), Some(ErrorKind::InvalidInput));
    assert_eq!(try_run(Options { shards: 1 << 16, ..Options::default() }), Some(ErrorKind::InvalidInput));
    assert_eq!(try_run(Options { shards: 2, cpus: vec![0], ..Options::default() }), Some(ErrorKind::InvalidInput));
    assert_eq!(try_run(Options { cpus: vec![1 << 20], ..Options::default() }), Some(ErrorKind::InvalidInput));
    // The second shard cannot start, and the first is told so instead of waiting for it.
    let absent = Options { shards: 2, cpus: vec![0, 1023], ..Options::default() };
    assert_eq!(try_run(absent), Some(ErrorKind::InvalidInput));
}

#[test]
fn results_come_in_order_of_shards() {
    let options = Options { shards: 3, cpus: vec![0, 0, 0], spin: Duration::ZERO, helpers: 0 };
    let results = run(options, |shard| async move {
        sleep(Duration::from_millis(3 - shard.0 as u64)).await;
        shard
    });
    assert_eq!(results.unwrap(), [ShardId(0), ShardId(1), ShardId(2)]);
}

#[test]
#[expect(unsafe_code, reason = "a signal to this very thread")]
fn a_stop_signal_ends_the_wait() {
    on_one_shard(async || {
        assert_eq!(timeout(Duration::from_millis(5), signal::terminated()).await, None);
        let waiting = spawn(signal::terminated());
        yield_now().await;
        // SAFETY: the thread is alive, and the signal is blocked on it.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
        waiting.await;
        // It stays so for whoever asks later.
        signal::terminated().await;
    });
}

struct Nothing;

impl Payload for Nothing {}

#[test]
#[expect(unsafe_code, reason = "see Core::single")]
fn more_operations_than_the_ring_holds() {
    on_one_shard(async || {
        let core = reactor::current();
        // Three times what the completion queue holds, started within one poll.
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
        // A character device takes writes but knows no sync; nor direct I/O, so this opens it without.
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
        // Not poisoned: nothing was promised.
        assert_eq!(file.read_at(block, 0).await.0.unwrap(), ALIGNMENT);
    });
}

#[test]
fn paths_with_nul_are_refused() {
    on_one_shard(async || {
        let error = File::open(Path::new("a\0b"), WRITE).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(file::remove(Path::new("a\0b")).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn descriptors_are_closed_whoever_drops_what() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let (path_of_shard, path) = (path.clone(), path.canonicalize().unwrap_or(path));
    let main = move |_| {
        let path: PathBuf = path_of_shard.clone();
        async move {
            for _ in 0..20 {
                // Polled once and dropped: the descriptor that the kernel makes afterwards belongs to nobody.
                timeout(Duration::ZERO, File::open(&path, WRITE)).await;
            }
            until(|| open_on(&path) == 0 && reactor::current().under_way() == 1).await;
            let file = File::open(&path, WRITE).await.unwrap();
            assert_eq!(open_on(&path), 1);
            // The write keeps the file open until it has ended.
            timeout(Duration::ZERO, file.write_at(AlignedBuf::zeroed(1 << 20), 0)).await;
            drop(file);
            until(|| open_on(&path) == 0).await;
            // Left to the teardown: an open file with a write under way, in a task that never ends.
            let file = File::open(&path, WRITE).await.unwrap();
            spawn(async move {
                timeout(Duration::ZERO, file.write_at(AlignedBuf::zeroed(1 << 20), 0)).await;
                std::future::pending::<()>().await;
            });
            yield_now().await;
        }
    };
    run(Options::default(), main).unwrap();
    assert_eq!(open_on(&path), 0);
}

#[test]
fn a_stop_does_not_wait_for_what_never_ends() {
    // Connections to it are made by the system and read by nobody.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap();
    let before = Instant::now();
    let main = move |_| async move {
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let (a, b) = (Stream::connect(address, None).await.unwrap(), Stream::connect(address, None).await.unwrap());
        // More than the peer's window: one is under way at the stop, one was dropped before.
        a.write(|out| out.resize(64 << 20, 1));
        b.write(|out| out.resize(64 << 20, 1));
        drop(b);
        spawn(async move {
            let _ = listener.accept().await;
        });
        spawn(async move {
            let _ = a.recv().await;
        });
        // A network for documentation: nobody answers.
        spawn(Stream::connect(SocketAddr::from(([192, 0, 2, 1], 9)), None));
        spawn(signal::terminated());
        spawn(sleep(Duration::from_secs(3600)));
        sleep(Duration::from_millis(5)).await;
    };
    run(Options::default(), main).unwrap();
    let elapsed = before.elapsed();
    assert!(elapsed > Duration::from_millis(900), "queued bytes get a moment: {elapsed:?}");
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
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

#[test]
fn a_mesh_is_bounded_and_attached_once() {
    let limit = crate::system::mesh::CAPACITY_MAX;
    assert!(std::panic::catch_unwind(|| Mesh::<u8>::new(2, limit)).is_ok());
    assert!(std::panic::catch_unwind(|| Mesh::<u8>::new(2, limit + 1)).is_err());
    assert!(std::panic::catch_unwind(|| Mesh::<u8>::new(2, 0)).is_err());
}

#[test]
#[ignore = "ends the process: a_panic_aborts_and_is_named runs it in another one"]
fn panics_on_a_shard() {
    let _ = run(Options { shards: 2, ..Options::default() }, |shard| async move {
        if shard == ShardId(1) {
            spawn(async { panic!("the cat is out") }).await
        }
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_panic_aborts_and_is_named() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "uring::tests::panics_on_a_shard"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    assert!(text.contains("shard 1, task 1 (Foreground) panicked: the cat is out"), "{text}");
}
