//! Reads through an index that several replicas must agree on.
//!
//! 1. Every replica of the plan is asked for the places of the rows that its index leads to, whether or not they match
//!    in other respects: a row that matches has the indexed value in its newest version, and one of the replicas that
//!    has that version is among those asked.
//! 2. The places of all replicas are united, up to the *frontier*: the first place behind which one of them may have
//!    more.
//! 3. The rows at these places are read at the level of the request, with its filter, one partition after the other.
//!
//! A call gives the rows of one round. The next one goes on at the frontier.

use super::gathering::{PlacedRead, Unread, gather};
use super::read::{ReadPlan, read_request};
use crate::guards::tombstones::ScanCounts;
use crate::messages::data::{ReadReply, ReadRequest};
use crate::rows::block::{RowBlock, RowPlaces, merge_counted};
use crate::shard_state::Shard;
use cluster::placement::Replica;
use cluster::plan::PartitionReadPlan;
use cql::plan::Selector;
use model::query::{Partitions, Position, ReadEnd, Resume, Slice};
use model::{DecoratedKey, Failure};
use runtime::sync::boxed;
use runtime::sync::join_all;
use std::collections::BTreeMap;

/// Fewest and most places that are asked for in a round.
const PLACES_MIN: u64 = 64;
const PLACES_MAX: u64 = 1024;

/// The places of one partition: comparable forms of rows, or the whole partition.
#[derive(Default)]
struct Places {
    rows: Vec<Box<[u8]>>,
    is_whole: bool,
}

/// Reads a round of a request, whose replicas are those of `asked`.
pub(crate) async fn read(read: &PlacedRead<'_>, asked: &mut PartitionReadPlan) -> Result<ReadReply, Unread> {
    let PlacedRead { shard, plan, placement, request, patience } = *read;
    let mut question = ReadRequest { selection: [].into(), filter: None, places: true, ..request.clone() };
    question.command.per_partition_max = u64::MAX;
    question.command.rows_max = request.command.rows_max.clamp(PLACES_MIN, PLACES_MAX);
    let question = PlacedRead { request: &question, ..*read };
    let ask = |replica, _| boxed(|| candidates(&question, replica));
    let answers = gather(shard, asked, &plan.table, placement.keyspace().topology(), patience, ask).await?;
    let replies: Vec<ReadReply> = answers.into_iter().flat_map(|(_, replies)| replies).collect();
    let reversed = request.command.reversed;
    let stops = replies.iter().filter(|reply| reply.end != ReadEnd::Exhausted).filter_map(|reply| reply.last.as_ref());
    let frontier = stops.map(|last| &last.position).min_by(|a, b| a.read_order(b, reversed)).cloned();
    let mut partitions: BTreeMap<DecoratedKey, Places> = BTreeMap::new();
    for reply in &replies {
        for row in 0..reply.places.len() {
            let Position { key, comparable } = reply.places.resume(shard.partitioner(), row).position;
            let place = Position { key, comparable };
            if frontier.as_ref().is_some_and(|end| place.read_order(end, reversed).is_gt()) {
                break;
            }
            let places = partitions.entry(place.key).or_default();
            places.is_whole |= place.comparable.is_none();
            places.rows.extend(place.comparable);
        }
    }
    let mut round = Round { shard, plan, request, blocks: Vec::new(), met: ScanCounts::default(), last: None };
    for (key, places) in partitions {
        if let Some(stopped_at) = round.partition(key, places).await? {
            return Ok(round.reply(Some(stopped_at)));
        }
    }
    let resume = frontier.map(|position| Resume { partition_rows: round.rows_before(&position.key), position });
    Ok(round.reply(resume))
}

/// What a node's index leads to, by core.
async fn candidates(question: &PlacedRead<'_>, replica: Replica) -> Result<Vec<ReadReply>, Failure> {
    let PlacedRead { shard, plan, placement, request, .. } = *question;
    let topology = placement.keyspace().topology();
    let cores: Vec<Replica> = match &request.command.partitions {
        Partitions::Key(_) => vec![replica],
        Partitions::Range(_) => {
            placement.shards_of(replica.node).map(|shard| Replica { node: replica.node, shard }).collect()
        }
    };
    let reads = cores.into_iter().map(|core| plan.read_at(shard, topology, core, request.clone()));
    join_all(reads.collect()).await.into_iter().collect()
}

