//! Files, names, directories, locks.

use crate::world::World;
use runtime::buffer::{ALIGNMENT, AlignedBuf};
use runtime::file::{self, OpenOptions};
use runtime::metrics::{classes, disk};
use runtime::{Class, File, spawn, spawn_in};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const NEW: OpenOptions = OpenOptions { write: true, create: true, exclusive: false };
const READ: OpenOptions = OpenOptions { write: false, create: false, exclusive: false };

fn filled(blocks: usize, byte: u8) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(blocks * ALIGNMENT);
    buffer.fill(byte);
    buffer
}

pub(crate) async fn what_is_written_is_read(world: World) {
    let path = world.directory.join("data");
    let file = File::open(&path, NEW).await.unwrap();
    assert_eq!(file.len().await.unwrap(), 0);
    file.write_at(filled(3, 7), 0).await.0.unwrap();
    file.write_durable(filled(1, 8), ALIGNMENT as u64).await.0.unwrap();
    file.sync().await.unwrap();
    assert_eq!(file.len().await.unwrap(), 3 * ALIGNMENT as u64);
    drop(file);
    let file = File::open(&path, READ).await.unwrap();
    let (read, buffer) = file.read_at(filled(3, 0), 0).await;
    assert_eq!(read.unwrap(), 3 * ALIGNMENT);
    assert_eq!([buffer[0], buffer[ALIGNMENT], buffer[2 * ALIGNMENT - 1], buffer[2 * ALIGNMENT]], [7, 8, 8, 7]);
}

pub(crate) async fn a_read_at_the_end_is_short(world: World) {
    let file = File::open(&world.directory.join("data"), NEW).await.unwrap();
    assert_eq!(file.read_at(filled(1, 0), 0).await.0.unwrap(), 0);
    file.write_at(filled(2, 5), 0).await.0.unwrap();
    let (read, buffer) = file.read_at(filled(4, 9), ALIGNMENT as u64).await;
    assert_eq!(read.unwrap(), ALIGNMENT);
    assert_eq!((buffer[0], buffer[ALIGNMENT - 1]), (5, 5));
    assert_eq!(file.read_at(filled(1, 0), 64 * ALIGNMENT as u64).await.0.unwrap(), 0);
}

/// Polls `operation` once. Whether it is under way now: the result of none is there before the loop has turned.
async fn begun(mut operation: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx).is_pending())).await
}

pub(crate) async fn operations_are_counted(world: World) {
    let file = Rc::new(File::open(&world.directory.join("data"), NEW).await.unwrap());
    let counted = || disk().map(|figures| (figures.completed, figures.bytes));
    let before = counted();
    let under_way = || classes().map(|figures| figures.disk_under_way);
    assert_eq!(under_way(), [0; 5]);
    let shared = file.clone();
    let write = spawn_in(Class::Streaming, async move {
        let mut write = pin!(shared.write_at(filled(2, 1), 0));
        assert!(begun(write.as_mut()).await);
        assert_eq!(under_way(), [0, 0, 0, 1, 0]);
        write.await.0.unwrap();
    });
    write.await;
    file.sync().await.unwrap();
    assert_eq!(file.read_at(filled(4, 0), 0).await.0.unwrap(), 2 * ALIGNMENT);
    let bytes = 2 * ALIGNMENT as u64;
    let [read, written, synced] = counted();
    assert_eq!(read, (before[0].0 + 1, before[0].1 + bytes));
    assert_eq!(written, (before[1].0 + 1, before[1].1 + bytes));
    assert_eq!(synced, (before[2].0 + 1, before[2].1));
    // An operation whose future is dropped does not count as under way.
    let mut read = Box::pin(file.read_at(filled(1, 0), 0));
    assert!(begun(read.as_mut()).await);
    assert_eq!(under_way().iter().sum::<u64>(), 1);
    drop(read);
    assert_eq!(under_way(), [0; 5]);
}

pub(crate) async fn writes_run_side_by_side(world: World) {
    let file = Rc::new(File::open(&world.directory.join("data"), NEW).await.unwrap());
    let writes: Vec<_> = (0..64u64)
        .map(|i| {
            let file = file.clone();
            spawn(async move { file.write_at(filled(1, i as u8), i * ALIGNMENT as u64).await.0.unwrap() })
        })
        .collect();
    for write in writes {
        write.await;
    }
    let (read, buffer) = file.read_at(filled(64, 255), 0).await;
    assert_eq!(read.unwrap(), 64 * ALIGNMENT);
    assert!(buffer.chunks(ALIGNMENT).enumerate().all(|(i, block)| block.iter().all(|byte| *byte == i as u8)));
}

