//! Files through the ring: O_DIRECT reads and writes, durable writes, syncs, names; blocking calls on helper threads.
//!
//! Invariants: buffer and descriptor of an operation live in its slot until it completes; after a failed sync or a
//! failed durable write every call on that file fails.

use super::helper;
use super::operations::Payload;
use super::reactor;
use super::socket::Descriptor;
use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::context;
use crate::executor::CLASSES;
use crate::file::{OpenOptions, Space};
use crate::gate::{Permit, Semaphore};
use io_uring::{opcode, types};
use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Permission bits of new files and directories, before the umask.
const FILE_MODE: libc::mode_t = 0o644;
const DIRECTORY_MODE: libc::mode_t = 0o755;
/// Bytes of one read or write; what is left follows in the next.
const TRANSFER_BYTES_MAX: usize = 1 << 30;
/// Reads, writes and syncs under way at once per shard and class (foreground, log, flush, streaming, background); more
/// wait in line, so that background work cannot fill the device's queue.
const IN_FLIGHT_MAX: [u64; CLASSES] = [256, 64, 32, 32, 32];

pub(crate) struct File {
    state: Rc<FileState>,
}

struct FileState {
    descriptor: Descriptor,
    poisoned: Cell<bool>,
}

struct Transfer {
    state: Rc<FileState>,
    buffer: AlignedBuf,
    /// In the slot, so that a dropped future's operation counts until it completes.
    _permit: Permit,
}

impl Payload for Transfer {}

struct Syncing {
    state: Rc<FileState>,
    _permit: Permit,
}

impl Payload for Syncing {}

/// The line per class that operations wait in.
pub(super) struct Admission([Semaphore; CLASSES]);

impl Default for Admission {
    fn default() -> Admission {
        Admission(IN_FLIGHT_MAX.map(Semaphore::new))
    }
}

/// A place among the operations of the current task's class.
async fn permit() -> Permit {
    let class = context::with(|c| c.executor.last_polled().class());
    let line = reactor::current().admission.0[class as usize].clone();
    line.acquire(1).await
}

impl File {
    pub(crate) async fn open(path: &Path, options: OpenOptions) -> io::Result<File> {
        let mut flags = if options.write { libc::O_RDWR } else { libc::O_RDONLY } | libc::O_CLOEXEC;
        if options.create {
            flags |= libc::O_CREAT;
        }
        if options.create && options.exclusive {
            flags |= libc::O_EXCL;
        }
        let opened = match open(path, flags | libc::O_DIRECT).await {
            // This file system has no direct I/O. It says so after creating the file: the one that exists now is ours.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => open(path, flags & !libc::O_EXCL).await?,
            other => other?,
        };
        let descriptor = Descriptor::new(opened, reactor::current());
        Ok(File { state: Rc::new(FileState { descriptor, poisoned: Cell::new(false) }) })
    }

    #[expect(unsafe_code, reason = "see Core::single")]
    pub(crate) async fn read_at(&self, mut buffer: AlignedBuf, offset: u64) -> (io::Result<usize>, AlignedBuf) {
        if let Err(e) = self.check(&buffer, offset) {
            return (Err(e), buffer);
        }
        let wanted = buffer.len();
        let mut at = 0;
        loop {
            let payload = Transfer { state: self.state.clone(), buffer, _permit: permit().await };
            // SAFETY: the payload owns the buffer and keeps the descriptor open.
            let read = unsafe {
                self.state.descriptor.core().single(payload, |p| {
                    let rest = &mut p.buffer[at..];
                    let len = rest.len().min(TRANSFER_BYTES_MAX) as u32;
                    let entry = opcode::Read::new(p.state.descriptor.target(), rest.as_mut_ptr(), len);
                    entry.offset(offset + at as u64).build()
                })
            };
            let done = read.await;
            buffer = done.payload.buffer;
            match done.result {
                e if is_passing(e) => continue,
                e if e < 0 => return (Err(io::Error::from_raw_os_error(-e)), buffer),
                n => {
                    at += n as usize;
                    // A piece that is not a whole number of blocks ends at the end of the file.
                    if n == 0 || at == wanted || !(n as usize).is_multiple_of(ALIGNMENT) {
                        return (Ok(at), buffer);
                    }
                }
            }
        }
    }

