//! The block cache: decoded and checked blocks of SSTables in memory, with a budget in bytes.
//!
//! Eviction is S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023). Blocks enter a
//! small queue. They move to the main queue only if they are requested again before they leave the small queue, or
//! return soon after. So a scan, which requests each block once, displaces blocks that are read repeatedly from the
//! small queue alone. A hit increments a counter and moves nothing.
//!
//! 1. [`BlockCache::get`] gives a block that is in the cache, without waiting. [`BlockCache::load`] reads a missing
//!    one; a caller that asks for a block that is being read waits for that read.
//! 2. [`BlockCache::ahead`] and [`BlockCache::ahead_until`] read blocks in the background, the latter with one read for
//!    blocks near each other.
//! 3. The blocks of an SSTable leave the cache when the SSTable is closed.
//!
//! Invariants: the budget is exceeded by at most the block that is being added, until others are evicted for it; a
//! block larger than the small queue is not kept.

use super::open_sstable::OpenSstable;
use super::read_buffers::ReadBuffers;
use crate::error::Error;
use bytes::Bytes;
use runtime::gate::Gate;
use runtime::metrics::Counter;
use runtime::sync::Condition;
use runtime::{Class, HashMap, HashSet};
use sstable::BlockId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The small queue's share of the budget is one divided by this.
const SMALL_PART: usize = 10;
/// Memory that a block takes besides its contents, bytes, estimated.
const BLOCK_OVERHEAD_BYTES: usize = 160;
/// The largest value of the hit counter of a block.
const HITS_MAX: u8 = 3;
/// A scan may fill the small queue's budget divided by this with blocks that it reads ahead, so that they are still
/// there when it requests them.
const AHEAD_PART: usize = 8;
/// Blocks that are at most so many bytes apart are read with one read, even if those between them are in the cache
/// already: a second read would cost more.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// The contents of the block cache, and its use since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheMetrics {
    /// Blocks held.
    pub entries: u64,
    /// Bytes held.
    pub bytes: u64,
    /// The budget in bytes.
    pub capacity_bytes: u64,
    /// Requests that found their block.
    pub hits: u64,
    /// Requests for which a block was read from disk, at once or ahead of the request.
    pub misses: u64,
    /// Time that requests waited for their blocks to be read, nanoseconds; reading ahead is not counted.
    pub miss_nanos: u64,
}

impl CacheMetrics {
    /// Adds the metrics of another shard.
    pub fn add(&mut self, other: &CacheMetrics) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.capacity_bytes += other.capacity_bytes;
        self.hits += other.hits;
        self.misses += other.misses;
        self.miss_nanos += other.miss_nanos;
    }

    /// The number of requests: hits and misses together.
    pub fn requests(&self) -> u64 {
        self.hits + self.misses
    }
}

/// Counters of hits and misses.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequestCounts {
    hits: u64,
    misses: u64,
}

/// A block: the number of its open SSTable, and its id in the SSTable.
type BlockKey = (u64, BlockId);

/// The cache of one shard.
pub(crate) struct BlockCache {
    blocks: RefCell<Blocks>,
    /// Blocks that are being read.
    loading: RefCell<HashSet<BlockKey>>,
    loaded: Condition,
    buffers: ReadBuffers,
    gate: Gate,
    miss_nanos: Counter,
}

struct Blocks {
    budget: usize,
    bytes: usize,
    small_bytes: usize,
    /// Blocks by SSTable, so that all blocks of one can be dropped at once. Dropped blocks leave their entries in the
    /// queues; `stale` counts those.
    held: HashMap<u64, HashMap<BlockId, CachedBlock>>,
    count: usize,
    stale: usize,
    small: VecDeque<BlockKey>,
    main: VecDeque<BlockKey>,
    /// Keys of blocks that left the small queue recently.
    ghosts: VecDeque<BlockKey>,
    remembered: HashSet<BlockKey>,
    asked: RequestCounts,
}

struct CachedBlock {
    bytes: Bytes,
    hits: u8,
    /// Whether the block was read ahead and not requested yet; the first request then counts as a miss.
    unused: bool,
    in_main: bool,
}

impl CachedBlock {
    fn cost(&self) -> usize {
        self.bytes.len() + BLOCK_OVERHEAD_BYTES
    }
}

