//! CompressionInfo.db and the chunks of a compressed Data.db, and the CRC.db of an uncompressed one.
//!
//! ```text
//! CompressionInfo.db   class [u16 length, text], options u32 count of (key, value) texts, chunk length u32,
//!                      longest compressed length u32 (from `na` on), uncompressed length u64, chunks u32, offset u64
//!                      of each
//! chunk                compressed bytes, CRC-32 of them; stored uncompressed if compression does not make them shorter
//!                      than the longest compressed length
//! CRC.db               chunk length u32, CRC-32 u32 of each chunk of that length
//! ```
//! LZ4 chunks begin with their uncompressed length (u32, little-endian); Deflate is zlib's form.

mod encoder;
mod params;

pub(crate) use encoder::ChunkEncoder;
pub use params::{CHUNK_BYTES, COMPRESSED_LEN_UNLIMITED, CompressionParams};

use crate::error::{Fault, Problem};
use crate::input::Input;
use crate::version::Version;
use std::io::Read;
use std::sync::Arc;

/// Longest uncompressed chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 30;
/// Shortest uncompressed chunk, in bytes.
pub const CHUNK_BYTES_MIN: usize = 64;
/// Most options of a compressor.
pub const OPTIONS_MAX: usize = 64;

/// A codec for chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named after their classes")]
pub enum Compressor {
    Lz4,
    Snappy,
    Deflate,
    Zstd,
    Noop,
}

const COMPRESSORS: [(&str, Compressor); 5] = [
    ("LZ4Compressor", Compressor::Lz4),
    ("SnappyCompressor", Compressor::Snappy),
    ("DeflateCompressor", Compressor::Deflate),
    ("ZstdCompressor", Compressor::Zstd),
    ("NoopCompressor", Compressor::Noop),
];

impl Compressor {
    /// Returns the short name of the codec's class, as `LZ4Compressor`.
    pub fn class(self) -> &'static str {
        COMPRESSORS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Returns the codec of a class, given by its full or short name.
    pub fn parse(class: &str) -> Option<Compressor> {
        let short = class.strip_prefix("org.apache.cassandra.io.compress.").unwrap_or(class);
        COMPRESSORS.iter().find(|(name, _)| *name == short).map(|(_, compressor)| *compressor)
    }

    /// Returns how many times longer than a chunk its uncompressed form can be.
    fn expansion_max(self) -> usize {
        match self {
            Compressor::Noop => 1,
            // A byte of a match length stands for 255 bytes.
            Compressor::Lz4 => 255,
            // A copy of 64 bytes takes at least 3.
            Compressor::Snappy => 32,
            // A match of 258 bytes takes at least 2 bits.
            Compressor::Deflate => 1032,
            // A block of 128 KiB takes at least 4 bytes.
            Compressor::Zstd => 32 << 10,
        }
    }

    /// Decompresses a chunk into `out`. `None`: the chunk is malformed, or its uncompressed length is not that of
    /// `out`.
    fn decompress(self, chunk: &[u8], out: &mut [u8]) -> Option<()> {
        match self {
            Compressor::Noop => copy_exact(chunk, out),
            Compressor::Lz4 => {
                let (len, block) = chunk.split_first_chunk()?;
                if u32::from_le_bytes(*len) as usize != out.len() {
                    return None;
                }
                let len = i32::try_from(out.len()).ok()?;
                let read = lz4::block::decompress_to_buffer(block, Some(len), out).ok()?;
                (read == out.len()).then_some(())
            }
            Compressor::Snappy => {
                if snap::raw::decompress_len(chunk).ok()? != out.len() {
                    return None;
                }
                let read = snap::raw::Decoder::new().decompress(chunk, out).ok()?;
                (read == out.len()).then_some(())
            }
            Compressor::Deflate => read_exact(flate2::read::ZlibDecoder::new(chunk), out),
            Compressor::Zstd => read_exact(zstd::stream::read::Decoder::with_buffer(chunk).ok()?, out),
        }
    }
}

