//! SELECT: bound values become a read plan, and a page of rows becomes an answer.
//!
//! [`target`] determines which partitions are read and reads a page of them; [`projection`] applies functions,
//! aggregates and GROUP BY; [`sorted`] is ORDER BY over several partitions; [`query_text`] names a read in warnings.

mod projection;
mod query_text;
mod sorted;
mod target;

use crate::coordinator::aggregates::{Aggregated, aggregate};
use crate::coordinator::read::{PAGE_BYTES_MAX, PageLimits, ReadPlan};
use crate::coordinator::sub_partitions::{SubPartitions, check_moved, is_closed, note_read, wait_until_open};
use crate::coordinator::throttle::{Bill, admit_read};
use crate::execute::conditional::finish_rounds;
use crate::execute::paging::PagingState;
use crate::execute::values::binding::Values;
use crate::execute::values::filtering::row_filter;
use crate::execute::values::keys::check_key;
use crate::execute::values::slices::{Bounds, NullBound};
use crate::execute::values::timeout::timeout_of;
use crate::guards::filtering::{self, FilteredRows};
use crate::guards::tombstones::{self, ScanCounts, ScanNote, Tombstones};
use crate::request::{AckTerms, Rows, request_second};
use crate::rows::block::{RowBlock, cells_of, counted_nothing};
use crate::rows::filter::RowFilter;
use crate::shard_state::Shard;
use crate::statements::Statement;
use crate::virtual_tables::settings;
use cluster::consistency::check_read;
use cql::plan::{Choice, PartitionRestriction, Select, Selector, Term, Value};
use engine::PrefetchStage;
use engine::index::{ENTRY_EXTRA_BYTES, IndexLookup};
use model::WriteSharding;
use model::key::KEY_BYTES_MAX;
use model::query::{Resume, Slice};
use model::schema::is_system_keyspace;
use model::value::push_element;
use model::{ColumnKind, Consistency, CqlType, DecoratedKey, Failure, Home, IndexedPart, Partitioner, QueryParameters};
use projection::{GroupLimits, groups};
use query_text::QueryText;
use sorted::{SortedKeys, sorted, sorted_groups, with_order};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use target::{Target, page_of, target_of};

