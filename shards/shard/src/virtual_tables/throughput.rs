//! `throughput`: what each role was charged for tables whose throughput is limited, and `hot_partitions`: for which of
//! their keys; summed over all cores of this node.

use super::VirtualRows;
use super::contents::{bigint, double, text};
use crate::metrics::Charges;
use crate::shard_state::Shard;
use model::{Failure, TableId};
use std::collections::BTreeMap;

/// Adds a row for each limited table and role, and one without a role for a table that nobody has used.
pub(super) async fn fill(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let mut sums: BTreeMap<TableId, (u64, BTreeMap<String, Charges>)> = BTreeMap::new();
    for metrics in shard.all_metrics().await? {
        for of_table in metrics.charges {
            let (last_second, roles) = sums.entry(of_table.table).or_default();
            *last_second += of_table.last_second;
            for (role, charges) in of_table.roles {
                roles.entry(role).or_default().add(&charges);
            }
        }
    }
    let schema = shard.schema();
    for (table, (last_second, mut roles)) in sums {
        let Some(table) = schema.table_by_id(table) else { continue };
        let limits = table.options.capacity.as_ref().map(|capacity| capacity.options()).unwrap_or_default();
        let limits: Vec<String> = limits.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if roles.is_empty() {
            roles.insert(String::new(), Charges::default());
        }
        for (role, charges) in roles {
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("role", text(&role)),
                ("limits", text(&limits.join(" AND "))),
                ("read_units", units(charges.read_units)),
                ("reads", bigint(charges.reads)),
                ("refused", bigint(charges.refused)),
                ("table_units_last_second", units(last_second)),
                ("write_units", units(charges.write_units)),
                ("writes", bigint(charges.writes)),
            ]);
        }
    }
    Ok(())
}

/// Keys of a table that are shown.
const HOT_KEYS_SHOWN: usize = 100;

/// Adds a row for each of the keys of a limited table that were charged the most.
pub(super) async fn fill_hot(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    type Key = (TableId, Box<[u8]>);
    let mut keys: BTreeMap<Key, [f64; 3]> = BTreeMap::new();
    let mut totals: BTreeMap<TableId, f64> = BTreeMap::new();
    for charges in shard.all_metrics().await?.into_iter().flat_map(|metrics| metrics.charges) {
        let per_second = |count: u64| count as f64 / charges.hot_seconds as f64;
        *totals.entry(charges.table).or_default() += per_second(charges.hot_total) / 100.0;
        for hot in charges.hot {
            let rates = [per_second(hot.units) / 100.0, per_second(hot.reads), per_second(hot.writes)];
            let sums = keys.entry((charges.table, hot.key)).or_default();
            sums.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate);
        }
    }
    let schema = shard.schema();
    let has_tablets = totals.keys().any(|id| shard.metadata().current().tablets.contains_key(&id.0));
    let tablets = if has_tablets { shard.shown_tablets().await? } else { BTreeMap::new() };
    for (id, total) in totals {
        let of_tablet = |key: &[u8], units: f64| {
            let token = shard.partitioner().token(key).0;
            let tablet = tablets.get(&id)?.iter().find(|tablet| token <= tablet.until)?;
            (tablet.units > 0.0).then(|| (units / tablet.units).min(1.0))
        };
        let Some(table) = schema.table_by_id(id) else { continue };
        let of_table = keys.iter().filter(|((table, _), _)| *table == id);
        let mut hottest: Vec<(&Box<[u8]>, &[f64; 3])> = of_table.map(|((_, key), rates)| (key, rates)).collect();
        hottest.sort_by(|(_, a), (_, b)| b[0].total_cmp(&a[0]));
        for (key, [units, reads, writes]) in hottest.into_iter().take(HOT_KEYS_SHOWN) {
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("partition_key", text(&table.key_text(key))),
                ("reads_per_second", double(*reads)),
                ("share", double(if total > 0.0 { (units / total).min(1.0) } else { 0.0 })),
                ("tablet_share", of_tablet(key, *units).and_then(double)),
                ("units_per_second", double(*units)),
                ("writes_per_second", double(*writes)),
            ]);
        }
    }
    Ok(())
}

/// Hundredths as whole units.
fn units(hundredths: u64) -> Option<Vec<u8>> {
    double(hundredths as f64 / 100.0)
}
