//! Calls on a simulated disk. Each completes at a later event, sees the disk as it is then, and may fail.
//!
//! Invariants:
//! * A call that has started has its effect even if nobody waits for it, unless the node crashes first.
//! * Buffers, offsets and lengths are whole pages, as direct I/O requires; anything else panics.

use super::DiskCall;
use super::files::{Change, Disk, Entry, File as Content, InFlight, Name, normal};
use super::inode::{Loss, PAGE, pages_of};
use super::node::Caller;
use super::world::World;
use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::file_types::{OpenOptions, Space};
use crate::hash::hash64;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(crate) struct File {
    opened: Rc<Opened>,
}

struct Opened {
    path: PathBuf,
    content: Content,
    writable: bool,
    poisoned: Cell<bool>,
}

impl Opened {
    fn usable(&self) -> io::Result<()> {
        if self.poisoned.get() {
            return Err(io::Error::other("an earlier sync of this file failed"));
        }
        Ok(())
    }
}

/// One call on the disk of the current node.
struct Call {
    caller: Caller,
    disk: Rc<RefCell<Disk>>,
}

impl Call {
    fn new() -> Call {
        let caller = Caller::current();
        let disk = caller.world.disk(caller.node.id);
        Call { caller, disk }
    }

    /// Calls `complete` after the disk's latency and returns its result.
    async fn run<T: 'static>(&self, complete: impl FnOnce(&World, &Rc<RefCell<Disk>>) -> T + 'static) -> T {
        let of_all = self.caller.world.options.borrow().disk_latency;
        let between = self.disk.borrow().latency.unwrap_or(of_all);
        let latency = self.caller.world.scheduler.between(between);
        let disk = self.disk.clone();
        self.caller.operate(latency, move |world| complete(world, &disk)).await
    }

    /// Changes names, if `check` allows the change when it completes. Until then a crash finds `in_flight`.
    async fn change(
        &self,
        call: DiskCall,
        path: &Path,
        in_flight: Option<Change>,
        check: impl FnOnce(&mut Disk) -> io::Result<Change> + 'static,
    ) -> io::Result<()> {
        let number = in_flight.map(|change| self.disk.borrow_mut().begin(InFlight::Change(change)));
        let path = path.to_owned();
        self.run(move |world, disk| {
            if let Some(number) = number {
                disk.borrow_mut().finish(number);
            }
            fault(world, disk, call, &path)?;
            let mut disk = disk.borrow_mut();
            let change = check(&mut disk)?;
            disk.change(world.scheduler.now(), change);
            Ok(())
        })
        .await
    }
}

fn os_error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Decides whether a call fails: by the test's function, an announced sync failure, or chance.
fn fault(world: &World, disk: &Rc<RefCell<Disk>>, call: DiskCall, path: &Path) -> io::Result<()> {
    world.scheduler.fold(call as u64);
    // The function is taken out, because it may look at the simulation.
    let hook = disk.borrow_mut().fault.take();
    if let Some(mut hook) = hook {
        let error = hook(call, path);
        let mut disk = disk.borrow_mut();
        if disk.fault.is_none() {
            disk.fault = Some(hook);
        }
        if let Some(error) = error {
            return Err(error);
        }
    }
    if matches!(call, DiskCall::Sync | DiskCall::WriteDurable) && disk.borrow().failing_syncs > 0 {
        disk.borrow_mut().failing_syncs -= 1;
        return Err(os_error(libc::EIO));
    }
    let may_fail = matches!(call, DiskCall::Read | DiskCall::Write | DiskCall::WriteDurable | DiskCall::Sync);
    let chance = world.options.borrow().disk_error;
    if may_fail && world.scheduler.chance(chance) {
        return Err(os_error(libc::EIO));
    }
    Ok(())
}

fn check_alignment(len: usize, offset: u64) {
    assert!(
        len.is_multiple_of(ALIGNMENT) && offset.is_multiple_of(ALIGNMENT as u64),
        "direct I/O of {len} bytes at {offset} is not aligned to {ALIGNMENT}"
    );
}

