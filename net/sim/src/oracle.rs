//! What a correct node may answer: every write's fate, per cell the writes that may show.
//!
//! 1. Each write has a unique timestamp and writes its own id as the value, so that a value read names its write. Deletes
//!    write `None`; a row's existence by primary key is one more cell, the marker.
//! 2. A write is in flight, then acknowledged, failed (definite) or unknown. A crash makes what was in flight unknown.
//! 3. A read may show the newest write acknowledged before it began, or any newer one that did not fail.
//! 4. A read of one partition may not show half of a write, whatever its fate.
//! 5. An unknown write that a read shows counts as acknowledged from then on; one that a read after a restart does not
//!    show although nothing newer hides it counts as failed.

use std::collections::BTreeMap;

/// One cell of the workload's tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CellKey {
    /// Index of the table.
    pub table: u8,
    /// Partition key.
    pub pk: i64,
    /// Clustering, 0 in tables without.
    pub ck: i64,
    /// 0 is the marker.
    pub column: u8,
}

/// The column number of the marker.
pub const MARKER: u8 = 0;

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// No answer yet.
    InFlight,
    /// It must show unless something newer does.
    Acknowledged,
    /// It must never show.
    Failed,
    /// It may show, wholly or not at all.
    Unknown,
}

/// A write's number: its value and, times a factor, its timestamp.
pub type WriteId = i64;

#[derive(Debug)]
struct Write {
    fate: Fate,
    started: u64,
    acknowledged: u64,
    effects: Vec<(CellKey, Option<WriteId>)>,
}

/// A rule that an answer broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

/// The rows of one partition as a read gave them: clustering to values of columns 1, 2, ...
pub type PartitionRows = BTreeMap<i64, Vec<Option<WriteId>>>;

/// A partition of a table.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Index of the table.
    pub table: u8,
    /// Partition key.
    pub pk: i64,
    /// Every clustering that the workload uses there.
    pub cks: &'a [i64],
    /// How many value columns.
    pub columns: u8,
}

/// The history. Times are virtual nanoseconds.
#[derive(Debug, Default)]
pub struct Oracle {
    writes: Vec<Write>,
    cells: BTreeMap<CellKey, Vec<(WriteId, Option<WriteId>)>>,
    restarted: u64,
    /// Reads checked so far.
    pub reads_checked: u64,
}

impl Oracle {
    /// The id that the next [`Oracle::begin`] gives out. Ids grow, and so do the timestamps made of them.
    pub fn next_id(&self) -> WriteId {
        self.writes.len() as WriteId + 1
    }

    /// A write begins. `effects` hold the write's own id or `None`; each cell at most once.
    pub fn begin(&mut self, effects: Vec<(CellKey, Option<WriteId>)>, now: u64) -> WriteId {
        let id = self.next_id();
        for (cell, value) in &effects {
            debug_assert!(value.is_none_or(|value| value == id));
            self.cells.entry(*cell).or_default().push((id, *value));
        }
        self.writes.push(Write { fate: Fate::InFlight, started: now, acknowledged: u64::MAX, effects });
        id
    }

    /// A write got its answer.
    pub fn finish(&mut self, id: WriteId, fate: Fate, now: u64) -> Result<(), Violation> {
        let write = &mut self.writes[id as usize - 1];
        match (write.fate, fate) {
            (Fate::Acknowledged, Fate::Failed) => {
                return Err(Violation(format!("write {id} failed for certain but a read has shown it")));
            }
            // A read has shown it before its answer came: it stays acknowledged since then.
            (Fate::Acknowledged, _) => {}
            _ => {
                write.fate = fate;
                if fate == Fate::Acknowledged {
                    write.acknowledged = now;
                }
            }
        }
        Ok(())
    }

