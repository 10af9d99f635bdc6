//! Records every write of cells with its fate, and tells from that which values a read may show in each cell.
//!
//! 1. Each write has a number; its timestamp is made of it, and the values it writes are that number, so that a value
//!    read names its write. A deletion writes `None`. A row's existence by primary key is one more cell, the marker; an
//!    element of a collection or a field of a user type is a cell with a path.
//! 2. A write is in flight, then acknowledged, failed (definite) or unknown. A crash makes what was in flight unknown.
//! 3. A read may show the newest write acknowledged before it began, or any newer one that did not fail.
//! 4. A write with a time to live shows nothing from some moment on, and still hides older writes.
//! 5. An unknown write that a read shows counts as acknowledged from then on. An unknown write from before a restart
//!    that a later read does not show, although no newer write hides it, counts as failed.

use std::collections::BTreeMap;

/// One cell of the workload's tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CellKey {
    /// Index of the table.
    pub table: u8,
    /// Partition key.
    pub pk: i64,
    /// Clustering; 0 in tables without clusterings, [`STATIC`] for static columns.
    pub ck: i64,
    /// The column; 0 is the marker.
    pub column: u8,
    /// Key, element or field within the column; 0 in simple columns, [`WHOLE`] for all of a list.
    pub element: i64,
}

/// The column number of the marker.
pub const MARKER: u8 = 0;
/// The clustering of static cells.
pub const STATIC: i64 = -1;
/// An element that stands for all elements of a list: a write to it overwrites every one of them.
pub const WHOLE: i64 = i64::MIN;
/// How far, in nanoseconds, the moment at which a cell expires may be from the computed one: the wall clock is wrong by
/// up to a second in either direction, differently after each restart, and it drifts.
const LIFETIME_SLACK: u64 = 2_100_000_000;
const SECOND: u64 = 1_000_000_000;

/// What is known about the effect of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// No answer yet.
    InFlight,
    /// Reads must show it unless a newer write hides it.
    Acknowledged,
    /// No read may show it.
    Failed,
    /// Reads may show it as a whole, or not at all.
    Unknown,
}

/// The number of a write: the value that it writes and, multiplied by a constant, its timestamp.
pub type WriteId = i64;

/// When a read began and ended, in virtual nanoseconds.
pub type Span = (u64, u64);

/// The text of a rule that an answer broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

/// The values that a write gives to cells: its own number, or `None` for a deletion.
pub type Effects = BTreeMap<CellKey, Option<WriteId>>;

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) fate: Fate,
    pub(crate) started: u64,
    pub(crate) acknowledged: u64,
    /// Its time to live in seconds, if any.
    ttl: Option<u64>,
    /// The latest moment at which the node can have applied it, in virtual nanoseconds.
    applied: u64,
    pub(crate) effects: Effects,
}

/// The writes of a run, and which of them touched each cell.
#[derive(Debug, Default)]
pub struct History {
    writes: Vec<Write>,
    cells: BTreeMap<CellKey, Vec<(WriteId, Option<WriteId>)>>,
    /// The writes of each logged batch: in the end all of them show, or none.
    groups: Vec<Vec<WriteId>>,
    pub(crate) restarted: u64,
    shown: ShownWrites,
}

/// What a read proves that shows a write of unknown fate in one cell.
#[derive(Debug, Default)]
enum ShownWrites {
    /// One node answers: the write has taken effect in all of its cells, and counts as acknowledged.
    #[default]
    Whole,
    /// Several replicas answer. A read writes what it shows to the replicas that lack it, and nothing else of the same
    /// write: it counts as acknowledged in that cell alone, from the end of the first read that showed it, and reads
    /// may show a part of it.
    ByCell(BTreeMap<(WriteId, CellKey), u64>),
}

impl ShownWrites {
    /// When the first read ended that showed the write in that cell, if that counts for the cell alone.
    fn first(&self, id: WriteId, cell: CellKey) -> Option<u64> {
        match self {
            ShownWrites::Whole => None,
            ShownWrites::ByCell(first) => first.get(&(id, cell)).copied(),
        }
    }

    fn has(&self, id: WriteId) -> bool {
        matches!(self, ShownWrites::ByCell(first) if first.keys().any(|(shown, _)| *shown == id))
    }
}

impl History {
    /// The number that the next [`History::begin`] returns. Numbers grow, and so do the timestamps made of them.
    pub fn next_id(&self) -> WriteId {
        self.writes.len() as WriteId + 1
    }

    /// Records that a write is sent, with a time to live of `ttl` seconds or without one. Every value in `effects` must
    /// be the write's own number, which is returned.
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

    /// A history of tables with several replicas, where reads may show a part of a write of unknown fate.
    pub fn replicated() -> History {
        History { shown: ShownWrites::ByCell(BTreeMap::new()), ..History::default() }
    }

