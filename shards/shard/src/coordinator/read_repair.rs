//! Read repair: replicas are sent what they lack, and waited for as the plans of `cluster` say.
//!
//! 1. Every replica is sent its mutations at once. Each partition has a plan of its own.
//! 2. When acknowledgements are late, by the table's `additional_write_policy`, or when too many replicas have failed,
//!    all other live replicas are sent what is unacknowledged.
//! 3. The end is that enough replicas have everything, that they cannot any more, or that the request's time is over.
//!    Replicas that are not needed are not waited for.
//!
//! Invariants: what runs on this node runs to its end, and stopping waits for it.

use super::gathering::{Unread, is_moved};
use super::reconciling::Reconciling;
use super::remote::Asked;
use super::replication::write_here;
use cluster::placement::Replica;
use cluster::plan::{PartitionReadPlan, RepairPlan};
use model::{Failure, Mutation};
use runtime::Instant;
use runtime::sync::join_all;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// What one replica lacks of one partition.
type Repair = (Replica, Vec<Mutation>);

/// A repair under way.
type Call<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

enum Event {
    Written(Replica, Result<(), Failure>),
    Done,
    Late,
    Expired,
}

impl Reconciling<'_> {
    /// Writes to each of the replicas that have answered `read` what it lacks, until as many have everything as
    /// the level needs. Fails as a read does that is out of time, if they are too few.
    pub(super) async fn repair(
        &self,
        read: &PartitionReadPlan,
        replicas: &[Replica],
        lacking: Vec<Vec<Mutation>>,
    ) -> Result<(), Unread> {
        let partitions = by_partition(replicas, lacking);
        if partitions.is_empty() {
            return Ok(());
        }
        let metrics = self.shard.metrics();
        metrics.reads_repaired.increment();
        let delay = metrics.repair_patience(self.table, self.shard.timeouts().write / 2);
        let late_at = delay.map(|delay| runtime::now().after(delay));
        let repairs = partitions.iter().map(|repairs| self.repair_partition(read, repairs, late_at));
        join_all(repairs.collect()).await.into_iter().collect()
    }

    async fn repair_partition(
        &self,
        read: &PartitionReadPlan,
        repairs: &[Repair],
        late_at: Option<Instant>,
    ) -> Result<(), Unread> {
        let mut plan = RepairPlan::of(read, |replica| repairs.iter().any(|(lacking, _)| *lacking == replica));
        let mut calls: Vec<(Replica, Call<'_>)> = Vec::new();
        for (replica, mutations) in repairs {
            calls.push((*replica, Box::pin(self.write(*replica, mutations.iter().collect()))));
        }
        let mut acknowledged: Vec<Replica> = Vec::new();
        let mut is_spread = false;
        let mut expiry = runtime::sleep_until(self.patience.deadline);
        let mut late = late_at.map(runtime::sleep_until);
        loop {
            let event = poll_fn(|context| {
                for at in 0..calls.len() {
                    if let Poll::Ready(written) = calls[at].1.as_mut().poll(context) {
                        return Poll::Ready(Event::Written(calls.swap_remove(at).0, written));
                    }
                }
                // Every replica has been sent its mutations by now.
                if plan.is_done() {
                    return Poll::Ready(Event::Done);
                }
                if late.as_mut().is_some_and(|late| Pin::new(late).poll(context).is_ready()) {
                    return Poll::Ready(Event::Late);
                }
                Pin::new(&mut expiry).poll(context).map(|()| Event::Expired)
            });
            let is_late = match event.await {
                Event::Written(replica, Ok(())) => {
                    acknowledged.push(replica);
                    plan.acknowledged(replica);
                    false
                }
                Event::Written(_, Err(failure))
                    if is_moved(self.shard, self.placement.keyspace().topology(), &failure) =>
                {
                    return Err(Unread::Moved);
                }
                Event::Written(replica, Err(_)) => {
                    plan.failed(replica);
                    false
                }
                Event::Late => {
                    late = None;
                    true
                }
                Event::Done => return Ok(()),
                Event::Expired => return Err(plan.expired().into()),
            };
            let has_time = runtime::now() < self.patience.deadline;
            if !is_spread && has_time && !plan.is_done() && (is_late || plan.is_out_of_reach()) {
                is_spread = true;
                let spares = plan.spread();
                if !spares.is_empty() {
                    self.shard.metrics().repairs_speculated.increment();
                }
                for spare in spares {
                    let left = unacknowledged(repairs, &acknowledged);
                    calls.push((spare, Box::pin(self.write(spare, left))));
                }
            }
            if is_spread && plan.is_out_of_reach() {
                return Err(plan.expired().into());
            }
        }
    }

    /// Writes mutations of one partition to a replica.
    async fn write(&self, replica: Replica, mutations: Vec<&Mutation>) -> Result<(), Failure> {
        let topology = self.placement.keyspace().topology();
        if replica.node != topology.here() {
            let asked = Asked::until(topology, replica.node, self.patience.deadline);
            let writes = mutations.into_iter().map(|mutation| asked.repair(self.shard, mutation));
            return join_all(writes.collect()).await.into_iter().collect();
        }
        let write = |mutation: &Mutation| {
            let owner = Replica { shard: self.placement.shard_of(replica.node, mutation.token()), ..replica };
            write_here(self.shard, owner, mutation.clone())
        };
        let writes = join_all(mutations.into_iter().map(write).collect());
        let (shard, pass, trace) = (self.shard.clone(), self.shard.enter().ok(), self.shard.current_trace());
        let writing = runtime::spawn(async move {
            let _pass = pass;
            match trace {
                None => writes.await,
                Some(trace) => shard.traced(&trace, writes).await,
            }
        });
        writing.await.into_iter().collect()
    }
}

/// What each of `replicas` lacks, sorted by partition; what lacks nothing is left out.
fn by_partition(replicas: &[Replica], lacking: Vec<Vec<Mutation>>) -> Vec<Vec<Repair>> {
    let mut all: Vec<(Replica, Mutation)> = Vec::new();
    for (replica, mutations) in replicas.iter().zip(lacking) {
        all.extend(mutations.into_iter().map(|mutation| (*replica, mutation)));
    }
    // The sort is stable: the mutations of a replica stay together.
    all.sort_by(|(_, a), (_, b)| (a.token(), a.key()).cmp(&(b.token(), b.key())));
    let mut partitions: Vec<Vec<Repair>> = Vec::new();
    for (replica, mutation) in all {
        let is_same = |repairs: &&mut Vec<Repair>| {
            repairs
                .first()
                .and_then(|(_, mutations)| mutations.first())
                .is_some_and(|other| (other.token(), other.key()) == (mutation.token(), mutation.key()))
        };
        match partitions.last_mut().filter(is_same) {
            None => partitions.push(vec![(replica, vec![mutation])]),
            Some(repairs) => match repairs.last_mut().filter(|(last, _)| *last == replica) {
                None => repairs.push((replica, vec![mutation])),
                Some((_, mutations)) => mutations.push(mutation),
            },
        }
    }
    partitions
}

/// The mutations of the replicas that have not acknowledged theirs, equal ones once.
fn unacknowledged<'r>(repairs: &'r [Repair], acknowledged: &[Replica]) -> Vec<&'r Mutation> {
    let mut left: Vec<&Mutation> = Vec::new();
    for (_, mutations) in repairs.iter().filter(|(replica, _)| !acknowledged.contains(replica)) {
        for mutation in mutations {
            if !left.iter().any(|other| other.bytes() == mutation.bytes()) {
                left.push(mutation);
            }
        }
    }
    left
}