    /// How many writes have a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.writes.iter().filter(|write| write.fate == fate).count()
    }

    /// The node is serving again after a crash or stop; no request from before can take effect any more. With
    /// `may_lose_since`, writes acknowledged after that time may be gone (commit log mode `periodic`).
    pub fn restarted(&mut self, now: u64, may_lose_since: Option<u64>) {
        self.restarted = now;
        for write in &mut self.writes {
            match (write.fate, may_lose_since) {
                (Fate::InFlight, _) => write.fate = Fate::Unknown,
                (Fate::Acknowledged, Some(since)) if write.acknowledged >= since => write.fate = Fate::Unknown,
                _ => {}
            }
        }
    }

    /// A table was emptied (`Acknowledged`) or perhaps emptied (`Unknown`); nobody wrote to it meanwhile.
    pub fn emptied(&mut self, table: u8, fate: Fate) {
        for write in &mut self.writes {
            if write.fate != Fate::Failed && write.effects.iter().any(|(cell, _)| cell.table == table) {
                debug_assert!(write.effects.iter().all(|(cell, _)| cell.table == table));
                // An unknown write may still be on its way to the node: it stays unknown.
                match (write.fate, fate) {
                    (Fate::Acknowledged, Fate::Acknowledged) => write.fate = Fate::Failed,
                    (Fate::Acknowledged, Fate::Unknown) => write.fate = Fate::Unknown,
                    _ => {}
                }
            }
        }
    }

    fn is_allowed(&self, cell: CellKey, value: Option<WriteId>, started: u64, ended: u64) -> Result<(), String> {
        let empty = Vec::new();
        let writes = self.cells.get(&cell).unwrap_or(&empty);
        let base = writes.iter().rev().find(|(id, _)| {
            let write = &self.writes[*id as usize - 1];
            write.fate == Fate::Acknowledged && write.acknowledged <= started
        });
        if base.map_or(value.is_none(), |(_, written)| *written == value) {
            return Ok(());
        }
        let newer = writes.iter().rev().take_while(|(id, _)| base.is_none_or(|(base, _)| id > base)).any(|(id, v)| {
            let write = &self.writes[*id as usize - 1];
            *v == value && write.fate != Fate::Failed && write.started <= ended
        });
        if newer {
            return Ok(());
        }
        // The cell's history from the value that was read on, oldest first.
        let history: Vec<String> = writes
            .iter()
            .filter(|(id, _)| value.is_none_or(|value| *id >= value))
            .map(|(id, written)| {
                let write = &self.writes[*id as usize - 1];
                format!("{id}={written:?} {:?} {}..{}", write.fate, write.started, write.acknowledged)
            })
            .collect();
        Err(format!(
            "{cell:?} read {value:?} at {started}..{ended}, served since {}; newest acknowledged {base:?}; {}",
            self.restarted,
            history.join(", ")
        ))
    }

    /// Checks a read of a whole partition against everything known, then learns from it; `learn` is false while reads may
    /// show what is not durable (mode `periodic`). `span` is when the read began and ended.
    pub fn check_partition(
        &mut self,
        place: &Place<'_>,
        rows: &PartitionRows,
        span: (u64, u64),
        learn: bool,
    ) -> Result<(), Violation> {
        self.reads_checked += 1;
        let Place { table, pk, cks, columns } = *place;
        let (started, ended) = span;
        let fail = |text: String| Err(Violation(format!("table {table} pk {pk}: {text}; rows {rows:?}")));
        if let Some(stranger) = rows.keys().find(|ck| !cks.contains(ck)) {
            return fail(format!("row {stranger} was never written"));
        }
        let mut seen: BTreeMap<CellKey, Option<WriteId>> = BTreeMap::new();
        for &ck in cks {
            let cell = |column| CellKey { table, pk, ck, column };
            let row = rows.get(&ck);
            for column in 1..=columns {
                let value = row.and_then(|row| row[column as usize - 1]);
                if let Err(text) = self.is_allowed(cell(column), value, started, ended) {
                    return fail(text);
                }
                seen.insert(cell(column), value);
            }
            match row {
                None => {
                    if let Err(text) = self.is_allowed(cell(MARKER), None, started, ended) {
                        return fail(format!("row {ck} is missing: {text}"));
                    }
                }
                Some(row) if row.iter().all(Option::is_none) => {
                    let live = self.cells.get(&cell(MARKER)).into_iter().flatten().any(|(_, value)| {
                        value.is_some() && self.is_allowed(cell(MARKER), *value, started, ended).is_ok()
                    });
                    if !live {
                        return fail(format!("row {ck} shows without marker and values"));
                    }
                }
                Some(_) => {}
            }
        }
        if let Err(text) = self.check_whole(&seen, ended) {
            return fail(text);
        }
        if learn {
            self.learn(&seen, span);
        }
        Ok(())
    }

    /// No write shows in one cell and is missing, unhidden, in another of the same read.
    fn check_whole(&self, seen: &BTreeMap<CellKey, Option<WriteId>>, ended: u64) -> Result<(), String> {
        for id in seen.values().flatten() {
            let write = &self.writes[*id as usize - 1];
            for (cell, written) in &write.effects {
                let Some(shown) = seen.get(cell) else { continue };
                if cell.column == MARKER || shown == written || self.may_hide(*cell, *id, *shown, ended) {
                    continue;
                }
                return Err(format!("write {id} shows, but {cell:?} shows {shown:?} instead of {written:?}"));
            }
        }
        Ok(())
    }

    /// Whether `shown` comes from a write newer than `id`.
    fn may_hide(&self, cell: CellKey, id: WriteId, shown: Option<WriteId>, ended: u64) -> bool {
        self.cells.get(&cell).into_iter().flatten().any(|(newer, value)| {
            let write = &self.writes[*newer as usize - 1];
            *newer > id && *value == shown && write.fate != Fate::Failed && write.started <= ended
        })
    }

    fn learn(&mut self, seen: &BTreeMap<CellKey, Option<WriteId>>, (started, ended): (u64, u64)) {
        for (cell, value) in seen {
            if let Some(id) = value {
                let write = &mut self.writes[*id as usize - 1];
                if matches!(write.fate, Fate::Unknown | Fate::InFlight) {
                    write.fate = Fate::Acknowledged;
                    // Somewhere within the read it began to show: only reads that begin after this one must see it.
                    write.acknowledged = ended;
                }
            }
            // What was unknown before the restart, is newer than what shows, and is not a delete that could hide behind
            // an empty cell: it is not there and never will be.
            let floor = value.unwrap_or(0);
            let writes = self.cells.get(cell).cloned().unwrap_or_default();
            for (id, written) in writes.iter().rev().take_while(|(id, _)| *id > floor) {
                let write = &mut self.writes[*id as usize - 1];
                let hidden = value.is_none() && writes.iter().any(|(other, v)| other > id && v.is_none());
                if write.fate == Fate::Unknown
                    && write.started < self.restarted
                    && started >= self.restarted
                    && written.is_some()
                    && !hidden
                {
                    write.fate = Fate::Failed;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(ck: i64, column: u8) -> CellKey {
        CellKey { table: 0, pk: 1, ck, column }
    }

    fn place(cks: &[i64]) -> Place<'_> {
        Place { table: 0, pk: 1, cks, columns: 1 }
    }

    fn rows(list: &[(i64, &[Option<WriteId>])]) -> PartitionRows {
        list.iter().map(|(ck, values)| (*ck, values.to_vec())).collect()
    }

    fn insert(oracle: &mut Oracle, ck: i64, now: u64) -> WriteId {
        let id = oracle.next_id();
        oracle.begin(vec![(cell(ck, MARKER), Some(id)), (cell(ck, 1), Some(id))], now)
    }

    #[test]
    fn lost_acknowledged_write_is_found() {
        let mut oracle = Oracle::default();
        let id = insert(&mut oracle, 0, 1);
        oracle.finish(id, Fate::Acknowledged, 2).unwrap();
        assert!(oracle.check_partition(&place(&[0]), &rows(&[(0, &[Some(id)])]), (3, 4), true).is_ok());
        assert!(oracle.check_partition(&place(&[0]), &rows(&[]), (3, 4), true).is_err());
    }

    #[test]
    fn failed_write_must_not_show() {
        let mut oracle = Oracle::default();
        let id = insert(&mut oracle, 0, 1);
        oracle.finish(id, Fate::Failed, 2).unwrap();
        assert!(oracle.check_partition(&place(&[0]), &rows(&[(0, &[Some(id)])]), (3, 4), true).is_err());
    }

    #[test]
    fn unknown_write_shows_wholly_or_not_and_then_stays() {
        let mut oracle = Oracle::default();
        let id = oracle.next_id();
        let effects = vec![(cell(0, 1), Some(id)), (cell(1, 1), Some(id))];
        oracle.begin(effects, 1);
        oracle.restarted(5, None);
        let half = rows(&[(0, &[Some(id)])]);
        assert!(oracle.check_partition(&place(&[0, 1]), &half, (6, 7), true).is_err());
        let whole = rows(&[(0, &[Some(id)]), (1, &[Some(id)])]);
        assert!(oracle.check_partition(&place(&[0, 1]), &whole, (6, 7), true).is_ok());
        assert!(oracle.check_partition(&place(&[0, 1]), &rows(&[]), (8, 9), true).is_err());
    }

    #[test]
    fn a_read_that_began_before_another_showed_a_write_may_miss_it() {
        let mut oracle = Oracle::default();
        let id = insert(&mut oracle, 0, 5);
        assert!(oracle.check_partition(&place(&[0]), &rows(&[(0, &[Some(id)])]), (1, 9), true).is_ok());
        assert!(oracle.check_partition(&place(&[0]), &rows(&[]), (4, 6), true).is_ok());
        assert!(oracle.check_partition(&place(&[0]), &rows(&[]), (9, 10), true).is_err());
    }

    #[test]
    fn unknown_write_that_did_not_survive_never_returns() {
        let mut oracle = Oracle::default();
        let id = insert(&mut oracle, 0, 1);
        oracle.restarted(5, None);
        assert!(oracle.check_partition(&place(&[0]), &rows(&[]), (6, 7), true).is_ok());
        assert!(oracle.check_partition(&place(&[0]), &rows(&[(0, &[Some(id)])]), (8, 9), true).is_err());
    }

    #[test]
    fn periodic_may_lose_the_last_period_only() {
        let mut oracle = Oracle::default();
        let old = insert(&mut oracle, 0, 1);
        oracle.finish(old, Fate::Acknowledged, 2).unwrap();
        let new = insert(&mut oracle, 0, 3);
        oracle.finish(new, Fate::Acknowledged, 4).unwrap();
        oracle.restarted(5, Some(3));
        assert!(oracle.check_partition(&place(&[0]), &rows(&[(0, &[Some(old)])]), (6, 7), true).is_ok());
        assert!(oracle.check_partition(&place(&[0]), &rows(&[]), (6, 7), true).is_err());
    }
}
