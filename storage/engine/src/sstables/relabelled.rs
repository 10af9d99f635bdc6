//! A second SSTable with the files of another one, and Statistics.db written anew: what an SSTable is to its table
//! changes without its rows being copied.
//!
//! Invariants: the files of the other one stay as they are; what was linked and written is durable, but for the
//! directory.

use super::directory::read_sidecar;
use crate::error::Error;
use runtime::file::{OpenOptions, link, read_small, replace_small};
use runtime::{File, HashSet};
use sstable::sidecar::PageChecksums;
use sstable::statistics::{Metadata, Statistics};
use sstable::{Component, Descriptor};
use std::path::Path;

/// The longest Statistics.db that is written anew, in bytes.
const STATISTICS_BYTES_MAX: usize = 64 << 20;

/// Links the components of the SSTable `from` as those of `to`, which has the same version, and changes its statistics.
///
/// # Errors
/// The disk's; Statistics.db or Helenus.db cannot be used.
pub(crate) async fn relabel(
    directory: &Path,
    from: &Descriptor,
    components: &HashSet<Component>,
    to: &Descriptor,
    change: impl FnOnce(&mut Statistics),
) -> Result<(), Error> {
    for component in components {
        if matches!(component, Component::Statistics | Component::Helenus) {
            continue;
        }
        let linked = directory.join(to.file_name(*component));
        link(&directory.join(from.file_name(*component)), &linked).await.map_err(Error::Io)?;
        let file = File::open(&linked, OpenOptions::default()).await.map_err(Error::Io)?;
        file.sync().await.map_err(Error::Io)?;
    }
    let path = directory.join(from.file_name(Component::Statistics));
    let bytes = read_small(&path, STATISTICS_BYTES_MAX).await.map_err(Error::Io)?;
    let bad = |error| Error::BadSstable { directory: directory.to_owned(), error };
    let mut metadata = Metadata::open(from, &bytes).map_err(bad)?;
    change(&mut metadata.statistics);
    let bytes = metadata.write(to.version);
    let path = directory.join(to.file_name(Component::Statistics));
    replace_small(&path, &bytes).await.map_err(Error::Io)?;
    if components.contains(&Component::Helenus) {
        let mut sidecar = read_sidecar(directory, from).await?;
        sidecar.components.retain(|pages| pages.component != Component::Statistics);
        sidecar.components.push(PageChecksums::of(Component::Statistics, &bytes));
        let path = directory.join(to.file_name(Component::Helenus));
        replace_small(&path, &sidecar.write()).await.map_err(Error::Io)?;
    }
    Ok(())
}
