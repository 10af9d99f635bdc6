//! Snapshots of tables on all cores: taken, listed, cleared, and removed when they expire. Shard 0 leads.
//!
//! 1. Every core flushes the table and links its files ([`crate::TableVerb::Snapshot`]).
//! 2. Shard 0 writes the statements that create the table and then the manifest, which makes the snapshot complete.
//!
//! With `auto_snapshot`, a snapshot with Cassandra's name is also taken before a table is dropped or truncated.
//!
//! Invariants: one operation on snapshots runs at a time; a snapshot that could not be completed is removed; to avoid a
//! deadlock, a task that holds the right to change the schema may begin a snapshot operation, but never the other way
//! round.

use crate::describe;
use crate::messages::admin::{TableAnswer, TableVerb};
use crate::shard_state::Shard;
use cluster::metadata::ClusterDescription;
use engine::snapshot::{self, Manifest, is_tag};
use model::schema::SYSTEM_KEYSPACES;
use model::{Failure, Schema, Table, TableId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use engine::snapshot::{Snapshot, has_manifest, list_copied, read_cluster, read_schema};

/// Prefix of the names of snapshots taken before a table is dropped.
pub(crate) const DROPPED: &str = "dropped";
/// Prefix of the names of snapshots taken before a table is truncated.
pub(crate) const TRUNCATED: &str = "truncated";
/// Time between two checks for expired snapshots.
const EXPIRY_PERIOD: Duration = Duration::from_secs(60);

/// A snapshot of one table, and what its manifest says so far.
#[derive(Debug)]
pub(crate) struct Taken {
    table: TableId,
    tag: Arc<str>,
    /// By data directory.
    directories: Vec<PathBuf>,
    manifest: Manifest,
}

impl Shard {
    /// Takes a snapshot of some tables. `flush`: include what is in memtables. `ttl`: the snapshot is removed after
    /// this time. To be called on shard 0.
    ///
    /// # Errors
    /// The name is in use or invalid, or the disk failed; the text is for the operator.
    pub async fn take_snapshot(
        &self,
        tag: &str,
        tables: &[Arc<Table>],
        flush: bool,
        ttl: Option<Duration>,
    ) -> Result<(), Failure> {
        self.take_described_snapshot(tag, tables, flush, ttl, None).await
    }

    /// The same, with what describes the cluster beside each manifest, if `cluster` is given: it is told how the
    /// keyspace of a table is made.
    pub(crate) async fn take_described_snapshot(
        &self,
        tag: &str,
        tables: &[Arc<Table>],
        flush: bool,
        ttl: Option<Duration>,
        cluster: Option<&dyn Fn(String) -> ClusterDescription>,
    ) -> Result<(), Failure> {
        let _turn = self.begin_snapshots().await;
        let _pass = self.enter()?;
        if !is_tag(tag) {
            return Err(Failure::server(format!("{tag:?} cannot be the name of a snapshot")));
        }
        let schema = self.schema();
        let mut plans = Vec::new();
        for table in tables {
            let plan = plan(self, table, tag, ttl);
            if snapshot::exists(&plan.directories).await.map_err(failed)? {
                return Err(Failure::server(format!("Snapshot {tag} already exists.")));
            }
            plans.push((plan, table));
        }
        let created_at = now_millis();
        let mut taken = Vec::new();
        for (mut plan, table) in plans {
            plan.manifest.created_at = Some(created_at);
            plan.manifest.expires_at = expiry(created_at, ttl);
            taken.push(plan.directories.clone());
            let described = cluster.map(|of| of(statement_of(&schema, table)));
            if let Err(failure) = take(self, &schema, table, &mut plan, flush, described).await {
                discard(taken).await;
                return Err(failure);
            }
        }
        Ok(())
    }

    /// All snapshots of the node, sorted by name, keyspace and table, including those of dropped tables. To be called
    /// on shard 0.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, Failure> {
        let _turn = self.begin_snapshots().await;
        snapshot::list(&self.config().directories).await.map_err(failed)
    }

    /// Removes the snapshots for which `which` is true. To be called on shard 0.
    pub async fn clear_snapshots(&self, which: impl Fn(&Snapshot) -> bool) -> Result<(), Failure> {
        let _turn = self.begin_snapshots().await;
        let _pass = self.enter()?;
        for found in snapshot::list(&self.config().directories).await.map_err(failed)? {
            if which(&found) {
                snapshot::remove(&found.directories).await.map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Takes a snapshot of a table that is about to be dropped or truncated; `prefix` says which of the two.
pub(crate) async fn take_automatically(
    shard: &Shard,
    schema: &Schema,
    table: &Arc<Table>,
    prefix: &str,
) -> Result<Taken, Failure> {
    let _turn = shard.begin_snapshots().await;
    let created_at = now_millis();
    let tag = format!("{prefix}-{created_at}-{}", table.name);
    let mut taken = plan(shard, table, &tag, shard.config().auto_snapshot_ttl);
    taken.manifest.created_at = Some(created_at);
    taken.manifest.expires_at = expiry(created_at, shard.config().auto_snapshot_ttl);
    match take(shard, schema, table, &mut taken, true, None).await {
        Ok(()) => Ok(taken),
        Err(failure) => {
            discard(vec![taken.directories]).await;
            let text = format!("no snapshot of {} could be taken: {}", table.full_name(), failure.text);
            Err(Failure::server(text))
        }
    }
}

/// Adds to snapshots what was written to their tables after they were taken.
pub(crate) async fn take_up(shard: &Shard, taken: Vec<Taken>) -> Result<(), Failure> {
    let _turn = shard.begin_snapshots().await;
    for mut taken in taken {
        if !snapshot::exists(&taken.directories).await.map_err(failed)? {
            // The snapshot was cleared in the meantime.
            continue;
        }
        let before = taken.manifest.files.len();
        link(shard, &mut taken, true).await?;
        if taken.manifest.files.len() > before {
            snapshot::write(&taken.directories[0], &taken.manifest, None).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes snapshots of tables whose drop failed.
pub(crate) async fn give_back(shard: &Shard, taken: Vec<Taken>) {
    let _turn = shard.begin_snapshots().await;
    discard(taken.into_iter().map(|taken| taken.directories).collect()).await;
}

/// Removes snapshots when they expire, for as long as the node runs.
pub(crate) async fn expire(shard: Shard) {
    loop {
        runtime::sleep(EXPIRY_PERIOD).await;
        let Ok(_pass) = shard.enter() else { return };
        // Directories are listed only when some snapshot can have expired.
        if shard.snapshots_expire_at().get().is_some_and(|first| first > now_millis()) {
            continue;
        }
        if let Err(failure) = remove_expired(&shard).await {
            tracing::warn!(%failure, "expired snapshots stay");
        }
    }
}

async fn remove_expired(shard: &Shard) -> Result<(), Failure> {
    let _turn = shard.begin_snapshots().await;
    let now = now_millis();
    let mut next = i64::MAX;
    for found in snapshot::list(&shard.config().directories).await.map_err(failed)? {
        match found.manifest.expires_at {
            Some(at) if at <= now => {
                tracing::info!(tag = %found.tag, keyspace = %found.keyspace, table = %found.table, "snapshot expired");
                snapshot::remove(&found.directories).await.map_err(failed)?;
            }
            Some(at) => next = next.min(at),
            None => {}
        }
    }
    shard.snapshots_expire_at().set(Some(next));
    Ok(())
}

fn plan(shard: &Shard, table: &Table, tag: &str, ttl: Option<Duration>) -> Taken {
    if ttl.is_some() {
        // The cached time of the next expiry may be too late for this one.
        shard.snapshots_expire_at().set(None);
    }
    let directories = snapshot::directories(&shard.config().directories, table, tag);
    Taken { table: table.id, tag: tag.into(), directories, manifest: Manifest::default() }
}

/// The statement that makes the keyspace of a table, unless it is there.
fn statement_of(schema: &Schema, table: &Table) -> String {
    schema.keyspace(&table.keyspace).map(|keyspace| describe::recreate_keyspace(keyspace)).unwrap_or_default()
}

/// Links the files of a table on every core and completes its snapshot.
async fn take(
    shard: &Shard,
    schema: &Schema,
    table: &Table,
    taken: &mut Taken,
    flush: bool,
    cluster: Option<ClusterDescription>,
) -> Result<(), Failure> {
    link(shard, taken, flush).await?;
    if let Some(cluster) = cluster {
        snapshot::write_cluster(&taken.directories[0], &cluster.to_json()).await.map_err(failed)?;
    }
    let is_system = SYSTEM_KEYSPACES.contains(&table.keyspace.as_str());
    let definition = schema.keyspace(&table.keyspace).filter(|_| !is_system);
    let definition = definition.map(|keyspace| describe::recreate(keyspace, table));
    snapshot::write(&taken.directories[0], &taken.manifest, definition.as_deref()).await.map_err(failed)
}

async fn link(shard: &Shard, taken: &mut Taken, flush: bool) -> Result<(), Failure> {
    let verb = TableVerb::Snapshot { table: taken.table, tag: taken.tag.clone(), flush };
    for answer in shard.on_every_shard(verb).await? {
        if let TableAnswer::Linked(files) = answer {
            taken.manifest.files.extend(files);
        }
    }
    Ok(())
}

/// Removes incomplete snapshots, so that their names can be used again.
async fn discard(snapshots: Vec<Vec<PathBuf>>) {
    for directories in snapshots {
        if let Err(error) = snapshot::remove(&directories).await {
            tracing::warn!(%error, directory = %directories[0].display(), "an unfinished snapshot stays");
        }
    }
}

fn expiry(created_at: i64, ttl: Option<Duration>) -> Option<i64> {
    ttl.map(|ttl| created_at.saturating_add(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)))
}

fn now_millis() -> i64 {
    runtime::wall_micros().div_euclid(1000)
}

fn failed(error: engine::Error) -> Failure {
    Failure::server(error.to_string())
}
