//! The permit of a request that counts among the requests at once of a keyspace or role.
//!
//! 1. One core of the node, by the hash of the name, counts the requests of a quota that the node coordinates.
//! 2. A core asks it before a request goes on, and tells it when the request has ended.
//!
//! Invariants: what was counted is taken off once, also if the client goes away while the counting core is asked.

use crate::messages::Request;
use crate::messages::units::CountedQuota;
use crate::shard_state::Shard;
use crate::shard_state::quotas::QuotaMeter;
use runtime::ShardId;

/// A request that counts, until this is dropped.
pub(super) struct Permit {
    shard: Shard,
    pub(super) quota: CountedQuota,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let counting = counting_core(self.quota);
        match counting == self.shard.id() {
            true => self.shard.throughput().end_request(self.quota),
            // It is sent at once, and nobody waits for the answer.
            false => drop(self.shard.mailbox().call(counting, Request::EndLimited(self.quota))),
        }
    }
}

/// Counts a request if it is not one too many.
pub(super) async fn permit(shard: &Shard, meter: &QuotaMeter, most: u32) -> Option<Permit> {
    let quota = meter.counted();
    let counting = counting_core(quota);
    let shard = shard.clone();
    if counting == shard.id() {
        return shard.throughput().begin_request(quota, most).then_some(Permit { shard, quota });
    }
    // In a task of its own, which takes the permit back if nobody waits for it any more.
    let asked = async move {
        let begun = shard.call(counting, Request::BeginLimited { quota, most }).await.begun();
        begun.then_some(Permit { shard, quota })
    };
    runtime::spawn(asked).await
}

fn counting_core((_, id): CountedQuota) -> ShardId {
    let hash = u64::from_le_bytes(*id.0.first_chunk().expect("an id has 16 bytes"));
    ShardId((hash % runtime::shard_count() as u64) as u16)
}
