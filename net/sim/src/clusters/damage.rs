//! Bit rot in a run with replicated tables: a bit of a file of an SSTable changes on the disk of one node, at any time
//! of a round. What the node then cannot read it must not leave out, and at the end of the round it has it again.
//!
//! Only one node has damaged files at a time: what was acknowledged is whole on a majority of the replicas. Tables
//! whose requests are acknowledged by fewer replicas are spared, and so is the one whose deletions are forgotten at
//! once, of which a node does not know whether the other replicas still have them.

use super::nodetool::{command, run};
use super::replicated::ReplicatedRun;
use crate::workload::deletions;
use runtime::NodeId;
use server::client::{Client, QueryOptions};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The keyspace whose files are damaged.
const KEYSPACE: &str = "s";
/// Longest time in which damaged files are replaced when nothing else is broken, virtual.
const HEALING_MAX: Duration = Duration::from_secs(180);
/// Pause between two looks whether they are.
const PAUSE: Duration = Duration::from_secs(3);
/// Longest time of a flush, virtual.
const FLUSH_MAX: Duration = Duration::from_secs(60);

impl ReplicatedRun {
    /// In a run with damage, changes a bit of a file of a random node, if it has one.
    pub(super) fn damage(&mut self) -> Result<(), String> {
        if !self.damages || self.cluster.rng.below(3) == 0 {
            return Ok(());
        }
        let at = self.cluster.rng.below(self.cluster.members.len() as u64) as usize;
        let (node, address) = (self.cluster.members[at].id, self.cluster.members[at].address());
        self.cluster.outside(FLUSH_MAX, move || run(address, command("flush", &[], &[KEYSPACE])))?;
        self.flip(node);
        Ok(())
    }

    fn flip(&mut self, node: NodeId) {
        let files: Vec<PathBuf> = self.cluster.sim.files(node).into_iter().map(|(path, _)| path).collect();
        // One that is being written, or will be removed at the next start, is named by a transaction.
        let logs = files.iter().filter(|path| path.to_string_lossy().contains("_txn_"));
        let logs: Vec<Vec<u8>> = logs.filter_map(|path| self.cluster.sim.read_file(node, path)).collect();
        let is_settled = |name: &str| {
            let Some((sstable, _)) = name.rsplit_once('-') else { return false };
            logs.iter().all(|log| !String::from_utf8_lossy(log).contains(sstable))
        };
        let candidates: Vec<PathBuf> =
            files.into_iter().filter(|path| is_wanted(path) && is_settled(name(path))).collect();
        let Some(count) = Some(candidates.len() as u64).filter(|count| *count > 0) else { return };
        let file = &candidates[self.cluster.rng.below(count) as usize];
        let (place, bit) = (self.cluster.rng.next_u64(), self.cluster.rng.below(8));
        let mut is_changed = false;
        self.cluster.sim.mutate_file(node, file, |bytes| {
            if !bytes.is_empty() {
                let at = (place % bytes.len() as u64) as usize;
                bytes[at] ^= 1 << bit;
                is_changed = true;
            }
        });
        if is_changed {
            let now = self.cluster.sim.now().0 / 1_000_000;
            self.report.struck.push(format!("{now}: Damage({}, {})", node.0, file.display()));
            self.report.damaged += 1;
            self.is_damaged = true;
            // A replica that gives up what only it has acknowledged is equal to the others again once it is repaired.
            self.keeps_hints = false;
        }
    }

    /// Waits until no node has damaged files. All nodes serve, and the clients send nothing.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_damaged) {
            return Ok(());
        }
        let servers = self.cluster.servers();
        let healed = self.cluster.outside(HEALING_MAX + FLUSH_MAX, move || {
            let servers = servers.clone();
            async move {
                let deadline = runtime::now().after(HEALING_MAX);
                loop {
                    let mut told = Vec::new();
                    for server in &servers {
                        told.extend(damaged(*server).await?);
                    }
                    if told.is_empty() {
                        return Ok(());
                    }
                    if runtime::now() >= deadline {
                        return Err(format!("damaged SSTables are not replaced: {told:?}"));
                    }
                    runtime::sleep(PAUSE).await;
                }
            }
        });
        healed?
    }
}

/// Lets a node look at all its files, and asks which are damaged.
async fn damaged(server: SocketAddr) -> Result<Vec<String>, String> {
    let checked: IpAddr = server.ip();
    // It fails if there is a damaged one.
    run(checked, command("verify", &["-f"], &[KEYSPACE])).await;
    let mut client = Client::connect(server, None, 5).await.map_err(|error| format!("connect: {error}"))?;
    let text = "SELECT file, problem, state FROM system_views.damaged_sstables";
    let rows = client.query(text, &QueryOptions::default()).await.map_err(|error| format!("{text}: {error:?}"))?.rows;
    let shown = rows.iter().map(|row| {
        let columns = row.iter().map(|column| String::from_utf8_lossy(column.as_deref().unwrap_or_default()));
        columns.collect::<Vec<_>>().join(": ")
    });
    Ok(shown.collect())
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Whether a file is one of an SSTable of a table that may be damaged.
fn is_wanted(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let spared = format!("/{}/{}-", deletions::TABLE.0, deletions::TABLE.1);
    text.contains(&format!("/data/{KEYSPACE}/"))
        && !text.contains(&spared)
        && !text.contains("/snapshots/")
        && !text.contains("/backups/")
        && !text.contains("/.")
        && name(path).starts_with("da-")
}
