//! Counter contexts: the content of a counter's cell.
//!
//! A counter is the sum of counter shards, one per node that counted. A shard's clock says which of two versions is
//! later.
//!
//! ```text
//! header   count i16       how many marks follow; negative: as many, and local shards count as remote ones, because
//!                          the file came from another node
//!          marks i16 each  ascending by index: index of a local shard, or index - 32768 of a global one
//! body     shards by id (memcmp): id 16 bytes, clock i64, count i64
//! ```
//! All big-endian. Global shards are what nodes have written since Cassandra 2.1: a node's whole count. Local shards,
//! from before, are parts of the count of the node that stores them; unmarked (remote) shards come from other nodes.
//!
//! Two versions of a shard merge as follows: a global one beats the others; of two global or two remote ones the later
//! clock wins, then the larger count; a local one beats a remote one; two local ones are added.
//!
//! Source: Cassandra 5's `CounterContext`.
//!
//! Invariants: bytes from a disk are checked once, by [`CounterContext::parse`], and never panic; merging allocates
//! nothing but the output.

use std::cmp::Ordering;
use std::fmt;

/// Size of a shard in the body, bytes.
const SHARD_BYTES: usize = 32;
/// Size of a context with one marked shard, bytes.
pub const ONE_SHARD_BYTES: usize = 4 + SHARD_BYTES;
/// Most shards of a context, because marks number them with 15 bits.
pub const SHARDS_MAX: usize = 32767;

/// How a shard merges with another version of it; a later variant beats an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CounterShardKind {
    /// Written by another node: a shard without a mark.
    Remote,
    /// A part of a node's count: versions add up.
    Local,
    /// A node's whole count.
    Global,
}

/// One node's share of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterShard {
    /// The host id of the node.
    pub id: [u8; 16],
    /// Its version: a later clock wins.
    pub clock: i64,
    /// Its count.
    pub count: i64,
    /// How it merges with other versions.
    pub kind: CounterShardKind,
}

/// The error for bytes that are not a counter context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterContextError {
    /// The header is longer than the bytes.
    Header,
    /// The body is not whole shards.
    Body,
    /// More shards than [`SHARDS_MAX`].
    TooManyShards,
    /// A mark names no shard, or one at or before the mark before it.
    Mark,
    /// Shards are not in ascending order of their ids.
    Order,
}

impl fmt::Display for CounterContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CounterContextError::Header => "a counter's header is cut off",
            CounterContextError::Body => "a counter's shards are cut off",
            CounterContextError::TooManyShards => "a counter has too many shards",
            CounterContextError::Mark => "a counter's header marks no shard of it",
            CounterContextError::Order => "a counter's shards are out of order",
        })
    }
}

impl std::error::Error for CounterContextError {}

/// A well-formed counter context, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct CounterContext<'a> {
    marks: &'a [u8],
    body: &'a [u8],
    /// Whether local shards count as remote ones.
    foreign: bool,
}

impl<'a> CounterContext<'a> {
    /// Checks a context to its end. No bytes at all are a counter without shards.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<CounterContext<'a>, CounterContextError> {
        let context = CounterContext::split(bytes).ok_or(CounterContextError::Header)?;
        if context.body.len() % SHARD_BYTES != 0 {
            return Err(CounterContextError::Body);
        }
        let shards = context.body.len() / SHARD_BYTES;
        if shards > SHARDS_MAX {
            return Err(CounterContextError::TooManyShards);
        }
        let indexes = || context.marks.chunks_exact(2).map(|mark| i16::from_be_bytes([mark[0], mark[1]]) & i16::MAX);
        if !indexes().is_sorted_by(|a, b| a < b) || indexes().any(|index| index as usize >= shards) {
            return Err(CounterContextError::Mark);
        }
        if !context.body.chunks_exact(SHARD_BYTES).is_sorted_by(|a, b| a[..16] < b[..16]) {
            return Err(CounterContextError::Order);
        }
        Ok(context)
    }

    /// Reads a context that was parsed before or written by this module. Other bytes give arbitrary shards or none.
    pub fn trusted(bytes: &'a [u8]) -> CounterContext<'a> {
        CounterContext::split(bytes).unwrap_or(CounterContext { marks: &[], body: &[], foreign: false })
    }

    fn split(bytes: &'a [u8]) -> Option<CounterContext<'a>> {
        if bytes.is_empty() {
            return Some(CounterContext { marks: &[], body: &[], foreign: false });
        }
        let (count, rest) = bytes.split_first_chunk()?;
        let count = i16::from_be_bytes(*count);
        let (marks, body) = rest.split_at_checked(2 * usize::from(count.unsigned_abs()))?;
        Some(CounterContext { marks, body, foreign: count < 0 })
    }

    /// The shards in ascending order of their ids.
    pub fn shards(&self) -> CounterShards<'a> {
        CounterShards { marks: self.marks, body: self.body, foreign: self.foreign, index: 0 }
    }

    /// The counter's value: the sum of all shards, which wraps around as in Cassandra.
    pub fn total(&self) -> i64 {
        self.shards().fold(0, |total: i64, shard| total.wrapping_add(shard.count))
    }

    /// The shard of the node with this host id.
    pub fn shard(&self, id: &[u8; 16]) -> Option<CounterShard> {
        self.shards().find(|shard| shard.id == *id)
    }

    /// Whether any shard is not global. SSTables record this in their statistics.
    pub fn has_legacy_shards(&self) -> bool {
        self.shards().any(|shard| shard.kind != CounterShardKind::Global)
    }
}

