//! Projection of fetched rows on the coordinating core: functions, elements and fields of values, aggregates and
//! groups.
//!
//! A page of a grouped read is full when it has as many groups as the client asked rows for and the first row of the
//! next group was seen; the paging state is the position of the last row of the last complete group.
//!
//! Invariants: memory is bounded by a page of fetched rows and a page of results, whatever the size of a group.

use crate::coordinator::read::{PAGE_BYTES_MAX, PageLimits, RESULT_BYTES_MAX, ReadPlan, result_too_large};
use crate::execute::select::target::{Target, page_of};
use crate::execute::values::binding::Values;
use crate::rows::block::{RowBlock, cells_of};
use crate::shard_state::Shard;
use cql::plan::{Group, Projection};
use model::key::push_composite;
use model::query::{Position, Resume};
use model::{DecoratedKey, Failure, Partitioner, Table, comparable};

/// Limits of a grouped read.
#[derive(Clone, Copy)]
pub(crate) struct GroupLimits {
    /// Groups in a full page.
    pub(crate) page: u64,
    /// Groups per partition.
    pub(crate) per_partition: u64,
    /// How many of the fetched values the projection takes; the rest are sort keys.
    pub(crate) selected: usize,
}

/// A page of groups and where to continue.
pub(crate) struct GroupPage {
    /// The groups' rows.
    pub(crate) block: RowBlock,
    /// The position of the last row of the last group, if more may follow.
    pub(crate) stopped_at: Option<Resume>,
    /// The sort key of each group, if more values are fetched than the projection takes.
    pub(crate) sort_keys: Vec<SortKey>,
}

/// What a group is sorted by.
pub(crate) struct SortKey {
    /// The values of the group's first row that follow those of the projection.
    pub(crate) values: Vec<Option<Vec<u8>>>,
    /// Where the group's row ends in the block, bytes.
    pub(crate) end: usize,
}

/// Applies the projection to each row of a block.
pub(crate) fn rows(
    shard: &Shard,
    projection: &Projection,
    fetched_len: usize,
    block: RowBlock,
    values: &Values<'_>,
) -> Result<RowBlock, Failure> {
    let mut out = RowBlock::default();
    let mut context = shard.evaluation();
    let mut cells = cells_of(&block.bytes);
    let mut row = Vec::with_capacity(fetched_len);
    for _ in 0..block.rows {
        row.clear();
        row.extend(cells.by_ref().take(fetched_len));
        projection.row(&row, &values.bound, &mut context, &mut out.bytes)?;
        out.rows += 1;
        if out.bytes.len() > RESULT_BYTES_MAX {
            return Err(result_too_large());
        }
    }
    Ok(out)
}

/// The partition and clustering of a fetched row.
struct RowPosition {
    key: Vec<u8>,
    comparable: Vec<u8>,
}

impl RowPosition {
    fn of(table: &Table, places: &[usize], row: &[Option<&[u8]>]) -> RowPosition {
        let value = |at: &usize| row.get(*at).copied().flatten();
        let (key, clustering) = places.split_at(table.partition_key_len.min(places.len()));
        let mut serialised = Vec::new();
        match key {
            [at] => serialised.extend_from_slice(value(at).unwrap_or_default()),
            several => push_composite(several.iter().map(|at| value(at).unwrap_or_default()), &mut serialised),
        }
        let mut comparable = Vec::new();
        // The row of a partition with only static columns has no clustering.
        // The last clustering values of a row of a compact table may be null.
        if clustering.first().is_none_or(|at| value(at).is_some()) {
            let components = clustering.iter().map_while(value);
            comparable::clustering(table, components, &mut comparable);
        }
        RowPosition { key: serialised, comparable }
    }

    /// The position after `groups` groups of its partition.
    fn resume(self, partitioner: Partitioner, groups: u64) -> Resume {
        let comparable = (!self.comparable.is_empty()).then(|| self.comparable.into_boxed_slice());
        Resume {
            position: Position { key: DecoratedKey::new(partitioner, &self.key), comparable },
            partition_rows: groups,
        }
    }
}

