//! What happened to every cell: all writes with their fates, and which values a read may show.
//!
//! 1. Each write has a number; its timestamp is made of it, and the values it writes are that number, so that a value
//!    read names its write. A deletion writes `None`. A row's existence by primary key is one more cell, the marker; an
//!    element of a collection or a field of a user type is a cell with a path.
//! 2. A write is in flight, then acknowledged, failed (definite) or unknown. A crash makes what was in flight unknown.
//! 3. A read may show the newest write acknowledged before it began, or any newer one that did not fail.
//! 4. What was written with a time to live shows nothing from some moment on, and still hides what is older.
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
    /// Clustering, 0 in tables without, [`STATIC`] for static columns.
    pub ck: i64,
    /// The column; 0 is the marker.
    pub column: u8,
    /// Key, element or field within the column, 0 in simple ones, [`WHOLE`] for all of a list.
    pub element: i64,
}

/// The column number of the marker.
pub const MARKER: u8 = 0;
/// The clustering of static cells.
pub const STATIC: i64 = -1;
/// The element that stands for every element of a list: what is written there covers them all.
pub const WHOLE: i64 = i64::MIN;
/// By how much the moment may be off at which a cell dies: before and after a restart the wall clock is off by up to a
/// second, either way, and it drifts.
const LIFETIME_SLACK: u64 = 2_100_000_000;
const SECOND: u64 = 1_000_000_000;

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

/// When a read began and ended, virtual nanoseconds.
pub type Span = (u64, u64);

/// A rule that an answer broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

/// What a write does to cells: its own number, or `None` for a deletion.
pub type Effects = BTreeMap<CellKey, Option<WriteId>>;

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) fate: Fate,
    pub(crate) started: u64,
    pub(crate) acknowledged: u64,
    /// Seconds that it lives, if not for ever.
    ttl: Option<u64>,
    /// When it was applied at the latest.
    applied: u64,
    pub(crate) effects: Effects,
}

/// The history of a run.
#[derive(Debug, Default)]
pub struct History {
    writes: Vec<Write>,
    cells: BTreeMap<CellKey, Vec<(WriteId, Option<WriteId>)>>,
    /// Writes that one logged batch made: all of them show in the end, or none.
    groups: Vec<Vec<WriteId>>,
    pub(crate) restarted: u64,
}

impl History {
    /// The number that the next [`History::begin`] gives out. Numbers grow, and so do the timestamps made of them.
    pub fn next_id(&self) -> WriteId {
        self.writes.len() as WriteId + 1
    }

    /// A write begins that lives `ttl` seconds, or for ever. Values in `effects` are the write's own number.
    pub fn begin(&mut self, effects: Effects, ttl: Option<u64>, now: u64) -> WriteId {
        let id = self.next_id();
        for (cell, value) in &effects {
            debug_assert!(value.is_none_or(|value| value == id));
            self.cells.entry(*cell).or_default().push((id, *value));
        }
        let (fate, acknowledged, applied) = (Fate::InFlight, u64::MAX, u64::MAX);
        self.writes.push(Write { fate, started: now, acknowledged, ttl, applied, effects });
        id
    }

    /// These writes are one logged batch.
    pub fn bind_together(&mut self, ids: Vec<WriteId>) {
        self.groups.push(ids);
    }

    /// A write got its answer.
    pub fn finish(&mut self, id: WriteId, fate: Fate, now: u64) -> Result<(), Violation> {
        let write = &mut self.writes[id as usize - 1];
        write.applied = if fate == Fate::Unknown { u64::MAX } else { now };
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
            write.applied = write.applied.min(now);
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
            if write.fate != Fate::Failed && write.effects.keys().any(|cell| cell.table == table) {
                debug_assert!(write.effects.keys().all(|cell| cell.table == table));
                // An unknown write may still be on its way to the node: it stays unknown.
                match (write.fate, fate) {
                    (Fate::Acknowledged, Fate::Acknowledged) => write.fate = Fate::Failed,
                    (Fate::Acknowledged, Fate::Unknown) => write.fate = Fate::Unknown,
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn write(&self, id: WriteId) -> &Write {
        &self.writes[id as usize - 1]
    }

    /// The writes to a cell, also those that cover its whole list, newest first. A write that covers the list and also
    /// writes this element leaves the element.
    fn newest_first(&self, cell: CellKey) -> impl Iterator<Item = (WriteId, Option<WriteId>)> + '_ {
        let of = |cell: CellKey| self.cells.get(&cell).map_or(&[][..], Vec::as_slice);
        let mut own = of(cell);
        let mut covers = if cell.element == WHOLE { &[][..] } else { of(CellKey { element: WHOLE, ..cell }) };
        std::iter::from_fn(move || {
            let (next, cover) = (own.last().map(|(id, _)| *id), covers.last().map(|(id, _)| *id));
            let from_own = next >= cover;
            if next == cover || !from_own {
                let found = covers.last().copied();
                covers = &covers[..covers.len().saturating_sub(1)];
                if !from_own {
                    return found;
                }
            }
            let found = own.last().copied();
            own = &own[..own.len().saturating_sub(1)];
            found
        })
    }

    /// The elements of a column that were ever written one by one.
    pub fn elements(&self, column: CellKey) -> Vec<i64> {
        let from = CellKey { element: WHOLE + 1, ..column };
        let to = CellKey { element: i64::MAX, ..column };
        self.cells.range(from..=to).map(|(cell, _)| cell.element).collect()
    }

    /// Whether a write may show, and whether it may show nothing because its time is over.
    fn life(&self, id: WriteId, (started, ended): Span) -> (bool, bool) {
        let write = self.write(id);
        let Some(ttl) = write.ttl else { return (true, false) };
        let first = write.started + ttl.saturating_sub(1) * SECOND;
        let last = write.applied.min(write.acknowledged).saturating_add(ttl * SECOND);
        (started < last.saturating_add(LIFETIME_SLACK), ended + LIFETIME_SLACK >= first)
    }

    fn shows(&self, id: WriteId, written: Option<WriteId>, value: Option<WriteId>, span: Span) -> bool {
        match (written, value) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some(_), None) => self.life(id, span).1,
            (Some(written), Some(value)) => written == value && self.life(id, span).0,
        }
    }

