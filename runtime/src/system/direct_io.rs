//! Rules of direct I/O: alignment of arguments, and the meaning of errors.

use crate::buffer::{ALIGNMENT, AlignedBuf};
use std::cell::Cell;
use std::io;
use std::os::fd::RawFd;

/// `InvalidInput` unless length and offset are multiples of [`ALIGNMENT`].
pub(crate) fn check(buffer: &AlignedBuf, offset: u64) -> io::Result<()> {
    if !buffer.len().is_multiple_of(ALIGNMENT) || !offset.is_multiple_of(ALIGNMENT as u64) {
        let text = "direct I/O needs offsets and lengths that are multiples of 4096";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// `InvalidInput` unless trimming a file of `now` bytes to `len` cuts less than a page.
pub(crate) fn check_trim(now: u64, len: u64) -> io::Result<()> {
    if len > now || now - len >= ALIGNMENT as u64 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a trim cuts less than a page"));
    }
    Ok(())
}

/// Whether a sync or durable write of a file has failed, after which every call on the file fails.
#[derive(Default)]
pub(crate) struct Poison(Cell<bool>);

impl Poison {
    pub(crate) fn set(&self) {
        self.0.set(true);
    }

    /// Fails if the file is poisoned.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.0.get() { Err(io::Error::other("an earlier sync of this file failed")) } else { Ok(()) }
    }
}

/// Whether the error of a durable write means that the system refused it, rather than that the device failed.
pub(crate) fn is_refusal(e: i32) -> bool {
    matches!(
        e,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EINVAL | libc::EBADF | libc::ENOMEM | libc::EOPNOTSUPP
    )
}

/// The length of an open file in bytes.
pub(crate) fn len(descriptor: RawFd) -> io::Result<u64> {
    Ok(stat(descriptor)?.st_size as u64)
}

/// The device that an open file is on.
#[cfg(feature = "glommio")]
pub(crate) fn device(descriptor: RawFd) -> io::Result<u64> {
    Ok(stat(descriptor)?.st_dev)
}

#[expect(unsafe_code, reason = "fstat has no safe wrapper here")]
fn stat(descriptor: RawFd) -> io::Result<libc::stat> {
    // SAFETY: a stat is plain bytes, which the call writes.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &mut stat) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stat)
    }
}
