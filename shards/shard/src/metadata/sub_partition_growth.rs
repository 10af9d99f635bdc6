//! The growth of the sub-partitions of tables with write sharding ([`cluster::sub_partitions`]): the part of whoever
//! leads the group, on shard 0.
//!
//! A table begins to grow when the schema has more sub-partitions than the metadata, one of its keys when
//! [`super::key_growth`] says so. Each stage of each growth then
//! takes these steps, and is followed by the next one:
//! 1. The barrier of the epoch at which the stage began ([`super::barrier`]). All members must have passed it: a node
//!    that is down, or only taken for dead, is waited for, because it may have acknowledged changes that only it knows.
//! 2. What the stage is for: what was written before it is copied, once no hint and no logged batch of before waits
//!    anywhere; what rounds of Paxos have left at the old places is finished; what is left there is deleted.
//! 3. [`Command::SubPartitions`] ends it.
//!
//! Why nothing is lost: a change that was acknowledged before all nodes knew that rows move is on a replica of its old
//! place when the copy begins, and the copy reads all of them. That holds for those that were acknowledged with a hint
//! alone, or as part of a logged batch, because hints and batches of before have been delivered by then. What came
//! later was written to both places before it was acknowledged. What Paxos has decided since then was committed at the
//! new place by a majority before anybody could take it for committed at the old one (`coordinator::cas::twin`), and
//! what was accepted but not committed is finished, to the same effect, while no round can begin. Rounds at the new
//! place have later ballots than those at the old one, because its last commit is known there, or was made before the
//! first stage began, which takes as long as clocks may differ.
//!
//! A step that fails is tried again after a pause, from the beginning of its stage. A leader that dies is followed by
//! one that does the same: nothing is kept but what is in the metadata.

use crate::coordinator::remote::Asked;
use crate::coordinator::sub_partitions::moving_rows::Move;
use crate::shard_state::{ProposalError, Shard};
use cluster::metadata::{Command, Metadata};
use cluster::sub_partitions::{Growth, GrowthStage, SubPartitionsChange};
use cluster::topology::{NodeIndex, features};
use model::{Schema, Table, TableId, TokenRange};
use runtime::sync::{join_all, race};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How often a node looks whether it leads, if nothing else has changed.
const PERIOD: Duration = Duration::from_millis(200);
/// How long nodes may take to end older requests, before the barrier is tried again.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a node may take to say since when hints wait there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the cluster may take to agree.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a step has failed.
const PAUSE: Duration = Duration::from_secs(1);
/// By so much the clocks of two nodes may differ: in what they say of hints, and in the ballots of rounds of Paxos.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(2);

/// What is to be done next.
enum Next {
    /// A change of the metadata alone.
    Change([u8; 16], SubPartitionsChange),
    /// The stage of a growth.
    Stage(Arc<Table>, Option<i64>, Option<Vec<u8>>, Growth, model::Places),
}

/// Lets sub-partitions grow while this node leads, until it stops.
pub(crate) async fn keep(shard: Shard) {
    let mut told = String::new();
    while !shard.store().is_closing() {
        shard.metadata().wait_until(|metadata| !metadata.sub_partitions.is_empty()).await;
        let metadata = shard.metadata().current();
        let Some(next) = next(&metadata, &shard.schema()) else {
            shard.metadata().wait_for(metadata.epoch + 1).await;
            continue;
        };
        let leads = shard.metadata().group().is_some_and(|group| group.leader() == Some(shard.host_id()));
        if !leads || !shard.topology().all_have(features::SUB_PARTITION_GROWTH) {
            race(runtime::sleep(PERIOD), shard.metadata().wait_for(metadata.epoch + 1)).await;
            continue;
        }
        drop(metadata);
        if let Err(text) = take(&shard, next).await {
            if text != told {
                tracing::warn!("the growth of sub-partitions waits: {text}; trying again");
                told = text;
            }
            runtime::sleep(PAUSE).await;
        }
    }
}

/// What is to be done first. A growth that is under way comes before one that is to begin.
fn next(metadata: &Metadata, schema: &Schema) -> Option<Next> {
    let maps = || metadata.sub_partitions.iter();
    let gone = maps().find(|(id, _)| schema.table_by_id(TableId(**id)).is_none());
    if let Some((id, _)) = gone {
        return Some(Next::Change(*id, SubPartitionsChange::Drop));
    }
    for (id, map) in maps() {
        let Some(table) = schema.table_by_id(TableId(*id)) else { continue };
        let growing = map.scopes().find_map(|(token, scope)| Some((token, scope.growth?, scope.places())));
        if let Some((token, growth, places)) = growing {
            let key = token.and_then(|token| map.keys.get(&token)).map(|own| own.key.clone());
            return Some(Next::Stage(table.clone(), token, key, growth, places));
        }
    }
    maps().find_map(|(id, map)| {
        let goal = schema.table_by_id(TableId(*id))?.write_sharding()?.shards;
        let is_less = map.keys.is_empty() && map.all.places().shards < goal;
        is_less.then_some(Next::Change(*id, SubPartitionsChange::Grow { key: None, token: 0, shards: goal }))
    })
}

