//! Registers: cells that only conditional changes write. Every operation on one and its answer goes to the
//! [`Partition`] that judges their order.

use super::history::Violation;
use super::linearizable::{Ending, Operation, OperationId, Partition, Register};
use std::collections::BTreeMap;

/// What is known of the registers.
#[derive(Debug, Default)]
pub struct Registers {
    partitions: BTreeMap<i64, Partition>,
    /// The last value that was seen in a register.
    last_seen: BTreeMap<(i64, Register), Option<i64>>,
    last_written: i64,
    /// Operations that were answered.
    pub answered: u64,
}

impl Registers {
    /// The node serves again.
    pub fn restarted(&mut self) {
        self.partitions.values_mut().for_each(Partition::restarted);
    }

    /// A value that no operation has written yet.
    pub fn new_value(&mut self) -> i64 {
        self.last_written += 1;
        self.last_written
    }

    /// The last value that an answer showed in a register, or that an applied change wrote to it.
    pub fn last_seen(&self, pk: i64, register: Register) -> Option<i64> {
        self.last_seen.get(&(pk, register)).copied().flatten()
    }

    /// An operation on a partition is sent.
    pub fn begin(&mut self, pk: i64, operation: Operation) -> OperationId {
        self.partitions.entry(pk).or_default().begin(operation)
    }

    /// An operation was answered, or its connection broke. Fails if no order of the operations explains it.
    pub fn finish(&mut self, pk: i64, id: OperationId, ending: Ending) -> Result<(), Violation> {
        if let Ending::Answered(answer) = &ending {
            self.answered += 1;
            for (register, value) in &answer.shown {
                self.last_seen.insert((pk, *register), *value);
            }
        }
        let partition = self.partitions.entry(pk).or_default();
        partition.finish(id, ending).map_err(|text| Violation(format!("registers of {pk}: {text}")))
    }

    /// An answer said that a change was applied.
    pub fn applied(&mut self, pk: i64, operation: &Operation) {
        for (register, value) in &operation.writes {
            self.last_seen.insert((pk, *register), *value);
        }
    }
}