    #[expect(unsafe_code, reason = "see Core::single")]
    pub(crate) async fn write_at(
        &self,
        mut buffer: AlignedBuf,
        offset: u64,
        durable: bool,
    ) -> (io::Result<()>, AlignedBuf) {
        if let Err(e) = self.check(&buffer, offset) {
            return (Err(e), buffer);
        }
        let wanted = buffer.len();
        let mut at = 0;
        while at < wanted {
            let payload = Transfer { state: self.state.clone(), buffer, _permit: permit().await };
            // SAFETY: the payload owns the buffer and keeps the descriptor open.
            let write = unsafe {
                self.state.descriptor.core().single(payload, |p| {
                    let rest = &p.buffer[at..];
                    let len = rest.len().min(TRANSFER_BYTES_MAX) as u32;
                    let entry = opcode::Write::new(p.state.descriptor.target(), rest.as_ptr(), len);
                    let entry = entry.rw_flags(if durable { libc::RWF_DSYNC } else { 0 });
                    entry.offset(offset + at as u64).build()
                })
            };
            let done = write.await;
            buffer = done.payload.buffer;
            match done.result {
                e if is_passing(e) => continue,
                0 => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                e if e < 0 => {
                    if durable && !is_refusal(-e) {
                        self.state.poisoned.set(true);
                    }
                    return (Err(io::Error::from_raw_os_error(-e)), buffer);
                }
                n => at += n as usize,
            }
        }
        (Ok(()), buffer)
    }

    pub(crate) async fn sync(&self) -> io::Result<()> {
        self.usable()?;
        sync(&self.state, types::FsyncFlags::DATASYNC).await
    }

    #[expect(unsafe_code, reason = "see Core::single")]
    pub(crate) async fn allocate(&self, len: u64) -> io::Result<()> {
        self.usable()?;
        loop {
            let payload = Syncing { state: self.state.clone(), _permit: permit().await };
            // SAFETY: the payload keeps the descriptor open.
            let allocate = unsafe {
                self.state.descriptor.core().single(payload, |p| {
                    opcode::Fallocate::new(p.state.descriptor.target(), len).offset(0).mode(0).build()
                })
            };
            match allocate.await.result {
                e if is_passing(e) => {}
                e if e < 0 => return Err(io::Error::from_raw_os_error(-e)),
                _ => return Ok(()),
            }
        }
    }

    #[expect(unsafe_code, reason = "the descriptor is registered by number")]
    pub(crate) async fn trim(&self, len: u64) -> io::Result<()> {
        self.usable()?;
        let now = self.len().await?;
        if len > now || now - len >= ALIGNMENT as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a trim cuts less than a page"));
        }
        // SAFETY: the descriptor is open while `self` is.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.state.descriptor.raw()) };
        // The helper has a descriptor of its own: it goes on if this future is dropped.
        let file = std::fs::File::from(descriptor.try_clone_to_owned()?);
        on_helper(move || file.set_len(len)).await
    }

    #[expect(unsafe_code, reason = "fstat has no safe wrapper here")]
    pub(crate) async fn len(&self) -> io::Result<u64> {
        self.usable()?;
        // SAFETY: a stat is plain bytes, which the call writes; the descriptor is open.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(self.state.descriptor.raw(), &mut stat) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(stat.st_size as u64)
        }
    }

    fn usable(&self) -> io::Result<()> {
        if self.state.poisoned.get() {
            return Err(io::Error::other("an earlier sync of this file failed"));
        }
        Ok(())
    }

    fn check(&self, buffer: &AlignedBuf, offset: u64) -> io::Result<()> {
        self.usable()?;
        if !buffer.len().is_multiple_of(ALIGNMENT) || !offset.is_multiple_of(ALIGNMENT as u64) {
            let text = "direct I/O needs offsets and lengths that are multiples of 4096";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(())
    }
}

