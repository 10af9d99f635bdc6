//! Removing what tablets leave behind that are not on this node any more, on shard 0.
//!
//! A node that comes to have a tablet again must not show what it had of it long ago: a deletion may be forgotten by
//! then. So what is left is removed as soon as the operation that took it away has ended, and once after a start, for
//! what an earlier run has not removed.

use crate::messages::admin::TableVerb;
use crate::shard_state::Shard;
use cluster::tablets::TabletMap;
use model::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Pause before a table is cleaned again that could not be.
const PAUSE: Duration = Duration::from_secs(5);

/// Cleans tables with tablets whenever this node may have lost some, until it stops.
pub(crate) async fn keep(shard: Shard) {
    let (mut known, mut seen): (BTreeMap<[u8; 16], Arc<TabletMap>>, u64) = (BTreeMap::new(), 0);
    while !shard.store().is_closing() {
        let metadata = shard.metadata().current();
        let has_missed_some = metadata.epoch > seen + 1;
        seen = metadata.epoch;
        let mut is_clean = true;
        for (id, map) in metadata.tablets.iter().filter(|_| metadata.operations.is_empty()) {
            let may_have_lost = match known.get(id) {
                None => true,
                Some(before) if Arc::ptr_eq(before, map) => false,
                // What was gained and lost again in between is seen in neither.
                Some(_) if has_missed_some => true,
                Some(before) => has_lost(before, map, shard.host_id()),
            };
            if may_have_lost && let Err(failure) = shard.on_every_shard(TableVerb::Clean(TableId(*id))).await {
                tracing::debug!(%failure, "what tablets have left behind is removed later");
                known.remove(id);
                is_clean = false;
            } else {
                known.insert(*id, map.clone());
            }
        }
        known.retain(|id, _| metadata.tablets.contains_key(id));
        match is_clean {
            true => shard.metadata().wait_for(metadata.epoch + 1).await,
            false => runtime::sleep(PAUSE).await,
        }
    }
}

/// Whether a node had tokens of a table that it has no more.
fn has_lost(before: &TabletMap, now: &TabletMap, own: Uuid) -> bool {
    before.tablets.iter().enumerate().any(|(at, tablet)| {
        let start = at.checked_sub(1).and_then(|earlier| before.tablets[earlier].until);
        let first = start.map_or(i64::MIN, |start| start.saturating_add(1));
        let last = tablet.until.unwrap_or(i64::MAX);
        let others_have = || now.tablets[now.at(first)..=now.at(last)].iter().any(|now| !now.replicas.contains(&own));
        tablet.replicas.contains(&own) && others_have()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::tablets::{TabletChange, TabletsUpdate};

    fn node(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    #[test]
    fn a_node_has_lost_what_others_have_now() {
        let both = TabletMap::even(2, |_| vec![node(1), node(2)]);
        let loses = |changes: Vec<TabletChange>| {
            let map = TabletsUpdate { table: [1; 16], changes }.applied(Some(&both)).unwrap().unwrap();
            has_lost(&both, &map, node(1))
        };
        assert!(!loses(vec![]));
        assert!(!loses(vec![TabletChange::Split { until: None, at: 7 }]));
        assert!(!loses(vec![TabletChange::Merge { until: -1 }]));
        let mut moved = both.clone();
        moved.tablets[1].replicas = vec![node(2), node(3)];
        assert!(has_lost(&both, &moved, node(1)));
        assert!(!has_lost(&both, &moved, node(2)));
        assert!(!has_lost(&both, &moved, node(3)));
    }
}
