//! `nodetool import` and `refresh` on all cores, led by shard 0; [`engine::import`] has the steps.
//!
//! Invariants: no definition and no truncation runs during an import; a directory is imported as a whole or not at all;
//! files of another table that this node serves are never taken; an import that has begun runs to its end even if its
//! caller stops waiting.

use crate::messages::admin::{TableAnswer, TableVerb};
use crate::shard_state::Shard;
use engine::import::{self, Import, Source};
use model::{Failure, Table, TableId};
use runtime::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use engine::import::ImportOptions;
pub use engine::verify::{Check, Depth};

/// An import into one table.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The directories to import from, as the caller wrote them; empty: files that lie in the table's own directories.
    pub directories: Vec<PathBuf>,
    /// How to import them.
    pub options: ImportOptions,
}

impl Shard {
    /// Imports SSTables from directories into a table. To be called on shard 0. Returns the directories that failed, as
    /// the caller wrote them.
    ///
    /// # Errors
    /// A directory does not exist, or the import of the table's own directory failed; the text is for the operator.
    pub async fn import(&self, table: &Arc<Table>, request: ImportRequest) -> Result<Vec<PathBuf>, Failure> {
        let (shard, table) = (self.clone(), table.clone());
        runtime::spawn(async move {
            let _turn = shard.definitions().begin().await;
            let _pass = shard.enter()?;
            run(&shard, &table, request).await
        })
        .await
    }
}

async fn run(shard: &Shard, table: &Arc<Table>, request: ImportRequest) -> Result<Vec<PathBuf>, Failure> {
    if shard.schema().table_by_id(table.id).is_none() {
        return Err(Failure::server(format!("{} was dropped meanwhile", table.full_name())));
    }
    let mut data = Vec::new();
    for directory in shard.config().directories.all() {
        data.push(canonical(directory).await?);
    }
    let own: Vec<PathBuf> = data.iter().map(|data| engine::directory_of(data, table)).collect();
    for directory in &own {
        runtime::file::create_dir_all(directory).await.map_err(io)?;
    }
    if request.directories.is_empty() {
        take_in(shard, table, &own, &own, &request.options).await?;
        return Ok(Vec::new());
    }
    let mut directories = Vec::new();
    for directory in request.directories {
        let Ok(found) = canonical(&directory).await else {
            return Err(Failure::server(format!("Directory {} does not exist", directory.display())));
        };
        directories.push((directory, found));
    }
    let mut failed = Vec::new();
    for (written, directory) in directories {
        let taken = match is_of_another_table(&data, &directory, &own) {
            true => Err(Failure::server("it belongs to another table of this node")),
            false => take_in(shard, table, &[directory], &own, &request.options).await,
        };
        if let Err(failure) = taken {
            tracing::error!(directory = %written.display(), %failure, table = %table.full_name(), "not imported");
            failed.push(written);
        }
    }
    Ok(failed)
}

/// Whether a directory is one in which this node keeps the SSTables of another table. Directories of snapshots and
/// backups below it are not.
fn is_of_another_table(data: &[PathBuf], directory: &Path, own: &[PathBuf]) -> bool {
    let is_tables = |data: &PathBuf| {
        let below = directory.strip_prefix(data.join("data"));
        below.is_ok_and(|below| below.components().count() == 2)
    };
    data.iter().any(is_tables) && !own.iter().any(|own| own == directory)
}

/// Imports the SSTables of some directories: of one, or of all of the table's `own`.
async fn take_in(
    shard: &Shard,
    table: &Arc<Table>,
    directories: &[PathBuf],
    own: &[PathBuf],
    options: &ImportOptions,
) -> Result<(), Failure> {
    let mut sources = import::list(directories).await.map_err(failure)?;
    let mut served = HashSet::default();
    let is_own = directories.iter().any(|directory| own.contains(directory));
    let logs = if is_own { own } else { directories };
    import::retain_new(logs, &mut sources, &served, is_own).await.map_err(failure)?;
    if is_own {
        for answer in shard.on_every_shard(TableVerb::Served(table.id)).await? {
            if let TableAnswer::Served(descriptors) = answer {
                served.extend(descriptors);
            }
        }
    }
    import::retain_new(logs, &mut sources, &served, is_own).await.map_err(failure)?;
    if sources.is_empty() {
        tracing::info!(table = %table.full_name(), ?directories, "no new SSTables were found");
        return Ok(());
    }
    for source in &sources {
        source.check(table, options.depth).await.map_err(failure)?;
    }
    let names: Vec<PathBuf> = sources.iter().map(Source::file).collect();
    let import = place_and_commit(shard, table, own, sources, options).await?;
    tracing::info!(table = %table.full_name(), ?names, "imported");
    if let Err(error) = import.finish().await {
        tracing::warn!(%error, ?directories, "imported files stay where they came from");
    }
    Ok(())
}

