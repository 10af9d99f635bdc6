//! What a digest covers, computed from the writes in the plainest way: every write is looked at for every row.

use model::comparable::{self, BoundSide};
use model::merge::reconcile;
use model::mutation::{ClusteringBound, Operation};
use model::query::{Partitions, ReadCommand};
use model::row::{Cell, CellContent, Deletion, Liveness, RowView};
use model::{ColumnId, Mutation, Table};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A place behind all others.
const END: &[u8] = &[0xff; 64];

/// The content that `command`, which has no limits, sees of a table with these writes.
pub(crate) fn of(table: &Table, writes: &[Mutation], command: &ReadCommand) -> BTreeSet<String> {
    let keys: BTreeSet<&[u8]> = writes.iter().map(Mutation::key).collect();
    let is_read = |key: &&&[u8]| match &command.partitions {
        Partitions::Key(one) => **key == &one.key[..],
        Partitions::Range(range) => range.contains(model::Partitioner::Murmur3.token(key), key),
    };
    let mut out = BTreeSet::new();
    for key in keys.iter().filter(is_read) {
        let writes = writes.iter().filter(|write| write.key() == *key).collect();
        let mut partition = Partition { table, command, name: format!("{key:02x?}"), writes, out: &mut out };
        partition.tell();
    }
    out
}

struct Partition<'w> {
    table: &'w Table,
    command: &'w ReadCommand,
    name: String,
    writes: Vec<&'w Mutation>,
    out: &'w mut BTreeSet<String>,
}

impl<'w> Partition<'w> {
    fn counts(&self, local_deletion_time: i64) -> bool {
        local_deletion_time >= self.command.now_in_seconds - i64::from(self.table.options.gc_grace_seconds)
    }

