//! Building mutations: the bound values of INSERT, UPDATE and DELETE become one mutation per partition key.
//!
//! Invariants: all mutations of a request have one timestamp; changes of one key in one keyspace go into one mutation,
//! so that they are applied together; but those of a table with tablets into one of their own, because other tables
//! have other replicas.

use super::cells::Cells;
use super::sub_partitions::{check_count, spread};
use crate::coordinator::sub_partitions::key_places;
use crate::coordinator::write::Routed;
use crate::execute::values::binding::Values;
use crate::execute::values::json;
use crate::execute::values::keys::Keys;
use crate::execute::values::slices::{Bounds, NullBound, RangeEnd};
use crate::messages::data::{Lists, WriteTimes};
use crate::replica;
use crate::shard_state::Shard;
use crate::virtual_tables::{self, VirtualChange};
use cluster::sub_partitions::KeyPlaces;
use cql::plan::{Modify, ModifyKind, Value, ttl_of};
use engine::index::{TooLong, too_long};
use model::key::KEY_BYTES_MAX;
use model::mutation::{CLUSTERING_BYTES_MAX, Clustering, ClusteringBound, MUTATION_BYTES_MAX, push_clustering};
use model::row::{Deletion, Liveness, RowBuilder};
use model::schema::Layout;
use model::{CqlType, Failure, HashMap, Mutation, MutationBuilder, Table, TableId};
use std::sync::Arc;

/// What is one mutation: a key of a keyspace, and of one table if that has tablets.
type GroupKey = (String, Option<TableId>, Vec<u8>);

/// Mutations under construction, one per keyspace and key.
#[derive(Default)]
pub(crate) struct Mutations {
    groups: Vec<Group>,
    /// For batches: indexes into `groups` by keyspace and key, and by the table if it has tablets. A single statement
    /// does not need them, as its keys differ.
    index: Option<HashMap<GroupKey, usize>>,
    /// The only stored partition that is changed, for changes that are decided in one.
    only: Option<Box<[u8]>>,
}

/// The mutation of one key under construction.
pub(super) struct Group {
    /// The first table that is changed.
    table: Arc<Table>,
    current: Option<TableId>,
    /// The changed tables that have indexes.
    indexed: Vec<Arc<Table>>,
    builder: MutationBuilder,
}

impl Mutations {
    /// Mutations of several statements.
    pub(crate) fn of_batch() -> Mutations {
        Mutations { groups: Vec::new(), index: Some(HashMap::default()), only: None }
    }

    /// Mutations of several statements about one stored partition, in which they are decided: where else rows have to
    /// be changed that move is a matter of whoever commits them.
    pub(crate) fn of_partition(key: &[u8]) -> Mutations {
        Mutations { only: Some(key.into()), ..Mutations::of_batch() }
    }

    /// Whether only one stored partition is changed.
    pub(super) fn is_of_partition(&self) -> bool {
        self.only.is_some()
    }

    /// Adds what a statement changes.
    pub(crate) fn add(
        &mut self,
        shard: &Shard,
        modify: &Modify,
        values: &Values<'_>,
        when: WriteTimes,
    ) -> Result<(), Failure> {
        if let Some(json) = &modify.json {
            let parts = json::values(&modify.table, json, values)?;
            return self.add_bound(shard, modify, &Values::in_order(&json::bound(values, &parts)), when);
        }
        self.add_bound(shard, modify, values, when)
    }

    fn add_bound(
        &mut self,
        shard: &Shard,
        modify: &Modify,
        values: &Values<'_>,
        when: WriteTimes,
    ) -> Result<(), Failure> {
        let table = &*modify.table;
        let keys = Keys::of(shard, table, &modify.keys, values)?;
        let has_keys = keys.iter().next().is_some();
        let change = Change::of(shard, modify, values, when, has_keys)?;
        if modify.is_virtual {
            return change.of_virtual(table);
        }
        if table.write_sharding().is_some() {
            return self.add_spread(shard, modify, &keys, &change, when);
        }
        let room = change.room();
        for key in keys.iter() {
            self.add_to(shard, modify, key, room, &change, None, when)?;
        }
        Ok(())
    }