/// Reads rows and gathers them into groups.
pub(crate) async fn groups(
    shard: &Shard,
    projection: &Projection,
    plan: &ReadPlan,
    target: Target,
    mut resume: Option<Resume>,
    group_limits: GroupLimits,
    values: &Values<'_>,
) -> Result<GroupPage, Failure> {
    let mut gathering = Gathering {
        sort_keys: Vec::new(),
        partitioner: shard.partitioner(),
        table: &plan.table,
        projection,
        limits: group_limits,
        group: Group::new(projection),
        group_key: Vec::new(),
        place: resume.as_ref().map(|resume| RowPosition {
            key: resume.position.key.key.to_vec(),
            comparable: resume.position.comparable.as_deref().unwrap_or_default().to_vec(),
        }),
        groups_of_partition: resume.as_ref().map_or(0, |resume| resume.partition_rows),
        out: RowBlock::default(),
    };
    let fetched_len = plan.selection.len();
    let limits = PageLimits { rows_max: u64::MAX, bytes_max: Some(PAGE_BYTES_MAX) };
    loop {
        let page = page_of(shard, plan, target.clone(), resume, limits).await?;
        {
            let mut context = shard.evaluation();
            let mut cells = cells_of(&page.block.bytes);
            let mut row = Vec::with_capacity(fetched_len);
            for _ in 0..page.block.rows {
                row.clear();
                row.extend(cells.by_ref().take(fetched_len));
                if let Some(stopped_at) = gathering.take(&row, values, &mut context)? {
                    let stopped_at = Some(stopped_at).filter(|stopped_at| !is_last(&target, stopped_at, group_limits));
                    let sort_keys = gathering.sort_keys;
                    return Ok(GroupPage { block: gathering.out, stopped_at, sort_keys });
                }
            }
        }
        match page.stopped_at {
            Some(position) => resume = Some(position),
            None => break,
        }
        runtime::yield_if_needed().await;
    }
    let mut context = shard.evaluation();
    // Without GROUP BY there is one group, even without rows.
    if !gathering.group.is_empty() || projection.group_by.is_empty() {
        gathering.end_group(values, &mut context)?;
    }
    // As in Cassandra a full page is not known to be the last, except in the cases of `is_last`.
    let full = !projection.group_by.is_empty() && u64::from(gathering.out.rows) >= gathering.limits.page;
    let groups = gathering.groups_of_partition;
    let stopped_at = gathering.place.filter(|_| full).map(|place| place.resume(shard.partitioner(), groups));
    let stopped_at = stopped_at.filter(|stopped_at| !is_last(&target, stopped_at, group_limits));
    Ok(GroupPage { block: gathering.out, stopped_at, sort_keys: gathering.sort_keys })
}

/// Whether nothing can follow because the last partition has no rows or has returned as many groups as it may.
fn is_last(target: &Target, stopped_at: &Resume, limits: GroupLimits) -> bool {
    let last = match target {
        Target::Keys(keys) => keys.last(),
        Target::Spread(of) => of.keys.last(),
        Target::Range(_) | Target::Nothing => return false,
    };
    let is_over = stopped_at.position.comparable.is_none() || stopped_at.partition_rows >= limits.per_partition;
    is_over && last == Some(&stopped_at.position.key)
}

struct Gathering<'p> {
    sort_keys: Vec<SortKey>,
    partitioner: Partitioner,
    table: &'p Table,
    projection: &'p Projection,
    limits: GroupLimits,
    group: Group,
    /// The values that make up the current group's key.
    group_key: Vec<u8>,
    /// The last row taken.
    place: Option<RowPosition>,
    /// Groups of the current partition, including the one being gathered.
    groups_of_partition: u64,
    out: RowBlock,
}

impl Gathering<'_> {
    /// Takes a row. If the page is full and the row begins another group, returns the position before the row instead.
    fn take(
        &mut self,
        row: &[Option<&[u8]>],
        values: &Values<'_>,
        context: &mut dyn cql::plan::EvaluationContext,
    ) -> Result<Option<Resume>, Failure> {
        if self.projection.group_by.is_empty() {
            self.group.add(self.projection, row, &values.bound, context)?;
            return Ok(None);
        }
        let mut key = Vec::new();
        self.projection.group_key(row, &values.bound, context, &mut key)?;
        let place = RowPosition::of(self.table, &self.projection.key_places, row);
        let same_partition = self.place.as_ref().is_some_and(|last| last.key == place.key);
        let begins = !same_partition || key != self.group_key;
        if begins {
            if !self.group.is_empty() {
                self.end_group(values, context)?;
            }
            if u64::from(self.out.rows) >= self.limits.page {
                let groups = self.groups_of_partition;
                return Ok(self.place.take().map(|place| place.resume(self.partitioner, groups)));
            }
            self.groups_of_partition = if same_partition { self.groups_of_partition + 1 } else { 1 };
            self.group_key = key;
        }
        if self.groups_of_partition <= self.limits.per_partition {
            self.group.add(self.projection, row, &values.bound, context)?;
        }
        self.place = Some(place);
        Ok(None)
    }

    fn end_group(
        &mut self,
        values: &Values<'_>,
        context: &mut dyn cql::plan::EvaluationContext,
    ) -> Result<(), Failure> {
        let sort_key = self.group.first_values(self.limits.selected);
        self.group.finish(self.projection, &values.bound, context, &mut self.out.bytes)?;
        if !sort_key.is_empty() {
            self.sort_keys.push(SortKey { values: sort_key, end: self.out.bytes.len() });
        }
        self.out.rows += 1;
        if self.out.bytes.len() > RESULT_BYTES_MAX {
            return Err(result_too_large());
        }
        Ok(())
    }
}
