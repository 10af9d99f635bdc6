//! Partitions that clients of this core read so often that their reads are relieved: equal reads are joined into one
//! ([`joined`]), and reads are spread over the replicas. `coordinator::hot_reads` does both.
//!
//! 1. Reads that this core cannot answer by itself at once are counted by a [`Sketch`]; the others cost less than any
//!    relief.
//! 2. A partition that reaches the threshold within a window becomes a [`HotPartition`], with counts of its own.
//! 3. It stays one until it has had less than half of the threshold in a window.
//!
//! Invariants: a read of a partition that is not hot allocates nothing here; a core has at most [`PARTITIONS_MAX`] hot
//! partitions, each with at most [`GROUPS_MAX`] groups of equal reads.

pub(crate) mod joined;
mod sketch;

use crate::messages::data::{ReadReply, ReadRequest};
use crate::metrics::RelievedPartition;
use crate::request::AckTerms;
use cluster::placement::TablePlacement;
use joined::JoinedReads;
use model::{Consistency, DecoratedKey, Failure, HashMap, TableId, Token};
use runtime::Instant;
use sketch::Sketch;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// Most hot partitions of a core.
pub(crate) const PARTITIONS_MAX: usize = 128;
/// Most groups of equal reads of a partition: reads of more than these different rows are not joined.
pub(crate) const GROUPS_MAX: usize = 32;
/// Windows are so many nanoseconds long, as a power of two: 1.07 s.
const WINDOW_BITS: u32 = 30;
/// Windows after which a partition that nobody reads is forgotten.
const WINDOWS_KEPT: u32 = 10;

/// What equal reads get.
pub(crate) type JoinedReply = Result<ReadReply, Failure>;

/// The hot partitions of one core.
pub(crate) struct HotReads {
    /// Reads of a partition in a window from which on it is hot; 0: none ever is.
    threshold: u32,
    sketch: RefCell<Sketch>,
    /// By table and token. Of several keys with one token the first counts.
    partitions: RefCell<HashMap<(TableId, Token), Rc<HotPartition>>>,
}

/// A partition that is read often.
pub(crate) struct HotPartition {
    table: TableId,
    key: DecoratedKey,
    /// The window in which it became hot.
    began: u32,
    /// The window of `reads`.
    window: Cell<u32>,
    reads: Cell<u32>,
    /// Reads of the window before.
    reads_before: Cell<u32>,
    turn: Cell<usize>,
    /// The last window in which its reads are not joined, because their answers are too large to be shared.
    unshared_until: Cell<u32>,
    groups: RefCell<Vec<Group>>,
    joined: Cell<u64>,
    spread: Cell<u64>,
}

/// Reads that are equal, and what makes them so.
struct Group {
    request: ReadRequest,
    /// By which the replicas were chosen. Not kept alive: changes of the ring wait until nobody uses what was before.
    placement: Weak<TablePlacement>,
    consistency: Consistency,
    timeout: Duration,
    reads: Rc<JoinedReads<JoinedReply>>,
}

impl Group {
    /// Whether a read asks for the same. Statements with and without masks, and of other texts, have other selections.
    fn is_equal(&self, request: &ReadRequest, placement: &Rc<TablePlacement>, terms: AckTerms) -> bool {
        let own = &self.request;
        Arc::ptr_eq(&own.selection, &request.selection)
            && std::ptr::eq(self.placement.as_ptr(), Rc::as_ptr(placement))
            && (self.consistency, self.timeout) == (terms.consistency, terms.timeout)
            && (own.bytes_max, own.places) == (request.bytes_max, request.places)
            && own.command == request.command
    }
}

fn window_of(now: Instant) -> u32 {
    (now.0 >> WINDOW_BITS) as u32
}

