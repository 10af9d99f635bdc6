//! The data directory's lock and marker.
//!
//! ```text
//! DIR/lock            flock, held while the node runs
//! DIR/helenus.marker  text: the format's version, host id, shard count, ignore_msb
//! ```
//! A directory is claimed before anything in it is read. A marker of a newer format, of another host, or a damaged one
//! is left as it is, and the node ends with [`Exit::Corrupt`].

use crate::exit::{Exit, StopReason};
use model::key::IGNORE_MSB;
use runtime::file;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The version of the directory's format that is written, and the only one that is read.
pub const FORMAT: u32 = 1;

const MARKER: &str = "helenus.marker";
const MARKER_BYTES_MAX: usize = 4096;

/// A claimed data directory. Dropping it gives up the claim.
pub struct DataDir {
    path: PathBuf,
    marker: Option<Marker>,
    _lock: file::Lock,
}

/// The content of the marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// The node's host id.
    pub host_id: Uuid,
    /// How many shards the node had at its last start.
    pub shards: usize,
    /// How many of a token's most significant bits the shard map ignores.
    pub ignore_msb: u8,
}

fn refused<T>(exit: Exit, text: String) -> Result<T, StopReason> {
    Err(StopReason { text, exit })
}

impl DataDir {
    /// Creates the directory if it is missing, locks it and reads its marker.
    pub async fn claim(path: &Path) -> Result<DataDir, StopReason> {
        let shown = path.display();
        if let Err(e) = file::create_dir_all(path).await {
            return refused(Exit::Misconfigured, format!("data directory {shown}: {e}"));
        }
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
        Ok(DataDir { path: path.into(), marker, _lock: lock })
    }

    /// Writes the marker of a node that has started, durably, unless it is there already. Fails if the marker that is
    /// there names another host.
    pub async fn mark(&self, host_id: Uuid, shards: usize) -> Result<(), StopReason> {
        let shown = self.path.display();
        let marker = Marker { host_id, shards, ignore_msb: IGNORE_MSB };
        match self.marker {
            Some(known) if known == marker => return Ok(()),
            Some(known) if known.host_id != host_id => {
                let text = format!("{shown}/{MARKER}: belongs to host {}, the data to {host_id}", known.host_id);
                return refused(Exit::Corrupt, text);
            }
            _ => {}
        }
        match file::replace_small(&self.path.join(MARKER), marker.encode().as_bytes()).await {
            Ok(()) => Ok(()),
            Err(e) => refused(Exit::Misconfigured, format!("{shown}/{MARKER}: {e}")),
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
        format!("format {FORMAT}\nhost_id {}\nshards {}\nignore_msb {}\n", self.host_id, self.shards, self.ignore_msb)
    }

    fn decode(bytes: &[u8]) -> Result<Marker, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not a marker".to_string())?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .ok_or_else(|| format!("{name} is missing"))
        };
        let format = field("format")?.parse::<u32>().map_err(|_| "format is not a number".to_string())?;
        if format != FORMAT {
            return Err(format!("written in format {format}, this version knows format {FORMAT} only"));
        }
        Ok(Marker {
            host_id: field("host_id")?.parse().map_err(|_| "host_id is not a uuid".to_string())?,
            shards: field("shards")?.parse().map_err(|_| "shards is not a number".to_string())?,
            ignore_msb: field("ignore_msb")?.parse().map_err(|_| "ignore_msb is not a number".to_string())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_comes_back_and_a_newer_one_is_refused() {
        let marker = Marker { host_id: Uuid::from_u128(7), shards: 4, ignore_msb: 12 };
        let text = marker.encode();
        assert_eq!(Marker::decode(text.as_bytes()), Ok(marker));
        let newer = text.replace("format 1", "format 2");
        assert!(Marker::decode(newer.as_bytes()).expect_err("newer").contains("format 2"));
        for cut in 0..text.len() - 1 {
            let _ = Marker::decode(&text.as_bytes()[..cut]);
        }
        assert!(Marker::decode(b"\xff").is_err());
        assert!(Marker::decode(b"").is_err());
    }
}