/// Runs a SELECT.
pub(crate) async fn select(
    shard: &Shard,
    statement: &Statement,
    select: &Select,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    warnings: &mut Vec<String>,
    bill: Option<&Rc<Bill>>,
) -> Result<Rows, Failure> {
    let timeouts = shard.request_timeouts();
    let timeout = match select.partitions {
        PartitionRestriction::Keys(_) => timeouts.read,
        PartitionRestriction::Tokens { .. } | PartitionRestriction::Scan => timeouts.range,
    };
    let timeout = timeout_of(shard, &statement.prepared, values, timeout)?;
    check_read(parameters.consistency)?;
    if parameters.consistency.is_serial() && select.table.write_sharding().is_some() {
        Box::pin(wait_until_open(shard, &select.table, timeout)).await?;
    }
    let placement = shard.placement_of(&select.table)?;
    let consistency = match select.table.is_virtual() {
        // What this node computes needs no other.
        true => Consistency::One,
        false => parameters.consistency,
    };
    let terms = AckTerms { consistency, timeout };
    let limit = limit_of(shard, select.limit.as_ref(), values)?;
    let per_partition = limit_of(shard, select.per_partition_limit.as_ref(), values)?;
    let mut filter = row_filter(shard, &select.table, &select.filter, values)?;
    let mut target = target_of(shard, select, &placement, values)?;
    if let Target::Keys(keys) = &target
        && let [key] = &**keys
        && placement.shard_of(placement.keyspace().topology().here(), key.token) == shard.id().0
    {
        shard.store().prefetch(select.table.id, key.token, PrefetchStage::Way);
    }
    let (slices, ends_at_null) = match (&target, &select.partitions) {
        // If no partition is named, Cassandra does not look at the clustering.
        (Target::Nothing, PartitionRestriction::Keys(_)) => (Arc::from([]), false),
        _ => slices_of(shard, statement, select, values, &mut target)?,
    };
    // As in Cassandra, partitions are read even if the slice ends before every value and therefore holds no row.
    let reads = !slices.is_empty() || ends_at_null || reads_statics_of_no_rows(select);
    if let (Home::Shard0, Target::Keys(keys)) = (placement.home(), &target) {
        settings::warn(&select.table, keys, warnings);
    }
    let named: &[DecoratedKey] = match &target {
        Target::Keys(keys) => keys,
        Target::Spread(of) => &of.keys,
        Target::Range(_) | Target::Nothing => &[],
    };
    if reads {
        named.iter().try_for_each(|key| check_key(&select.table, &key.key))?;
    }
    let by_keys = !named.is_empty() && reads;
    if is_sorted_over_keys(select) && page_rows(parameters).is_some() && (by_keys || aggregates(select)) {
        return Err(Failure::invalid(
            "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove \
             the ORDER BY or the IN and sort client side, or disable paging for this query",
        ));
    }
    if reads && terms.consistency.is_serial() && may_be_conditional(select) && !named.is_empty() {
        if is_closed(&placement) {
            // Not in time: what is decided where rows are going to be would be missed.
            return Err(Failure::overloaded("Rows of the table move to more sub-partitions; read them again"));
        }
        let stored = stored_row_keys(select, &target)?;
        let keys = if stored.is_empty() { named } else { &stored };
        // A paged read visits one partition after another, and an aggregating one pages internally.
        if keys.len() > 1 && !aggregates(select) && page_rows(parameters).is_none_or(|rows| limit <= rows) {
            return Err(Failure::invalid(
                "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time",
            ));
        }
        Box::pin(finish_rounds(shard, &select.table, &placement, keys, terms)).await?;
    }
    // A limit counts groups if rows are grouped, and the owning cores know nothing of groups.
    let grouped = select.projection.as_ref().is_some_and(|projection| projection.grouped);
    let has_statics = select.table.static_len > 0;
    let index = lookup_of(select, filter.as_deref())?;
    if let (Target::Range(_), Some(map)) = (&target, placement.sub_partitions())
        && let Some(visible) = map.visible()
    {
        filter = Some(RowFilter::within(filter, &select.table, visible));
    }
    let mut plan = ReadPlan {
        table: select.table.clone(),
        placement,
        selection: statement.selection.clone(),
        row_columns: statement.row_columns.clone(),
        slices,
        index,
        filter,
        per_partition_max: match select.distinct {
            true => 1,
            false if grouped => u64::MAX,
            false => per_partition,
        },
        wants_static: has_statics,
        static_only: has_statics && select.static_rows,
        reversed: select.reversed,
        now_in_seconds: request_second(parameters),
        terms,
        tombstones: Tombstones::of(shard.config().tombstones, &select.table),
        filtered: FilteredRows::new(shard.config().filtering),
        looked_at: Cell::new(0),
    };
    if let Some(bill) = bill {
        let stored: Vec<DecoratedKey>;
        let keys: &[DecoratedKey] = match &target {
            Target::Keys(keys) => keys,
            Target::Spread(of) => {
                stored = of.stored(&select.table).collect();
                &stored
            }
            Target::Range(_) | Target::Nothing => &[],
        };
        Box::pin(admit_read(shard, bill, &plan, keys)).await?;
    }
    if let Target::Spread(of) = &target {
        note_read(shard, &select.table, of);
    }
    let mut result =
        answer(shard, statement, select, values, parameters, &mut plan, target, limit, per_partition).await;
    if select.table.write_sharding().is_some() && result.is_ok() {
        result = check_moved(shard, &select.table, &plan.placement).and(result);
    }
    if let Some(bill) = bill {
        bill.end_read(&plan, result.as_ref().map_or(0, |rows| rows.block.bytes.len()));
    }
    let notes = plan.tombstones.take();
    if !notes.is_empty() {
        let page = page_rows(parameters).map(|rows| rows.min(limit));
        let query = QueryText { shard, select, values, page };
        warnings
            .extend(notes.iter().filter_map(|note| tombstones::report(shard.tombstone_log(), note, &query.of(note))));
    }
    if let Some(note) = plan.filtered.take() {
        let page = page_rows(parameters).map(|rows| rows.min(limit));
        let of = ScanNote { met: ScanCounts::default(), key: note.key.clone(), limit: None, failed: note.has_failed };
        let query = QueryText { shard, select, values, page }.of(&of);
        warnings.push(filtering::report(shard.filtering_log(), &plan.filtered, &note, &query)?);
    }
    result
}

fn aggregates(select: &Select) -> bool {
    select.aggregate || select.projection.as_ref().is_some_and(|projection| projection.grouped)
}