/// The rows of a round so far.
struct Round<'a> {
    shard: &'a Shard,
    plan: &'a ReadPlan,
    request: &'a ReadRequest,
    blocks: Vec<ReadReply>,
    met: ScanCounts,
    /// The last partition, and how many rows were given of it, by earlier rounds too.
    last: Option<(DecoratedKey, u64)>,
}

impl Round<'_> {
    fn rows(&self) -> u64 {
        self.blocks.iter().map(|reply| u64::from(reply.block.rows)).sum()
    }

    /// Rows of a partition that were given so far.
    fn rows_before(&self, key: &DecoratedKey) -> u64 {
        let command = &self.request.command;
        match (&self.last, &command.resume) {
            (Some((last, rows)), _) if last == key => *rows,
            (_, Some(resume)) if resume.key == *key => command.resume_partition_rows,
            _ => 0,
        }
    }

    /// Reads the rows at some places of a partition. Returns where the round is full, if it is.
    async fn partition(&mut self, key: DecoratedKey, places: Places) -> Result<Option<Resume>, Failure> {
        let mut request = ReadRequest { index: None, ..self.request.clone() };
        let command = &mut request.command;
        if command.resume.as_ref().is_none_or(|resume| resume.key != key) {
            (command.resume, command.resume_partition_rows) = (None, 0);
        }
        if !places.is_whole {
            let mut rows = places.rows;
            rows.sort_unstable();
            rows.dedup();
            let slice = |row: Box<[u8]>| Slice { end: [&*row, &[0]].concat().into(), start: row };
            command.slices = rows.into_iter().map(slice).collect();
        }
        command.partitions = Partitions::Key(key.clone());
        loop {
            let mut next = request.clone();
            next.command.rows_max = self.request.command.rows_max - self.rows();
            let bytes: usize = self.blocks.iter().map(|reply| reply.block.bytes.len()).sum();
            next.bytes_max = self.request.bytes_max.saturating_sub(bytes).max(1);
            let mut reply = Box::pin(read_request(self.shard, self.plan, next)).await?;
            self.met.add(reply.scanned);
            let before = match (&self.last, request.command.resume.is_some()) {
                (Some((last, rows)), true) if *last == key => *rows,
                _ => request.command.resume_partition_rows,
            };
            self.last = Some((key.clone(), before + u64::from(reply.block.rows)));
            let last = reply.last.take();
            let is_last = reply.end == ReadEnd::Exhausted;
            self.blocks.push(reply);
            let bytes: usize = self.blocks.iter().map(|reply| reply.block.bytes.len()).sum();
            let is_full = self.rows() >= self.request.command.rows_max || bytes >= self.request.bytes_max;
            match last {
                Some(last) if is_full => return Ok(Some(last)),
                Some(Resume { position, partition_rows }) if !is_last => {
                    request.command.resume = Some(position);
                    request.command.resume_partition_rows = partition_rows;
                }
                _ => return Ok(None),
            }
        }
    }

    /// The rows as the answer to a request whose read goes on at `resume`.
    fn reply(self, resume: Option<Resume>) -> ReadReply {
        let end = if resume.is_some() { ReadEnd::Stopped } else { ReadEnd::Exhausted };
        let mut blocks = self.blocks;
        let counts =
            self.plan.selection.iter().any(|selector| matches!(selector, Selector::CountRows | Selector::Count(_)));
        if blocks.len() == 1
            && let Some(only) = blocks.pop()
        {
            return ReadReply { end, last: resume, scanned: self.met, ..only };
        }
        let (mut block, mut places) = (RowBlock::default(), RowPlaces::default());
        if counts {
            let parts: Vec<RowBlock> =
                blocks.into_iter().map(|reply| reply.block).filter(|part| part.rows > 0).collect();
            block = merge_counted(&self.plan.selection, &parts);
        } else {
            for reply in blocks {
                let before = block.bytes.len() as u32;
                block.ends.extend(reply.block.ends.iter().map(|(token, row_end)| (*token, row_end + before)));
                block.bytes.extend_from_slice(&reply.block.bytes);
                block.rows += reply.block.rows;
                places.append(reply.places);
            }
        }
        ReadReply { block, end, last: resume, scanned: self.met, places }
    }
}
