//! Data.db as it is written: bytes are cut into chunks, which are compressed or summed and then can be taken.
//!
//! Invariants: a chunk is cut when something comes after it, so that there is no empty one; what was cut does not change.

use super::Out;
use crate::Component;
use crate::compression::{Checksums, ChunkEncoder, CompressionParams};
use crate::input::Problem;
use crate::reader::PLAIN_BLOCK_BYTES;
use crate::sidecar::PageChecksums;

#[derive(Debug)]
enum Cut {
    Compressed(Box<Compressed>),
    Plain { crcs: Vec<u32> },
}

#[derive(Debug)]
struct Compressed {
    params: CompressionParams,
    encoder: ChunkEncoder,
    offsets: Vec<u64>,
    /// Bytes of chunks without their checksums.
    len: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Data {
    /// What is not cut yet.
    plain: Vec<u8>,
    /// Where that begins in the uncompressed data.
    start: u64,
    chunk_len: usize,
    cut: Cut,
    out: Out,
    digest: crc32fast::Hasher,
}

/// A Data.db that is whole.
pub(super) struct WrittenData {
    /// What was not taken yet.
    pub(super) rest: Vec<u8>,
    pub(super) pages: PageChecksums,
    /// CompressionInfo.db or CRC.db.
    pub(super) chunks: (Component, Vec<u8>),
    /// Digest.crc32.
    pub(super) digest: Vec<u8>,
    /// Compressed by uncompressed bytes.
    pub(super) ratio: Option<f64>,
}

impl Data {
    pub(super) fn new(compression: Option<&CompressionParams>) -> Data {
        let (chunk_len, cut) = match compression {
            None => (PLAIN_BLOCK_BYTES, Cut::Plain { crcs: Vec::new() }),
            Some(params) => {
                let encoder = ChunkEncoder::new(params);
                let compressed = Compressed { params: params.clone(), encoder, offsets: Vec::new(), len: 0 };
                (params.chunk_len, Cut::Compressed(Box::new(compressed)))
            }
        };
        Data { plain: Vec::new(), start: 0, chunk_len, cut, out: Out::new(), digest: crc32fast::Hasher::new() }
    }

    /// Uncompressed bytes so far: the place of the next one.
    pub(super) fn len(&self) -> u64 {
        self.start + self.plain.len() as u64
    }

    /// Bytes of the file so far, without those that are not cut yet.
    pub(super) fn file_len(&self) -> u64 {
        self.out.len()
    }

    /// Bytes that can be taken.
    pub(super) fn pending_bytes(&self) -> usize {
        self.out.pending_bytes()
    }

    /// Where to append.
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.plain
    }

    /// Cuts the chunks that are full.
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
            match &mut self.cut {
                Cut::Plain { crcs } => {
                    self.out.extend(chunk);
                    crcs.push(crc32fast::hash(chunk));
                }
                Cut::Compressed(compressed) => compressed.push(chunk, &mut self.out)?,
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
        let (chunks, ratio) = match self.cut {
            Cut::Plain { crcs } => {
                let bytes = Checksums { chunk_len: self.chunk_len, crcs: crcs.into() }.write();
                ((Component::Crc, bytes), None)
            }
            Cut::Compressed(compressed) => {
                let Compressed { params, offsets, len, .. } = *compressed;
                let bytes = params.info(data_len, offsets).write();
                ((Component::CompressionInfo, bytes), Some(len as f64 / data_len as f64))
            }
        };
        let (rest, pages) = self.out.finish(Component::Data);
        Ok(WrittenData { rest, pages, chunks, digest, ratio })
    }
}

impl Compressed {
    fn push(&mut self, chunk: &[u8], out: &mut Out) -> Result<(), Problem> {
        self.offsets.push(out.len());
        let tail = out.tail();
        let start = tail.len();
        self.encoder.compress(chunk, tail)?;
        let len_max = self.params.compressed_len_max as usize;
        if tail.len() - start >= len_max {
            // As it is, but not shorter than a chunk that is not compressed can be.
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