pub(crate) async fn a_durable_write_is_read_by_another_shard(world: World) {
    let path = world.directory.join("data");
    if runtime::current_shard().0 == 0 {
        let file = File::open(&path, NEW).await.unwrap();
        file.write_durable(filled(2, 3), 0).await.0.unwrap();
        world.put("written", 1);
    } else {
        world.wait_for("written", 1).await;
        let file = File::open(&path, READ).await.unwrap();
        let (read, buffer) = file.read_at(filled(2, 0), 0).await;
        assert_eq!((read.unwrap(), buffer[5000]), (2 * ALIGNMENT, 3));
    }
}

pub(crate) async fn a_dropped_write_keeps_its_buffer(world: World) {
    let file = File::open(&world.directory.join("data"), NEW).await.unwrap();
    for i in 0..16 {
        // Polled once, then dropped: the write is under way and its outcome unknown.
        let write = file.write_at(filled(4, 1), i * 4 * ALIGNMENT as u64);
        runtime::timeout(Duration::ZERO, write).await;
        drop(filled(4, 2));
    }
    // Operations of one file are not ordered, so wait until all have surely ended.
    runtime::sleep(Duration::from_millis(100)).await;
    let (read, buffer) = file.read_at(filled(64, 0), 0).await;
    let read = read.unwrap();
    assert!(buffer[..read].iter().all(|byte| *byte == 1 || *byte == 0), "no byte of a later owner of the memory");
}

pub(crate) async fn open_options_are_honoured(world: World) {
    let path = world.directory.join("data");
    assert_eq!(File::open(&path, READ).await.err().unwrap().kind(), ErrorKind::NotFound);
    let create_new = OpenOptions { exclusive: true, ..NEW };
    let file = File::open(&path, create_new).await.unwrap();
    file.write_at(filled(1, 1), 0).await.0.unwrap();
    assert_eq!(File::open(&path, create_new).await.err().unwrap().kind(), ErrorKind::AlreadyExists);
    // Opening again neither truncates nor fails.
    assert_eq!(File::open(&path, NEW).await.unwrap().len().await.unwrap(), ALIGNMENT as u64);
    let read_only = File::open(&path, READ).await.unwrap();
    assert!(read_only.write_at(filled(1, 2), 0).await.0.is_err());
    assert_eq!(read_only.read_at(filled(1, 0), 0).await.1[0], 1);
}

