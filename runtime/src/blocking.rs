//! Blocking calls on files and directories for command line tools. A shard uses [`crate::file`] instead.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the seam itself")]

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The longest file that [`read`] accepts, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// A file open for reading at any offset.
#[derive(Debug)]
pub struct BlockingFile(File);

impl BlockingFile {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<BlockingFile> {
        File::open(path).map(BlockingFile)
    }

    /// The file's length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Reads exactly `len` bytes from `offset`; `UnexpectedEof` if there are fewer.
    pub fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

/// Reads a whole file; `InvalidData` if it is longer than [`FILE_BYTES_MAX`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Lists a directory, sorted by name: each entry's path, and whether it is a directory.
pub fn list(directory: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        found.push((entry.path(), entry.file_type()?.is_dir()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a file or directory exists.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// The absolute path without symbolic links, `.` and `..`.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// Removes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Seconds since 1970 by the system's clock.
pub fn now_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_at_any_offset() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let all = read(&manifest).expect("readable");
        let file = BlockingFile::open(&manifest).expect("opens");
        assert_eq!(file.len().expect("a length"), all.len() as u64);
        assert_eq!(file.read_at(3, 5).expect("readable"), &all[3..8]);
        assert!(file.read_at(all.len() as u64, 1).is_err());
        let listed = list(manifest.parent().expect("a directory")).expect("listed");
        assert!(listed.iter().any(|(path, directory)| *path == manifest && !directory));
        assert!(exists(&manifest) && now_seconds() > 0);
    }
}
