//! The rows of one key's sub-partitions in clustering order.

use super::super::read::{PageLimits, RESULT_BYTES_MAX, ReadPlan, read_request, result_too_large};
use super::super::scan::block_bytes;
use super::row_order::{Entry, RowOrder};
use super::stream::Stream;
use super::{UNDER_WAY_MAX, stored, within};
use crate::messages::data::ReadRequest;
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use model::query::{Partitions, Position, Resume};
use model::{DecoratedKey, Failure, WriteSharding};
use runtime::sync::join_all;

/// Fewest and most rows that a stream is asked for.
const BLOCK_ROWS_MIN: u64 = 16;
const BLOCK_ROWS_MAX: u64 = 4096;
/// Bytes that the streams of an unpaged read are asked for together.
const UNPAGED_BYTES: usize = 16 << 20;

/// The merge of the sub-partitions of one key.
pub(super) struct Merge<'a> {
    plan: &'a ReadPlan,
    key: &'a DecoratedKey,
    limits: PageLimits,
    streams: Vec<Stream>,
    order: RowOrder,
    /// Whether more than one stream may have the same row.
    may_repeat: bool,
    /// The place of the last row given, which is kept where streams may have the same row.
    last: Option<Vec<u8>>,
    /// How many rows of the key were given, by earlier pages too.
    rows_given: u64,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        plan: &'a ReadPlan,
        key: &'a DecoratedKey,
        shards: &[u16],
        resume: Option<Resume>,
        limits: PageLimits,
    ) -> Merge<'a> {
        let rows_given = resume.as_ref().map_or(0, |resume| resume.partition_rows);
        let rows_max = limits.rows_max.min(plan.per_partition_max.saturating_sub(rows_given));
        let credit = credit(rows_max, shards.len() as u64);
        let stream = |shard: &u16| {
            let resume = resume.as_ref().map(|resume| within(&plan.table, resume, *shard));
            Stream::new(stored(&plan.table, key, *shard), resume, credit)
        };
        Merge {
            plan,
            key,
            limits,
            streams: shards.iter().map(stream).collect(),
            order: RowOrder::default(),
            may_repeat: plan.table.write_sharding().is_some_and(WriteSharding::is_random),
            last: None,
            rows_given,
        }
    }

    /// Appends rows to `out` until the page is full, and then returns where it ends, or until the key has no more.
    pub(super) async fn run(&mut self, shard: &Shard, out: &mut RowBlock) -> Result<Option<Resume>, Failure> {
        let mut stopped_at = None;
        while self.rows_given < self.plan.per_partition_max {
            self.refill(shard, out).await?;
            let given = self.give_all(out)?;
            // Copying the rows took a while without awaiting.
            runtime::yield_if_needed().await;
            match given {
                Given::StreamDry => {}
                Given::PageFull(resume) => {
                    stopped_at = Some(resume);
                    break;
                }
                Given::Everything => break,
            }
        }
        for stream in &self.streams {
            self.plan.tombstones.end(&stream.met, Some(&stream.key), self.limits.rows_max);
        }
        Ok(stopped_at)
    }

    /// Appends rows until the page is full, the key has given all that it may, or a stream has to be asked for more.
    fn give_all(&mut self, out: &mut RowBlock) -> Result<Given, Failure> {
        let bytes_full = self.limits.bytes_max.unwrap_or(usize::MAX);
        out.bytes.reserve(self.order.bytes().min(bytes_full.min(RESULT_BYTES_MAX).saturating_sub(out.bytes.len())));
        while self.rows_given < self.plan.per_partition_max
            && let Some(entry) = self.order.next(&self.streams)
        {
            self.give(entry, out)?;
            if u64::from(out.rows) >= self.limits.rows_max || out.bytes.len() >= bytes_full {
                return Ok(Given::PageFull(self.resume(entry)));
            }
            let stream = &mut self.streams[entry.stream()];
            stream.give();
            if stream.wants_more() {
                return Ok(Given::StreamDry);
            }
        }
        Ok(Given::Everything)
    }

    /// Appends a row, unless it is the one given before.
    #[inline]
    fn give(&mut self, entry: Entry, out: &mut RowBlock) -> Result<(), Failure> {
        if self.may_repeat {
            let place = entry.place(&self.streams);
            if self.last.as_deref() == Some(place) {
                return Ok(());
            }
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(place);
        }
        out.push_row(entry.bytes(&self.streams));
        if out.bytes.len() > RESULT_BYTES_MAX {
            return Err(result_too_large());
        }
        out.ends.push((self.key.token, out.bytes.len() as u32));
        self.rows_given += 1;
        Ok(())
    }

    /// Where a page goes on that ends with a row.
    fn resume(&self, entry: Entry) -> Resume {
        let position = Position { key: self.key.clone(), comparable: Some(entry.place(&self.streams).into()) };
        Resume { position, partition_rows: self.rows_given }
    }

    /// Reads until every stream has a row or is exhausted.
    async fn refill(&mut self, shard: &Shard, out: &RowBlock) -> Result<(), Failure> {
        let left =
            self.limits.rows_max.saturating_sub(out.rows.into()).min(self.plan.per_partition_max - self.rows_given);
        let bytes_max = match self.limits.bytes_max {
            Some(_) => block_bytes(self.limits, out.bytes.len(), self.streams.len()),
            // What is read but not yet given must stay within bounds here too.
            None => block_bytes(PageLimits { bytes_max: Some(UNPAGED_BYTES), ..self.limits }, 0, self.streams.len()),
        };
        let mut filled = Vec::new();
        loop {
            let wanting = (0..self.streams.len()).filter(|at| self.streams[*at].wants_more());
            let asked: Vec<usize> = wanting.take(UNDER_WAY_MAX).collect();
            if asked.is_empty() {
                break;
            }
            let reads = asked.iter().map(|at| {
                let stream = &self.streams[*at];
                let request = self.request(stream, stream.credit.min(left), bytes_max);
                read_request(shard, self.plan, request)
            });
            for (at, reply) in asked.iter().zip(join_all(reads.collect()).await) {
                let (reply, stream) = (reply?, &mut self.streams[*at]);
                self.plan.count(&mut stream.met, reply.scanned, Some(&stream.key), self.limits.rows_max)?;
                stream.fill(reply, BLOCK_ROWS_MAX);
            }
            filled.extend(asked);
        }
        // A block may have been empty, so that its stream was asked again.
        filled.sort_unstable();
        filled.dedup();
        self.order.add(&self.streams, &filled, self.plan.reversed);
        Ok(())
    }

    fn request(&self, stream: &Stream, rows_max: u64, bytes_max: usize) -> ReadRequest {
        let mut request =
            self.plan.request(Partitions::Key(stream.key.clone()), stream.resume.clone(), rows_max, bytes_max, true);
        // The limit is that of the rows of all sub-partitions.
        request.command.per_partition_max = u64::MAX;
        request.command.resume_partition_rows = 0;
        request
    }
}

/// Why giving rows ended.
enum Given {
    /// A stream has no row left, but its sub-partition may have more.
    StreamDry,
    /// The page is full; the next one goes on here.
    PageFull(Resume),
    /// No stream has more, or the key has given as many rows as it may.
    Everything,
}

/// Rows to ask each of `streams` for first, of which `rows_max` are wanted: an equal share, and as much more as chance
/// may put into one of them. Without that, about half of the streams would run dry before the page is full, one after
/// the other.
fn credit(rows_max: u64, streams: u64) -> u64 {
    if streams == 1 {
        return rows_max;
    }
    let share = rows_max.div_ceil(streams.max(1)).min(BLOCK_ROWS_MAX);
    // The standard deviation of what a hash puts into one of many places is the root of the mean.
    (share + 2 * share.isqrt()).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_asked_for_a_little_more_than_their_share() {
        assert_eq!(credit(5_000, 200), 35);
        assert_eq!(credit(10, 200), BLOCK_ROWS_MIN);
        assert_eq!(credit(u64::MAX, 200), BLOCK_ROWS_MAX);
        assert_eq!(credit(u64::MAX, 1), u64::MAX, "who else should have them");
    }
}
