//! Files through glommio, with direct I/O.
//!
//! glommio transfers only to and from its own buffers, so every transfer copies. It has no `RWF_DSYNC`, so a durable
//! write is a write and a sync.
//!
//! Invariants: the task of an operation owns its buffer and keeps the file open until it completes; after a failed sync
//! or durable write every call on that file fails.

use super::core::{self, Core};
pub(crate) use super::directory::{create_dir_all, link, remove, remove_dir, rename, sync_dir};
use super::error;
use crate::buffer::{ALIGNMENT, AlignedBuf};
use crate::file_types;
use crate::system::admission::permit;
use crate::system::blocking_files::c_path;
use crate::system::direct_io::{self, Poison};
use ::glommio::io::{BufferedFile, DmaFile, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::rc::Rc;

/// Permission bits of new files, before the umask.
const FILE_MODE: libc::mode_t = 0o644;
/// The most bytes of one read or write, the size of a glommio buffer; the rest follows in the next.
const TRANSFER_BYTES_MAX: usize = 1 << 20;

pub(crate) struct File {
    state: Rc<FileState>,
}

struct FileState {
    file: DmaFile,
    poison: Poison,
}

impl File {
    pub(crate) async fn open(path: &Path, options: file_types::OpenOptions) -> io::Result<File> {
        c_path(path)?;
        let path = path.to_path_buf();
        let core = core::current();
        let opened = core.clone().start(async move {
            let mut how = OpenOptions::new();
            how.read(true).write(options.write).mode(FILE_MODE);
            how.create(options.create).create_new(options.create && options.exclusive);
            let named = how.buffered_open(&path).await.map_err(error)?;
            // To open a file for direct I/O glommio looks it up by name again, and panics if it is gone. The name of
            // the open descriptor stays.
            probe(&core, &named, &path).await?;
            let mut how = OpenOptions::new();
            let file = how.read(true).write(options.write).dma_open(own_name(&named)).await.map_err(error);
            named.close().await.map_err(error)?;
            file
        });
        Ok(File { state: Rc::new(FileState { file: opened.await?, poison: Poison::default() }) })
    }

    pub(crate) async fn read_at(&self, buffer: AlignedBuf, offset: u64) -> (io::Result<usize>, AlignedBuf) {
        if let Err(e) = self.check(&buffer, offset) {
            return (Err(e), buffer);
        }
        let (state, permit) = (self.state.clone(), permit().await);
        core::current()
            .start(async move {
                let mut buffer = buffer;
                let read = state.read(&mut buffer, offset).await;
                drop(permit);
                (read, buffer)
            })
            .await
    }

    pub(crate) async fn write_at(
        &self,
        buffer: AlignedBuf,
        offset: u64,
        durable: bool,
    ) -> (io::Result<()>, AlignedBuf) {
        if let Err(e) = self.check(&buffer, offset) {
            return (Err(e), buffer);
        }
        let (state, permit) = (self.state.clone(), permit().await);
        core::current()
            .start(async move {
                let mut written = state.write(&buffer, offset).await;
                if let Err(e) = &written
                    && durable
                    && !direct_io::is_refusal(e.raw_os_error().unwrap_or_default())
                {
                    state.poison.set();
                }
                if durable && written.is_ok() {
                    written = state.sync().await;
                }
                drop(permit);
                (written, buffer)
            })
            .await
    }

    pub(crate) async fn sync(&self) -> io::Result<()> {
        self.usable()?;
        let (state, permit) = (self.state.clone(), permit().await);
        core::current()
            .start(async move {
                let synced = state.sync().await;
                drop(permit);
                synced
            })
            .await
    }

    pub(crate) async fn allocate(&self, len: u64) -> io::Result<()> {
        self.usable()?;
        let (state, permit) = (self.state.clone(), permit().await);
        core::current()
            .start(async move {
                let allocated = again(async || state.file.pre_allocate(len, false).await.map_err(error)).await;
                drop(permit);
                allocated
            })
            .await
    }

    pub(crate) async fn trim(&self, len: u64) -> io::Result<()> {
        self.usable()?;
        direct_io::check_trim(self.len().await?, len)?;
        let state = self.state.clone();
        core::current().start(async move { state.file.truncate(len).await.map_err(error) }).await
    }

    pub(crate) async fn len(&self) -> io::Result<u64> {
        self.usable()?;
        // glommio would look the file up by name, and names change.
        direct_io::len(self.state.file.as_raw_fd())
    }

    fn usable(&self) -> io::Result<()> {
        self.state.poison.check()
    }

    fn check(&self, buffer: &AlignedBuf, offset: u64) -> io::Result<()> {
        self.usable()?;
        direct_io::check(buffer, offset)
    }
}

impl FileState {
    async fn read(&self, buffer: &mut AlignedBuf, offset: u64) -> io::Result<usize> {
        let wanted = buffer.len();
        let mut at = 0;
        loop {
            let len = (wanted - at).min(TRANSFER_BYTES_MAX);
            let read = again(async || self.file.read_at_aligned(offset + at as u64, len).await.map_err(error)).await?;
            let n = read.len().min(len);
            buffer[at..at + n].copy_from_slice(&read[..n]);
            at += n;
            // A read that is not a whole number of blocks has reached the end of the file.
            if n == 0 || at == wanted || !n.is_multiple_of(ALIGNMENT) {
                return Ok(at);
            }
        }
    }

    async fn write(&self, buffer: &AlignedBuf, offset: u64) -> io::Result<()> {
        let mut at = 0;
        while at < buffer.len() {
            let piece = &buffer[at..buffer.len().min(at + TRANSFER_BYTES_MAX)];
            let written = again(async || {
                let mut copy = self.file.alloc_dma_buffer(piece.len());
                copy.as_bytes_mut().copy_from_slice(piece);
                self.file.write_at(copy, offset + at as u64).await.map_err(error)
            });
            match written.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => at += n,
            }
        }
        Ok(())
    }

    async fn sync(&self) -> io::Result<()> {
        let synced = self.file.fdatasync().await.map_err(error);
        if synced.is_err() {
            // The system may have dropped what it could not write, so a second sync would succeed without meaning.
            self.poison.set();
        }
        synced
    }
}

