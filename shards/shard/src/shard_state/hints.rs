//! The hints of one core: mutations that other nodes have missed, in memory and in files.
//!
//! 1. A hint is appended to the buffer of its node ([`Hints::keep`]), which takes no time. The buffer is a *batch*; its
//!    number tells whoever must know that the hint is on disk.
//! 2. A batch is written to the node's open file (`coordinator::hints::files`), which is closed when it is large enough
//!    or the node is alive. Closed files are delivered and deleted (`coordinator::hints::delivery`).
//!
//! Invariants: buffers have at most [`BUFFER_BYTES_MAX`] bytes; files are created, closed and deleted only with the
//! permit of `files`; a closed file that is not in the list any more is not delivered.

use crate::config::HintOptions;
use engine::hints::{Hint, HintFileName, HintWriter, RECORD_HEADER_BYTES, push};
use runtime::Instant;
use runtime::gate::{Gate, Semaphore};
use runtime::metrics::Counter;
use runtime::sync::Condition;
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// Most bytes of the hints of a core that are not on disk.
pub(crate) const BUFFER_BYTES_MAX: usize = 32 << 20;
/// With this many bytes in memory, hints are written without waiting for their period.
const FLUSH_BYTES: usize = 1 << 20;

/// The hints of one core.
pub(crate) struct Hints {
    pub(crate) directory: PathBuf,
    options: RefCell<HintOptions>,
    peers: RefCell<BTreeMap<Uuid, PeerHints>>,
    /// When nodes were seen to go down.
    down_since: RefCell<BTreeMap<Uuid, Instant>>,
    buffered: Cell<usize>,
    paused: Cell<bool>,
    wanted: Cell<Wanted>,
    changed: Condition,
    /// One permit: files are created, closed and deleted one at a time.
    pub(crate) files: Semaphore,
    /// Passes of what goes on in the background; shut when the node stops.
    pub(crate) gate: Gate,
    /// Deliveries under way.
    pub(crate) deliveries: Cell<usize>,
    pub(crate) counts: HintCounts,
}

/// What the task that keeps the files is to do before its period has passed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wanted {
    /// Write the batches.
    pub(crate) flush: bool,
    /// Look for nodes to deliver hints to.
    pub(crate) deliver: bool,
}

/// What has become of hints since the start.
#[derive(Default)]
pub(crate) struct HintCounts {
    /// Kept.
    pub(crate) kept: Counter,
    /// Mutations that were missed and not kept.
    pub(crate) refused: Counter,
    /// Written by the nodes that had missed them, or by those that have their partitions now.
    pub(crate) delivered: Counter,
    /// Dropped, because tombstones that they need may be gone.
    pub(crate) expired: Counter,
    /// Dropped, because their tables were dropped or truncated.
    pub(crate) void: Counter,
    /// Stretches of files that were damaged.
    pub(crate) damaged: Counter,
    /// Files that were delivered.
    pub(crate) files_delivered: Counter,
}

/// The hints for one node.
#[derive(Default)]
struct PeerHints {
    /// Records that are not on disk: the batch `batch`.
    records: Vec<u8>,
    /// When the oldest of them was kept, milliseconds since 1970.
    oldest_record: Option<u64>,
    /// No hint was to be written earlier, microseconds since 1970; `None` if that is not known, because an earlier run
    /// has kept it.
    written_since: Option<i64>,
    batch: u64,
    /// Every batch below this number is on disk.
    settled: u64,
    writer: Option<HintWriter>,
    closed: VecDeque<ClosedFile>,
    is_delivering: bool,
}

/// A file that takes no more hints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClosedFile {
    pub(crate) name: HintFileName,
    pub(crate) bytes: u64,
    /// What is before this position has been delivered.
    pub(crate) position: u64,
}

impl PeerHints {
    fn bytes(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(|file| file.bytes).sum();
        self.records.len() as u64 + self.writer.as_ref().map_or(0, HintWriter::bytes) + closed
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.writer.is_none() && self.closed.is_empty()
    }