pub(crate) async fn unaligned_calls_are_refused(world: World) {
    let file = File::open(&world.directory.join("data"), NEW).await.unwrap();
    let mut short = filled(1, 1);
    short.set_len(100);
    let (result, short) = file.write_at(short, 0).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(file.read_at(short, 0).await.0.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(file.write_at(filled(1, 1), 512).await.0.unwrap_err().kind(), ErrorKind::InvalidInput);
}

pub(crate) async fn names_change(world: World) {
    let (a, b) = (world.directory.join("a"), world.directory.join("b"));
    let file = File::open(&a, NEW).await.unwrap();
    file.write_durable(filled(1, 1), 0).await.0.unwrap();
    file::rename(&a, &b).await.unwrap();
    file::sync_dir(&world.directory).await.unwrap();
    assert_eq!(file::rename(&a, &b).await.unwrap_err().kind(), ErrorKind::NotFound);
    // An open file keeps its contents when it is renamed or removed.
    file.write_at(filled(1, 2), 0).await.0.unwrap();
    assert_eq!(File::open(&b, READ).await.unwrap().read_at(filled(1, 0), 0).await.1[0], 2);
    file::remove(&b).await.unwrap();
    assert_eq!(file::remove(&b).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(file.read_at(filled(1, 0), 0).await.1[0], 2);
    assert_eq!(File::open(&b, READ).await.err().unwrap().kind(), ErrorKind::NotFound);
}

pub(crate) async fn a_file_has_two_names(world: World) {
    let (a, b) = (world.directory.join("a"), world.directory.join("b"));
    assert_eq!(file::link(&a, &b).await.unwrap_err().kind(), ErrorKind::NotFound);
    let first = File::open(&a, NEW).await.unwrap();
    first.write_at(filled(1, 7), 0).await.0.unwrap();
    file::link(&a, &b).await.unwrap();
    assert_eq!(file::link(&a, &b).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    file::remove(&a).await.unwrap();
    assert_eq!(File::open(&b, READ).await.unwrap().read_at(filled(1, 0), 0).await.1[0], 7);
}

pub(crate) async fn room_that_was_promised_reads_as_zeros(world: World) {
    let path = world.directory.join("room");
    let file = File::open(&path, NEW).await.unwrap();
    let len = 16 * ALIGNMENT as u64;
    file.allocate(len).await.expect("the directory for temporary files is on a file system with fallocate");
    assert_eq!(file.len().await.unwrap(), len);
    let mut page = AlignedBuf::zeroed(ALIGNMENT);
    page.fill(7);
    file.write_durable(page, 3 * ALIGNMENT as u64).await.0.unwrap();
    // Existing contents stay.
    file.allocate(len).await.unwrap();
    file.allocate(ALIGNMENT as u64).await.unwrap();
    let (read, buffer) = file.read_at(AlignedBuf::zeroed(len as usize), 0).await;
    assert_eq!(read.unwrap(), len as usize);
    let written = 3 * ALIGNMENT..4 * ALIGNMENT;
    assert!(buffer.iter().enumerate().all(|(at, byte)| *byte == if written.contains(&at) { 7 } else { 0 }));
}

pub(crate) async fn a_trim_cuts_the_last_page(world: World) {
    let path = world.directory.join("a");
    let file = File::open(&path, NEW).await.unwrap();
    file.write_at(filled(2, 7), 0).await.0.unwrap();
    file.trim(ALIGNMENT as u64 + 5).await.unwrap();
    file.sync().await.unwrap();
    assert_eq!(file.len().await.unwrap(), ALIGNMENT as u64 + 5);
    assert_eq!(file.read_at(filled(2, 0), 0).await.0.unwrap(), ALIGNMENT + 5);
    assert_eq!(file::read_small(&path, 1 << 20).await.unwrap().len(), ALIGNMENT + 5);
}

pub(crate) async fn empty_directories_are_removed(world: World) {
    let directory = world.directory.join("x");
    file::create_dir_all(&directory).await.unwrap();
    File::open(&directory.join("a"), NEW).await.unwrap();
    assert_eq!(file::remove_dir(&directory).await.unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    file::remove(&directory.join("a")).await.unwrap();
    file::remove_dir(&directory).await.unwrap();
    assert_eq!(file::list_dir(&directory).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(file::remove_dir(&directory).await.unwrap_err().kind(), ErrorKind::NotFound);
}

pub(crate) async fn directories_are_made_and_listed(world: World) {
    let deep = world.directory.join("x/y/z");
    file::create_dir_all(&deep).await.unwrap();
    file::create_dir_all(&deep).await.unwrap();
    for name in ["b", "a", "c"] {
        File::open(&deep.join(name), NEW).await.unwrap();
    }
    let expected: Vec<_> = ["a", "b", "c"].iter().map(|name| deep.join(name)).collect();
    assert_eq!(file::list_dir(&deep).await.unwrap(), expected);
    assert_eq!(file::list_dir(&world.directory.join("x")).await.unwrap(), [world.directory.join("x/y")]);
    assert_eq!(file::list_dir(&world.directory.join("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
    file::sync_dir(&deep).await.unwrap();
    assert!(file::create_dir_all(&deep.join("a")).await.is_err(), "a file has that name");
    assert!(file::create_dir_all(&deep.join("a/b")).await.is_err(), "a file has the parent's name");
}

pub(crate) async fn the_space_of_a_directory_is_told(world: World) {
    let deep = world.directory.join("x/y");
    file::create_dir_all(&deep).await.unwrap();
    for (path, blocks) in [(deep.join("a"), 2), (world.directory.join("x/b"), 1), (world.directory.join("c"), 4)] {
        let file = File::open(&path, NEW).await.unwrap();
        file.write_at(filled(blocks, 7), 0).await.0.unwrap();
    }
    let space = file::space(&world.directory.join("x")).await.unwrap();
    assert_eq!(space.used, 3 * ALIGNMENT as u64);
    assert!(space.free > 0);
    assert_eq!(file::space(&world.directory.join("x/y")).await.unwrap().disk, space.disk);
    assert_eq!(file::space(&world.directory.join("none")).await.unwrap_err().kind(), ErrorKind::NotFound);
}

pub(crate) async fn small_files_are_replaced(world: World) {
    let path = world.directory.join("marker");
    assert_eq!(file::read_small(&path, 10).await.unwrap_err().kind(), ErrorKind::NotFound);
    file::replace_small(&path, b"0123456789").await.unwrap();
    assert_eq!(file::read_small(&path, 10).await.unwrap(), b"0123456789");
    assert_eq!(file::read_small(&path, 9).await.unwrap_err().kind(), ErrorKind::InvalidData);
    file::replace_small(&path, b"x").await.unwrap();
    assert_eq!(file::read_small(&path, 10).await.unwrap(), b"x");
    assert_eq!(file::list_dir(&world.directory).await.unwrap(), [path]);
}

pub(crate) async fn a_lock_is_exclusive(world: World) {
    let path = world.directory.join("lock");
    let held = file::lock(&path).await.unwrap();
    // In the simulator a lock belongs to the node, which holds it already.
    if world.ip.is_loopback() && !world.directory.starts_with("/data") {
        assert_eq!(file::lock(&path).await.err().unwrap().kind(), ErrorKind::WouldBlock);
    }
    drop(held);
    drop(file::lock(&path).await.unwrap());
}
