//! Intervals of the commit log whose rows compaction has purged.
//!
//! A segment that is kept because another table needs it still holds those rows, but the tombstones that deleted them
//! are purged too: without this file the next start would bring the rows back. There is one file per shard beside the
//! table's SSTables; it is removed once all segments of its intervals are gone. All integers are little-endian:
//! ```text
//! magic "HELENUSP", version u16, shard u16, shards u16, rule u8 (`ShardMap::rule`)
//! per interval: lower segment u64, lower offset u32, upper segment u64, upper offset u32
//! CRC-32 of all bytes before it, u32
//! ```

use super::directory::name_of;
use super::log_coverage::LogCoverage;
use crate::commitlog::position::LogPosition;
use crate::error::Error;
use model::ShardMap;
use runtime::file::{read_small, remove, replace_small};
use std::io;
use std::path::{Path, PathBuf};

/// Longest file, in bytes. If a file would become longer, the oldest intervals are dropped.
const FILE_BYTES_MAX: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"HELENUSP";
const VERSION: u16 = 1;
const PREFIX: &str = "helenus-purged-";
/// Bytes before the intervals, bytes of one interval, and bytes behind them.
const HEAD_BYTES: usize = 15;
const INTERVAL_BYTES: usize = 24;
const CRC_BYTES: usize = 4;

fn path_of(directory: &Path, shard: u16) -> PathBuf {
    directory.join(format!("{PREFIX}{shard}"))
}

fn encode(purged: &LogCoverage) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for number in [VERSION, purged.shard, purged.map.shards] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(purged.map.rule());
    for (lower, upper) in &purged.intervals {
        for position in [lower, upper] {
            out.extend_from_slice(&position.segment.to_le_bytes());
            out.extend_from_slice(&position.offset.to_le_bytes());
        }
    }
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    out
}

/// Decodes what `encode` made; `None` for other bytes.
fn decode(bytes: &[u8]) -> Option<LogCoverage> {
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
    let map = ShardMap::of_rule(number(4)?, *rest.get(6)?);
    let position = |bytes: &[u8]| {
        let (segment, offset) = bytes.split_first_chunk::<8>()?;
        let offset = u32::from_le_bytes(*offset.first_chunk()?);
        Some(LogPosition { segment: u64::from_le_bytes(*segment), offset })
    };
    let intervals = rest.get(7..)?.chunks_exact(INTERVAL_BYTES);
    let intervals = intervals.map(|bytes| Some((position(bytes)?, position(bytes.get(INTERVAL_BYTES / 2..)?)?)));
    Some(LogCoverage { shard: number(2)?, map, intervals: intervals.collect::<Option<_>>()? })
}

/// Durably notes which log records SSTables held. Called before their removal if a compaction leaves no output.
pub(crate) async fn add(
    directory: &Path,
    shard: u16,
    map: ShardMap,
    gone: impl Iterator<Item = (LogPosition, LogPosition)>,
) -> Result<(), Error> {
    let path = path_of(directory, shard);
    let mut intervals = match read(&path).await? {
        Some(before) if before.map == map => before.intervals,
        _ => Vec::new(),
    };
    intervals.extend(gone);
    intervals.sort();
    intervals.dedup();
    // The oldest intervals are of segments that are gone by now.
    let most = (FILE_BYTES_MAX - HEAD_BYTES - CRC_BYTES) / INTERVAL_BYTES;
    intervals.drain(..intervals.len().saturating_sub(most));
    let purged = LogCoverage { shard, map, intervals };
    replace_small(&path, &encode(&purged)).await.map_err(Error::Io)
}

async fn read(path: &Path) -> Result<Option<LogCoverage>, Error> {
    let bytes = match read_small(path, FILE_BYTES_MAX).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Error::Io)?,
    };
    match decode(&bytes) {
        Some(purged) => Ok(Some(purged)),
        None => Err(Error::Corrupt { path: path.to_owned(), offset: 0, what: "not a list of purged records" }),
    }
}

/// The purged intervals of a table, noted by all shards in files among `paths`. `needed` says whether a segment of an
/// interval still exists; with `removes`, files without such an interval are removed.
pub(crate) async fn load(
    paths: &[PathBuf],
    removes: bool,
    needed: impl Fn(&(LogPosition, LogPosition)) -> bool,
) -> Result<Vec<LogCoverage>, Error> {
    let mut found = Vec::new();
    for path in paths {
        if name_of(path).strip_prefix(PREFIX).is_none_or(|shard| shard.parse::<u16>().is_err()) {
            continue;
        }
        let Some(purged) = read(path).await? else { continue };
        if purged.intervals.iter().any(&needed) {
            found.push(purged);
        } else if removes {
            match remove(path).await {
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
    use model::Partitioner;

    #[test]
    fn what_is_kept_comes_back_and_damage_is_found() {
        let at = |segment, offset| LogPosition { segment, offset };
        let intervals = vec![(at(1 << 16, 0), at(7 << 16, 9)), (at(9 << 16, 4096), at(9 << 16, 8192))];
        let purged = LogCoverage { shard: 3, map: ShardMap::new(Partitioner::Murmur3, 4), intervals };
        let bytes = encode(&purged);
        assert_eq!(decode(&bytes).as_ref(), Some(&purged));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "{at}");
            assert_eq!(decode(&bytes[..at]), None, "{at}");
        }
    }
}