    /// Adds a change of a table with write sharding to the sub-partitions that it concerns; while its rows move, to
    /// those where they are and to those where they are going to be.
    fn add_spread(
        &mut self,
        shard: &Shard,
        modify: &Modify,
        keys: &Keys<'_>,
        change: &Change<'_>,
        when: WriteTimes,
    ) -> Result<(), Failure> {
        let table = &*modify.table;
        let Some(sharding) = table.write_sharding() else { return Ok(()) };
        let placement = shard.placement_of(table)?;
        let mut count = 0;
        for key in keys.iter() {
            let mut places = key_places(&placement, sharding, key);
            if let Some((_, number)) = self.only.as_deref().and_then(|only| table.logical_key(only)) {
                let own = places.with(number).ok_or_else(|| Failure::overloaded("The row has moved meanwhile"))?;
                places = KeyPlaces::settled(own);
            }
            let twin = places.twin.map(KeyPlaces::settled);
            for (at, places) in [Some(places), twin].into_iter().flatten().enumerate() {
                for part in spread(&sharding.by, places, &change.rows, modify.kind, runtime::rng::below) {
                    if at == 0 {
                        count += 1;
                        check_count(table, count)?;
                    }
                    let stored = table.stored_key(key, part.shard);
                    if at == 0 && sharding.growth.is_some() && part.rows.is_some() && self.only.is_none() {
                        shard.key_figures().note_request(table, &stored);
                    }
                    self.add_to(shard, modify, &stored, 0, change, part.rows.as_deref(), when)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a change to one stored partition; of the rows that it names only those with the indexes `named`, if given.
    #[expect(clippy::too_many_arguments, reason = "a change and its place")]
    #[inline]
    fn add_to(
        &mut self,
        shard: &Shard,
        modify: &Modify,
        key: &[u8],
        room: usize,
        change: &Change<'_>,
        named: Option<&[usize]>,
        when: WriteTimes,
    ) -> Result<(), Failure> {
        let table = &*modify.table;
        let group = self.group(shard, &modify.table, key, room);
        change.apply(group, table, modify.kind, named, when);
        if group.builder.len() > MUTATION_BYTES_MAX {
            return Err(replica::oversized(group.builder.len(), &table.keyspace, &table.name));
        }
        Ok(())
    }

    /// The mutation of a key; `room` is an estimate of its bytes, see [`MutationBuilder::with_room`].
    pub(super) fn group(&mut self, shard: &Shard, table: &Arc<Table>, key: &[u8], room: usize) -> &mut Group {
        let next = self.groups.len();
        let at = match &mut self.index {
            Some(index) => {
                let alone = shard.placement().tablets(table.id).map(|_| table.id);
                *index.entry((table.keyspace.clone(), alone, key.to_vec())).or_insert(next)
            }
            None => next,
        };
        if at == next {
            let builder = MutationBuilder::with_room(shard.partitioner(), key, room);
            let indexed = Vec::new();
            self.groups.push(Group { table: table.clone(), current: None, indexed, builder });
        }
        let group = &mut self.groups[at];
        if !table.indexes.is_empty() && !group.indexed.iter().any(|indexed| indexed.id == table.id) {
            group.indexed.push(table.clone());
        }
        group
    }

    /// Number of partitions changed so far.
    pub(crate) fn partitions(&self) -> usize {
        self.groups.len()
    }

    /// Bytes of the encoded mutations so far.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.iter().map(|group| group.builder.len()).sum()
    }

    /// The mutations, without those that change nothing.
    pub(crate) fn finish(self) -> Result<Vec<Routed>, Failure> {
        let changed = self.groups.into_iter().filter(|group| !group.builder.is_empty());
        changed
            .map(|group| {
                let mutation = group.builder.finish();
                if mutation.bytes().len() > MUTATION_BYTES_MAX {
                    return Err(replica::oversized(mutation.bytes().len(), &group.table.keyspace, &group.table.name));
                }
                group.indexed.iter().try_for_each(|table| check_indexed(table, &mutation))?;
                Ok(Routed { mutation, counts: group.table.is_counter(), table: group.table })
            })
            .collect()
    }
}

/// Fails for a value that is too long for an index of the table.
fn check_indexed(table: &Table, mutation: &Mutation) -> Result<(), Failure> {
    let Some(TooLong { index, column, bytes }) = too_long(table, mutation) else { return Ok(()) };
    let full_name = table.full_name();
    Err(Failure::invalid(format!(
        "Cannot index value of size {bytes} for index {index} on {full_name}({column}) (maximum allowed size={KEY_BYTES_MAX})"
    )))
}

/// The change that a statement makes in each of its partitions.
pub(super) struct Change<'a> {
    rows: Rows,
    cells: Cells<'a>,
    /// What is written into the static row.
    statics: Cells<'a>,
    /// Time to live in seconds; 0: does not expire.
    ttl: i32,
    /// Whether the statement is a DELETE that names no columns.
    deletes_rows: bool,
}

/// The rows of a partition that a statement changes.
pub(super) enum Rows {
    /// Only the static row.
    None,
    /// The whole partition.
    Partition,
    /// Single rows, by clustering.
    These(Vec<Vec<u8>>),
    /// All rows between two positions, each given as the first values of a clustering and whether rows that begin with
    /// them are included.
    Ranges(Vec<[(Vec<u8>, bool); 2]>),
}

impl Rows {
    /// Whether the statement is about rows but names none.
    pub(super) fn names_none(&self) -> bool {
        matches!(self, Rows::These(rows) if rows.is_empty())
    }

    /// Fails for ranges unless whole rows are deleted.
    pub(super) fn refuse_columns_of_ranges(&self, deletes_rows: bool) -> Result<(), Failure> {
        match self {
            Rows::Ranges(_) if !deletes_rows => {
                Err(Failure::invalid("Range deletions are not supported for specific columns"))
            }
            _ => Ok(()),
        }
    }

    /// How often the static row is changed: once for every row named, as in Cassandra.
    pub(super) fn static_times(&self) -> usize {
        match self {
            Rows::These(rows) => rows.len(),
            Rows::None | Rows::Partition | Rows::Ranges(_) => 1,
        }
    }
}

/// The time to live by USING TTL, otherwise the table's default; seconds.
pub(super) fn ttl(shard: &Shard, modify: &Modify, values: &Values<'_>) -> Result<i32, Failure> {
    let table = &*modify.table;
    let of_table = || expiring(shard, table, table.options.default_time_to_live, "default ");
    let Some(term) = &modify.ttl else { return of_table() };
    match values.evaluate(shard, term, &CqlType::Int)? {
        Value::Bytes(bytes) => expiring(shard, table, ttl_of(&bytes)?, ""),
        Value::Null => Ok(0),
        Value::Unset => of_table(),
    }
}

/// A time to live. Fails if it ends after the last expiration time that SSTables can store.
fn expiring(shard: &Shard, table: &Table, ttl: i32, kind: &str) -> Result<i32, Failure> {
    let max = shard.config().sstables.expiration_max();
    if ttl == 0 || runtime::wall_micros().div_euclid(1_000_000) + i64::from(ttl) <= max {
        return Ok(ttl);
    }
    let (keyspace, name) = (&table.keyspace, &table.name);
    let last = if max > i64::from(i32::MAX) { "2106-02-07T06:28:13+00:00" } else { "2038-01-19T03:14:06+00:00" };
    Err(Failure::invalid(format!(
        "Request on table {keyspace}.{name} with {kind}ttl of {ttl} seconds exceeds maximum supported expiration date of \
         {last}. In order to avoid this use a lower TTL, change the expiration date overflow policy or upgrade to a \
         version where this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 for more details."
    )))
}

impl<'a> Change<'a> {
    /// Passes the change to a virtual table.
    fn of_virtual(&self, table: &Table) -> Result<(), Failure> {
        let kind = match (&self.rows, self.cells.first_deletes()) {
            (Rows::Partition, _) if self.deletes_rows => VirtualChange::PartitionDeletion,
            (Rows::Ranges(_), _) => VirtualChange::RangeDeletion,
            _ if self.deletes_rows => VirtualChange::RowDeletion,
            (_, true) => VirtualChange::ColumnDeletion,
            (_, false) => VirtualChange::ColumnUpdate,
        };
        virtual_tables::change(table, kind)
    }

    /// Evaluates what a statement changes. As in Cassandra, the values it writes are checked only if it writes them: if
    /// it names partitions and, for row values, rows.
    fn of(
        shard: &Shard,
        modify: &'a Modify,
        values: &'a Values<'_>,
        when: WriteTimes,
        has_keys: bool,
    ) -> Result<Change<'a>, Failure> {
        let table = &*modify.table;
        let lists = Lists::new();
        let rows = if modify.rows { Change::rows(shard, modify, values)? } else { Rows::None };
        let deletes_rows =
            modify.kind == ModifyKind::Delete && modify.operations.is_empty() && modify.statics.is_empty();
        let (cells, statics) = (Cells::default(), Cells::default());
        if rows.names_none() {
            return Ok(Change { rows, cells, statics, ttl: 0, deletes_rows });
        }
        let ttl = ttl(shard, modify, values)?;
        if !has_keys {
            return Ok(Change { rows, cells, statics, ttl, deletes_rows });
        }
        rows.refuse_columns_of_ranges(deletes_rows)?;
        if let (Layout::DenseCompact, ModifyKind::Insert, true, [value, ..]) =
            (table.layout, modify.kind, modify.operations.is_empty(), table.regular())
        {
            // In such a table a row consists of nothing but its value.
            return Err(Failure::invalid(format!("Column {} is mandatory for this COMPACT STORAGE table", value.name)));
        }
        let cells = Cells::of(shard, table, &modify.operations, values, &lists, when, 1)?;
        let statics = match modify.statics.is_empty() {
            true => Cells::default(),
            false => Cells::of(shard, table, &modify.statics, values, &lists, when, rows.static_times())?,
        };
        Ok(Change { rows, cells, statics, ttl, deletes_rows })
    }

    /// The rows that a statement changes.
    pub(super) fn rows(shard: &Shard, modify: &'a Modify, values: &'a Values<'_>) -> Result<Rows, Failure> {
        let table = &*modify.table;
        let restriction = &modify.clustering;
        let sliced = restriction.is_slice();
        if modify.kind == ModifyKind::Delete
            && modify.operations.is_empty()
            && modify.statics.is_empty()
            && (sliced || restriction.chosen() < table.clustering_len || table.clustering_len == 0)
        {
            if !sliced && restriction.choices.is_empty() {
                return Ok(Rows::Partition);
            }
            let Some(bounds) = Bounds::of(shard, table, restriction, values, NullBound::Refused)? else {
                return Ok(Rows::None);
            };
            let end =
                |end: &RangeEnd<'_>| Ok::<_, Failure>((encode_clustering(end.values.iter().copied())?, end.inclusive));
            let mut ranges = Vec::new();
            for (range, _) in bounds.ranges(table) {
                ranges.push([end(&range.start)?, end(&range.end)?]);
            }
            return Ok(Rows::Ranges(ranges));
        }
        let names_columns = modify.kind == ModifyKind::Delete && !modify.operations.is_empty();
        if names_columns && (sliced || restriction.chosen() < table.clustering_len) {
            // To be refused, but only if there is a partition with a range in it.
            let bounds = Bounds::of(shard, table, restriction, values, NullBound::Open)?;
            return Ok(if bounds.is_some() { Rows::Ranges(Vec::new()) } else { Rows::These(Vec::new()) });
        }
        let prefixes = values.prefixes(shard, table.clustering(), &restriction.choices)?;
        let rows = prefixes.iter().map(|row| encode_clustering(row.iter().map(|value| &**value)));
        let rows: Vec<Vec<u8>> = rows.collect::<Result<_, _>>()?;
        if let (Layout::DenseCompact, [column]) = (table.layout, table.clustering())
            && rows.iter().any(|row| Clustering(row).components().all(<[u8]>::is_empty))
        {
            // Cassandra stored such a row under its clustering alone, which could not be empty.
            return Err(Failure::invalid(format!("Invalid empty or null value for column {}", column.name)));
        }
        Ok(Rows::These(rows))
    }

    /// Estimated bytes of the change of one partition.
    fn room(&self) -> usize {
        let rows = match &self.rows {
            Rows::These(rows) => rows.iter().map(|row| row.len() + self.cells.room()).sum(),
            Rows::None | Rows::Partition | Rows::Ranges(_) => 0,
        };
        rows + self.statics.room()
    }

    fn apply(&self, group: &mut Group, table: &Table, kind: ModifyKind, named: Option<&[usize]>, when: WriteTimes) {
        if !self.statics.is_empty() {
            group.table(table.id).static_row(|out| {
                self.statics.write(&mut RowBuilder::new(out, None, Deletion::LIVE), when, self.ttl);
            });
        }
        match &self.rows {
            Rows::None => {}
            Rows::Partition => {
                group.table(table.id).delete_partition(when.deletion_of_ranges());
            }
            Rows::Ranges(ranges) => {
                for range in ranges {
                    let [start, end] = range.each_ref().map(|(prefix, inclusive)| ClusteringBound {
                        prefix: Clustering(prefix),
                        inclusive: *inclusive,
                    });
                    group.table(table.id).delete_range(start, end, when.deletion_of_ranges());
                }
            }
            Rows::These(rows) => {
                let inserted = kind == ModifyKind::Insert;
                let deleted = self.deletes_rows;
                // A row of a compact table exists as long as its value does, so it has no row marker.
                let inserted = inserted && !table.is_compact();
                if !inserted && !deleted && self.cells.is_empty() {
                    return;
                }
                let expiry = (self.ttl > 0).then(|| (self.ttl, when.now_in_seconds.saturating_add(self.ttl.into())));
                let liveness = inserted.then_some(Liveness { timestamp: when.timestamp, expiry });
                let deletion = if deleted { when.deletion() } else { Deletion::LIVE };
                let mut write = |row: &[u8]| {
                    group.table(table.id).row(Clustering(row), |out| {
                        self.cells.write(&mut RowBuilder::new(out, liveness, deletion), when, self.ttl);
                    });
                };
                match named {
                    None => rows.iter().for_each(|row| write(row)),
                    Some(named) => named.iter().filter_map(|at| rows.get(*at)).for_each(|row| write(row)),
                }
            }
        }
    }
}

impl Group {
    pub(super) fn table(&mut self, table: TableId) -> &mut MutationBuilder {
        if self.current != Some(table) {
            self.current = Some(table);
            self.builder.table(table);
        }
        &mut self.builder
    }
}

/// The row that a statement with all clustering columns names; `None` if it is only about static columns.
pub(crate) fn named_row(shard: &Shard, modify: &Modify, values: &Values<'_>) -> Result<Option<Vec<u8>>, Failure> {
    if !modify.rows {
        return Ok(None);
    }
    let prefixes = values.prefixes(shard, modify.table.clustering(), &modify.clustering.choices)?;
    let row = prefixes.iter().next().map(|row| encode_clustering(row.iter().map(|value| &**value)));
    row.transpose()
}

/// Encodes a clustering or the first values of one.
fn encode_clustering<'c>(components: impl Iterator<Item = &'c [u8]> + Clone) -> Result<Vec<u8>, Failure> {
    let len: usize = components.clone().map(<[u8]>::len).sum();
    if len > CLUSTERING_BYTES_MAX {
        return Err(Failure::invalid(format!("Key length of {len} is longer than maximum of {CLUSTERING_BYTES_MAX}")));
    }
    let mut out = Vec::with_capacity(len + 2 * components.clone().count());
    for component in components {
        push_clustering(&mut out, component);
    }
    Ok(out)
}