impl BlockCache {
    /// An empty cache of at most `budget` bytes. Background reads hold a pass of `gate`.
    pub(crate) fn new(budget: usize, gate: Gate) -> BlockCache {
        let blocks = Blocks {
            budget,
            bytes: 0,
            small_bytes: 0,
            held: HashMap::default(),
            count: 0,
            stale: 0,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            remembered: HashSet::default(),
            asked: RequestCounts::default(),
        };
        BlockCache {
            blocks: RefCell::new(blocks),
            loading: RefCell::default(),
            loaded: Condition::default(),
            buffers: ReadBuffers::default(),
            gate,
            miss_nanos: Counter::default(),
        }
    }

    /// The block if it is in the cache.
    pub(crate) fn get(&self, number: u64, block: BlockId) -> Option<Bytes> {
        self.blocks.borrow_mut().get(&(number, block))
    }

    /// The block from the cache, or read from disk and put into the cache.
    pub(crate) async fn load(self: &Rc<Self>, sstable: &OpenSstable, block: BlockId) -> Result<Bytes, Error> {
        self.load_for(sstable, block, false).await
    }

    async fn load_for(self: &Rc<Self>, sstable: &OpenSstable, block: BlockId, later: bool) -> Result<Bytes, Error> {
        let key = (sstable.number, block);
        loop {
            if let Some(bytes) = self.blocks.borrow_mut().get(&key) {
                return Ok(bytes);
            }
            if let Some(_loading) = LoadingBlock::begin(self, key) {
                let began = runtime::now();
                let bytes = sstable.load_in(&self.buffers, block).await?;
                if !later {
                    self.blocks.borrow_mut().asked.misses += 1;
                    self.miss_nanos.add(runtime::now().since(began).as_nanos() as u64);
                }
                sstable.cached_in(self);
                self.blocks.borrow_mut().put(key, bytes.clone(), later);
                return Ok(bytes);
            }
            self.loaded.wait(|| (!self.loading.borrow().contains(&key)).then_some(())).await;
        }
    }

    /// Begins to read a block that will be requested soon. If the read fails, the request will read again and get the
    /// error.
    pub(crate) fn ahead(self: &Rc<Self>, sstable: &Rc<OpenSstable>, block: BlockId) {
        if !self.misses((sstable.number, block)) {
            return;
        }
        let Some(pass) = self.gate.enter() else { return };
        let (cache, sstable) = (self.clone(), sstable.clone());
        runtime::spawn_in(Class::Foreground, async move {
            let _ = cache.load_for(&sstable, block, true).await;
            drop(pass);
        });
    }

    /// How many bytes a scan of `count` SSTables may read ahead of each.
    pub(crate) fn ahead_bytes_max(&self, count: usize) -> usize {
        self.blocks.borrow().budget / SMALL_PART / AHEAD_PART / count.max(1)
    }

    /// Begins to read the blocks of Data.db from `first` up to the offset `until` (excluded). Blocks near each other
    /// are read with one read.
    pub(crate) fn ahead_until(self: &Rc<Self>, sstable: &Rc<OpenSstable>, first: BlockId, until: u64) {
        let len = sstable.reader.block_len(first.component);
        let all = (first.offset..until).step_by(len as usize).map(|offset| BlockId { offset, ..first });
        let mut run: Vec<BlockId> = Vec::new();
        for block in all.filter(|block| self.misses((sstable.number, *block))) {
            if let (Some(start), Some(last)) = (run.first(), run.last())
                && (block.offset - last.offset > len + GAP_BYTES_MAX || !sstable.is_run(*start, block))
            {
                self.run_ahead(sstable, std::mem::take(&mut run));
            }
            run.push(block);
        }
        if !run.is_empty() {
            self.run_ahead(sstable, run);
        }
    }

    fn run_ahead(self: &Rc<Self>, sstable: &Rc<OpenSstable>, run: Vec<BlockId>) {
        let Some(pass) = self.gate.enter() else { return };
        let (cache, sstable) = (self.clone(), sstable.clone());
        // Marked before the task runs, so that no request reads one of these blocks too.
        let loading: Vec<_> = run.iter().map(|block| LoadingBlock::begin(self, (sstable.number, *block))).collect();
        runtime::spawn_in(Class::Foreground, async move {
            let mut loading = loading.into_iter();
            let put = |block, bytes| {
                sstable.cached_in(&cache);
                cache.blocks.borrow_mut().put((sstable.number, block), bytes, true);
                drop(loading.next());
            };
            let _ = sstable.load_run(&cache.buffers, &run, put).await;
            drop((loading, pass));
        });
    }