/// The iterator of [`CounterContext::shards`].
#[derive(Clone, Debug)]
pub struct CounterShards<'a> {
    /// The marks of the shards not yet returned.
    marks: &'a [u8],
    body: &'a [u8],
    foreign: bool,
    /// The index of the next shard.
    index: usize,
}

impl Iterator for CounterShards<'_> {
    type Item = CounterShard;

    fn next(&mut self) -> Option<CounterShard> {
        let (id, rest) = self.body.split_first_chunk::<16>()?;
        let (clock, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        self.body = rest;
        let mut kind = CounterShardKind::Remote;
        if let Some((mark, marks)) = self.marks.split_first_chunk() {
            let mark = i16::from_be_bytes(*mark);
            if usize::from(mark as u16 & 0x7fff) == self.index {
                self.marks = marks;
                kind = match mark < 0 {
                    true => CounterShardKind::Global,
                    false if self.foreign => CounterShardKind::Remote,
                    false => CounterShardKind::Local,
                };
            }
        }
        self.index += 1;
        Some(CounterShard { id: *id, clock: i64::from_be_bytes(*clock), count: i64::from_be_bytes(*count), kind })
    }
}

/// Merges two versions of one node's shard.
fn combine(a: CounterShard, b: CounterShard) -> CounterShard {
    match a.kind.cmp(&b.kind) {
        Ordering::Greater => a,
        Ordering::Less => b,
        Ordering::Equal if a.kind == CounterShardKind::Local => {
            CounterShard { clock: a.clock.wrapping_add(b.clock), count: a.count.wrapping_add(b.count), ..a }
        }
        Ordering::Equal => {
            let later = match a.kind {
                CounterShardKind::Remote => remote_age(&a).cmp(&remote_age(&b)),
                _ => a.clock.cmp(&b.clock),
            };
            if later.then(a.count.cmp(&b.count)).is_lt() { b } else { a }
        }
    }
}

/// The sort key of remote shards in time. A negative clock belongs to a shard whose node took a new id and moved its
/// count there: it is later than any other, and the more negative the later.
fn remote_age(shard: &CounterShard) -> (bool, i128) {
    let clock = i128::from(shard.clock);
    (clock < 0, clock.abs())
}

/// An iterator over the merged shards of two contexts.
struct Merged<'a> {
    left: std::iter::Peekable<CounterShards<'a>>,
    right: std::iter::Peekable<CounterShards<'a>>,
}

impl Iterator for Merged<'_> {
    type Item = CounterShard;

    fn next(&mut self) -> Option<CounterShard> {
        let order = match (self.left.peek(), self.right.peek()) {
            (Some(left), Some(right)) => left.id.cmp(&right.id),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => self.left.next(),
            Ordering::Greater => self.right.next(),
            Ordering::Equal => Some(combine(self.left.next()?, self.right.next()?)),
        }
    }
}

/// Appends the merge of two contexts to `out`.
pub fn merge(left: &[u8], right: &[u8], out: &mut Vec<u8>) {
    let merged = || Merged {
        left: CounterContext::trusted(left).shards().peekable(),
        right: CounterContext::trusted(right).shards().peekable(),
    };
    push_context(merged, out);
}

/// Appends a context of the shards that `shards` iterates over, each time the same and in the order of their ids.
fn push_context<I: Iterator<Item = CounterShard>>(shards: impl Fn() -> I, out: &mut Vec<u8>) {
    let marked = || shards().enumerate().filter(|(_, shard)| shard.kind != CounterShardKind::Remote);
    let marks = marked().count().min(SHARDS_MAX);
    out.extend_from_slice(&(marks as i16).to_be_bytes());
    for (index, shard) in marked().take(marks) {
        let global = if shard.kind == CounterShardKind::Global { i16::MIN } else { 0 };
        out.extend_from_slice(&(index as i16 | global).to_be_bytes());
    }
    for shard in shards() {
        out.extend_from_slice(&shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
}

fn one_shard(shard: CounterShard, mark: i16) -> [u8; ONE_SHARD_BYTES] {
    let mut context = [0; ONE_SHARD_BYTES];
    context[..2].copy_from_slice(&1i16.to_be_bytes());
    context[2..4].copy_from_slice(&mark.to_be_bytes());
    context[4..20].copy_from_slice(&shard.id);
    context[20..28].copy_from_slice(&shard.clock.to_be_bytes());
    context[28..].copy_from_slice(&shard.count.to_be_bytes());
    context
}

/// A context with one global shard: a node's whole count.
pub fn global(id: [u8; 16], clock: i64, count: i64) -> [u8; ONE_SHARD_BYTES] {
    one_shard(CounterShard { id, clock, count, kind: CounterShardKind::Global }, i16::MIN)
}

/// The context of a change that no replica has applied yet: a local shard without a node. The replica that applies it
/// writes a [`global`] one of its own.
pub fn change(amount: i64) -> [u8; ONE_SHARD_BYTES] {
    one_shard(CounterShard { id: [0; 16], clock: 1, count: amount, kind: CounterShardKind::Local }, 0)
}

#[cfg(test)]
#[path = "counter_tests.rs"]
mod tests;
