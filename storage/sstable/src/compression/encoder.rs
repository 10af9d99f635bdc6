//! Compression of chunks, with the buffers and contexts that a codec keeps from one to the next.

use super::{CompressionParams, Compressor};
use crate::error::Problem;
use lz4::block::{CompressionMode, compress_bound, compress_to_buffer};
use std::fmt;
use std::io::Read;

/// The default level of Zstd.
const ZSTD_LEVEL: i32 = 3;

enum Codec {
    Noop,
    Lz4 {
        mode: CompressionMode,
        /// Room for the longest block. Zeroing a new one for each chunk would cost a tenth of the codec's time.
        block: Vec<u8>,
    },
    Snappy(Box<snap::raw::Encoder>),
    Deflate,
    Zstd(Box<zstd::bulk::Compressor<'static>>),
    /// The codec's context could not be created.
    Broken,
}

/// Compresses one chunk after another.
pub(crate) struct ChunkEncoder {
    codec: Codec,
}

impl fmt::Debug for ChunkEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkEncoder").finish_non_exhaustive()
    }
}

impl ChunkEncoder {
    pub(crate) fn new(params: &CompressionParams) -> ChunkEncoder {
        let codec = match params.compressor {
            Compressor::Noop => Codec::Noop,
            Compressor::Lz4 => Codec::Lz4 {
                mode: params.lz4_level().map_or(CompressionMode::DEFAULT, CompressionMode::HIGHCOMPRESSION),
                block: Vec::new(),
            },
            Compressor::Snappy => Codec::Snappy(Box::new(snap::raw::Encoder::new())),
            Compressor::Deflate => Codec::Deflate,
            Compressor::Zstd => {
                let range = zstd::compression_level_range();
                let level = params.level().unwrap_or(ZSTD_LEVEL).clamp(*range.start(), *range.end());
                // Cassandra writes a checksum of the content into each frame.
                match zstd::bulk::Compressor::new(level).and_then(|mut zstd| zstd.include_checksum(true).map(|()| zstd))
                {
                    Ok(zstd) => Codec::Zstd(Box::new(zstd)),
                    Err(_) => Codec::Broken,
                }
            }
        };
        ChunkEncoder { codec }
    }

    /// Appends the compressed form of a chunk.
    pub(crate) fn compress(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        let failed = Problem::Unsupported("compressing this chunk");
        let start = out.len();
        match &mut self.codec {
            Codec::Noop => out.extend_from_slice(chunk),
            Codec::Lz4 { mode, block } => {
                let len_max = compress_bound(chunk.len()).map_err(|_| failed)?;
                if block.len() < len_max {
                    block.resize(len_max, 0);
                }
                let len = compress_to_buffer(chunk, Some(*mode), false, block).map_err(|_| failed)?;
                out.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
                out.extend_from_slice(block.get(..len).unwrap_or_default());
            }
            Codec::Snappy(snappy) => {
                out.resize(start + snap::raw::max_compress_len(chunk.len()), 0);
                let block = out.get_mut(start..).unwrap_or_default();
                let len = snappy.compress(chunk, block).map_err(|_| failed)?;
                out.truncate(start + len);
            }
            Codec::Deflate => {
                let level = flate2::Compression::default();
                flate2::read::ZlibEncoder::new(chunk, level).read_to_end(out).map_err(|_| failed)?;
            }
            Codec::Zstd(zstd) => {
                out.resize(start + zstd::zstd_safe::compress_bound(chunk.len()), 0);
                let block = out.get_mut(start..).unwrap_or_default();
                let len = zstd.compress_to_buffer(chunk, block).map_err(|_| failed)?;
                out.truncate(start + len);
            }
            Codec::Broken => return Err(failed),
        }
        Ok(())
    }
}