    /// Whether there is no hint, not even one that is being written.
    fn is_settled(&self) -> bool {
        self.is_empty() && self.settled >= self.batch
    }

    /// When the oldest hint was kept, milliseconds since 1970.
    fn oldest(&self) -> Option<u64> {
        let files = self.closed.front().map(|file| file.name).or(self.writer.as_ref().map(HintWriter::name));
        files.map(|name| name.created_millis).or(self.oldest_record)
    }
}

/// A batch of hints that is being written.
pub(crate) struct Batch {
    pub(crate) records: Vec<u8>,
    pub(crate) writer: Option<HintWriter>,
    number: u64,
    oldest_record: Option<u64>,
}

impl Hints {
    pub(crate) fn new(directory: PathBuf, options: HintOptions) -> Hints {
        Hints {
            directory,
            options: RefCell::new(options),
            peers: RefCell::default(),
            down_since: RefCell::default(),
            buffered: Cell::new(0),
            paused: Cell::new(false),
            wanted: Cell::default(),
            changed: Condition::default(),
            files: Semaphore::new(1),
            gate: Gate::new(),
            deliveries: Cell::new(0),
            counts: HintCounts::default(),
        }
    }

    /// The options, as operators have changed them.
    pub(crate) fn options(&self) -> Ref<'_, HintOptions> {
        self.options.borrow()
    }

    pub(crate) fn change_options(&self, change: impl FnOnce(&mut HintOptions)) {
        change(&mut self.options.borrow_mut());
    }

    /// Whether nothing is to be delivered.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.set(paused);
        self.want(Wanted { deliver: !paused, flush: false });
    }

    /// Whether a hint may be kept for a node at the time `now`, milliseconds since 1970: by the time since it went
    /// down, by the age of the oldest hint for it, and by the size of all of them.
    pub(crate) fn may_keep(&self, host_id: Uuid, now: u64) -> bool {
        let options = self.options.borrow();
        let window = options.window;
        let down_for = |since: &Instant| runtime::now().since(*since);
        if self.down_since.borrow().get(&host_id).map(down_for).is_some_and(|down_for| down_for > window) {
            return false;
        }
        let peers = self.peers.borrow();
        let Some(peer) = peers.get(&host_id) else { return true };
        let age = |oldest: u64| Duration::from_millis(now.saturating_sub(oldest));
        if options.window_persistent && peer.oldest().map(age).is_some_and(|age| age > window) {
            return false;
        }
        let bytes_max = options.host_bytes_max.div_ceil(runtime::shard_count() as u64);
        bytes_max == 0 || peer.bytes() <= bytes_max
    }

    /// Appends a hint to the buffer of a node at the time `now`, milliseconds since 1970. Returns the number of its
    /// batch; `None` if there is no room.
    pub(crate) fn keep(&self, host_id: Uuid, now: u64, hint: &Hint<'_>) -> Option<u64> {
        let buffered = self.buffered.get() + RECORD_HEADER_BYTES + hint.mutation.len();
        if buffered > BUFFER_BYTES_MAX {
            self.want(Wanted { flush: true, deliver: false });
            return None;
        }
        let mut peers = self.peers.borrow_mut();
        let peer = peers.entry(host_id).or_default();
        peer.written_since = match peer.is_settled() {
            true => Some(hint.written_at),
            false => peer.written_since.map(|since| since.min(hint.written_at)),
        };
        push(&mut peer.records, hint);
        peer.oldest_record.get_or_insert(now);
        self.buffered.set(buffered);
        self.counts.kept.increment();
        let batch = peer.batch;
        drop(peers);
        if buffered >= FLUSH_BYTES {
            self.want(Wanted { flush: true, deliver: false });
        }
        Some(batch)
    }

    /// Waits until a batch is on disk, or its hints were forgotten.
    pub(crate) async fn settled(&self, host_id: Uuid, batch: u64) {
        self.want(Wanted { flush: true, deliver: false });
        let is_settled = || self.peers.borrow().get(&host_id).is_none_or(|peer| peer.settled > batch);
        self.changed.wait(|| is_settled().then_some(())).await;
    }

    /// Asks the task that keeps the files for something.
    pub(crate) fn want(&self, more: Wanted) {
        let wanted = self.wanted.get();
        self.wanted.set(Wanted { flush: wanted.flush | more.flush, deliver: wanted.deliver | more.deliver });
        self.changed.notify();
    }

    /// Waits until something is wanted, or the node stops.
    pub(crate) async fn wanted(&self) -> Wanted {
        let wanted = || self.gate.is_closed() || self.wanted.get() != Wanted::default();
        self.changed.wait(|| wanted().then_some(())).await;
        self.wanted.take()
    }

    /// Waits until the node stops.
    pub(crate) async fn stopping(&self) {
        self.changed.wait(|| self.gate.is_closed().then_some(())).await;
    }

    /// Ends what goes on in the background, and waits until it has ended. All hints are on disk then, unless the disk
    /// fails.
    pub(crate) async fn stop(&self) {
        self.gate.shut();
        self.changed.notify();
        self.gate.close().await;
    }

    /// Notes which of `nodes` are believed to be alive.
    pub(crate) fn note_live(&self, nodes: impl Iterator<Item = (Uuid, bool)>) {
        let mut down_since = self.down_since.borrow_mut();
        let mut has_come_up = false;
        for (host_id, is_live) in nodes {
            match is_live {
                true => has_come_up |= down_since.remove(&host_id).is_some(),
                false => {
                    down_since.entry(host_id).or_insert_with(runtime::now);
                }
            }
        }
        if has_come_up {
            self.want(Wanted { deliver: true, flush: false });
        }
    }

    /// The nodes that have been down for at least so long, as far as this node knows: since it started at most.
    pub(crate) fn down_for(&self, time: Duration) -> BTreeSet<Uuid> {
        let down_since = self.down_since.borrow();
        let lasting = down_since.iter().filter(|(_, since)| runtime::now().since(**since) >= time);
        lasting.map(|(host_id, _)| *host_id).collect()
    }

    /// The nodes that hints are kept for.
    pub(crate) fn hosts(&self) -> Vec<Uuid> {
        self.peers.borrow().iter().filter(|(_, peer)| !peer.is_empty()).map(|(host_id, _)| *host_id).collect()
    }

    /// Takes the batch of a node to write it, and the file that it goes to; `None` if it is empty.
    pub(crate) fn take_batch(&self, host_id: Uuid) -> Option<Batch> {
        let mut peers = self.peers.borrow_mut();
        let peer = peers.get_mut(&host_id).filter(|peer| !peer.records.is_empty())?;
        peer.batch += 1;
        Some(Batch {
            records: std::mem::take(&mut peer.records),
            writer: peer.writer.take(),
            number: peer.batch - 1,
            oldest_record: peer.oldest_record.take(),
        })
    }

    /// Takes back a batch that was written; the file is closed if it is long enough.
    pub(crate) fn written(&self, host_id: Uuid, batch: Batch) {
        self.buffered.set(self.buffered.get() - batch.records.len());
        let file_bytes_max = self.options.borrow().file_bytes_max;
        let mut peers = self.peers.borrow_mut();
        let peer = peers.entry(host_id).or_default();
        peer.settled = peer.settled.max(batch.number + 1);
        peer.writer = batch.writer;
        let is_full = peer.writer.as_ref().is_some_and(|writer| writer.bytes() >= file_bytes_max);
        drop(peers);
        if is_full {
            self.close(host_id);
        }
        self.changed.notify();
    }

    /// Takes back a batch that was not written. The file that it was to go to takes no more hints.
    pub(crate) fn not_written(&self, host_id: Uuid, batch: Batch) {
        let mut peers = self.peers.borrow_mut();
        let peer = peers.entry(host_id).or_default();
        let later = std::mem::replace(&mut peer.records, batch.records);
        peer.records.extend_from_slice(&later);
        peer.oldest_record = batch.oldest_record;
        peer.writer = batch.writer;
        drop(peers);
        self.close(host_id);
    }

    /// Closes the open file of a node, so that it can be delivered.
    pub(crate) fn close(&self, host_id: Uuid) {
        let mut peers = self.peers.borrow_mut();
        let Some(peer) = peers.get_mut(&host_id) else { return };
        if let Some(writer) = peer.writer.take() {
            peer.closed.push_back(ClosedFile { name: writer.name(), bytes: writer.bytes(), position: 0 });
        }
    }

    /// Adds a closed file that an earlier run of the node has left.
    pub(crate) fn add_closed(&self, file: ClosedFile) {
        self.peers.borrow_mut().entry(file.name.host_id).or_default().closed.push_back(file);
    }

    /// Forgets all hints for a node. Returns the names of the files, which are to be deleted.
    pub(crate) fn forget(&self, host_id: Uuid) -> Vec<HintFileName> {
        self.close(host_id);
        let mut peers = self.peers.borrow_mut();
        let Some(peer) = peers.get_mut(&host_id) else { return Vec::new() };
        self.buffered.set(self.buffered.get() - peer.records.len());
        (peer.records, peer.oldest_record) = (Vec::new(), None);
        peer.batch += 1;
        peer.settled = peer.batch;
        let closed = std::mem::take(&mut peer.closed);
        drop(peers);
        self.changed.notify();
        closed.iter().map(|file| file.name).collect()
    }

    /// Begins to deliver the hints for a node, unless that is being done.
    pub(crate) fn begin_delivery(&self, host_id: Uuid) -> bool {
        let mut peers = self.peers.borrow_mut();
        let Some(peer) = peers.get_mut(&host_id).filter(|peer| !peer.is_empty() && !peer.is_delivering) else {
            return false;
        };
        peer.is_delivering = true;
        self.deliveries.set(self.deliveries.get() + 1);
        true
    }

    pub(crate) fn end_delivery(&self, host_id: Uuid) {
        if let Some(peer) = self.peers.borrow_mut().get_mut(&host_id) {
            peer.is_delivering = false;
        }
        self.deliveries.set(self.deliveries.get() - 1);
    }

    /// The closed file of a node that comes first.
    pub(crate) fn first_closed(&self, host_id: Uuid) -> Option<ClosedFile> {
        self.peers.borrow().get(&host_id)?.closed.front().copied()
    }

    /// Whether a closed file is still to be delivered.
    pub(crate) fn has(&self, name: HintFileName) -> bool {
        let peers = self.peers.borrow();
        peers.get(&name.host_id).is_some_and(|peer| peer.closed.iter().any(|file| file.name == name))
    }

    /// Notes how far a closed file has been delivered.
    pub(crate) fn delivered_to(&self, name: HintFileName, position: u64) {
        let mut peers = self.peers.borrow_mut();
        let files = peers.get_mut(&name.host_id).map(|peer| &mut peer.closed);
        if let Some(file) = files.and_then(|files| files.iter_mut().find(|file| file.name == name)) {
            file.position = position;
        }
    }

    /// Removes a closed file from the list.
    pub(crate) fn remove(&self, name: HintFileName) {
        if let Some(peer) = self.peers.borrow_mut().get_mut(&name.host_id) {
            peer.closed.retain(|file| file.name != name);
        }
    }

    /// No hint was to be written earlier than this, microseconds since 1970; `None` without hints.
    pub(crate) fn written_since(&self) -> Option<i64> {
        let peers = self.peers.borrow();
        let waiting = peers.values().filter(|peer| !peer.is_settled());
        waiting.map(|peer| peer.written_since.unwrap_or(i64::MIN)).min()
    }

    /// The closed files of all nodes.
    pub(crate) fn closed(&self) -> Vec<ClosedFile> {
        self.peers.borrow().values().flat_map(|peer| peer.closed.iter().copied()).collect()
    }

    /// Bytes of all hints, in memory and in files.
    pub(crate) fn bytes(&self) -> u64 {
        self.peers.borrow().values().map(PeerHints::bytes).sum()
    }
}
