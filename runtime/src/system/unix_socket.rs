//! Unix sockets that only programs of the same user, or root, can use.
//!
//! 1. The socket's directory belongs to the user and has mode 0700; it is created if missing and refused otherwise.
//! 2. A socket that nobody answers on was left by a killed process and is replaced; one that answers is not.
//! 3. The socket gets mode 0600, and only peers of the same user or root are accepted.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Permission bits of the directory and of the sockets in it.
const DIRECTORY_MODE: u32 = 0o700;
const SOCKET_MODE: u32 = 0o600;

/// Creates a listening socket at `path`. `AddrInUse` if another process listens there; `PermissionDenied` if the
/// directory is not the user's, or open to others.
pub(crate) fn bind(path: &Path) -> io::Result<OwnedFd> {
    let directory = path.parent().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check(directory)?;
    match UnixStream::connect(path) {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener.into())
}

/// `PermissionDenied` unless `directory` is a directory of this user that is closed to all others.
pub(crate) fn check(directory: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != user() || found.mode() & 0o077 != 0 {
        let text = format!("{} is not a directory of this user with mode 0700", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// The effective user of this process.
#[expect(unsafe_code, reason = "geteuid has no safe wrapper here")]
pub(crate) fn user() -> u32 {
    // SAFETY: the call takes and changes nothing.
    unsafe { libc::geteuid() }
}

/// Whether the process at the other end runs as this user or root.
#[expect(unsafe_code, reason = "getsockopt has no safe wrapper here")]
pub(crate) fn is_friend(socket: &impl AsRawFd) -> bool {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let pointer = (&raw mut credentials).cast();
    // SAFETY: the call writes at most `length` bytes to a `ucred`, which is plain numbers.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, pointer, &mut length) };
    result == 0 && (credentials.uid == user() || credentials.uid == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(bind(&open.join("a")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert_eq!(bind(&link.join("a")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_socket_that_was_left_gives_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own/a.sock");
        let first = bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (SOCKET_MODE, DIRECTORY_MODE));
        drop(first);
        assert!(path.exists());
        let peer = bind(&path).map(|_listening| UnixStream::connect(&path).unwrap()).unwrap();
        assert!(is_friend(&peer));
    }
}
