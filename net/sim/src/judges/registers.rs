//! Registers: cells that only conditional changes write. Each operation on them, and its answer, goes to the
//! [`Partition`] that judges the order of the operations.

use super::history::Violation;
use super::linearizable::{Ending, Operation, OperationId, Partition, Register};
use std::collections::BTreeMap;

/// What is known about all registers.
#[derive(Debug, Default)]
pub struct Registers {
    partitions: BTreeMap<i64, Partition>,
    /// The value of each register as [`Registers::last_seen`] returns it.
    last_seen: BTreeMap<(i64, Register), Option<i64>>,
    last_written: i64,
    /// How many operations were answered.
    pub answered: u64,
}

impl Registers {
    /// Records that the node serves again after a crash or stop.
    pub fn restarted(&mut self) {
        self.partitions.values_mut().for_each(Partition::restarted);
    }

    /// How many changes of a partition, whose end is unknown, may still take effect.
    pub fn undecided(&self, pk: i64) -> usize {
        self.partitions.get(&pk).map_or(0, Partition::undecided)
    }

    /// A value that no operation has written yet.
    pub fn new_value(&mut self) -> i64 {
        self.last_written += 1;
        self.last_written
    }

    /// The last value that an answer showed in a register or that an applied change wrote to it.
    pub fn last_seen(&self, pk: i64, register: Register) -> Option<i64> {
        self.last_seen.get(&(pk, register)).copied().flatten()
    }

    /// Records that an operation on a partition is sent. Returns its number within the partition.
    pub fn begin(&mut self, pk: i64, operation: Operation) -> OperationId {
        self.partitions.entry(pk).or_default().begin(operation)
    }

    /// Records how an operation ended: answered, failed, or unknown because its connection broke. Fails if no order of
    /// the operations explains that.
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

    /// Judges all operations so far, those without an end as unknown. Fails as [`Registers::finish`] does.
    pub fn settle(&mut self) -> Result<(), Violation> {
        let judged = |(pk, partition): (&i64, &mut Partition)| {
            partition.settle().map_err(|text| Violation(format!("registers of {pk}: {text}")))
        };
        self.partitions.iter_mut().try_for_each(judged)
    }

    /// Records that a change was applied, as its answer said.
    pub fn applied(&mut self, pk: i64, operation: &Operation) {
        for (register, value) in &operation.writes {
            self.last_seen.insert((pk, *register), *value);
        }
    }
}