    /// Whether a block is neither in the cache nor being read.
    fn misses(&self, key: BlockKey) -> bool {
        !self.blocks.borrow().holds(&key) && !self.loading.borrow().contains(&key)
    }

    /// Drops all blocks of an SSTable.
    pub(crate) fn forget(&self, number: u64) {
        self.blocks.borrow_mut().forget(number);
    }

    /// Counts of hits and misses so far.
    pub(crate) fn asked(&self) -> RequestCounts {
        self.blocks.borrow().asked
    }

    /// Resets the counts of hits and misses to `then`, for a read that could not wait and will request all of its
    /// blocks again.
    pub(crate) fn ask_again_from(&self, then: RequestCounts) {
        self.blocks.borrow_mut().asked = then;
    }

    /// The contents of the cache and its use since the start.
    pub(crate) fn metrics(&self) -> CacheMetrics {
        let blocks = self.blocks.borrow();
        CacheMetrics {
            entries: blocks.count as u64,
            bytes: blocks.bytes as u64,
            capacity_bytes: blocks.budget as u64,
            hits: blocks.asked.hits,
            misses: blocks.asked.misses,
            miss_nanos: self.miss_nanos.get(),
        }
    }
}

/// Marks a block as being read until this is dropped, when the read ends or is cancelled.
struct LoadingBlock {
    cache: Rc<BlockCache>,
    key: BlockKey,
}

impl LoadingBlock {
    /// Marks a block as being read; `None` if it is being read already.
    fn begin(cache: &Rc<BlockCache>, key: BlockKey) -> Option<LoadingBlock> {
        cache.loading.borrow_mut().insert(key).then(|| LoadingBlock { cache: cache.clone(), key })
    }
}

impl Drop for LoadingBlock {
    fn drop(&mut self) {
        self.cache.loading.borrow_mut().remove(&self.key);
        self.cache.loaded.notify();
    }
}

impl Blocks {
    fn holds(&self, (number, block): &BlockKey) -> bool {
        self.held.get(number).is_some_and(|blocks| blocks.contains_key(block))
    }

    fn get(&mut self, (number, block): &BlockKey) -> Option<Bytes> {
        let found = self.held.get_mut(number)?.get_mut(block)?;
        if std::mem::take(&mut found.unused) {
            self.asked.misses += 1;
        } else {
            self.asked.hits += 1;
            found.hits = (found.hits + 1).min(HITS_MAX);
        }
        Some(found.bytes.clone())
    }

    fn put(&mut self, key: BlockKey, bytes: Bytes, unused: bool) {
        let in_main = self.remembered.contains(&key);
        let block = CachedBlock { bytes, hits: 0, unused, in_main };
        let cost = block.cost();
        if cost > self.budget / SMALL_PART || self.holds(&key) {
            return;
        }
        self.held.entry(key.0).or_default().insert(key.1, block);
        self.bytes += cost;
        self.count += 1;
        if in_main {
            self.main.push_back(key);
        } else {
            self.small_bytes += cost;
            self.small.push_back(key);
        }
        while self.bytes > self.budget {
            let from_small = self.small_bytes > self.budget / SMALL_PART || self.main.is_empty();
            let went_on = if from_small { self.leave_small() } else { self.leave_main() };
            if !went_on {
                break;
            }
        }
    }

    /// Moves the oldest block of the small queue to the main queue or evicts it. Returns false if the queue is empty.
    fn leave_small(&mut self) -> bool {
        let Some(key) = self.small.pop_front() else { return false };
        match self.held.get_mut(&key.0).and_then(|blocks| blocks.get_mut(&key.1)) {
            None => self.stale -= 1,
            Some(block) => {
                self.small_bytes -= block.cost();
                if block.hits > 0 {
                    block.hits = 0;
                    block.in_main = true;
                    self.main.push_back(key);
                } else {
                    self.drop_block(&key);
                    self.remember(key);
                }
            }
        }
        true
    }

    /// Moves the oldest block of the main queue to its back at the cost of one of its hits, or evicts it if it has
    /// none. Returns false if the queue is empty.
    fn leave_main(&mut self) -> bool {
        let Some(key) = self.main.pop_front() else { return false };
        match self.held.get_mut(&key.0).and_then(|blocks| blocks.get_mut(&key.1)) {
            None => self.stale -= 1,
            Some(block) if block.hits > 0 => {
                block.hits -= 1;
                self.main.push_back(key);
            }
            Some(_) => self.drop_block(&key),
        }
        true
    }

