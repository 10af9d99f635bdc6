//! What of the log SSTables stood for that compaction left nothing of.
//!
//! Without it a segment that is kept for another table's sake would bring back, at the next start, rows whose tombstones
//! were purged with them. The file lies beside the SSTables, one per shard, and goes once no segment is left that it
//! speaks of. Its form, all integers little-endian:
//! ```text
//! magic "HELENUSP", version u16, shard u16, shards u16, ignore_msb u8
//! per interval: lower segment u64, lower offset u32, upper segment u64, upper offset u32
//! CRC-32 of all before it, u32
//! ```

use crate::Error;
use crate::commitlog::position::LogPosition;
use crate::recovery::load::Flushed;
use crate::sstables::open_sstable::OpenSstable;
use crate::store::Inner;
use model::ShardMap;
use runtime::file::{list_dir, read_small, remove, replace_small};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Longest file, in bytes.
const COVERED_BYTES_MAX: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"HELENUSP";
const VERSION: u16 = 1;
const PREFIX: &str = "helenus-purged-";
/// Bytes before the intervals, of one, and behind them.
const HEAD_BYTES: usize = 15;
const INTERVAL_BYTES: usize = 24;
const CRC_BYTES: usize = 4;

fn path_of(directory: &Path, shard: u16) -> PathBuf {
    directory.join(format!("{PREFIX}{shard}"))
}

fn encode(covered: &Flushed) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for number in [VERSION, covered.shard, covered.map.shards] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(covered.map.ignore_msb);
    for (lower, upper) in &covered.intervals {
        for position in [lower, upper] {
            out.extend_from_slice(&position.segment.to_le_bytes());
            out.extend_from_slice(&position.offset.to_le_bytes());
        }
    }
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    out
}

/// `None` for bytes that `encode` did not make.
fn decode(bytes: &[u8]) -> Option<Flushed> {
    let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
    let rest = body.strip_prefix(MAGIC)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc)
        || !(body.len().checked_sub(HEAD_BYTES)?).is_multiple_of(INTERVAL_BYTES)
    {
        return None;
    }
    let number = |at: usize| Some(u16::from_le_bytes(*rest.get(at..)?.first_chunk()?));
    if number(0)? != VERSION {
        return None;
    }
    let map = ShardMap { shards: number(4)?, ignore_msb: *rest.get(6)? };
    let position = |bytes: &[u8]| {
        let (segment, offset) = bytes.split_first_chunk::<8>()?;
        let offset = u32::from_le_bytes(*offset.first_chunk()?);
        Some(LogPosition { segment: u64::from_le_bytes(*segment), offset })
    };
    let intervals = rest.get(7..)?.chunks_exact(INTERVAL_BYTES);
    let intervals = intervals.map(|bytes| Some((position(bytes)?, position(bytes.get(INTERVAL_BYTES / 2..)?)?)));
    Some(Flushed { shard: number(2)?, map, intervals: intervals.collect::<Option<_>>()? })
}

impl Inner {
    /// Before SSTables go of which a compaction left nothing: makes durable what of the log they stood for.
    pub(crate) async fn keep_covered(&self, directory: &Path, gone: &[Rc<OpenSstable>]) -> Result<(), Error> {
        let path = path_of(directory, self.shard);
        let mut intervals = match read(&path).await? {
            Some(before) if before.map == self.options.shard_map => before.intervals,
            _ => Vec::new(),
        };
        for sstable in gone {
            let stood_for = &sstable.reader.metadata().statistics.log_intervals;
            intervals
                .extend(stood_for.iter().map(|(lower, upper)| (LogPosition::from(*lower), LogPosition::from(*upper))));
        }
        intervals.sort();
        intervals.dedup();
        // The oldest speak of segments that are long gone.
        let most = (COVERED_BYTES_MAX - HEAD_BYTES - CRC_BYTES) / INTERVAL_BYTES;
        intervals.drain(..intervals.len().saturating_sub(most));
        let covered = Flushed { shard: self.shard, map: self.options.shard_map, intervals };
        replace_small(&path, &encode(&covered)).await.map_err(Error::Io)
    }
}

async fn read(path: &Path) -> Result<Option<Flushed>, Error> {
    let bytes = match read_small(path, COVERED_BYTES_MAX).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Error::Io)?,
    };
    match decode(&bytes) {
        Some(covered) => Ok(Some(covered)),
        None => Err(Error::Corrupt { path: path.to_owned(), offset: 0, what: "not a list of purged records" }),
    }
}

/// What all shards kept of a table. `needed` says whether an old segment is there that something of it speaks of; a file
/// without any goes, by `removes`.
pub(crate) async fn load(
    directory: &Path,
    removes: bool,
    needed: impl Fn(&(LogPosition, LogPosition)) -> bool,
) -> Result<Vec<Flushed>, Error> {
    let mut found = Vec::new();
    let paths = match list_dir(directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        listed => listed.map_err(Error::Io)?,
    };
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.strip_prefix(PREFIX).is_none_or(|shard| shard.parse::<u16>().is_err()) {
            continue;
        }
        let Some(covered) = read(&path).await? else { continue };
        if covered.intervals.iter().any(&needed) {
            found.push(covered);
        } else if removes {
            match remove(&path).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::Io(error)),
                _ => {}
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_damage_is_found() {
        let at = |segment, offset| LogPosition { segment, offset };
        let intervals = vec![(at(1 << 16, 0), at(7 << 16, 9)), (at(9 << 16, 4096), at(9 << 16, 8192))];
        let covered = Flushed { shard: 3, map: ShardMap::new(4), intervals };
        let bytes = encode(&covered);
        assert_eq!(decode(&bytes).as_ref(), Some(&covered));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "{at}");
            assert_eq!(decode(&bytes[..at]), None, "{at}");
        }
    }
}