/// Takes SSTables that were streamed into directories that only hold those, and moves their files. To be called within
/// a turn of definitions.
///
/// # Errors
/// The table is not known, or the disk's: what was not taken stays in its directory.
pub(crate) async fn take_streamed(shard: &Shard, table: TableId, directories: &[PathBuf]) -> Result<(), Failure> {
    let table = shard.schema().table_by_id(table).cloned();
    let table = table.ok_or_else(|| Failure::server("the table was dropped meanwhile"))?;
    let data = shard.config().directories.all();
    let own: Vec<PathBuf> = data.iter().map(|data| engine::directory_of(data, &table)).collect();
    let options = ImportOptions { depth: Depth::Quick, keep_level: false, keep_repaired: true, copy: false };
    // All in one step: a compaction between two could purge a tombstone before the row that it deletes has come.
    let sources = import::list(directories).await.map_err(failure)?;
    if sources.is_empty() {
        return Ok(());
    }
    let import = place_and_commit(shard, &table, &own, sources, &options).await?;
    if let Err(error) = import.finish().await {
        tracing::warn!(%error, table = %table.full_name(), "streamed files stay where they came to");
    }
    Ok(())
}

/// Makes SSTables a table's, with everything but removing them from where they came from.
async fn place_and_commit(
    shard: &Shard,
    table: &Table,
    own: &[PathBuf],
    sources: Vec<Source>,
    options: &ImportOptions,
) -> Result<Import, Failure> {
    let mut places = Vec::new();
    for answer in shard.on_every_shard(TableVerb::LogPlace).await? {
        if let TableAnswer::Place(place) = answer {
            places.push(place);
        }
    }
    let mut import = Import::place(own, sources, options, &places).await.map_err(failure)?;
    let verb = TableVerb::OpenImported { table: table.id, placed: import.placed.clone() };
    if let Err(failure) = shard.on_every_shard(verb).await {
        end(shard, table, false).await?;
        import.abort().await;
        return Err(failure);
    }
    if let Err(error) = import.commit().await {
        end(shard, table, false).await?;
        return Err(failure(error).unknown());
    }
    end(shard, table, true).await?;
    Ok(import)
}

async fn end(shard: &Shard, table: &Table, committed: bool) -> Result<(), Failure> {
    shard.on_every_shard(TableVerb::EndImport { table: table.id, committed }).await.map(drop)
}

async fn canonical(path: &Path) -> Result<PathBuf, Failure> {
    runtime::file::canonical(path).await.map_err(io)
}

fn io(error: std::io::Error) -> Failure {
    Failure::server(format!("disk: {error}"))
}

fn failure(error: engine::Error) -> Failure {
    Failure::server(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_other_tables_are_known() {
        let data = ["/d".into(), "/d2".into()];
        let own = ["/d/data/ks/t-1".into(), "/d2/data/ks/t-1".into()];
        let other = |path: &str| is_of_another_table(&data, Path::new(path), &own);
        assert!(other("/d/data/ks/u-2") && other("/d/data/k2/t-1") && other("/d2/data/ks/u-2"));
        let own = ["/d/data/ks/t-1", "/d2/data/ks/t-1"];
        for allowed in own.into_iter().chain(["/d/data/ks/u-2/snapshots/s", "/tmp/x", "/d/data/ks", "/e/data/ks/u-2"]) {
            assert!(!other(allowed), "{allowed}");
        }
    }
}