/// Whether rows of several partitions are sorted together by ORDER BY.
fn is_sorted_over_keys(select: &Select) -> bool {
    !select.order.is_empty() && names_several_keys(select)
}

/// Reads what `plan` says and builds the answer.
#[expect(clippy::too_many_arguments, reason = "what a SELECT was resolved to")]
async fn answer(
    shard: &Shard,
    statement: &Statement,
    select: &Select,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    plan: &mut ReadPlan,
    target: Target,
    limit: u64,
    per_partition: u64,
) -> Result<Rows, Failure> {
    let target = if plan.slices.is_empty() { Target::Nothing } else { target };
    let page_rows = page_rows(parameters);
    let fingerprint = fingerprint_of(statement, plan, &target);
    let several = is_sorted_over_keys(select);
    if select.aggregate {
        let block = Box::pin(aggregated(shard, plan, &target)).await?;
        return Ok(rows(statement, block, None));
    }

    if let Some(projection) = select.projection.as_ref().filter(|projection| projection.grouped) {
        let (resume, remaining) = resume_of(shard.partitioner(), fingerprint, parameters, limit)?;
        let selected = plan.selection.len();
        let mut limits = GroupLimits { page: page_rows.unwrap_or(u64::MAX).min(remaining), per_partition, selected };
        if several && !projection.group_by.is_empty() {
            // Which groups come first is known only when all groups are read.
            limits.page = u64::MAX;
            plan.selection = with_order(&plan.selection, &select.order);
            let page = Box::pin(groups(shard, projection, plan, target, None, limits, values)).await?;
            return Ok(rows(statement, sorted_groups(plan, &select.order, &page, limit), None));
        }
        let page = Box::pin(groups(shard, projection, plan, target, resume, limits, values)).await?;
        let remaining = if limit == u64::MAX { u64::MAX } else { remaining - u64::from(page.block.rows) };
        let stopped_at = page.stopped_at.filter(|_| remaining > 0);
        let state = stopped_at.map(|resume| PagingState { fingerprint, remaining, resume }.encode());
        return Ok(rows(statement, page.block, state));
    }

    if several {
        let block = match target {
            Target::Keys(keys) => Box::pin(sorted(shard, plan, &select.order, SortedKeys::Whole(&keys), limit)).await?,
            Target::Spread(of) => Box::pin(sorted(shard, plan, &select.order, SortedKeys::Spread(&of), limit)).await?,
            Target::Range(_) | Target::Nothing => return Ok(rows(statement, RowBlock::default(), None)),
        };
        return Ok(rows(statement, projected(shard, select, block, values)?, None));
    }

    let (resume, remaining) = resume_of(shard.partitioner(), fingerprint, parameters, limit)?;
    let limits = PageLimits {
        rows_max: page_rows.unwrap_or(u64::MAX).min(remaining),
        bytes_max: page_rows.map(|_| PAGE_BYTES_MAX),
    };
    let page = page_of(shard, plan, target, resume, limits).await?;
    let remaining = if limit == u64::MAX { u64::MAX } else { remaining - u64::from(page.block.rows) };
    // LIMIT spans pages: after its last row there is no next page.
    let stopped_at = page.stopped_at.filter(|_| page_rows.is_some() && remaining > 0);
    let state = stopped_at.map(|resume| PagingState { fingerprint, remaining, resume }.encode());
    Ok(rows(statement, projected(shard, select, page.block, values)?, state))
}

/// The lookup in an index through which the rows are found, if there is one.
fn lookup_of(select: &Select, filter: Option<&RowFilter>) -> Result<Option<IndexLookup>, Failure> {
    let Some(index) = &select.index else { return Ok(None) };
    let value = filter.and_then(|filter| filter.indexed_value(index));
    let value = value.ok_or_else(|| Failure::server("an index is asked for no value"))?;
    // The value for an index on map entries begins with two bytes that Cassandra does not have and count.
    let extra = if index.part == IndexedPart::Entries { ENTRY_EXTRA_BYTES - 2 } else { 0 };
    if value.len() + extra > KEY_BYTES_MAX {
        return Err(Failure::invalid("Index expression values may not be larger than 64K"));
    }
    Ok(Some(IndexLookup { index: index.name.clone(), value: value.into() }))
}

/// Whether a table allows conditional changes.
fn may_be_conditional(select: &Select) -> bool {
    !is_system_keyspace(&select.table.keyspace)
}