/// A path to an open file that stays valid when the file is renamed or removed.
fn own_name(file: &BufferedFile) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Lets glommio find out, once per device, whether the device of `file` can be polled for completions.
///
/// glommio reads from the first file that is opened on a device, and if that succeeds it polls. The read of an empty
/// file or a hole succeeds without reaching the device, and later reads would fail. So it gets a file with contents.
async fn probe(core: &Core, file: &BufferedFile, path: &Path) -> io::Result<()> {
    let device = direct_io::device(file.as_raw_fd())?;
    if !core.probed.borrow().contains(&device) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Err(e) = probe_in(parent.unwrap_or(Path::new("."))).await {
            tracing::warn!("files may fail: no file to try direct I/O with beside {}: {e}", path.display());
        }
        core.probed.borrow_mut().insert(device);
    }
    Ok(())
}

async fn probe_in(directory: &Path) -> io::Result<()> {
    let mut how = OpenOptions::new();
    let file = how.read(true).write(true).tmpfile(true).buffered_open(directory).await.map_err(error)?;
    file.write_at(vec![0; ALIGNMENT], 0).await.map_err(error)?;
    file.fdatasync().await.map_err(error)?;
    let direct = OpenOptions::new().read(true).dma_open(own_name(&file)).await.map_err(error)?;
    direct.close().await.map_err(error)?;
    file.close().await.map_err(error)
}

/// Repeats a call while its error only asks to try again.
async fn again<T>(call: impl AsyncFn() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call().await {
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            result => return result,
        }
    }
}