    fn drop_block(&mut self, key: &BlockKey) {
        let Some(blocks) = self.held.get_mut(&key.0) else { return };
        if let Some(block) = blocks.remove(&key.1) {
            self.bytes -= block.cost();
            self.count -= 1;
        }
        if blocks.is_empty() {
            self.held.remove(&key.0);
        }
    }

    fn remember(&mut self, key: BlockKey) {
        if self.remembered.insert(key) {
            self.ghosts.push_back(key);
        }
        while self.ghosts.len() > self.count {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.remembered.remove(&oldest);
            }
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(blocks) = self.held.remove(&number) else { return };
        for block in blocks.values() {
            self.bytes -= block.cost();
            self.small_bytes -= if block.in_main { 0 } else { block.cost() };
        }
        self.count -= blocks.len();
        self.stale += blocks.len();
        // The queues are swept only once most entries are stale, so that each entry pays for one look.
        if self.stale > self.count {
            let held = &self.held;
            let is_held = |key: &BlockKey| held.get(&key.0).is_some_and(|blocks| blocks.contains_key(&key.1));
            self.small.retain(is_held);
            self.main.retain(is_held);
            self.stale = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::rng::Rng;
    use sstable::Component;

    fn blocks(budget: usize) -> Blocks {
        BlockCache::new(budget, Gate::new()).blocks.into_inner()
    }

    fn key(number: u64, block: u64) -> BlockKey {
        (number, BlockId { component: Component::Data, offset: block << 12 })
    }

    fn check(blocks: &Blocks) {
        let all: Vec<&CachedBlock> = blocks.held.values().flat_map(|blocks| blocks.values()).collect();
        assert_eq!(blocks.count, all.len());
        assert_eq!(blocks.bytes, all.iter().map(|block| block.cost()).sum::<usize>());
        let small = all.iter().filter(|block| !block.in_main);
        assert_eq!(blocks.small_bytes, small.map(|block| block.cost()).sum::<usize>());
        assert_eq!(blocks.small.len() + blocks.main.len(), blocks.count + blocks.stale);
        assert_eq!(blocks.ghosts.len(), blocks.remembered.len());
        assert!(blocks.bytes <= blocks.budget);
    }

    #[test]
    fn random_use_keeps_counts_and_budget() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut blocks = blocks(100_000);
            // The numbers of open SSTables are never reused.
            let mut numbers = [0, 1, 2, 3, 4];
            for _ in 0..4000 {
                let at = rng.below(5) as usize;
                let key = key(numbers[at], rng.below(60));
                match rng.below(40) {
                    0 => {
                        blocks.forget(key.0);
                        numbers[at] += 5;
                    }
                    1..20 => blocks.put(key, vec![key.0 as u8; 1 + rng.below(5000) as usize].into(), rng.chance(0.5)),
                    _ => {
                        let found = blocks.get(&key);
                        assert!(found.is_none_or(|bytes| bytes[0] == key.0 as u8));
                    }
                }
                check(&blocks);
            }
        }
    }

    #[test]
    fn a_scan_does_not_push_out_what_is_read_again() {
        let mut blocks = blocks(100 * 4096);
        let bytes = Bytes::from(vec![0; 4096 - BLOCK_OVERHEAD_BYTES]);
        for round in 0..3 {
            for hot in 0..50 {
                if blocks.get(&key(1, hot)).is_none() {
                    assert_eq!(round, 0);
                    blocks.put(key(1, hot), bytes.clone(), false);
                }
            }
        }
        for cold in 0..10_000 {
            // Each block is read ahead, then requested once.
            blocks.put(key(2, cold), bytes.clone(), true);
            blocks.get(&key(2, cold));
        }
        assert!((0..50).all(|hot| blocks.get(&key(1, hot)).is_some()));
        check(&blocks);
        // A block that was read ahead counts as a miss for its first request.
        assert_eq!((blocks.asked.hits, blocks.asked.misses), (150, 10_000));
    }

    #[test]
    fn blocks_larger_than_the_small_queue_are_not_kept() {
        let mut blocks = blocks(1 << 20);
        let most = (1 << 20) / SMALL_PART - BLOCK_OVERHEAD_BYTES;
        blocks.put(key(1, 0), vec![0; most].into(), false);
        blocks.put(key(1, 1), vec![0; most + 1].into(), false);
        assert!(blocks.get(&key(1, 0)).is_some());
        assert!(blocks.get(&key(1, 1)).is_none());
        check(&blocks);
    }
}
