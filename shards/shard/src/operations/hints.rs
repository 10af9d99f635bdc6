//! What operators ask and change about hints, on all cores at the same time.

use crate::config::HintOptions;
use crate::coordinator::hints::{delivery, files};
use crate::messages::admin::{HintAnswer, HintChange, HintVerb};
use crate::messages::{Reply, Request};
use crate::shard_state::Shard;
use cluster::topology::NodeIndex;
use model::Failure;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The closed files of hints for one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingHints {
    /// How many.
    pub files: u64,
    /// When the oldest was created, milliseconds since 1970.
    pub oldest: u64,
    /// When the newest was created.
    pub newest: u64,
}

impl Shard {
    /// The closed files of hints, by host id. Hints in a file that is still written are not counted, as in Cassandra.
    pub async fn pending_hints(&self) -> Result<BTreeMap<Uuid, PendingHints>, Failure> {
        let mut found: BTreeMap<Uuid, PendingHints> = BTreeMap::new();
        for answer in self.on_all_hints(HintVerb::Pending).await? {
            let HintAnswer::Pending(files) = answer else { continue };
            for (host_id, created) in files {
                let none = PendingHints { files: 0, oldest: u64::MAX, newest: 0 };
                let of_node = found.entry(host_id).or_insert(none);
                of_node.files += 1;
                of_node.oldest = of_node.oldest.min(created);
                of_node.newest = of_node.newest.max(created);
            }
        }
        Ok(found)
    }

    /// Since when hints and logged batches of this node wait: none was to be written earlier, microseconds since 1970;
    /// `None` without any.
    pub async fn waiting_since(&self) -> Result<Option<i64>, Failure> {
        let answers = self.on_all_hints(HintVerb::WaitingSince).await?.into_iter();
        let since = answers.filter_map(|answer| match answer {
            HintAnswer::WaitingSince(since) => since,
            _ => None,
        });
        Ok(since.min())
    }

    /// Deletes the hints for a node, or for all nodes.
    pub async fn delete_hints(&self, host_id: Option<Uuid>) -> Result<(), Failure> {
        self.on_all_hints(HintVerb::Delete(host_id)).await.map(drop)
    }

    /// Changes how hints are kept or delivered, until the next start.
    pub async fn change_hints(&self, change: HintChange) -> Result<(), Failure> {
        self.on_all_hints(HintVerb::Change(change)).await.map(drop)
    }

    /// How hints are kept and delivered now.
    pub fn hint_options(&self) -> HintOptions {
        self.hints().options().clone()
    }

    /// Hands all hints of this node to one that is alive, if `transfer_hints_on_decommission` says so; a node of the
    /// same data centre if there is one.
    pub async fn hand_on_hints(&self) -> Result<(), Failure> {
        if !self.hints().options().transfer_on_decommission {
            return Ok(());
        }
        let topology = self.topology();
        let here = topology.here();
        let others = (0..topology.nodes().len() as u16).map(NodeIndex).filter(|at| *at != here);
        let live = others.filter(|at| topology.live().contains(*at));
        let is_remote = |at: &NodeIndex| topology.data_center_of(*at) != topology.data_center_of(here);
        let Some(to) = live.min_by_key(is_remote) else { return Ok(()) };
        self.on_all_hints(HintVerb::HandOn(topology.node(to).host_id)).await.map(drop)
    }

    async fn on_all_hints(&self, verb: HintVerb) -> Result<Vec<HintAnswer>, Failure> {
        let replies = self.call_all(|| Request::Hints(verb.clone())).await;
        replies.into_iter().map(Reply::hints).collect()
    }
}

/// Runs a request on this core.
pub(crate) async fn run(shard: &Shard, verb: HintVerb) -> Result<HintAnswer, Failure> {
    let hints = shard.hints();
    match verb {
        HintVerb::Pending => {
            let files = hints.closed().into_iter();
            return Ok(HintAnswer::Pending(files.map(|file| (file.name.host_id, file.name.created_millis)).collect()));
        }
        HintVerb::WaitingSince => {
            let oldest = [hints.written_since(), shard.kept_batches().oldest()];
            return Ok(HintAnswer::WaitingSince(oldest.into_iter().flatten().min()));
        }
        HintVerb::Delete(host_id) => {
            let hosts = host_id.map_or_else(|| hints.hosts(), |host_id| vec![host_id]);
            for host_id in hosts {
                let deleted = files::delete_all(shard, host_id).await;
                deleted.map_err(|error| Failure::server(format!("Hints are not deleted: {error}")))?;
            }
        }
        HintVerb::HandOn(to) => {
            if !delivery::hand_on(shard, to).await {
                return Err(Failure::server(format!("Not all hints were handed to {to}")));
            }
        }
        HintVerb::Change(HintChange::Paused(paused)) => hints.set_paused(paused),
        HintVerb::Change(change) => hints.change_options(|options| match change {
            HintChange::Enabled(enabled) => options.enabled = enabled,
            HintChange::Center { name, enabled: true } => drop(options.disabled_centers.remove(&name)),
            HintChange::Center { name, enabled: false } => drop(options.disabled_centers.insert(name)),
            HintChange::Window(window) => options.window = window,
            HintChange::Throttle(bytes) => options.throttle_bytes = bytes,
            HintChange::Paused(_) => {}
        }),
    }
    Ok(HintAnswer::Done)
}