impl File {
    pub(crate) async fn open(path: &Path, options: OpenOptions) -> io::Result<File> {
        let call = Call::new();
        let Some(name) = Name::of(path) else { return Err(os_error(libc::EISDIR)) };
        let path = normal(path);
        // A crash may keep the name of a file whose creation is in flight.
        let fresh = call.disk.borrow().new_file();
        let creating = options.create && call.disk.borrow().visible.get(&name).is_none();
        let number = creating.then(|| {
            let change = Change::Link(name.clone(), fresh.clone());
            call.disk.borrow_mut().begin(InFlight::Change(change))
        });
        call.run(move |world, disk| {
            if let Some(number) = number {
                disk.borrow_mut().finish(number);
            }
            fault(world, disk, DiskCall::Open, &path)?;
            let mut disk = disk.borrow_mut();
            if disk.visible.directory(&name.directory).is_none() {
                return Err(os_error(libc::ENOENT));
            }
            let content = match disk.visible.get(&name) {
                Some(Entry::Directory) => return Err(os_error(libc::EISDIR)),
                Some(Entry::File(_)) if options.create && options.exclusive => return Err(os_error(libc::EEXIST)),
                Some(Entry::File(content)) => content.clone(),
                None if !options.create => return Err(os_error(libc::ENOENT)),
                None => {
                    disk.change(world.scheduler.now(), Change::Link(name, fresh.clone()));
                    fresh
                }
            };
            let opened = Opened { path, content, writable: options.write, poisoned: Cell::new(false) };
            Ok(File { opened: Rc::new(opened) })
        })
        .await
    }

    pub(crate) async fn read_at(&self, mut buffer: AlignedBuf, offset: u64) -> (io::Result<usize>, AlignedBuf) {
        check_alignment(buffer.len(), offset);
        let call = Call::new();
        let opened = self.opened.clone();
        call.run(move |world, disk| {
            let read = opened.usable().and_then(|()| fault(world, disk, DiskCall::Read, &opened.path));
            (read.map(|()| opened.content.borrow().read(&mut buffer, offset)), buffer)
        })
        .await
    }

    pub(crate) async fn write_at(
        &self,
        buffer: AlignedBuf,
        offset: u64,
        durable: bool,
    ) -> (io::Result<()>, AlignedBuf) {
        check_alignment(buffer.len(), offset);
        let call = Call::new();
        let opened = self.opened.clone();
        let allowed = opened.usable().and_then(|()| if opened.writable { Ok(()) } else { Err(os_error(libc::EBADF)) });
        if let Err(error) = allowed {
            return call.run(move |_, _| (Err(error), buffer)).await;
        }
        let result = write(&call, &opened, &buffer, offset, durable);
        (result.await, buffer)
    }

    pub(crate) async fn sync(&self) -> io::Result<()> {
        let call = Call::new();
        sync(&call, &self.opened).await
    }

    /// Reserves space by writing zeros.
    pub(crate) async fn allocate(&self, len: u64) -> io::Result<()> {
        check_alignment(len as usize, 0);
        let now = self.len().await?;
        if now >= len {
            return Ok(());
        }
        let zeros = AlignedBuf::zeroed((len - now / PAGE as u64 * PAGE as u64) as usize);
        if !now.is_multiple_of(PAGE as u64) {
            return Err(os_error(libc::EINVAL));
        }
        self.write_at(zeros, now, false).await.0
    }

    pub(crate) async fn trim(&self, len: u64) -> io::Result<()> {
        let call = Call::new();
        let opened = self.opened.clone();
        call.run(move |world, disk| {
            opened.usable()?;
            fault(world, disk, DiskCall::Write, &opened.path)?;
            let mut content = opened.content.borrow_mut();
            let now = content.len();
            assert!(len <= now && now - len < ALIGNMENT as u64, "a trim cuts less than a page");
            content.trim(len);
            Ok(())
        })
        .await
    }

    pub(crate) async fn len(&self) -> io::Result<u64> {
        let call = Call::new();
        let opened = self.opened.clone();
        call.run(move |_, _| opened.usable().map(|()| opened.content.borrow().len())).await
    }
}

/// Writes `bytes` at `offset`, a multiple of the page size.
async fn write(call: &Call, opened: &Rc<Opened>, bytes: &[u8], offset: u64, durable: bool) -> io::Result<()> {
    let (pages, first) = (pages_of(bytes), offset / PAGE as u64);
    let end = offset + bytes.len() as u64;
    call.caller.world.scheduler.fold(hash64(bytes));
    let content = opened.content.clone();
    let in_flight = InFlight::Write { file: content, first, pages, end };
    let number = call.disk.borrow_mut().begin(in_flight);
    let opened = opened.clone();
    call.run(move |world, disk| {
        let Some(InFlight::Write { file, first, mut pages, end }) = disk.borrow_mut().finish(number) else {
            return Err(os_error(libc::EIO));
        };
        let kind = if durable { DiskCall::WriteDurable } else { DiskCall::Write };
        if let Err(error) = fault(world, disk, kind, &opened.path) {
            // A failed write may have written a part.
            let done = world.scheduler.below(pages.len() as u64 + 1) as usize;
            pages.truncate(done);
            if done > 0 {
                let end = end.min((first + done as u64) * PAGE as u64);
                file.borrow_mut().write(first, &pages, end, false);
            }
            if durable {
                opened.poisoned.set(true);
            }
            return Err(error);
        }
        let free = world.options.borrow().disk_bytes.saturating_sub(disk.borrow().used.get());
        let mut file = file.borrow_mut();
        let fresh = || (first..first + pages.len() as u64).filter(|page| !file.has(*page)).count();
        if (pages.len() * PAGE) as u64 > free && (fresh() * PAGE) as u64 > free {
            return Err(os_error(libc::ENOSPC));
        }
        file.write(first, &pages, end, durable);
        Ok(())
    })
    .await
}

