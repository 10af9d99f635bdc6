//! ORDER BY over several partitions: all their rows sorted by the columns named, whatever partition they come from.
//!
//! 1. Partitions are read one after another; the columns of ORDER BY are fetched after the selected ones.
//! 2. Rows are sorted by these columns, which are then cut off.
//! 3. With GROUP BY, groups are gathered in the order of the partitions and sorted by the values of their first rows.
//!
//! Invariants: rows that are equal in the sort columns stay in the order of their partitions; memory is bounded by the
//! largest allowed result.

use crate::coordinator::read::{PAGE_BYTES_MAX, PageLimits, RESULT_BYTES_MAX, ReadPlan, read_key, result_too_large};
use crate::coordinator::sub_partitions::{SubPartitions, read_page};
use crate::execute::select::projection::{GroupPage, SortKey};
use crate::guards::tombstones::ScanCounts;
use crate::rows::block::{RowBlock, cells_of};
use crate::shard_state::Shard;
use cql::plan::Selector;
use model::{Column, ColumnId, DecoratedKey, Failure, value};
use std::cmp::Ordering;
use std::sync::Arc;

/// A row with the values that it is sorted by.
struct SortedRow<'b> {
    sort_key: Vec<Option<&'b [u8]>>,
    bytes: &'b [u8],
}

/// The partitions whose rows are sorted.
pub(super) enum SortedKeys<'a> {
    /// Each is one partition.
    Whole(&'a [DecoratedKey]),
    /// Each has sub-partitions.
    Spread(&'a SubPartitions),
}

/// The first `limit` rows of the partitions `keys`, in the order of the columns `order`.
pub(super) async fn sorted(
    shard: &Shard,
    plan: &mut ReadPlan,
    order: &[ColumnId],
    keys: SortedKeys<'_>,
    limit: u64,
) -> Result<RowBlock, Failure> {
    let selected = plan.selection.len();
    plan.selection = with_order(&plan.selection, order);
    let blocks = match keys {
        SortedKeys::Whole(keys) => read(shard, plan, keys, limit).await?,
        SortedKeys::Spread(of) => read_spread(shard, plan, of, limit).await?,
    };
    let columns: Vec<&Column> = order.iter().filter_map(|id| plan.table.column_by_id(*id)).collect();
    let mut rows = Vec::new();
    for block in &blocks {
        let mut start = 0;
        for (_, end) in &block.ends {
            let row = &block.bytes[start..*end as usize];
            start = *end as usize;
            let sort_key: Vec<Option<&[u8]>> = cells_of(row).skip(selected).collect();
            let sort_bytes: usize = sort_key.iter().map(|value| 4 + value.map_or(0, <[u8]>::len)).sum();
            rows.push(SortedRow { sort_key, bytes: &row[..row.len().saturating_sub(sort_bytes)] });
        }
    }
    rows.sort_by(|a, b| compare(&columns, plan.reversed, &a.sort_key, &b.sort_key));
    let mut out = RowBlock::default();
    for row in rows.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        out.push_row(row.bytes);
    }
    Ok(out)
}

/// A selection followed by the columns of ORDER BY.
pub(super) fn with_order(selection: &[Selector], order: &[ColumnId]) -> Arc<[Selector]> {
    selection.iter().cloned().chain(order.iter().map(|id| Selector::Column(*id))).collect()
}

/// The first `limit` groups in the order of the columns `order`, which are the last columns of the plan.
pub(super) fn sorted_groups(plan: &ReadPlan, order: &[ColumnId], page: &GroupPage, limit: u64) -> RowBlock {
    let columns: Vec<&Column> = order.iter().filter_map(|id| plan.table.column_by_id(*id)).collect();
    let mut rows = Vec::with_capacity(page.sort_keys.len());
    let mut start = 0;
    for SortKey { values, end } in &page.sort_keys {
        let sort_key = values.iter().map(Option::as_deref).collect();
        rows.push(SortedRow { sort_key, bytes: &page.block.bytes[start..*end] });
        start = *end;
    }
    rows.sort_by(|a, b| compare(&columns, plan.reversed, &a.sort_key, &b.sort_key));
    let mut out = RowBlock::default();
    for row in rows.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        out.push_row(row.bytes);
    }
    out
}

/// The rows that may be among the first `limit`: up to `limit` of each partition.
async fn read(shard: &Shard, plan: &ReadPlan, keys: &[DecoratedKey], limit: u64) -> Result<Vec<RowBlock>, Failure> {
    let mut blocks = Vec::new();
    let mut bytes = 0;
    for key in keys {
        let mut resume = None;
        let mut left = limit;
        let mut met = ScanCounts::default();
        loop {
            let limits = PageLimits { rows_max: left, bytes_max: Some(PAGE_BYTES_MAX) };
            let reply = read_key(shard, plan, key.clone(), resume, limits, true).await?;
            plan.count(&mut met, reply.scanned, Some(key), limit)?;
            bytes += reply.block.bytes.len();
            if bytes > RESULT_BYTES_MAX {
                return Err(result_too_large());
            }
            left = left.saturating_sub(reply.block.rows.into());
            blocks.push(reply.block);
            if reply.last.is_none() || left == 0 {
                plan.tombstones.end(&met, Some(key), limit);
                break;
            }
            resume = reply.last;
        }
    }
    Ok(blocks)
}

/// The same of keys with sub-partitions.
async fn read_spread(shard: &Shard, plan: &ReadPlan, of: &SubPartitions, limit: u64) -> Result<Vec<RowBlock>, Failure> {
    let mut blocks = Vec::new();
    let mut bytes = 0;
    for at in 0..of.keys.len() {
        let one = of.only(at);
        let limits = PageLimits { rows_max: limit, bytes_max: None };
        let page = read_page(shard, plan, &one, None, limits).await?.unwrap_or_default();
        bytes += page.block.bytes.len();
        if bytes > RESULT_BYTES_MAX {
            return Err(result_too_large());
        }
        blocks.push(page.block);
    }
    Ok(blocks)
}

/// The order of two rows by their sort keys; `reversed`: against the table's order.
fn compare(columns: &[&Column], reversed: bool, a: &[Option<&[u8]>], b: &[Option<&[u8]>]) -> Ordering {
    let each = columns.iter().zip(a.iter().zip(b));
    let mut orders = each.map(|(column, (a, b))| {
        let (order, turned) = match (a, b) {
            (Some(a), Some(b)) => (value::compare(&column.cql_type, a, b), column.descending != reversed),
            // Null comes first in the table's order, even where that is descending.
            (a, b) => (a.is_some().cmp(&b.is_some()), reversed),
        };
        if turned { order.reverse() } else { order }
    });
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
