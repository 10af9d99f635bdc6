//! Tests of options, signals, teardown and panics, which the conformance suite in `tests/backend` cannot see. Each runs
//! on all backends of a real machine.

use super::Options;
use super::mesh::CAPACITY_MAX;
use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::file::{self, OpenOptions};
use crate::mesh::{Mesh, ShardId};
use crate::socket::{Listener, Stream};
use crate::{Backend, File, context, signal, sleep, spawn, start, timeout, yield_now};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WRITE: OpenOptions = OpenOptions { write: true, create: true, exclusive: false };

macro_rules! on_each_backend {
    ($($name:ident,)*) => {
        mod uring {
            $(
                #[test]
                fn $name() {
                    super::$name(super::Backend::Uring);
                }
            )*
        }
        #[cfg(feature = "glommio")]
        mod glommio {
            $(
                #[test]
                fn $name() {
                    super::$name(super::Backend::Glommio);
                }
            )*
        }
    };
}

on_each_backend! {
    options_are_checked,
    results_come_in_order_of_shards,
    a_stop_signal_ends_the_wait,
    paths_with_nul_are_refused,
    descriptors_are_closed_whoever_drops_what,
    a_file_keeps_its_length_under_any_name,
    a_stop_does_not_wait_for_what_never_ends,
    a_panic_aborts_and_is_named,
}

fn on_one_shard<T: Send + 'static>(backend: Backend, main: impl AsyncFn() -> T + Copy + Send + Sync + 'static) -> T {
    start(backend, Options::default(), move |_| async move { main().await }).unwrap().pop().unwrap()
}

/// The number of this process's descriptors that are open on `path`.
fn open_on(path: &Path) -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.filter(|entry| std::fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to == path)).count()
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

fn options_are_checked(backend: Backend) {
    let try_run = |options: Options| start(backend, options, |_| async {}).err().map(|e| e.kind());
    assert_eq!(try_run(Options { shards: 0, ..Options::default() }), Some(ErrorKind::InvalidInput));
    assert_eq!(try_run(Options { shards: 1 << 16, ..Options::default() }), Some(ErrorKind::InvalidInput));
    assert_eq!(try_run(Options { shards: 2, cpus: vec![0], ..Options::default() }), Some(ErrorKind::InvalidInput));
    assert_eq!(try_run(Options { cpus: vec![1 << 20], ..Options::default() }), Some(ErrorKind::InvalidInput));
    // The second shard cannot start, so the first must not wait for it.
    let absent = Options { shards: 2, cpus: vec![0, 1023], ..Options::default() };
    assert_eq!(try_run(absent), Some(ErrorKind::InvalidInput));
}

fn results_come_in_order_of_shards(backend: Backend) {
    let options = Options { shards: 3, cpus: vec![0, 0, 0], spin: Duration::ZERO, helpers: 0 };
    let results = start(backend, options, |shard| async move {
        sleep(Duration::from_millis(3 - shard.0 as u64)).await;
        shard
    });
    assert_eq!(results.unwrap(), [ShardId(0), ShardId(1), ShardId(2)]);
}

#[expect(unsafe_code, reason = "a signal to this very thread")]
fn a_stop_signal_ends_the_wait(backend: Backend) {
    on_one_shard(backend, async || {
        assert_eq!(timeout(Duration::from_millis(5), signal::terminated()).await, None);
        let waiting = spawn(signal::terminated());
        yield_now().await;
        // SAFETY: the thread is alive, and the signal is blocked on it.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
        waiting.await;
        // Later calls return at once.
        signal::terminated().await;
    });
}

fn paths_with_nul_are_refused(backend: Backend) {
    on_one_shard(backend, async || {
        let error = File::open(Path::new("a\0b"), WRITE).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(file::remove(Path::new("a\0b")).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file::create_dir_all(Path::new("a\0b")).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

fn descriptors_are_closed_whoever_drops_what(backend: Backend) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let (path_of_shard, path) = (path.clone(), path.canonicalize().unwrap_or(path));
    let main = move |_| {
        let path: PathBuf = path_of_shard.clone();
        async move {
            let idle = context::with(|c| c.operations_under_way());
            for _ in 0..20 {
                // Polled once and dropped: nobody takes the descriptor that the kernel creates afterwards.
                timeout(Duration::ZERO, File::open(&path, WRITE)).await;
            }
            until(|| open_on(&path) == 0 && context::with(|c| c.operations_under_way()) == idle).await;
            let file = File::open(&path, WRITE).await.unwrap();
            until(|| open_on(&path) == 1).await;
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
    start(backend, Options::default(), main).unwrap();
    assert_eq!(open_on(&path), 0);
}

fn a_file_keeps_its_length_under_any_name(backend: Backend) {
    on_one_shard(backend, async || {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        let file = File::open(&a, WRITE).await.unwrap();
        file.write_at(AlignedBuf::zeroed(ALIGNMENT), 0).await.0.unwrap();
        file::rename(&a, &b).await.unwrap();
        assert_eq!(file.len().await.unwrap(), ALIGNMENT as u64);
        file::remove(&b).await.unwrap();
        assert_eq!(file.len().await.unwrap(), ALIGNMENT as u64);
    });
}

fn a_stop_does_not_wait_for_what_never_ends(backend: Backend) {
    // The system accepts connections to it, but nobody reads from them.
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
        // A network reserved for documentation, where nobody answers.
        spawn(Stream::connect(SocketAddr::from(([192, 0, 2, 1], 9)), None));
        spawn(signal::terminated());
        spawn(sleep(Duration::from_secs(3600)));
        sleep(Duration::from_millis(5)).await;
    };
    start(backend, Options::default(), main).unwrap();
    let elapsed = before.elapsed();
    assert!(elapsed > Duration::from_millis(900), "queued bytes get a moment: {elapsed:?}");
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
}

#[test]
fn a_mesh_is_bounded() {
    assert!(std::panic::catch_unwind(|| Mesh::<u8>::new(2, CAPACITY_MAX)).is_ok());
    assert!(std::panic::catch_unwind(|| Mesh::<u8>::new(2, CAPACITY_MAX + 1)).is_err());
    assert!(std::panic::catch_unwind(|| Mesh::<u8>::new(2, 0)).is_err());
}

/// Tells the other process on which backend to panic.
const PANIC_ON: &str = "RUNTIME_TEST_PANIC_ON";

#[test]
#[ignore = "ends the process: a_panic_aborts_and_is_named runs it in another one"]
fn panics_on_a_shard() {
    let glommio = std::env::var(PANIC_ON).is_ok_and(|name| name == format!("{:?}", Backend::Glommio));
    let backend = if glommio { Backend::Glommio } else { Backend::Uring };
    let _ = start(backend, Options { shards: 2, ..Options::default() }, |shard| async move {
        if shard == ShardId(1) {
            spawn(async { panic!("the cat is out") }).await
        }
        std::future::pending::<()>().await;
    });
}

fn a_panic_aborts_and_is_named(backend: Backend) {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "system::tests::panics_on_a_shard"])
        .env(PANIC_ON, format!("{backend:?}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    assert!(text.contains("shard 1, task 1 (Foreground) panicked: the cat is out"), "{text}");
}
