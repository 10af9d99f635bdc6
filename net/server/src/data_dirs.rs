//! The locks and markers of the data directories.
//!
//! ```text
//! DIR/lock            flock, held while the node runs
//! DIR/helenus.marker  text: the format's version, host id, shard count, ignore_msb, and if there are several
//!                     directories, which of how many this one is, from 0
//! ```
//! 1. All directories are claimed before anything in them is read. A marker of a newer format, of another host, or a
//!    damaged one is left as it is, and the node ends with [`Exit::Corrupt`].
//! 2. Every directory that a marker counts must be among those that are named, the first one in front, because it has
//!    the commit log. Without one of them the node would start without that directory's data, so it does not start.
//! 3. Directories without a marker are new. They get the next numbers before anything is written to them, or on the
//!    node's first start, once its host id is known.
//!
//! Invariants: if a marker counts `m` directories, those with the numbers below `m` have markers. So a crash while they
//! are written leaves directories that the next start accepts.

use crate::config::DATA_DIRECTORIES_MAX;
use crate::exit::{Exit, StopReason};
use model::key::IGNORE_MSB;
use runtime::file;
use shard::DataDirectories;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The version of the directory's format that is written if there is one directory.
pub const FORMAT: u32 = 1;
/// The version that is written if there are several, and the last one that is read.
pub const FORMAT_OF_SEVERAL: u32 = 2;

const MARKER: &str = "helenus.marker";
const MARKER_BYTES_MAX: usize = 4096;

/// The claimed data directories of a node, in the order of the configuration. Dropping them gives up the claim.
pub struct DataDirs {
    claimed: Vec<Claimed>,
}

struct Claimed {
    path: PathBuf,
    marker: Option<Marker>,
    _lock: file::Lock,
}

/// The content of a marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// The node's host id.
    pub host_id: Uuid,
    /// How many shards the node had at its last start.
    pub shards: usize,
    /// How many of a token's most significant bits the shard map ignores.
    pub ignore_msb: u8,
    /// Which of the node's data directories this is, below `directories`; 0 has the commit log.
    pub number: usize,
    /// How many data directories the node had at its last start, at least 1.
    pub directories: usize,
}

fn refused<T>(exit: Exit, text: String) -> Result<T, StopReason> {
    Err(StopReason { text, exit })
}

impl DataDirs {
    /// Creates directories that are missing, locks all and reads their markers. If the node is known from a marker,
    /// directories that are new to it are marked.
    pub async fn claim(directories: &DataDirectories, shards: usize) -> Result<DataDirs, StopReason> {
        let mut places: Vec<PathBuf> = Vec::new();
        for path in directories.all() {
            let shown = path.display();
            let made = match file::create_dir_all(path).await {
                Ok(()) => file::canonical(path).await,
                Err(error) => Err(error),
            };
            match made {
                Ok(place) if places.contains(&place) => {
                    return refused(Exit::Misconfigured, format!("data directory {shown}: it is named twice"));
                }
                Ok(place) => places.push(place),
                Err(error) => return refused(Exit::Misconfigured, format!("data directory {shown}: {error}")),
            }
        }
        let mut claimed = Vec::new();
        for path in directories.all() {
            claimed.push(Claimed::claim(path).await?);
        }
        let mut directories = DataDirs { claimed };
        let known = directories.claimed.iter().filter_map(|claimed| claimed.marker.map(|marker| marker.host_id)).next();
        if let Some(host_id) = known {
            directories.check(host_id)?;
            if directories.claimed.iter().any(|claimed| claimed.marker.is_none()) {
                directories.mark(host_id, shards).await?;
            }
        }
        Ok(directories)
    }