/// Rows per page; `None` if the request is not paged.
fn page_rows(parameters: &QueryParameters<'_>) -> Option<u64> {
    parameters.page_size.and_then(|rows| u64::try_from(rows).ok()).filter(|&rows| rows > 0)
}

/// What a paging state must be for. Pages of a scan from before rows of the table were found elsewhere and from after
/// it would have some rows twice and others not at all.
fn fingerprint_of(statement: &Statement, plan: &ReadPlan, target: &Target) -> u64 {
    let switched = match target {
        Target::Range(_) => plan.placement.sub_partitions().map_or(0, |map| map.switched),
        Target::Keys(_) | Target::Spread(_) | Target::Nothing => 0,
    };
    statement.fingerprint.wrapping_add(switched)
}

/// Where a request continues, and how many rows LIMIT still allows.
fn resume_of(
    partitioner: Partitioner,
    fingerprint: u64,
    parameters: &QueryParameters<'_>,
    limit: u64,
) -> Result<(Option<Resume>, u64), Failure> {
    let Some(bytes) = parameters.paging_state else { return Ok((None, limit)) };
    let state = PagingState::decode(partitioner, bytes, fingerprint)?;
    Ok((Some(state.resume), state.remaining.min(limit)))
}

/// The rows of a block with the projection applied.
pub(super) fn projected(
    shard: &Shard,
    select: &Select,
    block: RowBlock,
    values: &Values<'_>,
) -> Result<RowBlock, Failure> {
    match &select.projection {
        Some(projection) => projection::rows(shard, projection, select.selection.len(), block, values),
        None => Ok(block),
    }
}

fn rows(statement: &Statement, block: RowBlock, paging_state: Option<Vec<u8>>) -> Rows {
    let columns = statement.prepared.result.clone().unwrap_or_else(|| Arc::from([]));
    Rows { columns, result_metadata_id: Some(statement.result_metadata_id), block, paging_state }
}

/// Whether a SELECT that names no rows still reads its partitions. Cassandra does so for static columns, unless the
/// rows are named by bounds or only regular columns are asked for.
fn reads_statics_of_no_rows(select: &Select) -> bool {
    let table = &select.table;
    if table.static_len == 0 || select.clustering.chosen() < table.clustering_len {
        return false;
    }
    let selected = select.selection.iter().filter_map(Selector::column);
    let asked = selected.chain(select.filter.iter().flat_map(|filter| filter.columns().iter().copied()));
    let kinds = asked.filter_map(|column| table.column_by_id(column)).map(|column| column.kind);
    let mut of_data = kinds.filter(|kind| !kind.is_key()).peekable();
    of_data.peek().is_none() || of_data.any(|kind| kind == ColumnKind::Static)
}

/// Whether the partition key is restricted by IN.
fn names_several_keys(select: &Select) -> bool {
    matches!(&select.partitions, PartitionRestriction::Keys(keys)
        if keys.iter().any(|choice| !matches!(choice, Choice::One(_))))
}

async fn aggregated(shard: &Shard, plan: &mut ReadPlan, target: &Target) -> Result<RowBlock, Failure> {
    let block = match target {
        Target::Nothing => RowBlock::default(),
        Target::Keys(keys) => aggregate(shard, plan, Aggregated::Keys(keys)).await?,
        Target::Spread(of) => spread_aggregate(shard, plan, of).await?,
        Target::Range(range) => aggregate(shard, plan, Aggregated::Range(range)).await?,
    };
    Ok(if block.rows == 0 { counted_nothing(&plan.selection) } else { block })
}

