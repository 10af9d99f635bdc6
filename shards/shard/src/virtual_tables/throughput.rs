//! `throughput`: what each role was charged for tables whose throughput is limited, and what each quota was charged;
//! `hot_partitions`: for which of their keys, and which keys of any table are read so much that their reads are
//! relieved; summed over all cores of this node.

use super::VirtualRows;
use super::contents::{bigint, double, text};
use crate::metrics::{Charges, QuotaOwner};
use crate::shard_state::Shard;
use model::quota::{QUOTA, Quota};
use model::value::push_element;
use model::{Failure, TableId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

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
    fill_quotas(shard, rows).await
}

/// The keyspace of roles.
const AUTH: &str = "system_auth";

/// Adds a row for each quota: of a keyspace without a table, of a role with the keyspace of roles.
async fn fill_quotas(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    let mut sums: BTreeMap<(String, String), (Quota, Charges)> = BTreeMap::new();
    for of_quota in shard.all_metrics().await?.into_iter().flat_map(|metrics| metrics.quotas) {
        let name = match of_quota.owner {
            QuotaOwner::Keyspace => (of_quota.name, String::new()),
            QuotaOwner::Role => (AUTH.to_owned(), of_quota.name),
        };
        let (_, charges) = sums.entry(name).or_insert((of_quota.limits, Charges::default()));
        charges.add(&of_quota.charges);
    }
    for ((keyspace, role), (quota, charges)) in sums {
        let limits: Vec<String> = quota.to_map().iter().map(|(name, value)| format!("'{name}': '{value}'")).collect();
        rows.push([
            ("keyspace_name", text(&keyspace)),
            ("table_name", text("")),
            ("role", text(&role)),
            ("limits", text(&format!("{QUOTA} = {{{}}}", limits.join(", ")))),
            ("read_units", units(charges.read_units)),
            ("reads", bigint(charges.reads)),
            ("refused", bigint(charges.refused)),
            ("table_units_last_second", None),
            ("write_units", units(charges.write_units)),
            ("writes", bigint(charges.writes)),
        ]);
    }
    Ok(())
}

/// Keys of a table that are shown.
const HOT_KEYS_SHOWN: usize = 100;

/// What is shown of a partition key. Rates are per second.
#[derive(Clone, Copy, Default)]
struct HotFigures {
    /// Request units; of tables whose throughput is limited.
    units: f64,
    reads: f64,
    writes: f64,
    /// Reads that were relieved, and how.
    relief: Option<Relief>,
}

#[derive(Clone, Copy, Default)]
struct Relief {
    /// Reads a second that were coordinated by cores that could not answer them alone.
    reads: f64,
    joined: u64,
    spread: u64,
}

/// Adds a row for each of the keys of a limited table that were charged the most, and for each whose reads are
/// relieved.
pub(super) async fn fill_hot(shard: &Shard, rows: &mut VirtualRows<'_>) -> Result<(), Failure> {
    type Key = (TableId, Box<[u8]>);
    let mut keys: BTreeMap<Key, HotFigures> = BTreeMap::new();
    let mut totals: BTreeMap<TableId, f64> = BTreeMap::new();
    for metrics in shard.all_metrics().await? {
        for charges in metrics.charges {
            let per_second = |count: u64| count as f64 / charges.hot_seconds as f64;
            *totals.entry(charges.table).or_default() += per_second(charges.hot_total) / 100.0;
            for hot in charges.hot {
                let sums = keys.entry((charges.table, hot.key)).or_default();
                sums.units += per_second(hot.units) / 100.0;
                sums.reads += per_second(hot.reads);
                sums.writes += per_second(hot.writes);
            }
        }
        for relieved in metrics.relieved {
            let sums = keys.entry((relieved.table, relieved.key)).or_default().relief.get_or_insert_default();
            sums.reads += relieved.reads_per_second;
            sums.joined += relieved.reads_joined;
            sums.spread += relieved.reads_spread;
        }
    }
    let schema = shard.schema();
    let tables: BTreeSet<TableId> = keys.keys().map(|(table, _)| *table).collect();
    let has_tablets = tables.iter().any(|id| shard.metadata().current().tablets.contains_key(&id.0));
    let tablets = if has_tablets { shard.shown_tablets().await? } else { BTreeMap::new() };
    for id in tables {
        let tablet_of = |key: &[u8]| {
            let token = shard.partitioner().token(key).0;
            tablets.get(&id)?.iter().find(|tablet| token <= tablet.until)
        };
        let Some(table) = schema.table_by_id(id) else { continue };
        let of_table = keys.iter().filter(|((table, _), _)| *table == id);
        let mut hottest: Vec<(&Box<[u8]>, &HotFigures)> = of_table.map(|((_, key), figures)| (key, figures)).collect();
        let busy = |figures: &HotFigures| (figures.units, figures.relief.unwrap_or_default().reads);
        hottest.sort_by(|(_, a), (_, b)| busy(b).partial_cmp(&busy(a)).unwrap_or(Ordering::Equal));
        let total = totals.get(&id).copied();
        for (key, figures) in hottest.into_iter().take(HOT_KEYS_SHOWN) {
            let tablet = tablet_of(key);
            let has_own_tablet = tablet.is_some_and(|tablet| tablet.after.checked_add(1) == Some(tablet.until));
            let tablet_share = tablet.and_then(|tablet| {
                (total.is_some() && tablet.units > 0.0).then(|| (figures.units / tablet.units).min(1.0))
            });
            let relief = figures.relief.unwrap_or_default();
            // What is done, in the order of a set.
            let done = [
                ("joined reads", relief.joined > 0),
                ("own tablet", has_own_tablet),
                ("spread reads", relief.spread > 0),
            ];
            let done: Vec<&str> = done.into_iter().filter_map(|(name, is_done)| is_done.then_some(name)).collect();
            rows.push([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("partition_key", text(&table.key_text(key))),
                ("reads_joined", bigint(relief.joined)),
                ("reads_per_second", double(figures.reads.max(relief.reads))),
                ("reads_spread", bigint(relief.spread)),
                ("relief", Some(set(&done))),
                (
                    "share",
                    total.and_then(|total| double(if total > 0.0 { (figures.units / total).min(1.0) } else { 0.0 })),
                ),
                ("tablet_share", tablet_share.and_then(double)),
                ("units_per_second", total.and_then(|_| double(figures.units))),
                ("writes_per_second", total.and_then(|_| double(figures.writes))),
            ]);
        }
    }
    Ok(())
}

/// A set of texts that are in order.
fn set(elements: &[&str]) -> Vec<u8> {
    let mut out = (elements.len() as i32).to_be_bytes().to_vec();
    elements.iter().for_each(|element| push_element(&mut out, Some(element.as_bytes())));
    out
}

/// Hundredths as whole units.
fn units(hundredths: u64) -> Option<Vec<u8>> {
    double(hundredths as f64 / 100.0)
}