    /// Refuses directories of several nodes, and some but not all of one node.
    fn check(&self, host_id: Uuid) -> Result<(), StopReason> {
        let marked: Vec<(&Path, Marker)> =
            self.claimed.iter().filter_map(|claimed| Some((claimed.path.as_path(), claimed.marker?))).collect();
        for (path, marker) in &marked {
            if marker.host_id != host_id {
                let (shown, other) = (path.display(), marker.host_id);
                let text = format!("data directory {shown}: belongs to host {other}, another one to {host_id}");
                return refused(Exit::Corrupt, text);
            }
        }
        let count = marked.iter().map(|(_, marker)| marker.directories).max().unwrap_or_default();
        for number in 0..count {
            let mut found = marked.iter().filter(|(_, marker)| marker.number == number).map(|(path, _)| path.display());
            match (found.next(), found.next()) {
                (Some(_), None) => {}
                (Some(one), Some(other)) => {
                    let text = format!("data directories {one} and {other} are copies of the same one");
                    return refused(Exit::Misconfigured, text);
                }
                (None, _) => {
                    let text = format!(
                        "data_file_directories: {} of this node's {count} data directories is not there, and its data \
                         would be missing",
                        nth(number)
                    );
                    return refused(Exit::Misconfigured, text);
                }
            }
        }
        let Some((first, _)) = marked.iter().find(|(_, marker)| marker.number == 0) else { return Ok(()) };
        if *first != self.claimed[0].path {
            let text = format!(
                "data_file_directories: {} has the commit log of this node and must stay the first",
                first.display()
            );
            return refused(Exit::Misconfigured, text);
        }
        Ok(())
    }

    /// Writes the markers of a node whose host id is known, durably, where they are not there already. Fails if one
    /// that is there names another host.
    pub async fn mark(&mut self, host_id: Uuid, shards: usize) -> Result<(), StopReason> {
        let directories = self.claimed.len();
        let mut next = self.claimed.iter().filter(|claimed| claimed.marker.is_some()).count();
        let plain = Marker { host_id, shards, ignore_msb: IGNORE_MSB, number: 0, directories };
        for claimed in &mut self.claimed {
            match claimed.marker {
                None => {
                    claimed.write(Marker { number: next, directories: next + 1, ..plain }).await?;
                    next += 1;
                }
                Some(known) if known.host_id != host_id => {
                    let (shown, other) = (claimed.path.display(), known.host_id);
                    let text = format!("{shown}/{MARKER}: belongs to host {other}, the data to {host_id}");
                    return refused(Exit::Corrupt, text);
                }
                Some(_) => {}
            }
        }
        for claimed in &mut self.claimed {
            if let Some(known) = claimed.marker {
                claimed.write(Marker { number: known.number, ..plain }).await?;
            }
        }
        Ok(())
    }
}

/// "the first", "the second" and so on, from 0.
fn nth(number: usize) -> String {
    match number {
        0 => "the first".into(),
        1 => "the second".into(),
        2 => "the third".into(),
        _ => format!("number {}", number + 1),
    }
}

impl Claimed {
    /// Locks a directory and reads its marker.
    async fn claim(path: &Path) -> Result<Claimed, StopReason> {
        let shown = path.display();
        refuse_cassandras(path).await?;
        let lock = match file::lock(&path.join("lock")).await {
            Ok(lock) => lock,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return refused(Exit::Misconfigured, format!("data directory {shown}: another node runs on it"));
            }
            Err(e) => return refused(Exit::Misconfigured, format!("data directory {shown}: lock: {e}")),
        };
        let marker = match file::read_small(&path.join(MARKER), MARKER_BYTES_MAX).await {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return refused(Exit::Corrupt, format!("{shown}/{MARKER}: {e}")),
            Ok(bytes) => match Marker::decode(&bytes) {
                Ok(marker) => Some(marker),
                Err(text) => return refused(Exit::Corrupt, format!("{shown}/{MARKER}: {text}")),
            },
        };
        Ok(Claimed { path: path.into(), marker, _lock: lock })
    }

    /// Writes the marker, unless it is there already.
    async fn write(&mut self, marker: Marker) -> Result<(), StopReason> {
        if self.marker == Some(marker) {
            return Ok(());
        }
        match file::replace_small(&self.path.join(MARKER), marker.encode().as_bytes()).await {
            Ok(()) => {
                self.marker = Some(marker);
                Ok(())
            }
            Err(e) => refused(Exit::Misconfigured, format!("{}/{MARKER}: {e}", self.path.display())),
        }
    }
}

