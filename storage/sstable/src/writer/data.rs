//! Writes Data.db: cuts its bytes into chunks, which are compressed or summed, and can be drained then.
//!
//! Invariants: a chunk is cut off when bytes follow it, so that there is no empty one; bytes that were cut off do not
//! change.

use crate::compression::{ChunkChecksums, ChunkEncoder, CompressionParams};
use crate::descriptor::Component;
use crate::error::Problem;
use crate::output::Output;
use crate::reader::PLAIN_BLOCK_BYTES;
use crate::sidecar::PageChecksums;

/// What is done with each chunk.
#[derive(Debug)]
enum Chunks {
    Compressed(Box<CompressedChunks>),
    Plain { crcs: Vec<u32> },
}

#[derive(Debug)]
struct CompressedChunks {
    params: CompressionParams,
    encoder: ChunkEncoder,
    offsets: Vec<u64>,
    /// The length of all chunks without their checksums, in bytes.
    len: u64,
}

/// Writes Data.db.
#[derive(Debug)]
pub(super) struct DataWriter {
    /// Bytes that have not been cut into chunks.
    plain: Vec<u8>,
    /// The offset of those in the uncompressed data.
    start: u64,
    chunk_len: usize,
    chunks: Chunks,
    out: Output,
    digest: crc32fast::Hasher,
}

/// A whole Data.db.
pub(super) struct WrittenData {
    /// The bytes that have not been drained.
    pub(super) rest: Vec<u8>,
    pub(super) pages: PageChecksums,
    /// The component with offsets or checksums of chunks: CompressionInfo.db or CRC.db.
    pub(super) chunks: (Component, Vec<u8>),
    /// The bytes of Digest.crc32.
    pub(super) digest: Vec<u8>,
    /// Compressed length divided by uncompressed length; `None` if Data.db is not compressed.
    pub(super) ratio: Option<f64>,
}

impl DataWriter {
    pub(super) fn new(compression: Option<&CompressionParams>) -> DataWriter {
        let (chunk_len, chunks) = match compression {
            None => (PLAIN_BLOCK_BYTES, Chunks::Plain { crcs: Vec::new() }),
            Some(params) => {
                let encoder = ChunkEncoder::new(params);
                let compressed = CompressedChunks { params: params.clone(), encoder, offsets: Vec::new(), len: 0 };
                (params.chunk_len, Chunks::Compressed(Box::new(compressed)))
            }
        };
        DataWriter {
            plain: Vec::new(),
            start: 0,
            chunk_len,
            chunks,
            out: Output::new(),
            digest: crc32fast::Hasher::new(),
        }
    }

    /// Returns the uncompressed length so far, in bytes: the offset of the next byte.
    pub(super) fn len(&self) -> u64 {
        self.start + self.plain.len() as u64
    }

    /// Returns the length of the file so far, in bytes, without what has not been cut into chunks.
    pub(super) fn file_len(&self) -> u64 {
        self.out.len()
    }

    /// Returns how many bytes can be drained.
    pub(super) fn pending_bytes(&self) -> usize {
        self.out.pending_bytes()
    }

    /// Returns the bytes that have not been cut into chunks, to append to.
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.plain
    }

    /// Cuts off all full chunks that bytes follow.
    pub(super) fn cut(&mut self) -> Result<(), Problem> {
        if self.plain.len() <= self.chunk_len {
            return Ok(());
        }
        let full = (self.plain.len() - 1) / self.chunk_len * self.chunk_len;
        self.cut_until(full)
    }

    fn cut_until(&mut self, end: usize) -> Result<(), Problem> {
        for chunk in self.plain.get(..end).unwrap_or_default().chunks(self.chunk_len) {
            let start = self.out.pending_bytes();
            match &mut self.chunks {
                Chunks::Plain { crcs } => {
                    self.out.extend(chunk);
                    crcs.push(crc32fast::hash(chunk));
                }
                Chunks::Compressed(compressed) => compressed.push(chunk, &mut self.out)?,
            }
            self.digest.update(self.out.tail().get(start..).unwrap_or_default());
        }
        self.plain.drain(..end);
        self.start += end as u64;
        Ok(())
    }

    pub(super) fn drain(&mut self, give: impl FnOnce(&[u8])) {
        self.out.drain(give);
    }

    pub(super) fn finish(mut self) -> Result<WrittenData, Problem> {
        let data_len = self.len();
        self.cut_until(self.plain.len())?;
        let digest = self.digest.finalize().to_string().into_bytes();
        let (chunks, ratio) = match self.chunks {
            Chunks::Plain { crcs } => {
                let bytes = ChunkChecksums { chunk_len: self.chunk_len, crcs: crcs.into() }.write();
                ((Component::Crc, bytes), None)
            }
            Chunks::Compressed(compressed) => {
                let CompressedChunks { params, offsets, len, .. } = *compressed;
                let bytes = params.info(data_len, offsets).write();
                ((Component::CompressionInfo, bytes), Some(len as f64 / data_len as f64))
            }
        };
        let (rest, pages) = self.out.finish(Component::Data);
        Ok(WrittenData { rest, pages, chunks, digest, ratio })
    }
}

impl CompressedChunks {
    fn push(&mut self, chunk: &[u8], out: &mut Output) -> Result<(), Problem> {
        self.offsets.push(out.len());
        let tail = out.tail();
        let start = tail.len();
        self.encoder.compress(chunk, tail)?;
        let len_max = self.params.compressed_len_max as usize;
        if tail.len() - start >= len_max {
            // Stored uncompressed, and padded: readers tell uncompressed chunks by their length.
            tail.truncate(start);
            tail.extend_from_slice(chunk);
            if chunk.len() < len_max {
                tail.resize(start + len_max, 0);
            }
        }
        let written = tail.get(start..).unwrap_or_default();
        self.len += written.len() as u64;
        let crc = crc32fast::hash(written);
        out.extend(&crc.to_be_bytes());
        Ok(())
    }
}