fn copy_exact(bytes: &[u8], out: &mut [u8]) -> Option<()> {
    (bytes.len() == out.len()).then(|| out.copy_from_slice(bytes))
}

fn read_exact(mut reader: impl Read, out: &mut [u8]) -> Option<()> {
    reader.read_exact(out).ok()?;
    (reader.read(&mut [0]).ok()? == 0).then_some(())
}

/// The contents of a CompressionInfo.db.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompressionInfo {
    /// The codec of the chunks.
    pub compressor: Compressor,
    /// The codec's options, as they are written.
    pub options: Vec<(String, String)>,
    /// Uncompressed bytes of each chunk but the last; a power of two.
    pub chunk_len: usize,
    /// Chunks whose compressed form has this length or more are stored uncompressed.
    pub compressed_len_max: u32,
    /// Uncompressed bytes of Data.db.
    pub data_len: u64,
    /// The offset of each chunk in Data.db, ascending.
    pub offsets: Arc<[u64]>,
}

impl CompressionInfo {
    pub(crate) fn parse(bytes: &[u8], version: Version) -> Result<CompressionInfo, Fault> {
        let mut input = Input::new(bytes, 0);
        let Some(compressor) = Compressor::parse(input.short_text()?) else {
            return input.fail(Problem::Unsupported("this compressor"));
        };
        let count = input.u32()? as usize;
        if count > OPTIONS_MAX {
            return input.fail(Problem::Limit("OPTIONS_MAX"));
        }
        let mut options = Vec::new();
        for _ in 0..count {
            options.push((input.short_text()?.to_owned(), input.short_text()?.to_owned()));
        }
        let chunk_len = input.u32()? as usize;
        if !chunk_len.is_power_of_two() || !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_len) {
            return input.invalid("a chunk length");
        }
        let has_limit = version.features().compressed_len_max;
        let compressed_len_max = if has_limit { input.u32()? } else { COMPRESSED_LEN_UNLIMITED };
        let data_len = input.u64()?;
        let count = u64::from(input.u32()?);
        // Cassandra's writer appends an empty chunk if it is flushed at the end of a chunk.
        let needed = data_len.div_ceil(chunk_len as u64);
        if count != needed && count != needed + 1 {
            return input.invalid("the count of chunks that the length needs");
        }
        let count = input.count(count, 8)?;
        let mut offsets = Vec::with_capacity(count);
        for _ in 0..count {
            let offset = input.u64()?;
            if offsets.last().map_or(offset != 0, |last| *last + 4 > offset) || offset > i64::MAX as u64 {
                return input.invalid("an ascending chunk offset");
            }
            offsets.push(offset);
        }
        if !input.is_empty() {
            return input.invalid("the end");
        }
        Ok(CompressionInfo { compressor, options, chunk_len, compressed_len_max, data_len, offsets: offsets.into() })
    }

    /// Returns the bytes of a CompressionInfo.db of a version that is written.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 8 * self.offsets.len());
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend_from_slice(&(text.len() as u16).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        };
        text(&mut out, self.compressor.class());
        out.extend_from_slice(&(self.options.len() as u32).to_be_bytes());
        for (key, value) in &self.options {
            text(&mut out, key);
            text(&mut out, value);
        }
        out.extend_from_slice(&(self.chunk_len as u32).to_be_bytes());
        out.extend_from_slice(&self.compressed_len_max.to_be_bytes());
        out.extend_from_slice(&self.data_len.to_be_bytes());
        out.extend_from_slice(&(self.offsets.len() as u32).to_be_bytes());
        self.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        out
    }

    /// Returns offset and length, with its checksum, of the chunk that holds the uncompressed data at `offset`, in a
    /// Data.db of `file_len` bytes.
    pub(crate) fn chunk(&self, offset: u64, file_len: u64) -> Result<(u64, u64), Fault> {
        let index = usize::try_from(offset / self.chunk_len as u64).unwrap_or(usize::MAX);
        let Some(&start) = self.offsets.get(index) else {
            return Err(Fault { offset, problem: Problem::Truncated });
        };
        let end = self.offsets.get(index + 1).copied().unwrap_or(file_len);
        match end.checked_sub(start) {
            Some(len) if len >= 4 && end <= file_len && len <= 2 * CHUNK_BYTES_MAX as u64 => Ok((start, len)),
            _ => Err(Fault { offset: start, problem: Problem::Truncated }),
        }
    }

    /// Returns the uncompressed length of the chunk that begins at `offset` of the uncompressed data, and has `raw_len`
    /// bytes with its checksum.
    ///
    /// # Errors
    /// No chunk of `raw_len` bytes is so long: nothing is allocated for what a damaged file says.
    pub(crate) fn len_at(&self, offset: u64, raw_len: usize) -> Result<usize, Fault> {
        let len = self.data_len.saturating_sub(offset).min(self.chunk_len as u64) as usize;
        match len <= raw_len.saturating_mul(self.compressor.expansion_max()) {
            true => Ok(len),
            false => Err(Fault::invalid(offset, "a compressed chunk")),
        }
    }

    /// Checks and decompresses a chunk, given with its checksum, into `out`, which has the length of
    /// [`CompressionInfo::len_at`]. `at` is the chunk's offset in the file.
    pub(crate) fn decode(&self, at: u64, raw: &[u8], out: &mut [u8]) -> Result<(), Fault> {
        let fault = |problem| Fault { offset: at, problem };
        let Some((chunk, crc)) = raw.split_last_chunk() else { return Err(fault(Problem::Truncated)) };
        if crc32fast::hash(chunk) != u32::from_be_bytes(*crc) {
            return Err(fault(Problem::Checksum));
        }
        let data = if chunk.len() >= self.compressed_len_max as usize {
            // An uncompressed chunk is padded with zeros to the longest compressed length, which the last one may need.
            chunk.get(..out.len()).and_then(|chunk| copy_exact(chunk, out))
        } else {
            self.compressor.decompress(chunk, out)
        };
        data.ok_or(fault(Problem::Invalid("a compressed chunk")))
    }
}