/// Whether a result says no more than "again".
fn is_passing(result: i32) -> bool {
    result == -libc::EINTR || result == -libc::EAGAIN
}

/// Whether a failed durable write says that nothing was tried, rather than that the device failed.
fn is_refusal(e: i32) -> bool {
    matches!(
        e,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EINVAL | libc::EBADF | libc::ENOMEM | libc::EOPNOTSUPP
    )
}

#[expect(unsafe_code, reason = "see Core::single")]
async fn sync(state: &Rc<FileState>, flags: types::FsyncFlags) -> io::Result<()> {
    let payload = Syncing { state: state.clone(), _permit: permit().await };
    let core = state.descriptor.core();
    // SAFETY: the entry names only the descriptor, which the payload keeps open.
    let syncing =
        unsafe { core.single(payload, |p| opcode::Fsync::new(p.state.descriptor.target()).flags(flags).build()) };
    let done = syncing.await;
    if done.result < 0 {
        // The system may have dropped what it could not write: trying again would succeed and mean nothing.
        state.poisoned.set(true);
        return Err(io::Error::from_raw_os_error(-done.result));
    }
    Ok(())
}

/// One path, or two.
struct Names(CString, Option<CString>);

impl Payload for Names {}

struct Opening(CString);

impl Payload for Opening {
    const RETURNS_DESCRIPTOR: bool = true;
}

fn name(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a NUL byte"))
}

const HERE: types::Fd = types::Fd(libc::AT_FDCWD);

#[expect(unsafe_code, reason = "see Core::single")]
async fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let path = name(path)?;
    loop {
        let payload = Opening(path.clone());
        let core = reactor::current();
        // SAFETY: the path lies in the payload.
        let opening = unsafe {
            core.single(payload, |p| opcode::OpenAt::new(HERE, p.0.as_ptr()).flags(flags).mode(FILE_MODE).build())
        };
        let done = opening.await;
        match done.descriptor {
            Some(descriptor) => return Ok(descriptor),
            None if is_passing(done.result) => {}
            None => return Err(io::Error::from_raw_os_error(-done.result)),
        }
    }
}

#[expect(unsafe_code, reason = "see Core::single")]
async fn on_names(names: Names, entry: impl FnOnce(&mut Names) -> io_uring::squeue::Entry) -> io::Result<()> {
    // SAFETY: the callers build entries that point to the names, which lie in the payload.
    let running = unsafe { reactor::current().single(names, entry) };
    match running.await.result {
        e if e < 0 => Err(io::Error::from_raw_os_error(-e)),
        _ => Ok(()),
    }
}

pub(crate) async fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let names = Names(name(from)?, Some(name(to)?));
    on_names(names, |names| {
        let to = names.1.as_ref().map_or(std::ptr::null(), |to| to.as_ptr());
        opcode::RenameAt::new(HERE, names.0.as_ptr(), HERE, to).build()
    })
    .await
}

pub(crate) async fn link(from: &Path, to: &Path) -> io::Result<()> {
    let names = Names(name(from)?, Some(name(to)?));
    on_names(names, |names| {
        let to = names.1.as_ref().map_or(std::ptr::null(), |to| to.as_ptr());
        opcode::LinkAt::new(HERE, names.0.as_ptr(), HERE, to).build()
    })
    .await
}

pub(crate) async fn remove_dir(path: &Path) -> io::Result<()> {
    on_names(Names(name(path)?, None), |names| {
        opcode::UnlinkAt::new(HERE, names.0.as_ptr()).flags(libc::AT_REMOVEDIR).build()
    })
    .await
}

pub(crate) async fn remove(path: &Path) -> io::Result<()> {
    on_names(Names(name(path)?, None), |names| opcode::UnlinkAt::new(HERE, names.0.as_ptr()).build()).await
}