/// Makes durable what was written before the call.
async fn sync(call: &Call, opened: &Rc<Opened>) -> io::Result<()> {
    let written = opened.content.borrow().written();
    let opened = opened.clone();
    call.run(move |world, disk| {
        opened.usable()?;
        let result = fault(world, disk, DiskCall::Sync, &opened.path);
        let mut content = opened.content.borrow_mut();
        match &result {
            Ok(()) => content.sync(written),
            Err(_) => {
                // The system drops what it could not write and marks it clean, so a later sync proves nothing.
                opened.poisoned.set(true);
                world.scheduler.with_rng(|rng| content.lose(Loss::pick(rng), rng));
            }
        }
        result
    })
    .await
}

fn file_at(disk: &Disk, name: &Name) -> io::Result<Content> {
    match disk.visible.get(name) {
        Some(Entry::File(content)) => Ok(content.clone()),
        Some(Entry::Directory) => Err(os_error(libc::EISDIR)),
        None => Err(os_error(libc::ENOENT)),
    }
}

fn name_of(path: &Path) -> io::Result<Name> {
    Name::of(path).ok_or_else(|| os_error(libc::EISDIR))
}

pub(crate) async fn rename(from: &Path, to: &Path) -> io::Result<()> {
    rename_on(&Call::new(), from, to).await
}

async fn rename_on(call: &Call, from: &Path, to: &Path) -> io::Result<()> {
    let (source, target) = (name_of(from)?, name_of(to)?);
    let moved = file_at(&call.disk.borrow(), &source).ok();
    let in_flight = moved.map(|file| Change::Rename(source.clone(), target.clone(), file));
    call.change(DiskCall::Rename, to, in_flight, move |disk| {
        let file = file_at(disk, &source)?;
        if disk.visible.directory(&target.directory).is_none() {
            return Err(os_error(libc::ENOENT));
        }
        if matches!(disk.visible.get(&target), Some(Entry::Directory)) {
            return Err(os_error(libc::EISDIR));
        }
        Ok(Change::Rename(source, target, file))
    })
    .await
}

pub(crate) async fn link(from: &Path, to: &Path) -> io::Result<()> {
    let call = Call::new();
    let (source, target) = (name_of(from)?, name_of(to)?);
    let linked = file_at(&call.disk.borrow(), &source).ok();
    let in_flight = linked.map(|file| Change::Link(target.clone(), file));
    call.change(DiskCall::Link, to, in_flight, move |disk| {
        let file = file_at(disk, &source)?;
        if disk.visible.directory(&target.directory).is_none() {
            return Err(os_error(libc::ENOENT));
        }
        if disk.visible.get(&target).is_some() {
            return Err(os_error(libc::EEXIST));
        }
        Ok(Change::Link(target, file))
    })
    .await
}

pub(crate) async fn remove_dir(path: &Path) -> io::Result<()> {
    let call = Call::new();
    let path = normal(path);
    let change = Change::RemoveDirectory(path.clone());
    let in_flight = Some(change.clone());
    call.change(DiskCall::RemoveDir, &path.clone(), in_flight, move |disk| match disk.visible.directory(&path) {
        None => Err(os_error(libc::ENOENT)),
        Some(entries) if !entries.is_empty() => Err(os_error(libc::ENOTEMPTY)),
        Some(_) => Ok(change),
    })
    .await
}

pub(crate) async fn remove(path: &Path) -> io::Result<()> {
    let call = Call::new();
    let name = name_of(path)?;
    let removed = file_at(&call.disk.borrow(), &name).ok();
    let in_flight = removed.map(|file| Change::Unlink(name.clone(), file));
    call.change(DiskCall::Remove, path, in_flight, move |disk| {
        let file = file_at(disk, &name)?;
        Ok(Change::Unlink(name, file))
    })
    .await
}

