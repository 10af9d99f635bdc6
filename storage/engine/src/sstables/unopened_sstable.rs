//! An SSTable of this shard that could not be opened: a file is missing, or its bytes are not what was written.
//!
//! 1. [`UnopenedSstable::salvage`] reads what can still be told of it: its first and last key, its statistics.
//! 2. The table's view names it, so that reads fail of what it may have: nothing is missing unnoticed, and no deletion
//!    is forgotten. Compactions keep deletions of what it may have.
//!
//! Invariants: what it says of itself matched a checksum; without that it may have anything.
//!
//! Not here: replacing it ([`crate::operations::damaged`]).

use super::directory::read_sidecar;
use super::log_coverage::LogCoverage;
use super::open_sstable::{HELD_BYTES_MAX, read_range};
use crate::commitlog::position::LogPosition;
use crate::error::Error;
use model::query::Partitions;
use model::token::{RingPosition, TokenRange};
use model::{Partitioner, Token};
use runtime::buffer::ALIGNMENT;
use runtime::file::{OpenOptions, read_small};
use runtime::{File, HashSet};
use sstable::sidecar::Sidecar;
use sstable::statistics::{Metadata, Statistics};
use sstable::trie::TAIL_BYTES_MAX;
use sstable::{BlockId, Component, Descriptor, key_bounds};
use std::path::{Path, PathBuf};

/// An SSTable that could not be opened.
#[derive(Debug)]
pub(crate) struct UnopenedSstable {
    pub(crate) name: Descriptor,
    pub(crate) directory: PathBuf,
    /// How many files it has.
    pub(crate) files: usize,
    /// Whether each shard has its own tokens of it, because its owner under this shard map is not known.
    pub(crate) foreign: bool,
    /// A range that has all its keys.
    pub(crate) range: TokenRange,
    /// What was counted in it, if that can be read.
    pub(crate) statistics: Option<Statistics>,
    /// The records of the log that it holds, if that is known.
    pub(crate) coverage: Option<LogCoverage>,
    tokens: (Token, Token),
    error: sstable::Error,
}

impl UnopenedSstable {
    /// Finds out what can be told of an SSTable in a directory that `error` keeps from being opened. What cannot be
    /// read is not known.
    pub(crate) async fn salvage(
        directory: &Path,
        name: &Descriptor,
        components: &HashSet<Component>,
        partitioner: Partitioner,
        error: sstable::Error,
    ) -> UnopenedSstable {
        let sidecar = match components.contains(&Component::Helenus) {
            true => read_sidecar(directory, name).await.ok(),
            false => None,
        };
        let remains = Remains { directory, name, sidecar: sidecar.as_ref() };
        let metadata = match remains.component(Component::Statistics).await {
            Some(bytes) => Metadata::open(name, &bytes).ok(),
            None => None,
        };
        let statistics = metadata.map(|metadata| metadata.statistics);
        let bounds = remains.key_bounds(partitioner).await;
        let (tokens, range) = match bounds {
            Some((first, last)) => {
                let at = |key, is_after| Some(RingPosition { token: partitioner.ring_token(key), is_after });
                let range = TokenRange { start: at(&first, false), end: at(&last, true) };
                ((partitioner.token(&first), partitioner.token(&last)), range)
            }
            None => ((Token::MIN, Token::MAX), TokenRange::FULL),
        };
        let intervals = |statistics: &Statistics| {
            let intervals = statistics.log_intervals.iter();
            intervals.map(|(lower, upper)| (LogPosition::from(*lower), LogPosition::from(*upper))).collect()
        };
        let coverage = sidecar.as_ref().zip(statistics.as_ref()).map(|(sidecar, statistics)| LogCoverage {
            shard: sidecar.shard,
            map: sidecar.map,
            intervals: intervals(statistics),
        });
        UnopenedSstable {
            name: name.clone(),
            directory: directory.to_owned(),
            files: components.len(),
            foreign: false,
            range,
            statistics,
            coverage,
            tokens,
            error,
        }
    }

    /// Why it could not be opened.
    pub(crate) fn error(&self) -> Error {
        Error::BadSstable { directory: self.directory.clone(), error: self.error.clone() }
    }

    /// Its Data.db.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join(self.name.file_name(Component::Data))
    }

    /// The tokens between which its keys are.
    pub(crate) fn tokens(&self) -> (Token, Token) {
        self.tokens
    }

    /// Whether it may have some of the partitions.
    pub(crate) fn may_have(&self, partitions: &Partitions) -> bool {
        match partitions {
            Partitions::Key(key) => self.may_have_token(key.token),
            Partitions::Range(range) => range.may_overlap(self.tokens.0, self.tokens.1),
        }
    }

    /// Whether it may have partitions with this token.
    pub(crate) fn may_have_token(&self, token: Token) -> bool {
        self.tokens.0 <= token && token <= self.tokens.1
    }
}

/// The files of an SSTable that cannot be opened.
struct Remains<'a> {
    directory: &'a Path,
    name: &'a Descriptor,
    sidecar: Option<&'a Sidecar>,
}

impl Remains<'_> {
    /// The bytes of a component, if they can be read and are what the `Helenus.db` says.
    async fn component(&self, component: Component) -> Option<Vec<u8>> {
        let path = self.directory.join(self.name.file_name(component));
        let bytes = read_small(&path, HELD_BYTES_MAX).await.ok()?;
        self.is_good(component, 0, &bytes).then_some(bytes)
    }

    /// The first and the last key, if their checksum matches.
    async fn key_bounds(&self, partitioner: Partitioner) -> Option<(Vec<u8>, Vec<u8>)> {
        // The index has no checksums of its own.
        self.sidecar?;
        if !self.name.version.is_bti() {
            let summary = self.component(Component::Summary).await?;
            return key_bounds(self.name, partitioner, (&[], 0), Some(&summary));
        }
        let path = self.directory.join(self.name.file_name(Component::Partitions));
        let file = File::open(&path, OpenOptions::default()).await.ok()?;
        let len = file.len().await.ok()?;
        let from = len.saturating_sub(TAIL_BYTES_MAX as u64) / ALIGNMENT as u64 * ALIGNMENT as u64;
        let tail = read_range(&file, None, from, len).await.ok()?;
        match self.is_good(Component::Partitions, from, &tail) {
            true => key_bounds(self.name, partitioner, (&tail, len), None),
            false => None,
        }
    }

    /// Whether bytes of a component from `offset` to its end match the checksums of the `Helenus.db`, if there is one.
    fn is_good(&self, component: Component, offset: u64, bytes: &[u8]) -> bool {
        let Some(sidecar) = self.sidecar else { return true };
        sidecar.len(component) == Some(offset + bytes.len() as u64)
            && sidecar.check(self.name, BlockId { component, offset }, bytes).is_ok()
    }
}
