//! Reading a file of hints from any record to its end.
//!
//! 1. The file is read through a window, which is longer only for a record that needs it.
//! 2. A record whose mutation is damaged is passed over. After other damaged bytes the next record is looked for at the
//!    beginning of each block, because records that were written together begin there.
//! 3. What a crash cut short at the end of the file counts as damaged too: it cannot be told apart.

use super::record::{BLOCK_BYTES, Found, HEADER_BYTES, Header, Hint, find};
use runtime::file::OpenOptions;
use runtime::{AlignedBuf, File};
use std::io;
use std::path::Path;
use uuid::Uuid;

/// Bytes of a file that are read at once.
const WINDOW_BYTES: usize = 256 << 10;

/// A file of hints that is being read.
pub struct HintReader {
    file: File,
    header: Header,
    bytes: u64,
    /// The part of the file that begins at `window_at`; `filled` bytes of it are valid.
    window: Option<AlignedBuf>,
    window_at: u64,
    filled: usize,
    /// Where the next record begins.
    offset: u64,
    is_after_damage: bool,
}

/// What comes next in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<'r> {
    /// A hint.
    Hint(Hint<'r>),
    /// Damaged bytes, which are passed over.
    Damaged {
        /// Where they begin.
        offset: u64,
    },
    /// The end of the file.
    End,
}

impl HintReader {
    /// Opens a file.
    ///
    /// # Errors
    /// `InvalidData` if it is not a file of hints, or its header is damaged.
    pub async fn open(path: &Path) -> io::Result<HintReader> {
        let file = File::open(path, OpenOptions::default()).await?;
        let bytes = file.len().await?;
        let (read, block) = file.read_at(AlignedBuf::zeroed(HEADER_BYTES), 0).await;
        let header = Header::decode(block.get(..read?).unwrap_or_default());
        let header = header.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
        Ok(HintReader {
            file,
            header,
            bytes,
            window: None,
            window_at: 0,
            filled: 0,
            offset: HEADER_BYTES as u64,
            is_after_damage: false,
        })
    }

    /// The node whose hints are in the file.
    pub fn host_id(&self) -> Uuid {
        self.header.host_id
    }

    /// Where the next record begins; what is before it has been read.
    pub fn position(&self) -> u64 {
        self.offset
    }

    /// Goes on at a position that [`HintReader::position`] gave. One before the first record stands for that.
    pub fn seek(&mut self, position: u64) {
        self.offset = position.max(HEADER_BYTES as u64);
        self.is_after_damage = false;
    }

    /// What comes next. Damaged bytes in a row are told once.
    pub async fn next(&mut self) -> io::Result<Next<'_>> {
        let (found, record_at) = loop {
            if self.offset >= self.bytes {
                return Ok(Next::End);
            }
            let at = self.offset;
            let (damage_ends, was_after_damage) = match find(self.header.nonce, at, self.loaded()) {
                Found::Record(hint) => break (hint.mutation.len(), at),
                Found::Padding => {
                    self.offset = next_block(at);
                    continue;
                }
                Found::Needs(bytes) if at + bytes as u64 <= self.bytes => {
                    self.load(bytes).await?;
                    continue;
                }
                // The file ends within a record, or within a block.
                Found::Needs(_) => (next_block(at), self.is_after_damage),
                Found::Damaged(len) => (at + (super::RECORD_HEADER_BYTES + len) as u64, self.is_after_damage),
                Found::Unreadable => (next_block(at), self.is_after_damage),
            };
            self.offset = damage_ends;
            self.is_after_damage = true;
            if !was_after_damage {
                return Ok(Next::Damaged { offset: at });
            }
        };
        self.offset = record_at + (super::RECORD_HEADER_BYTES + found) as u64;
        self.is_after_damage = false;
        let start = (record_at - self.window_at) as usize;
        let window = self.window.as_deref().unwrap_or_default();
        match find(self.header.nonce, record_at, &window[start..self.filled]) {
            Found::Record(hint) => Ok(Next::Hint(hint)),
            _ => unreachable!("the record was found just now"),
        }
    }

    /// The bytes in memory from the offset on.
    fn loaded(&self) -> &[u8] {
        let window = self.window.as_deref().unwrap_or_default();
        let start = self.offset.checked_sub(self.window_at).and_then(|start| usize::try_from(start).ok());
        start.and_then(|start| window.get(start..self.filled)).unwrap_or_default()
    }

    /// Reads at least so many bytes from the offset on, unless the file ends before.
    async fn load(&mut self, bytes: usize) -> io::Result<()> {
        let window_at = self.offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let needed = (self.offset - window_at) as usize + bytes;
        let window = match self.window.take() {
            Some(window) if window.capacity() >= needed => window,
            _ => AlignedBuf::zeroed(needed.max(WINDOW_BYTES)),
        };
        let (read, window) = self.file.read_at(window, window_at).await;
        (self.window, self.window_at, self.filled) = (Some(window), window_at, 0);
        self.filled = read?;
        if self.filled < needed {
            // The file is shorter than it was.
            self.bytes = self.bytes.min(window_at + self.filled as u64);
        }
        Ok(())
    }
}

fn next_block(offset: u64) -> u64 {
    (offset / BLOCK_BYTES as u64 + 1) * BLOCK_BYTES as u64
}
