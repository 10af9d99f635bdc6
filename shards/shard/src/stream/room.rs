//! Room on the disks for what a plan brings.
//!
//! 1. The sources say how much each of their cores has; what comes from a core lies below the data directory of the
//!    core of this node that receives it.
//! 2. What has come of the plan before needs no more room.
//! 3. Each disk must have what its directories need, with a margin, besides what other plans that are under way still
//!    need ([`lacking`]). Then the plan has reserved it until it ends.
//!
//! A source that does not answer counts as one that has nothing: it is asked again when it matters.

use super::parts::TablePart;
use super::plan::{StreamError, StreamPlan};
use super::staging::failed;
use crate::peer::answer;
use crate::peer::head::Head;
use crate::peer::streams::{StreamRequest, decode_measure};
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use engine::streams::directories;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// How long a source may take to say how much it has.
const MEASURE_WAIT: Duration = Duration::from_secs(10);
/// The part of what is to come that must be free besides, one in so many.
const MARGIN: u64 = 20;

/// Bytes by data directory.
type ByDirectory = BTreeMap<PathBuf, u64>;

/// Room that a plan has until it ends.
pub(super) struct Reservation<'s> {
    shard: &'s Shard,
    plan: Uuid,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.shard.streams().reserved.borrow_mut().remove(&self.plan);
    }
}

/// A disk as a data directory shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Disk {
    number: u64,
    free: u64,
}

/// Reserves the room that a plan needs for these parts.
///
/// # Errors
/// A disk has too little.
pub(super) async fn reserve<'s>(
    shard: &'s Shard,
    plan: &StreamPlan,
    parts: &[TablePart],
) -> Result<Reservation<'s>, StreamError> {
    let mut needed = measured(shard, parts).await;
    let reservation = Reservation { shard, plan: plan.id };
    if needed.is_empty() || !shard.config().streams.check_disk_space {
        return Ok(reservation);
    }
    for (directory, bytes) in &mut needed {
        *bytes = bytes.saturating_sub(staged(directory, plan.id).await);
    }
    let mut disks = BTreeMap::new();
    for directory in shard.config().directories.all() {
        let space = runtime::file::space(directory).await.map_err(|error| failed(engine::Error::Io(error)))?;
        disks.insert(directory.clone(), Disk { number: space.disk, free: space.free });
    }
    let others: Vec<(Uuid, ByDirectory)> =
        shard.streams().reserved.borrow().iter().map(|(id, bytes)| (*id, bytes.clone())).collect();
    let mut arrived: BTreeMap<(Uuid, PathBuf), u64> = BTreeMap::new();
    for (other, directory) in others.iter().flat_map(|(id, bytes)| bytes.keys().map(move |at| (*id, at))) {
        arrived.insert((other, directory.clone()), staged(directory, other).await);
    }
    // From here to the end nothing waits: plans that are checked at the same time see each other.
    let mut reserved = shard.streams().reserved.borrow_mut();
    let mut promised = ByDirectory::new();
    for (other, of_directories) in reserved.iter() {
        for (directory, bytes) in of_directories {
            let has_come = arrived.get(&(*other, directory.clone())).copied().unwrap_or(0);
            *promised.entry(directory.clone()).or_default() += bytes.saturating_sub(has_come);
        }
    }
    if let Some((needed, available)) = lacking(&needed, &promised, &disks) {
        return Err(StreamError::DiskFull { needed, available });
    }
    reserved.insert(plan.id, needed);
    drop(reserved);
    Ok(reservation)
}

