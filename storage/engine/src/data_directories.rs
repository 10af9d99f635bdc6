//! The node's data directories: each holds the SSTables of some shards, and the first also the commit log.
//!
//! Shard `i` of a node with `n` data directories writes its SSTables to directory `i mod n`, so every directory serves
//! about as many tokens as the others. A table has a directory of its own under each. SSTables are found in whichever
//! of them they lie: the numbers of shards and directories may change between two starts, and compactions move SSTables
//! to where their shard writes now. System tables live on shard 0, so they are in the first.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `data_file_directories`: at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataDirectories(Arc<[PathBuf]>);

impl DataDirectories {
    /// The directories in their order; `None` if there are none.
    pub fn new(paths: Vec<PathBuf>) -> Option<DataDirectories> {
        (!paths.is_empty()).then(|| DataDirectories(paths.into()))
    }

    /// The first directory, which holds the commit log and the system tables.
    pub fn first(&self) -> &Path {
        &self.0[0]
    }

    /// The directory to which a shard writes its SSTables.
    pub fn of_shard(&self, shard: u16) -> &Path {
        &self.0[usize::from(shard) % self.0.len()]
    }

    /// All directories in their order.
    pub fn all(&self) -> &[PathBuf] {
        &self.0
    }
}

impl From<PathBuf> for DataDirectories {
    fn from(path: PathBuf) -> DataDirectories {
        DataDirectories([path].into())
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for DataDirectories {
    fn from(path: &P) -> DataDirectories {
        path.as_ref().to_owned().into()
    }
}

/// As a list: `a, b`.
impl fmt::Display for DataDirectories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.0.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, path.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_take_turns_with_the_directories() {
        assert_eq!(DataDirectories::new(Vec::new()), None);
        let directories = DataDirectories::new(vec!["/a".into(), "/b".into(), "/c".into()]).expect("some");
        let of_shards: Vec<&Path> = (0..5).map(|shard| directories.of_shard(shard)).collect();
        assert_eq!(of_shards, ["/a", "/b", "/c", "/a", "/b"].map(Path::new));
        assert_eq!((directories.first(), directories.to_string().as_str()), (Path::new("/a"), "/a, /b, /c"));
        assert_eq!(DataDirectories::from("/a").of_shard(7), Path::new("/a"));
    }
}