/// The row of an aggregate over keys with sub-partitions; no row if they have none.
async fn spread_aggregate(shard: &Shard, plan: &mut ReadPlan, of: &SubPartitions) -> Result<RowBlock, Failure> {
    let is_count = |selector: &Selector| matches!(selector, Selector::CountRows | Selector::Count(_));
    let is_random = plan.table.write_sharding().is_some_and(WriteSharding::is_random);
    if !is_random && plan.selection.iter().all(is_count) {
        let stored: Vec<DecoratedKey> = of.stored(&plan.table).collect();
        return aggregate(shard, plan, Aggregated::Together(&stored)).await;
    }
    // The first row in clustering order is asked for, or rows may be in several sub-partitions: the rows are read here.
    let counted = plan.selection.clone();
    let first_clustering = plan.table.clustering().first().map(|column| column.id);
    let fetched = counted.iter().map(|selector| match (selector, first_clustering) {
        (Selector::Count(column), _) => Selector::Column(*column),
        (Selector::CountRows, Some(column)) => Selector::Column(column),
        (other, _) => other.clone(),
    });
    plan.selection = fetched.collect();
    let limits = PageLimits { rows_max: u64::MAX, bytes_max: Some(PAGE_BYTES_MAX) };
    let (mut counts, mut first, mut resume) = (vec![0_u64; counted.len()], None, None);
    loop {
        let page = page_of(shard, plan, Target::Spread(of.clone()), resume, limits).await?;
        count_rows(&counted, &page.block, &mut counts, &mut first);
        match page.stopped_at {
            Some(position) => resume = Some(position),
            None => break,
        }
        runtime::yield_if_needed().await;
    }
    plan.selection = counted;
    let mut block = RowBlock::default();
    let Some(first) = first else { return Ok(block) };
    let values = plan.selection.iter().zip(&counts).zip(cells_of(&first));
    for ((selector, count), value) in values {
        let count = count.to_be_bytes();
        push_element(&mut block.bytes, if is_count(selector) { Some(&count[..]) } else { value });
    }
    block.rows = 1;
    Ok(block)
}

/// Adds the rows of a block to the counts of `counted`, and keeps the first row.
fn count_rows(counted: &[Selector], block: &RowBlock, counts: &mut [u64], first: &mut Option<Vec<u8>>) {
    let mut cells = cells_of(&block.bytes);
    for _ in 0..block.rows {
        let keeps = first.is_none();
        let row = first.get_or_insert_default();
        for ((selector, count), value) in counted.iter().zip(counts.iter_mut()).zip(cells.by_ref()) {
            *count += u64::from(value.is_some() || matches!(selector, Selector::CountRows));
            if keeps {
                push_element(row, value);
            }
        }
    }
}

/// The stored keys of what a read at SERIAL or LOCAL_SERIAL names of a table with write sharding; none of other tables.
fn stored_row_keys(select: &Select, target: &Target) -> Result<Vec<DecoratedKey>, Failure> {
    let Target::Spread(of) = target else { return Ok(Vec::new()) };
    // Keys that grow by themselves are not refused only once they have grown.
    let grows = select.table.write_sharding().is_some_and(|sharding| sharding.growth.is_some());
    match of.is_one_of_each() && (of.is_restricted || !grows) {
        true => Ok(of.stored(&select.table).collect()),
        false => Err(Failure::invalid(format!(
            "SERIAL/LOCAL_SERIAL consistency may only be requested for rows of one sub-partition: table {} has \
             write_sharding, so restrict the columns by which it is sharded",
            select.table.full_name()
        ))),
    }
}

/// LIMIT or PER PARTITION LIMIT; [`u64::MAX`] without one.
pub(super) fn limit_of(shard: &Shard, term: Option<&Term>, values: &Values<'_>) -> Result<u64, Failure> {
    let Some(term) = term else { return Ok(u64::MAX) };
    match values.evaluate(shard, term, &CqlType::Int)? {
        Value::Unset => Ok(u64::MAX),
        Value::Null => Err(Failure::invalid("Invalid null value of limit")),
        Value::Bytes(bytes) => {
            let limit = <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes);
            match limit.ok().and_then(|limit| u64::try_from(limit).ok()) {
                Some(limit) if limit > 0 => Ok(limit),
                _ => Err(Failure::invalid("LIMIT must be strictly positive")),
            }
        }
    }
}

/// The rows named as slices, and whether they end before every value. Leaves those sub-partitions of `target` that may
/// have these rows.
fn slices_of(
    shard: &Shard,
    statement: &Statement,
    select: &Select,
    values: &Values<'_>,
    target: &mut Target,
) -> Result<(Arc<[Slice]>, bool), Failure> {
    let restriction = &select.clustering;
    if restriction.is_empty() {
        return Ok((statement.all_rows.clone(), false));
    }
    match Bounds::of(shard, &select.table, restriction, values, NullBound::SortsFirst)? {
        Some(bounds) => {
            if let (Target::Spread(of), Some(sharding)) = (target, select.table.write_sharding()) {
                of.restrict(|places| bounds.sub_partitions(sharding, places));
            }
            Ok((bounds.slices(&select.table), bounds.ends_at_null()))
        }
        None => Ok((Arc::from([]), false)),
    }
}
