//! Writes one SSTable: turns fragments into bytes, checks them against the logged guardrails, and appends the bytes
//! to the SSTable's files.

use super::component_files::{ComponentFiles, WAITING_BYTES_MAX};
use super::sstable_files::SstableFiles;
use crate::error::Error;
use crate::guards::partition_guard::PartitionGuard;
use model::Table;
use model::fragment::Fragment;
use runtime::HashSet;
use sstable::writer::{Builder, Options};
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An SSTable that is being written.
pub(crate) struct SstableWriter {
    builder: Builder,
    output: ComponentFiles,
    directory: PathBuf,
    guard: Option<PartitionGuard>,
    pub(crate) descriptor: Descriptor,
}

impl SstableWriter {
    /// A writer of a new SSTable in a table's directory. No file exists yet.
    pub(crate) fn new(
        files: &SstableFiles,
        directory: &Path,
        descriptor: Descriptor,
        table: &Arc<Table>,
        options: Options,
    ) -> SstableWriter {
        let large = files.large_partitions_of(table);
        let guard = PartitionGuard::new(files.logged_thresholds(), large, table, directory, &descriptor);
        let builder = Builder::new(descriptor.clone(), table.clone(), options);
        let output = ComponentFiles::new(directory, &descriptor);
        SstableWriter { builder, output, directory: directory.to_owned(), guard, descriptor }
    }

    /// Adds the next fragment. Returns true if so many bytes are pending that the caller has to call
    /// [`SstableWriter::take`].
    pub(crate) fn fragment(&mut self, fragment: &Fragment<'_>) -> bool {
        self.builder.fragment(fragment);
        if let Some(guard) = &mut self.guard {
            guard.fragment(fragment, self.builder.data_len());
        }
        self.builder.pending_bytes() >= WAITING_BYTES_MAX
    }

    /// Moves pending bytes to the files.
    pub(crate) async fn take(&mut self) -> Result<(), Error> {
        self.output.take(&mut self.builder).await
    }

    /// Bytes of Data.db so far, as they are stored on disk.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.builder.bytes_written()
    }

    /// Completes the SSTable, makes it durable and returns its components; `None` if no partition was written, and
    /// then no file exists.
    pub(crate) async fn close(mut self) -> Result<Option<HashSet<Component>>, Error> {
        if self.builder.partitions() == 0 {
            return Ok(None);
        }
        let directory = self.directory;
        let finished = self.builder.finish().map_err(|error| Error::BadSstable { directory, error })?;
        for (component, bytes) in finished.components {
            self.output.append(component, &bytes).await?;
        }
        self.output.finish().await.map(Some)
    }
}
