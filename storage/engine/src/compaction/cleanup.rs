//! Cleanups: SSTables that have keys outside some ranges are rewritten one by one, each at its level, without these
//! keys.
//!
//! Whether an SSTable has such keys is looked up in its index, one place for each gap between the ranges: a node owns
//! many small ranges, so most of its SSTables reach beyond them without having anything there. Nothing is waited for
//! until an SSTable is found that has to be rewritten.
//!
//! Foreign SSTables and those with damaged bytes are left as they are.

use super::Candidate;
use super::TaskKind;
use super::compactor::Compactor;
use super::run::CompactionJob;
use crate::error::Error;
use crate::sstables::open_sstable::OpenSstable;
use model::{TableId, Token, TokenRange};
use sstable::reader::CursorStep;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// Tells the ranges of which keys are kept by a cleanup, in their order on the ring; none if it must not go on.
pub type OwnedRanges = dyn Fn() -> Option<Arc<[TokenRange]>>;

impl Compactor {
    /// Rewrites SSTables one by one that have keys outside the ranges that `owned` tells, without such keys. It is
    /// asked anew for each SSTable, in the same step in which that is chosen: what comes to own ranges afterwards comes
    /// into other SSTables. Returns false if it tells none; then the others stay as they are.
    ///
    /// # Errors
    /// The disk's, or an SSTable cannot be read.
    pub(crate) async fn clean(self: &Rc<Self>, table: TableId, owned: &OwnedRanges) -> Result<bool, Error> {
        // What has nothing outside these ranges. An SSTable that a compaction has merged others into is a new one.
        let mut clean: BTreeSet<u64> = BTreeSet::new();
        let mut known: Option<Arc<[TokenRange]>> = None;
        loop {
            let Some(now_owned) = owned() else { return Ok(false) };
            if known.as_ref() != Some(&now_owned) {
                clean.clear();
                known = Some(now_owned.clone());
            }
            let Some(next) = self.reaching_beyond(table, &now_owned, &clean)? else { return Ok(true) };
            clean.insert(next.number);
            if self.faults.noted(has_keys_in(&next, &TokenRange::gaps(&now_owned)).await)? {
                let number = next.number;
                drop(next);
                let Some(outputs) = self.rewrite_owned(table, number, owned).await? else { return Ok(false) };
                clean.extend(outputs);
            }
        }
    }

    /// An SSTable whose first or last key may lie outside some ranges, and that is not known to be clean.
    fn reaching_beyond(
        &self,
        table: TableId,
        owned: &[TokenRange],
        clean: &BTreeSet<u64>,
    ) -> Result<Option<Rc<OpenSstable>>, Error> {
        let reaches_beyond = |first: Token, last: Token| !owned.iter().any(|range| range.holds_tokens(first, last));
        let suspect =
            |candidate: &Candidate| !clean.contains(&candidate.id) && reaches_beyond(candidate.first, candidate.last);
        let next = self
            .candidates(table)?
            .iter()
            .find_map(|(candidates, _)| candidates.iter().find(|one| suspect(one)).map(|one| one.id));
        let tables = self.tables.borrow();
        let sstables = &tables.get(&table).ok_or(Error::UnknownTable(table))?.view.sstables;
        Ok(next.and_then(|number| sstables.iter().find(|sstable| sstable.number == number).cloned()))
    }

    /// Rewrites an SSTable, unless a compaction has merged it meanwhile. Returns the numbers of what came of it; `None`
    /// if no ranges are told.
    async fn rewrite_owned(
        self: &Rc<Self>,
        table: TableId,
        number: u64,
        owned: &OwnedRanges,
    ) -> Result<Option<Vec<u64>>, Error> {
        let _turn = self.turn.acquire(1).await;
        let Some(owned) = owned() else { return Ok(None) };
        for (candidates, moment) in self.candidates(table)? {
            if let Some(job) = self.job_of_some(table, &candidates, &moment, &[number])? {
                let job = CompactionJob { owned: Some(owned), ..job };
                return Ok(Some(self.faults.noted(self.compact(job, TaskKind::Cleanup).await)?.outputs));
            }
        }
        Ok(Some(Vec::new()))
    }
}

/// Whether an SSTable has a key in one of these ranges.
async fn has_keys_in(sstable: &OpenSstable, ranges: &[TokenRange]) -> Result<bool, Error> {
    let (first, last) = sstable.tokens();
    for range in ranges.iter().filter(|range| range.may_overlap(first, last)) {
        let mut cursor = sstable.reader.scan(range.clone());
        loop {
            match cursor.advance().map_err(|error| sstable.bad(error))? {
                CursorStep::Fragment => return Ok(true),
                CursorStep::Need(block) => cursor.supply(block, sstable.load(block).await?),
                CursorStep::End => break,
            }
        }
    }
    Ok(false)
}
