//! Operations on the ring of a run with replicated tables: nodes join, leave, die and are replaced, and a keyspace gets
//! another number of replicas, while clients send requests and faults strike.
//!
//! A fault begins at a random moment of the operation. Both must have ended for the round to end (P12); what the judges
//! of the run say holds throughout (P1, P4, P8).

use super::members::{AGREEMENT_MAX, SEEDS_MAX, START_MAX};
use super::replicated::ReplicatedRun;
use runtime::NodeId;
use server::client::{Client, QueryOptions};
use std::time::Duration;

/// Fewest nodes that stay when one leaves or dies.
const NODES_MIN: usize = 4;
/// Most nodes.
const NODES_MAX: usize = 7;
/// Longest time between the beginning of an operation and that of a fault, virtual.
const HEAD_START_MILLIS_MAX: u64 = 3_000;
/// Longest time of an operation once nothing is broken, virtual.
const OPERATION_MAX: Duration = Duration::from_secs(90);

/// An operation that has begun.
pub(super) enum RingOperation {
    Join,
    Leave(NodeId),
    Replace,
    Replicate,
    /// Tablets were split, merged and moved.
    Tablets,
}

impl ReplicatedRun {
    /// Begins an operation for which there are enough nodes, if chance does not choose none.
    pub(super) fn begin_operation(&mut self) -> Result<Option<RingOperation>, String> {
        if self.world.borrow().replicas.by_tablets && self.cluster.rng.below(2) == 0 {
            self.change_tablets()?;
            return Ok(Some(RingOperation::Tablets));
        }
        let count = self.cluster.members.len();
        let victim = SEEDS_MAX + self.cluster.rng.below((count - SEEDS_MAX) as u64) as usize;
        let operation = match self.cluster.rng.below(5) {
            0 | 1 if count < NODES_MAX => {
                self.cluster.add_node();
                self.report.joins += 1;
                RingOperation::Join
            }
            2 if count > NODES_MIN => {
                self.cluster.begin_leaving(victim);
                self.report.leaves += 1;
                RingOperation::Leave(self.cluster.members[victim].id)
            }
            3 if count > NODES_MIN => {
                let dead = self.cluster.members.remove(victim);
                self.cluster.sim.crash(dead.id);
                self.keeps_hints = false;
                let address = dead.address();
                self.cluster.add_node_with(vec![format!("replace_address_first_boot={address}")]);
                self.report.replaced += 1;
                RingOperation::Replace
            }
            4 if count >= NODES_MIN => {
                self.change_replicas()?;
                self.report.replicated += 1;
                RingOperation::Replicate
            }
            _ => return Ok(None),
        };
        let head_start = Duration::from_millis(self.cluster.rng.below(HEAD_START_MILLIS_MAX));
        self.cluster.sim.run_until(head_start, || false);
        Ok(Some(operation))
    }

    /// Waits until an operation has ended.
    pub(super) fn finish_operation(&mut self, operation: RingOperation) -> Result<(), String> {
        match operation {
            RingOperation::Join | RingOperation::Replace => {
                self.cluster.start_all();
                self.cluster.all_ready("an operation")?;
                self.hold_hints_back()?;
            }
            RingOperation::Leave(id) => self.cluster.finish_leaving(id)?,
            RingOperation::Replicate | RingOperation::Tablets => {}
        }
        self.cluster.check_ring(AGREEMENT_MAX.max(OPERATION_MAX))?;
        if self.world.borrow().replicas.by_tablets { self.finish_moving() } else { Ok(()) }
    }

    /// Gives the keyspace of counters, registers and batches three or four replicas, by turns.
    fn change_replicas(&mut self) -> Result<(), String> {
        self.replicate(if self.factor == 3 { 4 } else { 3 })
    }

    /// Gives the keyspace of counters, registers and batches this many replicas.
    pub(super) fn replicate(&mut self, factor: u32) -> Result<(), String> {
        let server = self.cluster.servers()[0];
        self.factor = factor;
        let options = self.world.borrow().replicas.usual_options(self.factor);
        let text = format!("ALTER KEYSPACE s WITH {options}");
        self.cluster.outside(START_MAX, move || {
            let text = text.clone();
            async move {
                let mut client = Client::connect(server, None, 4).await.map_err(|error| error.to_string())?;
                client.query(&text, &QueryOptions::default()).await.map_err(|error| format!("{error:?}"))
            }
        })??;
        Ok(())
    }
}