/// The contents of a CRC.db.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkChecksums {
    /// Bytes of each chunk but the last.
    pub chunk_len: usize,
    /// The CRC-32 of each chunk.
    pub crcs: Arc<[u32]>,
}

impl ChunkChecksums {
    pub(crate) fn parse(bytes: &[u8]) -> Result<ChunkChecksums, Fault> {
        let mut input = Input::new(bytes, 0);
        let chunk_len = input.u32()? as usize;
        if !chunk_len.is_power_of_two() || !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_len) {
            return input.invalid("a chunk length");
        }
        let mut crcs = Vec::with_capacity(input.rest().len() / 4);
        while !input.is_empty() {
            crcs.push(input.u32()?);
        }
        Ok(ChunkChecksums { chunk_len, crcs: crcs.into() })
    }

    /// Returns the bytes of a CRC.db.
    pub fn write(&self) -> Vec<u8> {
        let mut out = (self.chunk_len as u32).to_be_bytes().to_vec();
        self.crcs.iter().for_each(|crc| out.extend_from_slice(&crc.to_be_bytes()));
        out
    }

    /// Checks the chunk at `offset`.
    pub(crate) fn check(&self, offset: u64, chunk: &[u8]) -> Result<(), Fault> {
        let index = usize::try_from(offset / self.chunk_len as u64).unwrap_or(usize::MAX);
        match self.crcs.get(index) {
            Some(crc) if *crc == crc32fast::hash(chunk) => Ok(()),
            _ => Err(Fault { offset, problem: Problem::Checksum }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompressed(compressor: Compressor, chunk: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; len];
        compressor.decompress(chunk, &mut out).map(|()| out)
    }

    #[test]
    fn chunks_come_back_in_every_codec() {
        let chunk: Vec<u8> = (0..4096u32).flat_map(|i| (i / 7).to_be_bytes()).collect();
        for (_, compressor) in COMPRESSORS {
            let params = CompressionParams { compressor, ..CompressionParams::fast() };
            let mut out = Vec::new();
            ChunkEncoder::new(&params).compress(&chunk, &mut out).unwrap();
            assert!(out.len() <= chunk.len());
            let back = |bytes: &[u8], len| decompressed(compressor, bytes, len);
            assert_eq!(back(&out, chunk.len()).as_deref(), Some(&chunk[..]), "{compressor:?}");
            assert_eq!(back(&out, chunk.len() - 1), None, "{compressor:?}");
            assert_eq!(back(&out, chunk.len() + 1), None, "{compressor:?}");
            assert_eq!(back(&out[..out.len() / 2], chunk.len()), None, "{compressor:?}");
            assert_eq!(Compressor::parse(compressor.class()), Some(compressor));
        }
    }

    #[test]
    fn the_slow_variant_of_lz4_finds_more() {
        let chunk: Vec<u8> = (0..4096u32).flat_map(|i| (i * i % 1013).to_be_bytes()).collect();
        let compressed = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            let mut out = Vec::new();
            let params = CompressionParams { options, ..CompressionParams::fast() };
            ChunkEncoder::new(&params).compress(&chunk, &mut out).unwrap();
            assert_eq!(decompressed(Compressor::Lz4, &out, chunk.len()).as_deref(), Some(&chunk[..]));
            out.len()
        };
        let high = ("lz4_compressor_type", "high");
        let (fast, first, default) =
            (compressed(&[]), compressed(&[high, ("lz4_high_compressor_level", "1")]), compressed(&[high]));
        assert!(default < fast && default <= first, "{fast} {first} {default}");
    }

    #[test]
    fn a_chunk_is_no_longer_than_its_bytes_can_stand_for() {
        let chunk_len = CHUNK_BYTES_MAX;
        for (_, compressor) in COMPRESSORS {
            let (data_len, options, offsets) = (chunk_len as u64, Vec::new(), Arc::new([0]));
            let info = CompressionInfo { compressor, options, chunk_len, compressed_len_max: 100, data_len, offsets };
            assert!(info.len_at(0, 1000).is_err(), "{compressor:?}");
            assert_eq!(info.len_at(0, CHUNK_BYTES_MAX), Ok(CHUNK_BYTES_MAX));
            // The densest chunk that there is.
            let mut out = Vec::new();
            let zeros = vec![0; 1 << 20];
            let params = CompressionParams { compressor, ..CompressionParams::fast() };
            ChunkEncoder::new(&params).compress(&zeros, &mut out).unwrap();
            let info = CompressionInfo { data_len: zeros.len() as u64, ..info };
            assert_eq!(info.len_at(0, out.len() + 4), Ok(zeros.len()), "{compressor:?}");
        }
    }

    #[test]
    fn lengths_of_chunks_are_bounded() {
        let info = |chunk_len| CompressionInfo {
            compressor: Compressor::Lz4,
            options: Vec::new(),
            chunk_len,
            compressed_len_max: 100,
            data_len: 1,
            offsets: Arc::new([0]),
        };
        for len in [CHUNK_BYTES_MIN, CHUNK_BYTES_MAX] {
            assert_eq!(CompressionInfo::parse(&info(len).write(), Version::Nb), Ok(info(len)));
        }
        for len in [CHUNK_BYTES_MIN / 2, 100, CHUNK_BYTES_MAX * 2] {
            assert!(CompressionInfo::parse(&info(len).write(), Version::Nb).is_err());
        }
        let options = |count| CompressionInfo { options: vec![("a".into(), "b".into()); count], ..info(128) };
        assert!(CompressionInfo::parse(&options(OPTIONS_MAX).write(), Version::Nb).is_ok());
        assert!(CompressionInfo::parse(&options(OPTIONS_MAX + 1).write(), Version::Nb).is_err());
    }
}
