//! Directories, small files and locks, by blocking calls on helper threads.

use super::helper_pool;
use crate::file_types::Space;
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Converts a path for the system. `InvalidInput` if it contains a NUL byte.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a NUL byte"))
}

pub(crate) async fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = path.to_path_buf();
    helper_pool::run(move || std::fs::canonicalize(path)).await
}

pub(crate) async fn list_dir(path: &Path) -> io::Result<Vec<PathBuf>> {
    let path = path.to_path_buf();
    helper_pool::run(move || {
        let mut paths = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    })
    .await
}

pub(crate) async fn space(path: &Path) -> io::Result<Space> {
    let path = path.to_path_buf();
    helper_pool::run(move || {
        let disk = std::fs::metadata(&path)?.dev();
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
        Ok(Space { used, free: free.unwrap_or_default(), disk })
    })
    .await
}

/// The free bytes of the disk that a directory is on.
#[expect(unsafe_code, reason = "statvfs(3) has no safe wrapper here")]
fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = c_path(path)?;
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
    helper_pool::run(move || {
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
    helper_pool::run(move || {
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
    helper_pool::run(move || {
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
