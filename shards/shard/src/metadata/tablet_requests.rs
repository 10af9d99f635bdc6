//! What operators ask for about tablets: to split, merge and move them by hand, and to have none of them on a node. To
//! be called on shard 0.

use super::leaving::RingError;
use super::tablet_balance::{is_whole, move_tablets};
use crate::operations::tablet_plans;
use crate::shard_state::{ProposalError, Shard};
use cluster::metadata::{Command, Metadata, Rejected};
use cluster::tablets::planner;
use cluster::tablets::{Tablet, TabletChange, TabletMap, TabletsUpdate};
use cluster::topology::features;
use model::Table;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// How long the cluster may take to agree.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a node has of tablets that is to have none, or may have some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TabletsLeft {
    /// Whether it is to have none.
    pub is_emptied: bool,
    /// Tablets that it has or is getting.
    pub count: usize,
    /// Those of them that no other node can take, because each has a replica already or is down.
    pub stuck: usize,
}

impl Shard {
    /// Cuts the tablet that has a token in two, of which the first ends with the token.
    ///
    /// # Errors
    /// The table has no tablets, one ends there already, or the cluster does not agree.
    pub async fn split_tablet(&self, table: &Table, token: i64) -> Result<(), RingError> {
        let (metadata, map) = self.tablets_of(table)?;
        let until = map.tablets[map.at(token)].until;
        self.cut(&metadata, table, TabletChange::Split { until, at: token }).await
    }

    /// Makes one of the tablet that has a token and the one after it.
    ///
    /// # Errors
    /// The table has no tablets, it is the last, the two are on different nodes, or the cluster does not agree.
    pub async fn merge_tablets(&self, table: &Table, token: i64) -> Result<(), RingError> {
        let (metadata, map) = self.tablets_of(table)?;
        match map.tablets[map.at(token)].until {
            Some(until) => self.cut(&metadata, table, TabletChange::Merge { until }).await,
            None => Err(RingError::Unsupported("No tablet comes after the one that has the token.".into())),
        }
    }

    /// Begins to move the tablet that has a token from one node to another.
    ///
    /// # Errors
    /// The table has no tablets, the nodes are not such ones, or the cluster does not agree.
    pub async fn move_tablet(&self, table: &Table, token: i64, from: IpAddr, to: IpAddr) -> Result<(), RingError> {
        let (metadata, map) = self.tablets_of(table)?;
        let tablet = &map.tablets[map.at(token)];
        let node = |address: IpAddr| {
            let known = metadata.members.iter().find(|(_, member)| member.address.ip() == address);
            let missing = || RingError::Unsupported(format!("No node has the address {address}."));
            known.map(|(id, _)| *id).ok_or_else(missing)
        };
        let (from, to) = (node(from)?, node(to)?);
        let unsupported = |text: &str| Err(RingError::Unsupported(text.into()));
        if !tablet.replicas.contains(&from) {
            return unsupported("The tablet is not on the first node.");
        }
        if tablet.replicas.contains(&to) {
            return unsupported("The tablet is on the second node already.");
        }
        let goal = tablet.replicas.iter().map(|node| if *node == from { to } else { *node }).collect();
        let changes = vec![TabletChange::Move { until: tablet.until, goal }];
        let moved = move_tablets(self, &metadata, vec![TabletsUpdate { table: table.id.0, changes }]).await;
        moved.map_err(|failure| RingError::Failed(failure.text.to_string()))
    }

    /// Says that this node is to have no tablets from now on, or may have some again. The leader moves them.
    ///
    /// # Errors
    /// A node does not know of this yet, or the cluster does not agree.
    pub async fn empty_of_tablets(&self, is_emptied: bool) -> Result<(), RingError> {
        if !self.topology().all_have(features::EMPTIED_NODES) {
            return Err(RingError::Unsupported("Not all nodes know of nodes without tablets yet.".into()));
        }
        let command = Command::Empty { host_id: self.host_id(), is_emptied };
        let deadline = runtime::now().after(AGREEMENT_TIMEOUT);
        self.metadata().propose(&command, deadline).await.map(|_| ()).map_err(RingError::from)
    }

    /// What this node still has of tablets.
    pub fn tablets_left(&self) -> TabletsLeft {
        let (metadata, own) = (self.metadata().current(), self.host_id());
        let maps: Vec<([u8; 16], &TabletMap)> = metadata.tablets.iter().map(|(id, map)| (*id, &**map)).collect();
        let is_here = |tablet: &&Tablet| tablet.replicas.contains(&own) || tablet.next().contains(&own);
        let stays = |tablet: &&Tablet| tablet.next().contains(&own);
        let count = |is: &dyn Fn(&&Tablet) -> bool| -> usize {
            maps.iter().map(|(_, map)| map.tablets.iter().filter(is).count()).sum()
        };
        let nodes = tablet_plans::nodes_to_fill(&tablet_plans::nodes(self, &metadata), &metadata);
        let found = planner::replaced(&nodes, &maps, &BTreeSet::from([own]), None);
        let can_go = |update: &TabletsUpdate| {
            let map = &metadata.tablets[&update.table];
            update.changes.iter().filter(|change| is_whole(change, map)).count()
        };
        TabletsLeft {
            is_emptied: metadata.emptied.contains(&own),
            count: count(&is_here),
            stuck: count(&stays).saturating_sub(found.iter().map(can_go).sum()),
        }
    }

    fn tablets_of(&self, table: &Table) -> Result<(Metadata, TabletMap), RingError> {
        let metadata = Metadata::clone(&self.metadata().current());
        let map = metadata.tablets.get(&table.id.0).map(|map| TabletMap::clone(map));
        let none = || RingError::Unsupported(format!("Table {} has no tablets.", table.full_name()));
        map.map(|map| (metadata, map)).ok_or_else(none)
    }

    /// Makes a change of tablets that moves no data.
    async fn cut(&self, seen: &Metadata, table: &Table, change: TabletChange) -> Result<(), RingError> {
        let updates = vec![TabletsUpdate { table: table.id.0, changes: vec![change] }];
        let command = Command::Tablets { with: None, updates, members_epoch: seen.members_epoch };
        let deadline = runtime::now().after(AGREEMENT_TIMEOUT);
        match self.metadata().propose(&command, deadline).await {
            Ok(_) => Ok(()),
            Err(ProposalError::Rejected(Rejected::Tablets(error))) => {
                Err(RingError::Unsupported(format!("It cannot be done: {error}.")))
            }
            Err(error) => Err(error.into()),
        }
    }
}
