//! `alerts`: what is close to one of its limits, as the cores of this node were told lately, the newest first.

use super::VirtualRows;
use super::contents::{bigint, text};
use crate::guards::alerts::Alert;
use crate::shard_state::Shard;
use model::Failure;

/// Most rows.
const SHOWN_MAX: usize = 1000;

/// Adds a row for each.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let mut all: Vec<Alert> = shard.all_metrics().await?.into_iter().flat_map(|metrics| metrics.alerts.0).collect();
    all.sort_by_key(|alert| std::cmp::Reverse(alert.last_at));
    let millis = |at: i64| Some(at.to_be_bytes().to_vec());
    for alert in all.into_iter().take(SHOWN_MAX) {
        rows.push([
            ("key", text("local")),
            ("last_at", millis(alert.last_at)),
            ("kind", text(alert.kind.name())),
            ("keyspace_name", text(&alert.table.0)),
            ("table_name", text(&alert.table.1)),
            ("subject", text(&alert.subject)),
            ("first_at", millis(alert.first_at)),
            ("limit_text", text(&alert.limit)),
            ("percent", bigint(alert.percent)),
            ("times", bigint(alert.times)),
        ]);
    }
    Ok(())
}