    fn operations(&self) -> impl Iterator<Item = Operation<'w>> {
        let updates: Vec<_> = self.writes.iter().flat_map(|write| write.updates()).collect();
        updates.into_iter().flat_map(|update| update.operations())
    }

    fn put(&mut self, text: String) {
        self.out.insert(format!("{} {text}", self.name));
    }

    fn tell(&mut self) {
        let updates = self.writes.iter().flat_map(|write| write.updates());
        let deletion = updates.map(|update| update.partition_deletion).fold(Deletion::LIVE, Deletion::max);
        let ranges = self.ranges();
        let is_point = self.command.is_point();
        if !is_point && !deletion.is_live() && self.counts(deletion.local_deletion_time) {
            self.put(format!("partition deleted at {}", deletion.timestamp));
        }
        if !is_point {
            self.tell_ranges(&ranges, deletion);
        }
        if self.command.wants_static {
            let statics = self.operations().filter_map(|operation| match operation {
                Operation::StaticRow { row } => Some(row),
                _ => None,
            });
            let statics = statics.collect();
            let row = self.row(statics, deletion);
            self.tell_row("static", row, Deletion::LIVE);
        }
        let mut rows: BTreeMap<Vec<u8>, Vec<RowView<'_>>> = BTreeMap::new();
        for operation in self.operations() {
            if let Operation::Row { clustering, row } = operation {
                let mut place = Vec::new();
                comparable::clustering(self.table, clustering.components(), &mut place);
                rows.entry(place).or_default().push(row);
            }
        }
        if is_point {
            let place = self.command.slices[0].start.split_last().map_or(&[][..], |(_, values)| values);
            rows.entry([place, &[comparable_end()]].concat()).or_default();
        }
        for (place, versions) in rows {
            if !self.command.slices.iter().any(|slice| slice.contains(&place)) {
                continue;
            }
            let covering = ranges.iter().filter(|(start, end, _)| start <= &place && &place < end);
            let covering = covering.map(|(.., deletion)| *deletion).fold(deletion, Deletion::max);
            let row = self.row(versions, covering);
            match is_point {
                true => self.tell_point(row, covering),
                false => self.tell_row(&format!("{place:02x?}"), row, covering),
            }
        }
    }

    /// The deleted ranges: from, until, deletion.
    fn ranges(&self) -> Vec<(Vec<u8>, Vec<u8>, Deletion)> {
        let place = |bound: ClusteringBound<'_>, side| {
            let mut out = Vec::new();
            comparable::bound(self.table, bound.prefix.components(), side, &mut out);
            out
        };
        let ranges = self.operations().filter_map(|operation| match operation {
            Operation::RangeDeletion { start, end, deletion } => {
                let from = place(start, if start.inclusive { BoundSide::Before } else { BoundSide::After });
                let until = place(end, if end.inclusive { BoundSide::After } else { BoundSide::Before });
                (from < until).then_some((from, until, deletion))
            }
            _ => None,
        });
        ranges.collect()
    }

    /// The ranges between all bounds, each with its newest deletion; neighbours of the same timestamp are one.
    fn tell_ranges(&mut self, ranges: &[(Vec<u8>, Vec<u8>, Deletion)], partition: Deletion) {
        let mut told: Vec<(Vec<u8>, Vec<u8>, i64)> = Vec::new();
        for slice in self.command.slices.iter() {
            let until = if slice.end.is_empty() { END } else { &slice.end };
            let mut places: BTreeSet<&[u8]> = ranges.iter().flat_map(|(start, end, _)| [&start[..], end]).collect();
            places.retain(|place| **place >= *slice.start && *place < until);
            places.extend([&slice.start[..], until]);
            let places: Vec<_> = places.into_iter().collect();
            for pair in places.windows(2) {
                let covering = ranges.iter().filter(|(start, end, _)| &start[..] <= pair[0] && pair[1] <= &end[..]);
                let newest = covering.map(|(.., deletion)| *deletion).fold(Deletion::LIVE, Deletion::max);
                if newest.is_live() || partition.max(newest) == partition || !self.counts(newest.local_deletion_time) {
                    continue;
                }
                match told.last_mut() {
                    Some((_, end, timestamp)) if end == pair[0] && *timestamp == newest.timestamp => {
                        *end = pair[1].to_vec();
                    }
                    _ => told.push((pair[0].to_vec(), pair[1].to_vec(), newest.timestamp)),
                }
            }
        }
        for (start, end, timestamp) in told {
            self.put(format!("{start:02x?} to {end:02x?} deleted at {timestamp}"));
        }
    }

    /// What is left of the versions of a row.
    fn row(&self, versions: Vec<RowView<'w>>, covering: Deletion) -> Row<'w> {
        let deletion = versions.iter().map(|row| row.deletion()).fold(covering, Deletion::max);
        let strength =
            |liveness: &Liveness| (liveness.timestamp, liveness.expiry.map(|(ttl, end)| (end, Reverse(ttl))));
        let liveness = versions.iter().filter_map(|row| row.liveness()).max_by_key(strength);
        let liveness = liveness.filter(|liveness| !deletion.deletes(liveness.timestamp));
        let mut column_deletions: BTreeMap<ColumnId, Deletion> = BTreeMap::new();
        for cell in versions.iter().flat_map(|row| row.cells()) {
            if let CellContent::ColumnDeletion { local_deletion_time } = cell.content {
                let own = column_deletions.entry(cell.column).or_insert(deletion);
                *own = own.max(Deletion { timestamp: cell.timestamp, local_deletion_time });
            }
        }
        let mut cells: BTreeMap<_, Cell<'w>> = BTreeMap::new();
        for cell in versions.iter().flat_map(|row| row.cells()) {
            let shadow = column_deletions.get(&cell.column).unwrap_or(&deletion);
            if matches!(cell.content, CellContent::ColumnDeletion { .. }) || shadow.deletes(cell.timestamp) {
                continue;
            }
            cells.entry((cell.column, cell.path)).and_modify(|best| *best = reconcile(*best, cell)).or_insert(cell);
        }
        column_deletions.retain(|_, own| *own != deletion);
        Row { deletion, liveness, column_deletions, cells: cells.into_values().collect() }
    }

    fn is_dropped(&self, column: ColumnId, timestamp: i64) -> bool {
        self.table.dropped.iter().any(|dropped| dropped.id == column && timestamp <= dropped.dropped_at)
    }

    fn tell_row(&mut self, name: &str, row: Row<'_>, covering: Deletion) {
        if row.deletion != covering && name != "static" && self.counts(row.deletion.local_deletion_time) {
            self.put(format!("{name} deleted at {}", row.deletion.timestamp));
        }
        self.tell_rest(name, &row, |_| true);
    }

    fn tell_point(&mut self, row: Row<'_>, _: Deletion) {
        let now = self.command.now_in_seconds;
        let is_live = row.liveness.is_some_and(|liveness| liveness.expiry.is_none_or(|(_, end)| now < end));
        let asked = self.command.row_columns.clone().unwrap_or_default();
        let has_all = asked.iter().all(|id| row.cells.iter().any(|cell| cell.column == *id && cell.path.is_none()));
        if !row.deletion.is_live() && self.counts(row.deletion.local_deletion_time) && !(is_live && has_all) {
            self.put(format!("deleted at {}", row.deletion.timestamp));
        }
        self.tell_rest("row", &row, |column| !is_live || asked.contains(&column));
    }

    fn tell_rest(&mut self, name: &str, row: &Row<'_>, is_asked: impl Fn(ColumnId) -> bool) {
        let now = self.command.now_in_seconds;
        match row.liveness {
            Some(Liveness { timestamp, expiry: Some((_, end)) }) if end <= now && self.counts(end) => {
                self.put(format!("{name} expired, {timestamp}"));
            }
            Some(Liveness { expiry: Some((_, end)), .. }) if end <= now => {}
            Some(liveness) => self.put(format!("{name} {liveness:?}")),
            None => {}
        }
        for (column, deletion) in &row.column_deletions {
            let counts = self.counts(deletion.local_deletion_time) && is_asked(*column);
            if counts && !self.is_dropped(*column, deletion.timestamp) {
                self.put(format!("{name} {column:?} deleted at {}", deletion.timestamp));
            }
        }
        for cell in &row.cells {
            if !is_asked(cell.column) || self.is_dropped(cell.column, cell.timestamp) {
                continue;
            }
            let dead_since = match cell.content {
                CellContent::Deleted { local_deletion_time } => Some(local_deletion_time),
                CellContent::Expiring { ttl, local_deletion_time, .. } if local_deletion_time <= now => {
                    Some(local_deletion_time - i64::from(ttl))
                }
                _ => None,
            };
            match dead_since {
                None => self.put(format!("{name} {cell:?}")),
                Some(since) if self.counts(since) => {
                    self.put(format!("{name} {:?} {:?} dead, {}", cell.column, cell.path, cell.timestamp));
                }
                Some(_) => {}
            }
        }
    }
}

/// What is left of a row: its own deletion or what covers it, and what neither deletes.
struct Row<'w> {
    deletion: Deletion,
    liveness: Option<Liveness>,
    column_deletions: BTreeMap<ColumnId, Deletion>,
    cells: Vec<Cell<'w>>,
}

/// The last byte of the place of a row.
fn comparable_end() -> u8 {
    comparable::TERMINATOR
}
