//! A disk per node that loses unsynced writes, tears, fails and fills up.

use crate::buffer::AlignedBuf;
use crate::file::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) struct File {}

impl File {
    pub(crate) async fn open(path: &Path, options: OpenOptions) -> io::Result<File> {
        let _ = (path, options);
        todo!()
    }
    pub(crate) async fn read_at(&self, buffer: AlignedBuf, offset: u64) -> (io::Result<usize>, AlignedBuf) {
        let _ = (buffer, offset);
        todo!()
    }
    pub(crate) async fn write_at(
        &self,
        buffer: AlignedBuf,
        offset: u64,
        durable: bool,
    ) -> (io::Result<()>, AlignedBuf) {
        let _ = (buffer, offset, durable);
        todo!()
    }
    pub(crate) async fn sync(&self) -> io::Result<()> {
        todo!()
    }
    pub(crate) async fn len(&self) -> io::Result<u64> {
        todo!()
    }
}

pub(crate) async fn rename(_from: &Path, _to: &Path) -> io::Result<()> {
    todo!()
}
pub(crate) async fn remove(_path: &Path) -> io::Result<()> {
    todo!()
}
pub(crate) async fn create_dir_all(_path: &Path) -> io::Result<()> {
    todo!()
}
pub(crate) async fn sync_dir(_path: &Path) -> io::Result<()> {
    todo!()
}
pub(crate) async fn list_dir(_path: &Path) -> io::Result<Vec<PathBuf>> {
    todo!()
}
pub(crate) async fn read_small(_path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
    todo!()
}
pub(crate) async fn replace_small(_path: &Path, _contents: &[u8]) -> io::Result<()> {
    todo!()
}
pub(crate) struct Lock {}
pub(crate) async fn lock(_path: &Path) -> io::Result<Lock> {
    todo!()
}