/// Refuses a directory that directly holds keyspaces of Cassandra. They belong in its subdirectory `data`; a node that
/// started beside them would be empty.
async fn refuse_cassandras(path: &Path) -> Result<(), StopReason> {
    let listed = file::list_dir(&path.join("system_schema")).await.unwrap_or_default();
    let is_table =
        |entry: &PathBuf| entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tables-"));
    if !listed.iter().any(is_table) {
        return Ok(());
    }
    let shown = path.display();
    let parent = path.parent().unwrap_or(path).display();
    let hint = match path.file_name().is_some_and(|name| name == "data") {
        true => format!("name {parent} instead"),
        false => format!("move its keyspaces to {shown}/data"),
    };
    refused(
        Exit::Misconfigured,
        format!(
            "data directory {shown}: it holds keyspaces of Cassandra, which belong into data/ under the directory that is \
             named: {hint}"
        ),
    )
}

impl Marker {
    fn encode(&self) -> String {
        let Marker { host_id, shards, ignore_msb, number, directories } = self;
        let text = format!("host_id {host_id}\nshards {shards}\nignore_msb {ignore_msb}\n");
        match directories {
            1 => format!("format {FORMAT}\n{text}"),
            _ => format!("format {FORMAT_OF_SEVERAL}\n{text}directory {number}\ndirectories {directories}\n"),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Marker, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not a marker".to_string())?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .ok_or_else(|| format!("{name} is missing"))
        };
        let number = |name: &str| field(name)?.parse::<usize>().map_err(|_| format!("{name} is not a number"));
        let format = field("format")?.parse::<u32>().map_err(|_| "format is not a number".to_string())?;
        let (number, directories) = match format {
            FORMAT => (0, 1),
            FORMAT_OF_SEVERAL => (number("directory")?, number("directories")?),
            _ => {
                return Err(format!(
                    "written in format {format}, this version knows no format after {FORMAT_OF_SEVERAL}"
                ));
            }
        };
        if number >= directories || directories > DATA_DIRECTORIES_MAX {
            return Err(format!("directory {number} of {directories} cannot be"));
        }
        Ok(Marker {
            host_id: field("host_id")?.parse().map_err(|_| "host_id is not a uuid".to_string())?,
            shards: field("shards")?.parse().map_err(|_| "shards is not a number".to_string())?,
            ignore_msb: field("ignore_msb")?.parse().map_err(|_| "ignore_msb is not a number".to_string())?,
            number,
            directories,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKED: Marker = Marker { host_id: Uuid::from_u128(7), shards: 4, ignore_msb: 12, number: 0, directories: 1 };

    #[test]
    fn a_marker_comes_back_and_a_newer_one_is_refused() {
        for (number, directories) in [(0, 1), (0, 2), (DATA_DIRECTORIES_MAX - 1, DATA_DIRECTORIES_MAX)] {
            let marker = Marker { number, directories, ..MARKED };
            let text = marker.encode();
            assert_eq!(Marker::decode(text.as_bytes()), Ok(marker));
            for cut in 0..text.len() - 1 {
                let _ = Marker::decode(&text.as_bytes()[..cut]);
            }
        }
        let text = MARKED.encode();
        assert!(text.starts_with("format 1\n") && !text.contains("director"), "{text}");
        let newer = text.replace("format 1", "format 3");
        assert!(Marker::decode(newer.as_bytes()).expect_err("newer").contains("format 3"));
        for (number, directories) in [(2, 2), (0, 0), (0, DATA_DIRECTORIES_MAX + 1)] {
            let wrong = Marker { number, directories, ..MARKED }.encode();
            assert!(Marker::decode(wrong.as_bytes()).expect_err("wrong").contains("cannot be"), "{wrong}");
        }
        assert!(Marker::decode(b"\xff").is_err());
        assert!(Marker::decode(b"").is_err());
    }
}
