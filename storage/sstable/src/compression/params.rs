//! How an SSTable is to be compressed: the `compression` option of a table.

use super::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CompressionInfo, Compressor};
use crate::error::Problem;
use std::collections::BTreeMap;

/// The default length of a chunk, in bytes.
pub const CHUNK_BYTES: usize = 16 << 10;
/// The default level of LZ4's slow variant.
const LZ4_HIGH_LEVEL: i32 = 9;
/// The longest compressed length that stands for no limit.
pub const COMPRESSED_LEN_UNLIMITED: u32 = i32::MAX as u32;

/// Codec, options and chunk length for an SSTable to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompressionParams {
    /// The codec.
    pub compressor: Compressor,
    /// The codec's options, as they are written.
    pub options: Vec<(String, String)>,
    /// Uncompressed bytes of a chunk; a power of two.
    pub chunk_len: usize,
    /// Chunks whose compressed form has this length or more are stored uncompressed.
    pub compressed_len_max: u32,
}

impl CompressionParams {
    /// Returns LZ4 with chunks of 16 KiB: the default of tables, and what flushes use instead of a slow codec.
    pub fn fast() -> CompressionParams {
        CompressionParams {
            compressor: Compressor::Lz4,
            options: Vec::new(),
            chunk_len: CHUNK_BYTES,
            compressed_len_max: COMPRESSED_LEN_UNLIMITED,
        }
    }

    /// Returns the parameters of a table's `compression` option; `None` if its SSTables are not compressed.
    ///
    /// # Errors
    /// The class is unknown, or the chunk length out of range. DDL refuses both.
    pub fn of(option: &BTreeMap<String, String>) -> Result<Option<CompressionParams>, Problem> {
        let mut left = option.clone();
        let mut take = |names: [&str; 2]| names.into_iter().filter_map(|name| left.remove(name)).next_back();
        let enabled = take(["enabled", ""]).is_none_or(|text| !text.eq_ignore_ascii_case("false"));
        let class = take(["sstable_compression", "class"]).unwrap_or_default();
        let chunk = take(["chunk_length_kb", "chunk_length_in_kb"]);
        let ratio = take(["min_compress_ratio", ""]);
        take(["crc_check_chance", ""]);
        if !enabled || class.is_empty() {
            return Ok(None);
        }
        let compressor = Compressor::parse(&class).ok_or(Problem::Unsupported("this compressor"))?;
        let chunk_len = match chunk {
            None => CHUNK_BYTES,
            Some(text) => {
                let len = text.parse::<usize>().ok().and_then(|len| len.checked_mul(1024));
                let good = |len: &usize| len.is_power_of_two() && (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(len);
                len.filter(good).ok_or(Problem::Invalid("a chunk length"))?
            }
        };
        let ratio = ratio.and_then(|text| text.parse::<f64>().ok()).filter(|ratio| *ratio > 0.0);
        let len_max = ratio.map(|ratio| (chunk_len as f64 / ratio).ceil());
        let compressed_len_max =
            len_max.map_or(COMPRESSED_LEN_UNLIMITED, |len| len as u32).min(COMPRESSED_LEN_UNLIMITED);
        let options = left.into_iter().collect();
        Ok(Some(CompressionParams { compressor, options, chunk_len, compressed_len_max }))
    }

    /// Returns the parameters for a flush, which should not wait for a slow codec: LZ4 instead of Deflate, Zstd and
    /// LZ4's slow variant.
    pub fn for_flush(self) -> CompressionParams {
        let high = self.option("lz4_compressor_type") == Some("high");
        match self.compressor {
            Compressor::Deflate | Compressor::Zstd => CompressionParams::fast(),
            Compressor::Lz4 if high => CompressionParams::fast(),
            _ => self,
        }
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..])
    }

    /// Returns the compression level that is asked for, of Zstd.
    pub fn level(&self) -> Option<i32> {
        self.option("compression_level").and_then(|level| level.parse().ok())
    }

    /// Returns the level of LZ4's slow variant, if that is asked for.
    pub(crate) fn lz4_level(&self) -> Option<i32> {
        (self.option("lz4_compressor_type") == Some("high")).then(|| {
            let level = self.option("lz4_high_compressor_level").and_then(|level| level.parse().ok());
            level.unwrap_or(LZ4_HIGH_LEVEL)
        })
    }

    /// Returns the CompressionInfo.db of chunks at these offsets.
    pub fn info(self, data_len: u64, offsets: Vec<u64>) -> CompressionInfo {
        let CompressionParams { compressor, options, chunk_len, compressed_len_max } = self;
        CompressionInfo { compressor, options, chunk_len, compressed_len_max, data_len, offsets: offsets.into() }
    }
}

impl From<&CompressionInfo> for CompressionParams {
    fn from(info: &CompressionInfo) -> CompressionParams {
        CompressionParams {
            compressor: info.compressor,
            options: info.options.clone(),
            chunk_len: info.chunk_len,
            compressed_len_max: info.compressed_len_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<CompressionParams>, Problem> {
        CompressionParams::of(&pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn options_of_tables_are_read() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("enabled", "false")]), Ok(None));
        let class = ("class", "org.apache.cassandra.io.compress.LZ4Compressor");
        assert_eq!(of(&[class, ("enabled", "true")]), Ok(Some(CompressionParams::fast())));
        let zstd = of(&[
            ("class", "ZstdCompressor"),
            ("chunk_length_in_kb", "4"),
            ("min_compress_ratio", "1.5"),
            ("compression_level", "7"),
        ]);
        let zstd = zstd.unwrap().unwrap();
        assert_eq!((zstd.chunk_len, zstd.compressed_len_max, zstd.level()), (4096, 2731, Some(7)));
        assert_eq!(zstd.for_flush(), CompressionParams::fast());
        let high = of(&[class, ("lz4_compressor_type", "high")]).unwrap().unwrap();
        assert_ne!(high, CompressionParams::fast());
        assert_eq!(high.for_flush(), CompressionParams::fast());
        assert!(of(&[("class", "Other")]).is_err());
        assert!(of(&[class, ("chunk_length_in_kb", "3")]).is_err());
        let kib = |bytes: usize| (bytes >> 10).to_string();
        assert!(of(&[class, ("chunk_length_in_kb", &kib(CHUNK_BYTES_MAX))]).is_ok());
        assert!(of(&[class, ("chunk_length_in_kb", &kib(2 * CHUNK_BYTES_MAX))]).is_err());
    }
}