/// Does what is to be done; the error says what is missing.
async fn take(shard: &Shard, next: Next) -> Result<(), String> {
    let (table, token, key, growth, places) = match next {
        Next::Change(table, change) => return propose(shard, table, change).await,
        Next::Stage(table, token, key, growth, places) => (table, token, key, growth, places),
    };
    runtime::fault::reached(match growth.stage {
        GrowthStage::WrittenTwice => "sub-partitions written twice",
        GrowthStage::Closed => "sub-partitions closed",
        GrowthStage::ReadThere => "sub-partitions read there",
        GrowthStage::Left => "sub-partitions left",
    });
    let name = match &key {
        None => format!("table {}", table.full_name()),
        Some(_) => format!("a key of table {}", table.full_name()),
    };
    let of = |text: String| format!("{name}, {:?}: {text}", growth.stage);
    let since = growth.since;
    if growth.stage == GrowthStage::Closed {
        if let Err(text) = finish_rounds(shard, &table, since).await {
            // What waits must not wait for a node that has died.
            propose(shard, table.id.0, SubPartitionsChange::Reopen { token, since }).await.map_err(of)?;
            return Err(of(text));
        }
        return propose(shard, table.id.0, SubPartitionsChange::Advance { token, since }).await.map_err(of);
    }
    passed_by_all(shard, since).await.map_err(of)?;
    match growth.stage {
        GrowthStage::WrittenTwice => {
            // Ballots of rounds that began before must be in the past on every node.
            runtime::sleep(CLOCKS_DIFFER_MAX).await;
            nothing_waits(shard).await.map_err(of)?;
            let moved = Move { table: &table, key: key.as_deref(), from: places, to: growth.places() };
            let copied = moved.copy(shard).await.map_err(|failure| of(failure.text.into_owned()))?;
            // All nodes are alive, or what Paxos decides would wait for long.
            passed_by_all(shard, since).await.map_err(of)?;
            tracing::info!("{name} grows to {} sub-partitions: {copied} changes were copied", growth.places().shards);
        }
        GrowthStage::Closed | GrowthStage::ReadThere => {}
        GrowthStage::Left => {
            let moved = Move { table: &table, key: key.as_deref(), from: growth.places(), to: places };
            let deleted = moved.delete_left(shard).await.map_err(|failure| of(failure.text.into_owned()))?;
            tracing::info!("{name} has grown: {deleted} partitions that its rows have left are deleted");
        }
    }
    propose(shard, table.id.0, SubPartitionsChange::Advance { token, since }).await.map_err(of)
}

/// Finishes what rounds of Paxos about a table have left, once those of before `since` have ended.
async fn finish_rounds(shard: &Shard, table: &Table, since: u64) -> Result<(), String> {
    passed_by_all(shard, since).await?;
    let nodes: Vec<Uuid> = shard.topology().nodes().iter().map(|node| node.host_id).collect();
    let others: Vec<Uuid> = nodes.into_iter().filter(|host_id| *host_id != shard.host_id()).collect();
    let finished = shard.finish_proposals(table.id, &[TokenRange::FULL], &others).await;
    finished.map(drop).map_err(|failure| failure.text.into_owned())
}

/// Makes sure that no request has an effect that was planned before `epoch`, on any node.
async fn passed_by_all(shard: &Shard, epoch: u64) -> Result<(), String> {
    let Some(passed) = shard.end_older(epoch, runtime::now().after(BARRIER_TIMEOUT)).await else {
        return Err("not all nodes have ended the requests that they began before".into());
    };
    let topology = shard.topology();
    match topology.nodes().iter().find(|node| !passed.contains(&node.host_id)) {
        None => Ok(()),
        Some(node) => Err(format!("node {} is down", node.address)),
    }
}

/// Fails while hints or logged batches of before now wait on some node.
async fn nothing_waits(shard: &Shard) -> Result<(), String> {
    let began = runtime::wall_micros() + CLOCKS_DIFFER_MAX.as_micros() as i64;
    let topology = shard.topology();
    let others = (0..topology.nodes().len() as u16).map(NodeIndex).filter(|node| *node != topology.here());
    let asked = others.map(|node| {
        let asked = Asked::new(&topology, node, ANSWER_TIMEOUT);
        async move { asked.waiting_since(shard).await }
    });
    let mut answers = join_all(asked.map(Box::pin).collect()).await;
    answers.push(shard.waiting_since().await);
    for answer in answers {
        match answer {
            Ok(since) if since.is_none_or(|since| since > began) => {}
            Ok(_) => return Err("hints or logged batches wait to be delivered".into()),
            Err(failure) => return Err(failure.text.into_owned()),
        }
    }
    Ok(())
}

async fn propose(shard: &Shard, table: [u8; 16], change: SubPartitionsChange) -> Result<(), String> {
    let command = Command::SubPartitions { table, change };
    let proposed = shard.metadata().propose(&command, runtime::now().after(AGREEMENT_TIMEOUT)).await;
    match proposed {
        Ok(_) => Ok(()),
        Err(ProposalError::Rejected(rejected)) => Err(rejected.to_string()),
        Err(ProposalError::NotMade(text) | ProposalError::Unknown(text)) => Err(text),
    }
}