/// What is to come, as the sources say.
async fn measured(shard: &Shard, parts: &[TablePart]) -> ByDirectory {
    let mut needed = ByDirectory::new();
    let mut silent = BTreeSet::new();
    for part in parts {
        for (node, ranges) in &part.sources {
            let request = StreamRequest::Measure { table: part.table.id, ranges: ranges.to_vec() };
            for core in 0..node.shards.shards {
                if silent.contains(&node.host_id) {
                    break;
                }
                let mut body = Head { epoch: shard.epoch() }.body(256);
                request.push(&mut body, core);
                let deadline = runtime::now().after(MEASURE_WAIT);
                let call = shard.peers().call(node, PeerLane::Bulk, request.verb(), &body, deadline);
                let Ok(answer) = call.await else {
                    silent.insert(node.host_id);
                    continue;
                };
                if let Some(Ok(result)) = answer::decode(&answer)
                    && let Some((_, bytes)) = decode_measure(result)
                    && bytes > 0
                {
                    let directory = shard.config().directories.of_shard(core).to_owned();
                    let sum = needed.entry(directory).or_default();
                    *sum = sum.saturating_add(bytes);
                }
            }
        }
    }
    needed
}

/// Bytes that have come of a plan to a data directory, and are not in their tables yet.
async fn staged(directory: &std::path::Path, plan: Uuid) -> u64 {
    let directory = directory.join(directories::DIRECTORY).join("in").join(plan.to_string());
    runtime::file::space(&directory).await.map_or(0, |space| space.used)
}

/// What is needed and what is free of the first disk that has too little room for what its directories need, with a
/// margin, besides what other plans were `promised`.
fn lacking(needed: &ByDirectory, promised: &ByDirectory, disks: &BTreeMap<PathBuf, Disk>) -> Option<(u64, u64)> {
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    for disk in disks.values() {
        numbers.insert(disk.number, disk.free);
    }
    numbers.into_iter().find_map(|(number, free)| {
        let on_it = |sums: &ByDirectory| {
            let there = sums.iter().filter(|(at, _)| disks.get(*at).is_some_and(|disk| disk.number == number));
            there.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
        };
        let needed = on_it(needed);
        let with_margin = needed.saturating_add(needed / MARGIN);
        let available = free.saturating_sub(on_it(promised));
        (needed > 0 && with_margin > available).then_some((with_margin, available))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(sums: &[(&str, u64)]) -> ByDirectory {
        sums.iter().map(|(directory, bytes)| (PathBuf::from(directory), *bytes)).collect()
    }

    fn disks(of: &[(&str, u64, u64)]) -> BTreeMap<PathBuf, Disk> {
        of.iter().map(|(at, number, free)| (PathBuf::from(at), Disk { number: *number, free: *free })).collect()
    }

    #[test]
    fn s18_each_disk_must_have_room_for_what_comes_to_it() {
        let two = disks(&[("/a", 1, 1_050), ("/b", 2, 9_000)]);
        assert_eq!(lacking(&sums(&[("/a", 1_000), ("/b", 500)]), &sums(&[]), &two), None, "just enough");
        let one_past = lacking(&sums(&[("/a", 1_001), ("/b", 500)]), &sums(&[]), &two);
        assert_eq!(one_past, Some((1_051, 1_050)), "that of the other disk is of no use");
        let same = disks(&[("/a", 1, 1_050), ("/b", 1, 1_050)]);
        assert_eq!(lacking(&sums(&[("/a", 600), ("/b", 400)]), &sums(&[]), &same), None);
        let counted_once = lacking(&sums(&[("/a", 600), ("/b", 401)]), &sums(&[]), &same);
        assert_eq!(counted_once, Some((1_051, 1_050)), "two directories share one disk");
    }

    #[test]
    fn s18_plans_that_are_under_way_leave_less() {
        let one = disks(&[("/a", 1, 3_000)]);
        let lacks = |promised: u64| lacking(&sums(&[("/a", 1_000)]), &sums(&[("/a", promised)]), &one);
        assert_eq!((lacks(1_950), lacks(1_951)), (None, Some((1_050, 1_049))));
        assert_eq!(lacking(&sums(&[]), &sums(&[("/a", 5_000)]), &one), None, "nothing is to come");
    }
}