/// A hash of a partition: tables differ in the first bytes of their ids.
fn hash(table: TableId, token: Token) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = table.0;
    let id = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    (id.rotate_left(32) ^ token.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl HotReads {
    /// Partitions are hot from so many reads a second on; `None`: none ever is.
    pub(crate) fn new(reads_per_second: Option<u32>) -> HotReads {
        let per_window = |reads: u32| ((u64::from(reads) << WINDOW_BITS) / 1_000_000_000).clamp(1, u32::MAX.into());
        HotReads {
            threshold: reads_per_second.map_or(0, |reads| per_window(reads) as u32),
            sketch: RefCell::new(Sketch::new()),
            partitions: RefCell::default(),
        }
    }

    /// Counts a read of a partition that has come at `now`; the partition if it is hot.
    #[inline]
    pub(crate) fn note(&self, table: TableId, key: &DecoratedKey, now: Instant) -> Option<Rc<HotPartition>> {
        if self.threshold == 0 {
            return None;
        }
        let (hash, window) = (hash(table, key.token), window_of(now));
        let may_be_hot = self.sketch.borrow_mut().note(hash, window, self.threshold);
        if may_be_hot { self.hot(table, key, hash, window) } else { None }
    }

    #[cold]
    fn hot(&self, table: TableId, key: &DecoratedKey, hash: u64, window: u32) -> Option<Rc<HotPartition>> {
        let mut partitions = self.partitions.borrow_mut();
        let name = (table, key.token);
        if let Some(partition) = partitions.get(&name) {
            if partition.key.key != key.key {
                return None;
            }
            if partition.note(window, self.threshold) {
                return Some(partition.clone());
            }
            partitions.remove(&name);
            self.sketch.borrow_mut().clear(hash);
            return None;
        }
        if partitions.len() >= PARTITIONS_MAX {
            self.forget_idle(&mut partitions, window, 1);
            if partitions.len() >= PARTITIONS_MAX {
                return None;
            }
        }
        self.sketch.borrow_mut().mark(hash);
        let partition = Rc::new(HotPartition::new(table, key.clone(), window, self.threshold));
        partitions.insert(name, partition.clone());
        Some(partition)
    }

    /// Forgets the partitions that were not read in the last `kept` whole windows.
    fn forget_idle(&self, partitions: &mut HashMap<(TableId, Token), Rc<HotPartition>>, window: u32, kept: u32) {
        let mut sketch = self.sketch.borrow_mut();
        partitions.retain(|(table, token), partition| {
            let is_kept = window.saturating_sub(partition.window.get()) <= kept;
            if !is_kept {
                sketch.clear(hash(*table, *token));
            }
            is_kept
        });
    }

    /// The partitions that are hot at `now`, by table and key, and what was done for each.
    pub(crate) fn relieved(&self, now: Instant) -> Vec<RelievedPartition> {
        let window = window_of(now);
        let mut partitions = self.partitions.borrow_mut();
        self.forget_idle(&mut partitions, window, WINDOWS_KEPT);
        let mut relieved: Vec<_> = partitions.values().map(|partition| partition.shown(window)).collect();
        relieved.sort_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
        relieved
    }
}

impl HotPartition {
    fn new(table: TableId, key: DecoratedKey, window: u32, reads: u32) -> HotPartition {
        HotPartition {
            table,
            key,
            began: window,
            window: Cell::new(window),
            reads: Cell::new(reads),
            reads_before: Cell::new(0),
            turn: Cell::new(0),
            unshared_until: Cell::new(0),
            groups: RefCell::default(),
            joined: Cell::new(0),
            spread: Cell::new(0),
        }
    }

    /// Counts a read. Returns whether the partition is still hot.
    fn note(&self, window: u32, threshold: u32) -> bool {
        let passed = window.saturating_sub(self.window.get());
        if passed > 0 {
            self.reads_before.set(if passed == 1 { self.reads.get() } else { 0 });
            self.reads.set(0);
            self.window.set(window);
        }
        self.reads.set(self.reads.get().saturating_add(1));
        let least = (threshold / 2).max(1);
        self.began == window || self.reads.get() >= threshold || self.reads_before.get() >= least
    }

    /// The number of the next read that asks a replica.
    pub(crate) fn take_turn(&self) -> usize {
        self.turn.replace(self.turn.get().wrapping_add(1))
    }

    /// The reads that are equal to one that has just come; `None` if reads are not to be joined, or are too different.
    pub(crate) fn equal_reads(
        &self,
        request: &ReadRequest,
        placement: &Rc<TablePlacement>,
        terms: AckTerms,
    ) -> Option<Rc<JoinedReads<JoinedReply>>> {
        if self.window.get() <= self.unshared_until.get() {
            return None;
        }
        let mut groups = self.groups.borrow_mut();
        if let Some(group) = groups.iter().find(|group| group.is_equal(request, placement, terms)) {
            return Some(group.reads.clone());
        }
        groups.retain(|group| !group.reads.is_idle());
        if groups.len() >= GROUPS_MAX {
            return None;
        }
        let reads = Rc::new(JoinedReads::new());
        groups.push(Group {
            request: request.clone(),
            placement: Rc::downgrade(placement),
            consistency: terms.consistency,
            timeout: terms.timeout,
            reads: reads.clone(),
        });
        Some(reads)
    }

    /// Notes that an answer was too large to be shared: for the rest of the window and all of the next, reads are not
    /// joined.
    pub(crate) fn note_unshared(&self) {
        self.unshared_until.set(self.window.get().saturating_add(1));
    }

    /// Counts a read that was answered by another one.
    pub(crate) fn note_joined(&self) {
        self.joined.set(self.joined.get() + 1);
    }

    /// Counts a read that has asked other replicas than the nearest.
    pub(crate) fn note_spread(&self) {
        self.spread.set(self.spread.get() + 1);
    }

    fn shown(&self, window: u32) -> RelievedPartition {
        let last = match window.saturating_sub(self.window.get()) {
            0 => self.reads_before.get().max(if self.began == window { self.reads.get() } else { 0 }),
            1 => self.reads.get(),
            _ => 0,
        };
        RelievedPartition {
            table: self.table,
            key: self.key.key.to_vec().into(),
            reads_per_second: f64::from(last) * 1e9 / (1_u64 << WINDOW_BITS) as f64,
            reads_joined: self.joined.get(),
            reads_spread: self.spread.get(),
        }
    }
}

#[cfg(test)]
mod tests;
