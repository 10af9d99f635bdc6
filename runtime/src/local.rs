//! Talking to a node of this machine through a Unix socket.
//!
//! The node listens with [`crate::Listener::bind_local`] in one of the [`directories`]; a command line tool sends it a
//! request with [`exchange`].

use crate::system::unix_socket;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directories that may hold sockets of the current user, the preferred one first: `$XDG_RUNTIME_DIR/NAME` if the
/// session has such a directory, then `/tmp/NAME-UID`.
pub fn directories(name: &str) -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_absolute() && path.is_dir()).map(|path| path.join(name));
    let fallback = PathBuf::from(format!("/tmp/{name}-{}", unix_socket::user()));
    session.into_iter().chain([fallback]).collect()
}

/// Sends `request` to the process that listens at `path` and reads its answer to the end. The sending direction stays
/// open, so that its end tells the other side that nobody waits for the answer any more. Blocks, so it is not for
/// shards. `PermissionDenied` if the directory or the listener is not the current user's, `InvalidData` if the answer
/// is longer than `answer_bytes_max`.
pub fn exchange(path: &Path, request: &[u8], answer_bytes_max: u64) -> io::Result<Vec<u8>> {
    if let Some(directory) = path.parent() {
        unix_socket::check(directory)?;
    }
    let mut stream = UnixStream::connect(path)?;
    if !unix_socket::is_friend(&stream) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's process listens there"));
    }
    stream.set_write_timeout(Some(SEND_MAX))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let read = stream.take(answer_bytes_max + 1).read_to_end(&mut answer)?;
    if read as u64 > answer_bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("an answer of more than {answer_bytes_max} bytes"),
        ));
    }
    Ok(answer)
}

/// How long sending a request may take. The answer may take as long as the work that it reports.
const SEND_MAX: Duration = Duration::from_secs(10);
