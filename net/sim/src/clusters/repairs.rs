//! Repairs in a run with replicated tables: an operator begins one, full or incremental, before the fault of a round,
//! and it may fail. At the end of the run one must succeed, and leave replicas that are equal.

use super::members::START_MAX;
use super::nodetool::{command, repair};
use super::replicated::ReplicatedRun;
use crate::workload::deletions;
use runtime::NodeId;
use server::client::{Client, QueryOptions};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The node of the operator.
const OPERATOR: NodeId = NodeId(2);
/// Longest time of a repair once nothing is broken, virtual: one that waits for a node that has crashed learns it.
const REPAIR_MAX: Duration = Duration::from_secs(600);
/// The keyspaces that are repaired.
const KEYSPACES: [&str; 2] = ["s", "levels"];

/// A repair under way.
pub(super) struct RunningRepair {
    /// How it ended.
    succeeded: Rc<Cell<Option<bool>>>,
}

impl ReplicatedRun {
    /// In a run with repairs, lets the table whose deletions are forgotten at once forget only what is repaired.
    pub(super) fn prepare_repairs(&mut self) -> Result<(), String> {
        if !self.repairs || self.cluster.rng.below(2) == 0 {
            return Ok(());
        }
        let server = self.cluster.servers()[0];
        let (keyspace, table) = deletions::TABLE;
        let text = format!("ALTER TABLE {keyspace}.{table} WITH tombstone_gc = {{'mode': 'repair'}}");
        self.cluster.outside(START_MAX, move || {
            let text = text.clone();
            async move {
                let mut client = Client::connect(server, None, 4).await.map_err(|error| error.to_string())?;
                let altered = client.query(&text, &QueryOptions::default()).await;
                altered.map(drop).map_err(|error| format!("{text}: {error:?}"))
            }
        })?
    }

    /// In a run with repairs, begins one on a random node.
    pub(super) fn begin_repair(&mut self) -> Option<RunningRepair> {
        if !self.repairs {
            return None;
        }
        let servers = self.cluster.servers();
        let at = self.cluster.rng.below(servers.len() as u64) as usize;
        let address = servers[at].ip();
        let options: &[&str] = match self.cluster.rng.below(4) {
            0 => &["-full"],
            1 => &["-full", "-seq"],
            2 => &["-pr"],
            _ => &[],
        };
        let now = self.cluster.sim.now().0 / 1_000_000;
        self.report.struck.push(format!("{now}: Repair({address}, {options:?})"));
        let succeeded = Rc::new(Cell::new(None));
        let ended = succeeded.clone();
        self.cluster.sim.start_node(OPERATOR, 1, move |_| {
            let ended = ended.clone();
            async move {
                let done = repair(address, command("repair", options, &[KEYSPACES[0]])).await;
                ended.set(Some(done.is_ok()));
            }
        });
        self.report.repairs += 1;
        Some(RunningRepair { succeeded })
    }

    /// Waits until a repair has ended, well or not.
    pub(super) fn finish_repair(&mut self, repair: &RunningRepair) -> Result<(), String> {
        let ended = repair.succeeded.clone();
        self.cluster.sim.run_until(REPAIR_MAX, move || ended.get().is_some());
        self.cluster.sim.kill(OPERATOR);
        match repair.succeeded.get() {
            Some(done) => self.report.repaired += u64::from(done),
            None => return Err(format!("a repair did not end within {REPAIR_MAX:?}")),
        }
        Ok(())
    }

    /// In such a run, repairs everything while nothing is broken and nobody writes: the replicas are then equal.
    pub(super) fn repair_all(&mut self) -> Result<(), String> {
        if !self.repairs {
            return Ok(());
        }
        let servers = self.cluster.servers();
        let repaired = self.cluster.outside(REPAIR_MAX, move || {
            let servers = servers.clone();
            async move {
                for server in servers {
                    for keyspace in KEYSPACES {
                        let done = repair(server.ip(), command("repair", &["-full", "-pr"], &[keyspace])).await;
                        done.map_err(|said| format!("a repair of {keyspace} by {server} failed: {said}"))?;
                    }
                }
                Ok::<(), String>(())
            }
        });
        repaired??;
        self.check_equal("everything was repaired")
    }
}
