//! Writing a file of hints: records are appended in whole blocks, durably.

use super::file_name::HintFileName;
use super::record::{BLOCK_BYTES, HEADER_BYTES, Header, seal};
use runtime::file::{OpenOptions, create_dir_all, sync_dir};
use runtime::{AlignedBuf, File};
use std::io;
use std::path::Path;
use uuid::Uuid;

/// Attempts to find a name that no file has.
const NAMES_MAX: u64 = 1000;

/// A file of hints that is being written.
pub struct HintWriter {
    file: File,
    name: HintFileName,
    nonce: u64,
    /// Where the next records go.
    offset: u64,
}

impl HintWriter {
    /// Creates a file in `directory`, which is created if it is missing, for the hints of a node that core `core`
    /// keeps. The file and its name are durable on return.
    pub async fn create(directory: &Path, host_id: Uuid, core: u16) -> io::Result<HintWriter> {
        create_dir_all(directory).await?;
        let now = u64::try_from(runtime::wall_micros().div_euclid(1000)).unwrap_or_default();
        let mut name = HintFileName { host_id, created_millis: now, core };
        let options = OpenOptions { write: true, create: true, exclusive: true };
        let file = loop {
            match File::open(&directory.join(name.to_string()), options).await {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && name.created_millis < now + NAMES_MAX => {
                    name.created_millis += 1;
                }
                file => break file?,
            }
        };
        let header = Header { host_id, created_millis: name.created_millis, nonce: runtime::rng::u64() };
        let mut block = AlignedBuf::zeroed(HEADER_BYTES);
        header.encode(&mut block);
        file.write_durable(block, 0).await.0?;
        sync_dir(directory).await?;
        Ok(HintWriter { file, name, nonce: header.nonce, offset: HEADER_BYTES as u64 })
    }

    /// Appends records as [`super::push`] made them; durable on return. After an error the file takes no more.
    pub async fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let mut buffer = AlignedBuf::zeroed(records.len());
        buffer[..records.len()].copy_from_slice(records);
        seal(self.nonce, self.offset, &mut buffer[..records.len()]);
        let bytes = records.len().next_multiple_of(BLOCK_BYTES);
        self.file.write_durable(buffer, self.offset).await.0?;
        self.offset += bytes as u64;
        Ok(())
    }

    /// The file's name.
    pub fn name(&self) -> HintFileName {
        self.name
    }

    /// The file's length in bytes.
    pub fn bytes(&self) -> u64 {
        self.offset
    }
}
