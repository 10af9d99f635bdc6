//! Logged batches (P5): each one adds its own number to several partitions, from which nothing is ever deleted.
//!
//! 1. A read of a partition shows every batch that was acknowledged before it began, and every batch that an earlier
//!    read of the partition showed: the partition is a set that only grows (P1, P2).
//! 2. No read shows a batch that failed for certain (P3), or one that was never sent to the partition.
//! 3. In the end, when what was begun has been finished, every batch is in all of its partitions or in none.

use super::history::{Fate, Span, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// The number of a batch.
pub type BatchNumber = i64;

#[derive(Debug)]
struct Batch {
    partitions: BTreeSet<i64>,
    fate: Fate,
    /// When it was acknowledged, in virtual nanoseconds.
    acknowledged: u64,
}

/// The batches of a run.
#[derive(Debug, Default)]
pub struct Batches {
    sent: Vec<Batch>,
    /// By batch and partition: when the first read ended that showed it.
    shown: BTreeMap<(BatchNumber, i64), u64>,
}

impl Batches {
    /// Records that a batch over these partitions is sent. Returns its number.
    pub fn begin(&mut self, partitions: BTreeSet<i64>) -> BatchNumber {
        self.sent.push(Batch { partitions, fate: Fate::InFlight, acknowledged: u64::MAX });
        self.sent.len() as BatchNumber - 1
    }

    /// How many batches were sent.
    pub fn count(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Records the fate of a batch that was answered or whose connection broke.
    pub fn finish(&mut self, number: BatchNumber, fate: Fate, now: u64) -> Result<(), Violation> {
        if fate == Fate::Failed && self.shown.range((number, i64::MIN)..=(number, i64::MAX)).next().is_some() {
            return Err(Violation(format!("batch {number} failed for certain but a read has shown it")));
        }
        let batch = &mut self.sent[number as usize];
        batch.fate = fate;
        if fate == Fate::Acknowledged {
            batch.acknowledged = now;
        }
        Ok(())
    }

    /// Checks that a read of a partition over `span` may show these batches and no others.
    pub fn check_read(&mut self, pk: i64, shown: &BTreeSet<BatchNumber>, span: Span) -> Result<(), Violation> {
        let (started, ended) = span;
        for number in shown {
            let sent = usize::try_from(*number).ok().and_then(|number| self.sent.get(number));
            match sent {
                Some(batch) if batch.fate != Fate::Failed && batch.partitions.contains(&pk) => {}
                other => return Err(Violation(format!("partition {pk} shows batch {number}: {other:?}"))),
            }
        }
        for (number, batch) in (0..).zip(&self.sent) {
            let is_due = batch.fate == Fate::Acknowledged && batch.acknowledged <= started;
            let was_shown = self.shown.get(&(number, pk)).is_some_and(|first| *first <= started);
            if batch.partitions.contains(&pk) && (is_due || was_shown) && !shown.contains(&number) {
                return Err(Violation(format!(
                    "partition {pk} read at {started}..{ended} lacks batch {number}: {batch:?}, shown before: {was_shown}"
                )));
            }
        }
        for number in shown {
            self.shown.entry((*number, pk)).or_insert(ended);
        }
        Ok(())
    }

    /// Checks that no batch is in some of its partitions and not in others. To be called when every partition has been
    /// read and nothing is under way any more.
    pub fn check_whole(&self) -> Result<(), Violation> {
        for (number, batch) in (0..).zip(&self.sent) {
            let there = |pk: &&i64| self.shown.contains_key(&(number, **pk));
            let count = batch.partitions.iter().filter(there).count();
            if count > 0 && count < batch.partitions.len() {
                return Err(Violation(format!("batch {number} is in {count} of its partitions: {batch:?}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: [i64; 2] = [1, 2];

    fn one(fate: Fate) -> Batches {
        let mut batches = Batches::default();
        let number = batches.begin(PARTITIONS.into());
        batches.finish(number, fate, 10).expect("nothing was shown");
        batches
    }

    #[test]
    fn an_acknowledged_batch_is_in_every_partition() {
        let mut batches = one(Fate::Acknowledged);
        assert!(batches.check_read(1, &[].into(), (9, 12)).is_ok());
        assert!(batches.check_read(1, &[0].into(), (11, 12)).is_ok());
        assert!(batches.check_read(2, &[].into(), (11, 12)).is_err());
        assert!(batches.check_read(3, &[].into(), (11, 12)).is_ok());
    }

    #[test]
    fn what_a_partition_has_shown_it_shows_for_good() {
        let mut batches = one(Fate::Unknown);
        assert!(batches.check_read(1, &[].into(), (11, 12)).is_ok());
        assert!(batches.check_read(1, &[0].into(), (11, 14)).is_ok());
        assert!(batches.check_read(1, &[].into(), (13, 15)).is_ok());
        assert!(batches.check_read(1, &[].into(), (15, 16)).is_err());
    }

    #[test]
    fn a_batch_that_failed_shows_nowhere() {
        assert!(one(Fate::Failed).check_read(1, &[0].into(), (11, 12)).is_err());
        let mut batches = Batches::default();
        let number = batches.begin(PARTITIONS.into());
        assert!(batches.check_read(1, &[0].into(), (1, 2)).is_ok());
        assert!(batches.finish(number, Fate::Failed, 3).is_err());
    }

    #[test]
    fn strangers_are_found() {
        let mut batches = one(Fate::Acknowledged);
        assert!(batches.check_read(3, &[0].into(), (1, 2)).is_err());
        assert!(batches.check_read(1, &[1].into(), (1, 2)).is_err());
        assert!(batches.check_read(1, &[-1].into(), (1, 2)).is_err());
    }

    #[test]
    fn a_batch_in_part_of_its_partitions_is_found() {
        let mut batches = one(Fate::Unknown);
        assert!(batches.check_whole().is_ok());
        batches.check_read(1, &[0].into(), (11, 12)).expect("it may show");
        assert!(batches.check_whole().is_err());
        batches.check_read(2, &[0].into(), (11, 12)).expect("it may show");
        assert!(batches.check_whole().is_ok());
    }
}