pub(crate) async fn create_dir_all(path: &Path) -> io::Result<()> {
    let call = Call::new();
    let path = normal(path);
    let is_missing = |ancestor: &&Path| *ancestor == path || call.disk.borrow().visible.directory(ancestor).is_none();
    let mut missing: Vec<PathBuf> = path.ancestors().filter(is_missing).map(Path::to_owned).collect();
    while let Some(directory) = missing.pop() {
        let change = Change::MakeDirectory(directory.clone());
        let (name, in_flight) = (Name::of(&directory), Some(change.clone()));
        let check = move |disk: &mut Disk| match name.and_then(|name| disk.visible.get(&name).cloned()) {
            Some(Entry::File(_)) => Err(os_error(libc::EEXIST)),
            _ => Ok(change),
        };
        call.change(DiskCall::CreateDir, &directory, in_flight, check).await?;
    }
    Ok(())
}

pub(crate) async fn sync_dir(path: &Path) -> io::Result<()> {
    sync_directory(&Call::new(), &normal(path)).await
}

async fn sync_directory(call: &Call, path: &Path) -> io::Result<()> {
    let changes = call.disk.borrow().changes();
    let path = path.to_owned();
    call.run(move |world, disk| {
        fault(world, disk, DiskCall::SyncDir, &path)?;
        let mut disk = disk.borrow_mut();
        if disk.visible.directory(&path).is_none() {
            return Err(os_error(libc::ENOENT));
        }
        disk.sync_directory(&path, changes);
        Ok(())
    })
    .await
}

pub(crate) async fn canonical(path: &Path) -> io::Result<PathBuf> {
    let call = Call::new();
    let path = normal(path);
    call.run(move |_, disk| {
        let disk = disk.borrow();
        let is_file = Name::of(&path).is_some_and(|name| disk.visible.get(&name).is_some());
        let is_there = is_file || disk.visible.directory(&path).is_some();
        if is_there { Ok(path) } else { Err(os_error(libc::ENOENT)) }
    })
    .await
}

pub(crate) async fn list_dir(path: &Path) -> io::Result<Vec<PathBuf>> {
    let call = Call::new();
    let path = path.to_owned();
    call.run(move |world, disk| {
        fault(world, disk, DiskCall::List, &path)?;
        let disk = disk.borrow();
        let entries = disk.visible.directory(&normal(&path)).ok_or_else(|| os_error(libc::ENOENT))?;
        Ok(entries.keys().map(|name| path.join(name)).collect())
    })
    .await
}

pub(crate) async fn space(path: &Path) -> io::Result<Space> {
    let call = Call::new();
    let path = path.to_owned();
    call.run(move |world, disk| {
        fault(world, disk, DiskCall::List, &path)?;
        let (disk, path) = (disk.borrow(), normal(&path));
        disk.visible.directory(&path).ok_or_else(|| os_error(libc::ENOENT))?;
        let below = disk.visible.files().filter(|(file, _)| file.starts_with(&path));
        let used = below.map(|(_, file)| file.borrow().len()).sum();
        Ok(Space { used, free: disk.size.saturating_sub(disk.used.get()), disk: 0 })
    })
    .await
}

pub(crate) async fn read_small(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let call = Call::new();
    let name = name_of(path)?;
    let path = path.to_owned();
    call.run(move |world, disk| {
        fault(world, disk, DiskCall::Read, &path)?;
        let content = file_at(&disk.borrow(), &name)?;
        let content = content.borrow();
        if content.len() > limit as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is longer than its limit"));
        }
        Ok(content.contents())
    })
    .await
}

pub(crate) async fn replace_small(path: &Path, contents: &[u8]) -> io::Result<()> {
    let call = Call::new();
    let target = name_of(path)?;
    let mut temporary = target.name.clone();
    temporary.push(".tmp");
    let temporary = target.directory.join(temporary);
    // Removing what an earlier call left is equivalent to truncating it, because nobody reads it.
    match remove(&temporary).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::open(&temporary, OpenOptions { write: true, create: true, exclusive: false }).await?;
    write(&call, &file.opened, contents, 0, false).await?;
    sync(&call, &file.opened).await?;
    rename_on(&call, &temporary, path).await?;
    sync_directory(&call, &target.directory).await
}

/// The lock of a path by the running node, released when this is dropped or the node dies.
pub(crate) struct Lock {
    caller: Caller,
    disk: Rc<RefCell<Disk>>,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.caller.node.alive.get() {
            self.disk.borrow_mut().locks.remove(&self.path);
        }
    }
}

pub(crate) async fn lock(path: &Path) -> io::Result<Lock> {
    let options = OpenOptions { write: true, create: true, exclusive: false };
    let file = File::open(path, options).await?;
    let call = Call::new();
    let caller = call.caller.clone();
    call.run(move |_, disk| {
        let path = file.opened.path.clone();
        if !caller.node.alive.get() {
            return Err(os_error(libc::EINTR));
        }
        if !disk.borrow_mut().locks.insert(path.clone()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Lock { caller, disk: disk.clone(), path })
    })
    .await
}