pub(crate) async fn create_dir_all(path: &Path) -> io::Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    let mut next = Some(path).filter(|path| !path.as_os_str().is_empty());
    while let Some(directory) = next {
        match create_dir(directory).await {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                missing.push(directory);
                next = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
                if next.is_none() {
                    return Err(e);
                }
            }
            result => {
                result?;
                break;
            }
        }
    }
    while let Some(directory) = missing.pop() {
        create_dir(directory).await?;
    }
    Ok(())
}

/// Creates one directory, durably; no error if it is there already.
async fn create_dir(path: &Path) -> io::Result<()> {
    let made = on_names(Names(name(path)?, None), |names| {
        opcode::MkDirAt::new(HERE, names.0.as_ptr()).mode(DIRECTORY_MODE).build()
    })
    .await;
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            // An error if something else than a directory has the name.
            open(path, libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC).await.map(drop)
        }
        Ok(()) => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent).await,
            _ => sync_dir(Path::new(".")).await,
        },
        made => made,
    }
}

pub(crate) async fn sync_dir(path: &Path) -> io::Result<()> {
    let opened = open(path, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC).await?;
    let descriptor = Descriptor::new(opened, reactor::current());
    let state = Rc::new(FileState { descriptor, poisoned: Cell::new(false) });
    sync(&state, types::FsyncFlags::empty()).await
}

/// Runs a blocking call on a helper thread.
pub(super) async fn on_helper<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let call = helper::call(&reactor::current().node.helpers, call);
    call.await
}

pub(crate) async fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = path.to_path_buf();
    on_helper(move || std::fs::canonicalize(path)).await
}

pub(crate) async fn list_dir(path: &Path) -> io::Result<Vec<PathBuf>> {
    let path = path.to_path_buf();
    on_helper(move || {
        let mut paths = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    })
    .await
}

pub(crate) async fn space(path: &Path) -> io::Result<Space> {
    let path = path.to_path_buf();
    on_helper(move || {
        let (mut used, mut free) = (0, None);
        let mut directories = vec![path];
        while let Some(directory) = directories.pop() {
            let entries = match std::fs::read_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && free.is_some() => continue,
                entries => entries?,
            };
            if free.is_none() {
                free = Some(free_bytes(&directory)?);
            }
            for entry in entries {
                let entry = entry?;
                match entry.metadata() {
                    Ok(found) if found.is_dir() => directories.push(entry.path()),
                    Ok(found) => used += found.len(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Space { used, free: free.unwrap_or_default() })
    })
    .await
}

/// Bytes that the disk of a directory has room for.
#[expect(unsafe_code, reason = "statvfs(3) has no safe wrapper here")]
fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = name(path)?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the call fills the structure unless it fails.
    let found = unsafe {
        if libc::statvfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        found.assume_init()
    };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

pub(crate) async fn read_small(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let path = path.to_path_buf();
    on_helper(move || {
        let mut contents = Vec::new();
        let mut file = io::Read::take(std::fs::File::open(path)?, limit as u64 + 1);
        io::Read::read_to_end(&mut file, &mut contents)?;
        if contents.len() > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {limit} bytes")));
        }
        Ok(contents)
    })
    .await
}

pub(crate) async fn replace_small(path: &Path, contents: &[u8]) -> io::Result<()> {
    let (path, contents) = (path.to_path_buf(), contents.to_vec());
    on_helper(move || {
        let mut temporary = path.clone().into_os_string();
        temporary.push(".tmp");
        let mut file = std::fs::File::create(&temporary)?;
        io::Write::write_all(&mut file, &contents)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(parent)?.sync_all()
    })
    .await
}

pub(crate) struct Lock {
    _locked: std::fs::File,
}

pub(crate) async fn lock(path: &Path) -> io::Result<Lock> {
    let path = path.to_path_buf();
    on_helper(move || {
        let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        flock(&file)?;
        Ok(Lock { _locked: file })
    })
    .await
}

#[expect(unsafe_code, reason = "flock(2), which other programs see, has no safe wrapper here")]
fn flock(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
