//! Blocking calls on files and directories, and other programs, for command line tools and helper threads. A shard uses
//! [`crate::file`] instead.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the seam itself")]

use std::fs::File;
use std::io::{self, Read, Write};
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

/// Appends all of these bytes to a file, or none if the disk is full or fails. The file is made with its directory if
/// it is not there. Nobody else may append to it meanwhile.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    let before = file.metadata()?.len();
    write_whole(&mut file, bytes, |file| file.set_len(before))
}

/// Writes all bytes, or takes back what could be written of them.
fn write_whole<F: Write>(
    file: &mut F,
    bytes: &[u8],
    take_back: impl FnOnce(&mut F) -> io::Result<()>,
) -> io::Result<()> {
    file.write_all(bytes).or_else(|error| take_back(file).and(Err(error)))
}

/// Removes files of a directory whose names begin with `prefix` and a `-` and end with `suffix`, those first that come
/// first by name, until at most `bytes_max` are left. A directory that is not there has none.
pub fn remove_oldest(directory: &Path, prefix: &str, suffix: &str, bytes_max: u64) -> io::Result<()> {
    let listed = match list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    let mut files = Vec::new();
    for (path, is_directory) in listed {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_one = name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-')) && name.ends_with(suffix);
        if is_one && !is_directory {
            files.push((std::fs::metadata(&path)?.len(), path));
        }
    }
    let mut left: u64 = files.iter().map(|(bytes, _)| bytes).sum();
    for (bytes, path) in files {
        if left <= bytes_max {
            break;
        }
        std::fs::remove_file(path)?;
        left -= bytes;
    }
    Ok(())
}

/// A program that was started.
#[derive(Debug)]
pub struct RunningCommand {
    program: String,
    child: std::process::Child,
}

impl RunningCommand {
    /// Starts a program with its arguments, without input.
    pub fn start(words: &[String]) -> io::Result<RunningCommand> {
        let Some((program, arguments)) = words.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let child = std::process::Command::new(program).args(arguments).stdin(std::process::Stdio::null()).spawn()?;
        Ok(RunningCommand { program: program.clone(), child })
    }

    /// Whether the program has ended; does not block. An exit code other than 0 is an error.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        match self.child.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(io::Error::other(format!("{}: {status}", self.program))),
        }
    }
}

/// Waits for a time.
pub fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
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

    #[test]
    fn files_are_appended_to_and_the_oldest_removed() {
        let directory = std::env::temp_dir().join(format!("helenus-blocking-{}", std::process::id()));
        let file = |name: &str| directory.join(name);
        for name in ["fql-1.0.jsonl", "fql-2.0.jsonl", "fql-3.1.jsonl", "other-0.0.jsonl"] {
            append(&file(name), b"12345").expect("written");
            append(&file(name), b"67890").expect("written");
        }
        assert_eq!(read(&file("fql-1.0.jsonl")).expect("readable"), b"1234567890");
        remove_oldest(&directory, "fql", ".0.jsonl", 10).expect("removed");
        assert!(!exists(&file("fql-1.0.jsonl")) && exists(&file("fql-2.0.jsonl")) && exists(&file("fql-3.1.jsonl")));
        remove_oldest(&directory, "fql", ".0.jsonl", 9).expect("removed");
        remove_oldest(&directory, "fql", ".jsonl", 0).expect("removed");
        assert_eq!(list(&directory).expect("listed").len(), 1, "files of others stay");
        std::fs::remove_dir_all(&directory).expect("removed");
        remove_oldest(&directory, "fql", ".jsonl", 0).expect("nothing to remove");
    }

    #[test]
    fn what_cannot_be_appended_whole_is_taken_back() {
        struct FullDisk(Vec<u8>);
        impl Write for FullDisk {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                match bytes.len().min(8 - self.0.len()) {
                    0 => Err(io::ErrorKind::StorageFull.into()),
                    some => self.0.write(&bytes[..some]),
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut disk = FullDisk(b"12345".to_vec());
        let take_back = |disk: &mut FullDisk| {
            disk.0.truncate(5);
            Ok(())
        };
        let refused = write_whole(&mut disk, b"6789", take_back).expect_err("full");
        assert_eq!((refused.kind(), &*disk.0), (io::ErrorKind::StorageFull, &b"12345"[..]));
        write_whole(&mut disk, b"678", take_back).expect("room");
        assert_eq!(disk.0, b"12345678");
    }

    #[test]
    fn a_command_runs_beside_its_starter() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let end = |mut command: RunningCommand| loop {
            match command.has_ended() {
                Ok(false) => std::thread::yield_now(),
                ended => return ended,
            }
        };
        assert!(end(RunningCommand::start(&words("true")).expect("starts")).expect("0"));
        let failed = end(RunningCommand::start(&words("false")).expect("starts")).expect_err("1");
        assert_eq!(failed.to_string(), "false: exit status: 1");
        let mut lasting = RunningCommand::start(&words("sleep 60")).expect("starts");
        assert!(!lasting.has_ended().expect("runs"));
        lasting.child.kill().expect("killed");
        end(lasting).expect_err("a signal");
        assert!(RunningCommand::start(&[]).is_err());
    }
}