    /// Whether a read over `span` must show the write as a whole if it shows any of it.
    pub(crate) fn is_whole(&self, id: WriteId, span: Span) -> bool {
        let write = self.write(id);
        match self.shown {
            ShownWrites::Whole => true,
            ShownWrites::ByCell(_) => write.fate == Fate::Acknowledged && write.acknowledged <= span.0,
        }
    }

    /// Declares that these writes are one logged batch.
    pub fn bind_together(&mut self, ids: Vec<WriteId>) {
        self.groups.push(ids);
    }

    /// Records the fate of a write that was answered or whose connection broke. Fails if the write failed for certain
    /// although a read has shown it.
    pub fn finish(&mut self, id: WriteId, fate: Fate, now: u64) -> Result<(), Violation> {
        let was_shown = self.shown.has(id);
        let write = &mut self.writes[id as usize - 1];
        write.applied = if fate == Fate::Unknown { u64::MAX } else { now };
        match (write.fate, fate) {
            (_, Fate::Failed) if write.fate == Fate::Acknowledged || was_shown => {
                return Err(Violation(format!("write {id} failed for certain but a read has shown it")));
            }
            // A read showed it before its answer came: it stays acknowledged from that read on.
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

    /// How many writes have this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.writes.iter().filter(|write| write.fate == fate).count()
    }

    /// Records that the node serves again after a crash or stop: no earlier request can take effect any more, and
    /// writes acknowledged after `may_lose_since` may be lost (commit log mode `periodic`).
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

    /// Records that a table was truncated or dropped (`Acknowledged`), or that it may have been (`Unknown`), while no
    /// write to it was under way.
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

    /// The writes to a cell and those to the whole list that it belongs to, newest first, each with the value that it
    /// gives the cell. A write that does both counts once, with what it writes to the cell itself.
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

    /// All elements of a column that were ever written individually.
    pub fn elements(&self, column: CellKey) -> Vec<i64> {
        let from = CellKey { element: WHOLE + 1, ..column };
        let to = CellKey { element: i64::MAX, ..column };
        self.cells.range(from..=to).map(|(cell, _)| cell.element).collect()
    }

    /// Two answers about a read over a span: whether it may show the write, and whether it may show nothing because the
    /// write has expired.
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

    /// Checks that a read over `span` may show `value` in a cell. The error lists the writes from that value on.
    pub fn is_allowed(&self, cell: CellKey, value: Option<WriteId>, span: Span) -> Result<(), String> {
        if self.allows(cell, span, |shown| shown == value) {
            return Ok(());
        }
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
            let shown_since = match write.fate {
                Fate::Acknowledged => Some(write.acknowledged),
                _ => self.shown.first(id, cell),
            };
            if shown_since.is_some_and(|since| since <= started) {
                return false;
            }
        }
        wanted(None)
    }

    /// Whether a write newer than `id`, expired or not, may give the cell a value that satisfies `shown`.
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

    /// Learns the fate of unknown writes from the value that a read in one request showed in a cell.
    pub(crate) fn learn(&mut self, cell: CellKey, value: Option<WriteId>, span: Span) {
        if let Some(id) = value {
            let write = &mut self.writes[id as usize - 1];
            // It took effect before the end of the read: only reads that begin later must show it.
            match (write.fate, &mut self.shown) {
                (Fate::Unknown | Fate::InFlight, ShownWrites::ByCell(first)) => {
                    first.entry((id, cell)).or_insert(span.1);
                }
                (Fate::Unknown | Fate::InFlight, ShownWrites::Whole) => {
                    (write.fate, write.acknowledged) = (Fate::Acknowledged, span.1);
                }
                (Fate::Acknowledged | Fate::Failed, _) => {}
            }
        }
        // An unknown write from before the restart that is newer than the value shown has not taken effect and never
        // will. This does not hold for deletions: an empty cell looks the same with and without one.
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

    /// Checks that no logged batch shows in part. To be called once every partition has been read since the restart.
    pub fn check_groups(&self) -> Result<(), Violation> {
        for group in &self.groups {
            let with = |fate: Fate| group.iter().find(|id| self.write(**id).fate == fate);
            if let (Some(there), Some(gone)) = (with(Fate::Acknowledged), with(Fate::Failed)) {
                return Err(Violation(format!("of a logged batch write {there} shows and write {gone} does not")));
            }
        }
        Ok(())
    }

    /// Whether a write is acknowledged and never expires.
    pub fn is_settled(&self, id: WriteId) -> bool {
        let write = self.write(id);
        write.fate == Fate::Acknowledged && write.ttl.is_none()
    }

    /// Whether a row with these cells, its marker among them, must exist during all of `span`.
    pub fn must_exist(&self, cells: &[CellKey], span: Span) -> bool {
        cells.iter().any(|cell| !self.allows(*cell, span, |value| value.is_none()))
    }

    /// Whether a row with these cells may exist at some moment of `span`.
    pub fn may_exist(&self, cells: &[CellKey], span: Span) -> bool {
        cells.iter().any(|cell| self.allows(*cell, span, |value| value.is_some()))
    }
}