    /// Checks that a read over `span` may show `value` in a cell.
    pub fn is_allowed(&self, cell: CellKey, value: Option<WriteId>, span: Span) -> Result<(), String> {
        if self.allows(cell, span, |shown| shown == value) {
            return Ok(());
        }
        // The cell's history from the value that was read on, oldest first.
        let mut told: Vec<String> = self
            .newest_first(cell)
            .filter(|(id, _)| value.is_none_or(|value| *id >= value))
            .map(|(id, written)| {
                let write = self.write(id);
                format!(
                    "{id}={written:?} {:?} {}..{} ttl {:?}",
                    write.fate, write.started, write.acknowledged, write.ttl
                )
            })
            .collect();
        told.reverse();
        let (started, ended) = span;
        Err(format!(
            "{cell:?} read {value:?} at {started}..{ended}, served since {}; {}",
            self.restarted,
            told.join(", ")
        ))
    }

    /// Whether some value that a read over `span` may show satisfies `wanted`.
    pub fn allows(&self, cell: CellKey, span: Span, wanted: impl Fn(Option<WriteId>) -> bool) -> bool {
        let (started, ended) = span;
        for (id, written) in self.newest_first(cell) {
            let write = self.write(id);
            let candidate = write.fate != Fate::Failed && write.started <= ended;
            let any = |value: Option<WriteId>| wanted(value) && self.shows(id, written, value, span);
            if candidate && (any(written) || any(None)) {
                return true;
            }
            if write.fate == Fate::Acknowledged && write.acknowledged <= started {
                return false;
            }
        }
        wanted(None)
    }

    /// Whether `shown` comes from a write newer than `id`, or from a newer one whose time is over.
    pub(crate) fn may_hide(
        &self,
        cell: CellKey,
        id: WriteId,
        shown: impl Fn(Option<WriteId>) -> bool,
        span: Span,
    ) -> bool {
        self.newest_first(cell).take_while(|(newer, _)| *newer > id).any(|(newer, written)| {
            let write = self.write(newer);
            let any = |value: Option<WriteId>| shown(value) && self.shows(newer, written, value, span);
            write.fate != Fate::Failed && write.started <= span.1 && (any(written) || any(None))
        })
    }

    /// Learns from a cell that a whole read showed.
    pub(crate) fn learn(&mut self, cell: CellKey, value: Option<WriteId>, span: Span) {
        if let Some(id) = value {
            let write = &mut self.writes[id as usize - 1];
            if matches!(write.fate, Fate::Unknown | Fate::InFlight) {
                write.fate = Fate::Acknowledged;
                // Somewhere within the read it began to show: only reads that begin after this one must see it.
                write.acknowledged = span.1;
            }
        }
        // What was unknown before the restart, is newer than what shows, and is not a delete that could hide behind
        // an empty cell: it is not there and never will be.
        let floor = value.unwrap_or(0);
        let writes: Vec<(WriteId, Option<WriteId>)> = self.newest_first(cell).collect();
        for (id, written) in writes.iter().take_while(|(id, _)| *id > floor) {
            let expired = self.life(*id, span).1;
            let hidden = value.is_none()
                && (expired
                    || writes.iter().any(|(other, v)| other > id && (v.is_none() || self.life(*other, span).1)));
            let restarted = self.restarted;
            let write = &mut self.writes[*id as usize - 1];
            if write.fate == Fate::Unknown
                && write.started < restarted
                && span.0 >= restarted
                && written.is_some()
                && !hidden
            {
                write.fate = Fate::Failed;
            }
        }
    }

    /// No logged batch is known to be half there; for moments when every partition has been read since the restart.
    pub fn check_groups(&self) -> Result<(), Violation> {
        for group in &self.groups {
            let with = |fate: Fate| group.iter().find(|id| self.write(**id).fate == fate);
            if let (Some(there), Some(gone)) = (with(Fate::Acknowledged), with(Fate::Failed)) {
                return Err(Violation(format!("of a logged batch write {there} shows and write {gone} does not")));
            }
        }
        Ok(())
    }

    /// Whether an acknowledged write without an end put this value.
    pub fn is_settled(&self, id: WriteId) -> bool {
        let write = self.write(id);
        write.fate == Fate::Acknowledged && write.ttl.is_none()
    }

    /// Whether a row (by its marker and these cells) must be there through all of `span`.
    pub fn must_exist(&self, cells: &[CellKey], span: Span) -> bool {
        cells.iter().any(|cell| !self.allows(*cell, span, |value| value.is_none()))
    }

    /// Whether a row may be there at some moment of `span`.
    pub fn may_exist(&self, cells: &[CellKey], span: Span) -> bool {
        cells.iter().any(|cell| self.allows(*cell, span, |value| value.is_some()))
    }
}
