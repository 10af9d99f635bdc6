//! Files and directories for programs that run without shards: plain calls that block. Never for a shard.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the seam itself")]

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most bytes that [`read`] reads of one file.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// A file open for reading at any place.
#[derive(Debug)]
pub struct BlockingFile(File);

impl BlockingFile {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<BlockingFile> {
        File::open(path).map(BlockingFile)
    }

    /// Its length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Exactly `len` bytes from a place on; `UnexpectedEof` if there are fewer.
    pub fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

/// All bytes of a file; `InvalidData` if there are more than [`FILE_BYTES_MAX`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// What is in a directory, sorted by name: paths, and whether each is a directory itself.
pub fn list(directory: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        found.push((entry.path(), entry.file_type()?.is_dir()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether there is a file or directory.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// The path without links and relative parts.
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
    fn files_are_read_at_any_place() {
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
