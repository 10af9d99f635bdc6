//! Files and directories through the ring, with direct I/O.
//!
//! Invariants: the slot of an operation owns its buffer and keeps the descriptor open until it completes; after a
//! failed sync or durable write every call on that file fails.

use super::operations::Payload;
use super::reactor;
use super::socket::Descriptor;
use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::file_types::OpenOptions;
use crate::gate::Permit;
use crate::system::admission::permit;
use crate::system::blocking_files::c_path;
use crate::system::direct_io::{self, Poison};
use crate::system::helper_pool;
use io_uring::{opcode, types};
use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

/// Permission bits of new files and directories, before the umask.
const FILE_MODE: libc::mode_t = 0o644;
const DIRECTORY_MODE: libc::mode_t = 0o755;
/// The most bytes of one read or write; the rest follows in the next.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

pub(crate) struct File {
    state: Rc<FileState>,
}

struct FileState {
    descriptor: Descriptor,
    poison: Poison,
}

struct Transfer {
    state: Rc<FileState>,
    buffer: AlignedBuf,
    /// Here, so that the operation counts until it completes, even if its future is dropped.
    _permit: Permit,
}

impl Payload for Transfer {}

struct Syncing {
    state: Rc<FileState>,
    _permit: Permit,
}

impl Payload for Syncing {}

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
            // The file system has no direct I/O, which it reports after creating the file, so an existing file is ours.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => open(path, flags & !libc::O_EXCL).await?,
            other => other?,
        };
        let descriptor = Descriptor::new(opened, reactor::current());
        Ok(File { state: Rc::new(FileState { descriptor, poison: Poison::default() }) })
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
                    // A read that is not a whole number of blocks has reached the end of the file.
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
                    if durable && !direct_io::is_refusal(-e) {
                        self.state.poison.set();
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
        direct_io::check_trim(now, len)?;
        // SAFETY: the descriptor is open while `self` is.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.state.descriptor.raw()) };
        // The helper needs a descriptor of its own, because it goes on if this future is dropped.
        let file = std::fs::File::from(descriptor.try_clone_to_owned()?);
        helper_pool::run(move || file.set_len(len)).await
    }

    pub(crate) async fn len(&self) -> io::Result<u64> {
        self.usable()?;
        direct_io::len(self.state.descriptor.raw())
    }

    fn usable(&self) -> io::Result<()> {
        self.state.poison.check()
    }

    fn check(&self, buffer: &AlignedBuf, offset: u64) -> io::Result<()> {
        self.usable()?;
        direct_io::check(buffer, offset)
    }
}

/// Whether a result only asks to try again.
fn is_passing(result: i32) -> bool {
    result == -libc::EINTR || result == -libc::EAGAIN
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
        // The system may have dropped what it could not write, so a second sync would succeed without meaning.
        state.poison.set();
        return Err(io::Error::from_raw_os_error(-done.result));
    }
    Ok(())
}

/// The paths of an operation: one, or two.
struct Names(CString, Option<CString>);

impl Payload for Names {}

struct Opening(CString);

impl Payload for Opening {
    const RETURNS_DESCRIPTOR: bool = true;
}

const HERE: types::Fd = types::Fd(libc::AT_FDCWD);

#[expect(unsafe_code, reason = "see Core::single")]
async fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
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
    let names = Names(c_path(from)?, Some(c_path(to)?));
    on_names(names, |names| {
        let to = names.1.as_ref().map_or(std::ptr::null(), |to| to.as_ptr());
        opcode::RenameAt::new(HERE, names.0.as_ptr(), HERE, to).build()
    })
    .await
}

pub(crate) async fn link(from: &Path, to: &Path) -> io::Result<()> {
    let names = Names(c_path(from)?, Some(c_path(to)?));
    on_names(names, |names| {
        let to = names.1.as_ref().map_or(std::ptr::null(), |to| to.as_ptr());
        opcode::LinkAt::new(HERE, names.0.as_ptr(), HERE, to).build()
    })
    .await
}

pub(crate) async fn remove_dir(path: &Path) -> io::Result<()> {
    on_names(Names(c_path(path)?, None), |names| {
        opcode::UnlinkAt::new(HERE, names.0.as_ptr()).flags(libc::AT_REMOVEDIR).build()
    })
    .await
}

pub(crate) async fn remove(path: &Path) -> io::Result<()> {
    on_names(Names(c_path(path)?, None), |names| opcode::UnlinkAt::new(HERE, names.0.as_ptr()).build()).await
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

/// Creates one directory durably; succeeds if it exists.
async fn create_dir(path: &Path) -> io::Result<()> {
    let made = on_names(Names(c_path(path)?, None), |names| {
        opcode::MkDirAt::new(HERE, names.0.as_ptr()).mode(DIRECTORY_MODE).build()
    })
    .await;
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            // Fails if something other than a directory has the name.
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
    let state = Rc::new(FileState { descriptor, poison: Poison::default() });
    sync(&state, types::FsyncFlags::empty()).await
}
