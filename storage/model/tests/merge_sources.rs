//! Merging many sources gives what a single source with all the data would give, however the data is spread.

use model::arbitrary::{self, generator};
use model::comparable::{self, BoundSide};
use model::fragment::{BlockRef, Cursor, Fragment, FragmentStep};
use model::merge::{Merge, Purge, filter_row, merge_rows};
use model::mutation::Clustering;
use model::row::{Cell, CellContent, Deletion, RowBuilder, RowView};
use model::schema::DroppedColumn;
use model::tombstone_gc::GcBefore;
use model::{ColumnKind, CqlType, Partitioner, Table, Token};
use std::collections::BTreeMap;

/// A fragment that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Owned {
    Start(Token, Vec<u8>, Deletion),
    Static(Vec<u8>),
    Row(Vec<u8>, Vec<u8>, Vec<u8>),
    Marker(Vec<u8>, Vec<u8>, Deletion),
    End,
}

impl Owned {
    fn of(fragment: Fragment<'_>) -> Owned {
        match fragment {
            Fragment::PartitionStart { token, key, deletion } => Owned::Start(token, key.to_vec(), deletion),
            Fragment::StaticRow { row } => Owned::Static(row.blob().to_vec()),
            Fragment::Row { clustering, comparable, row } => {
                Owned::Row(clustering.0.to_vec(), comparable.to_vec(), row.blob().to_vec())
            }
            Fragment::RangeMarker { clustering, comparable, deletion } => {
                Owned::Marker(clustering.0.to_vec(), comparable.to_vec(), deletion)
            }
            Fragment::PartitionEnd => Owned::End,
        }
    }

    fn borrow(&self) -> Fragment<'_> {
        match self {
            Owned::Start(token, key, deletion) => Fragment::PartitionStart { token: *token, key, deletion: *deletion },
            Owned::Static(row) => Fragment::StaticRow { row: RowView::trusted(row) },
            Owned::Row(clustering, comparable, row) => {
                Fragment::Row { clustering: Clustering(clustering), comparable, row: RowView::trusted(row) }
            }
            Owned::Marker(clustering, comparable, deletion) => {
                Fragment::RangeMarker { clustering: Clustering(clustering), comparable, deletion: *deletion }
            }
            Owned::End => Fragment::PartitionEnd,
        }
    }
}

/// A cursor over a list of fragments that asks for a block before some of them.
struct Listed {
    fragments: Vec<Owned>,
    next: usize,
    missing: bool,
    asks: u64,
}

impl Listed {
    fn new(fragments: Vec<Owned>, asks: u64) -> Listed {
        Listed { fragments, next: 0, missing: asks & 1 == 1, asks }
    }
}

impl Cursor for Listed {
    type Error = ();

    fn advance(&mut self) -> Result<FragmentStep, ()> {
        if self.missing {
            return Ok(FragmentStep::Need(BlockRef { source: 0, file: 3, offset: self.next as u64 }));
        }
        self.next += 1;
        self.asks = self.asks.rotate_right(1);
        self.missing = self.asks & 1 == 1;
        Ok(if self.next > self.fragments.len() { FragmentStep::End } else { FragmentStep::Fragment })
    }

    fn fragment(&self) -> Option<Fragment<'_>> {
        Some(self.fragments.get(self.next.checked_sub(1)?)?.borrow())
    }

    fn skip_partition(&mut self) {
        let rest = self.fragments[self.next..].iter();
        self.next += 1 + rest.take_while(|fragment| **fragment != Owned::End).count();
    }
}

/// Something written to a partition.
#[derive(Clone, Debug)]
enum Write {
    Partition(Deletion),
    Static(Vec<u8>),
    Row(Vec<u8>, Vec<u8>),
    /// From one bound to another: comparable form and clustering values of each.
    Range([(Vec<u8>, Vec<u8>); 2], Deletion),
}

/// Clustering values, and the versions of the row if there is one.
type Versions<'a> = (Vec<u8>, Vec<&'a Vec<u8>>);

type Writes = BTreeMap<(Token, Vec<u8>), Vec<Write>>;

fn table() -> Table {
    let mut below = generator(11);
    let mut table = arbitrary::table("k", "t", &mut below);
    while table.clustering_len != 2 || table.columns.len() < table.primary_key_len() + 3 {
        table = arbitrary::table("k", "t", &mut below);
    }
    for column in table.columns.iter_mut().filter(|column| column.kind == ColumnKind::Clustering) {
        column.cql_type = CqlType::Tinyint;
    }
    table
}

fn values(len: u64, below: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    (0..len).for_each(|_| model::mutation::push_clustering(&mut out, &[below(3) as u8]));
    out
}

fn writes(table: &Table, below: &mut impl FnMut(u64) -> u64) -> Writes {
    let mut writes = Writes::new();
    for _ in 0..below(30) {
        let key = vec![below(3) as u8];
        // Several keys share a token.
        let token = Token(i64::from(key[0] / 2));
        let blob = |below: &mut _| {
            let mut out = Vec::new();
            arbitrary::row(table, below, &mut out);
            out
        };
        let write = match below(12) {
            0 => Write::Partition(arbitrary::deletion(below)),
            1 => Write::Static(blob(below)),
            2..=5 => {
                let mut bound = || {
                    let len = below(3);
                    let values = values(len, below);
                    let side = if below(2) == 0 { BoundSide::Before } else { BoundSide::After };
                    let mut form = Vec::new();
                    comparable::bound(table, Clustering(&values).components(), side, &mut form);
                    (form, values)
                };
                let mut range = [bound(), bound()];
                range.sort();
                Write::Range(range, arbitrary::deletion(below))
            }
            _ => Write::Row(values(2, below), blob(below)),
        };
        writes.entry((token, key)).or_default().push(write);
    }
    writes
}

/// The fragments of a partition without [`Merge`]: all versions of a row are merged, then filtered.
fn partition(table: &Table, token: Token, key: &[u8], writes: &[Write], reversed: bool) -> Vec<Owned> {
    let deletions = writes.iter().map(|write| match write {
        Write::Partition(deletion) => *deletion,
        _ => Deletion::LIVE,
    });
    let whole = deletions.fold(Deletion::LIVE, Deletion::max);
    let in_force = |at: &dyn Fn(&[u8], &[u8]) -> bool| {
        let covering = writes.iter().filter_map(|write| match write {
            Write::Range([start, end], deletion) if at(&start.0, &end.0) => Some(*deletion),
            _ => None,
        });
        covering.fold(Deletion::LIVE, Deletion::max)
    };
    let fold = |rows: &mut dyn Iterator<Item = &Vec<u8>>, deletion: Deletion| {
        let all = rows.fold(vec![0], |all: Vec<u8>, row| {
            let mut out = Vec::new();
            merge_rows(RowView::trusted(&all), RowView::trusted(row), Deletion::LIVE, &mut out);
            out
        });
        let mut out = Vec::new();
        filter_row(RowView::trusted(&all), deletion, &mut out).then_some(out)
    };
    let mut statics = writes.iter().filter_map(|write| match write {
        Write::Static(row) => Some(row),
        _ => None,
    });
    let mut places: BTreeMap<Vec<u8>, Versions<'_>> = BTreeMap::new();
    for write in writes {
        match write {
            Write::Row(values, row) => {
                let mut form = Vec::new();
                comparable::clustering(table, Clustering(values).components(), &mut form);
                places.entry(form).or_insert((values.clone(), Vec::new())).1.push(row);
            }
            Write::Range(range, _) => range.iter().for_each(|(form, values)| {
                places.entry(form.clone()).or_insert((values.clone(), Vec::new()));
            }),
            _ => {}
        }
    }
    let mut found = vec![Owned::Start(token, key.to_vec(), whole)];
    found.extend(fold(&mut statics, whole).map(Owned::Static));
    let mut told = Deletion::LIVE;
    let ordered: Vec<_> = if reversed { places.into_iter().rev().collect() } else { places.into_iter().collect() };
    for (form, (values, rows)) in ordered {
        if comparable::side(&form).is_none() {
            let deletion = whole.max(in_force(&|start, end| start < &form[..] && &form[..] < end));
            let row = fold(&mut rows.into_iter(), deletion);
            found.extend(row.map(|row| Owned::Row(values, form, row)));
            continue;
        }
        let newest = match reversed {
            false => in_force(&|start, end| start <= &form[..] && &form[..] < end),
            true => in_force(&|start, end| start < &form[..] && &form[..] <= end),
        };
        let newest = if whole.max(newest) == newest { newest } else { Deletion::LIVE };
        if newest != told {
            told = newest;
            found.push(Owned::Marker(values, form, newest));
        }
    }
    found.push(Owned::End);
    found
}

fn fragments(table: &Table, writes: &Writes, reversed: bool) -> Vec<Owned> {
    let all = writes.iter().map(|((token, key), writes)| partition(table, *token, key, writes, reversed));
    all.flatten().collect()
}

fn drain(mut merge: Merge<Listed>) -> Vec<Owned> {
    let mut found = Vec::new();
    loop {
        match merge.advance().expect("no source fails") {
            FragmentStep::Fragment => {
                let fragment = Owned::of(merge.fragment().expect("a fragment"));
                let (token, key) = merge.key();
                if let Owned::Start(its_token, its_key, _) = &fragment {
                    assert_eq!((token, key), (*its_token, &its_key[..]));
                }
                found.push(fragment);
            }
            FragmentStep::Need(need) => {
                assert_eq!(merge.needs()[0], need);
                for need in merge.needs().to_vec() {
                    assert_eq!(need.file, 3);
                    let source = merge.source_mut(need.source).expect("a source");
                    assert_eq!(source.next as u64, need.offset);
                    source.missing = false;
                }
            }
            FragmentStep::End => return found,
        }
    }
}

/// Spreads writes over up to four sources.
fn split(writes: &Writes, below: &mut impl FnMut(u64) -> u64) -> Vec<Writes> {
    let mut parts = vec![Writes::new(); 1 + below(4) as usize];
    for (key, writes) in writes {
        for write in writes {
            // Some writes are in several sources.
            for _ in 0..1 + below(5) / 4 {
                let part = below(parts.len() as u64) as usize;
                parts[part].entry(key.clone()).or_default().push(write.clone());
            }
        }
    }
    parts
}

fn sources(table: &Table, parts: &[Writes], reversed: bool, below: &mut impl FnMut(u64) -> u64) -> Vec<Listed> {
    parts.iter().map(|part| Listed::new(fragments(table, part, reversed), below(u64::MAX) & below(u64::MAX))).collect()
}

#[test]
fn sources_merge_as_if_they_were_one() {
    let table = table();
    let mut below = generator(5);
    for round in 0..3000 {
        let writes = writes(&table, &mut below);
        let parts = split(&writes, &mut below);
        for reversed in [false, true] {
            let expected = fragments(&table, &writes, reversed);
            let found =
                drain(Merge::new(Partitioner::Murmur3, sources(&table, &parts, reversed, &mut below), reversed));
            assert_eq!(found, expected, "round {round} {parts:?}");
        }
    }
}

/// A straightforward [`Purge`] that works on merged fragments one by one.
struct NaivePurge<'a> {
    now: i64,
    gc_before: i64,
    dropped: &'a [DroppedColumn],
    limits: [i64; 3],
}

impl NaivePurge<'_> {
    fn goes(&self, key: &[u8], timestamp: i64, seconds: i64) -> bool {
        seconds < self.gc_before && timestamp < self.limits[usize::from(key[0])]
    }

    fn deletion(&self, key: &[u8], deletion: Deletion) -> Deletion {
        if self.goes(key, deletion.timestamp, deletion.local_deletion_time) { Deletion::LIVE } else { deletion }
    }

    fn row(&self, key: &[u8], blob: &[u8]) -> Option<Vec<u8>> {
        let row = RowView::trusted(blob);
        let liveness = row.liveness().filter(|liveness| {
            liveness.expiry.is_none_or(|(_, end)| self.now < end || !self.goes(key, liveness.timestamp, end))
        });
        let mut out = Vec::new();
        let mut builder = RowBuilder::new(&mut out, liveness, self.deletion(key, row.deletion()));
        for cell in row.cells() {
            let dropped = self.dropped.iter().any(|d| d.id == cell.column && cell.timestamp <= d.dropped_at);
            let content = match cell.content {
                _ if dropped => None,
                CellContent::Expiring { ttl, local_deletion_time, .. } if local_deletion_time <= self.now => {
                    let written = local_deletion_time - i64::from(ttl);
                    let goes =
                        self.goes(key, cell.timestamp, local_deletion_time) || self.goes(key, cell.timestamp, written);
                    (!goes).then_some(CellContent::Deleted { local_deletion_time: written })
                }
                CellContent::Deleted { local_deletion_time } | CellContent::ColumnDeletion { local_deletion_time } => {
                    (!self.goes(key, cell.timestamp, local_deletion_time)).then_some(cell.content)
                }
                content => Some(content),
            };
            if let Some(content) = content {
                builder.cell(&Cell { content, ..cell });
            }
        }
        (!RowView::trusted(&out).is_empty()).then_some(out)
    }

    fn all(&self, fragments: Vec<Owned>) -> Vec<Owned> {
        let mut found: Vec<Owned> = Vec::new();
        let (mut key, mut told) = (Vec::new(), Deletion::LIVE);
        for fragment in fragments {
            match fragment {
                Owned::Start(token, its_key, deletion) => {
                    found.push(Owned::Start(token, its_key.clone(), self.deletion(&its_key, deletion)));
                    (key, told) = (its_key, Deletion::LIVE);
                }
                Owned::Static(row) => found.extend(self.row(&key, &row).map(Owned::Static)),
                Owned::Row(values, form, row) => {
                    found.extend(self.row(&key, &row).map(|row| Owned::Row(values, form, row)))
                }
                Owned::Marker(values, form, deletion) => {
                    let left = self.deletion(&key, deletion);
                    if left != told {
                        told = left;
                        found.push(Owned::Marker(values, form, left));
                    }
                }
                Owned::End => match found.last() {
                    Some(Owned::Start(_, _, Deletion::LIVE)) => drop(found.pop()),
                    _ => found.push(Owned::End),
                },
            }
        }
        found
    }
}

#[test]
fn purging_keeps_what_readers_need() {
    let table = table();
    let mut below = generator(6);
    let (mut asked, mut purged) = (0, 0);
    for round in 0..3000 {
        let writes = writes(&table, &mut below);
        let parts = split(&writes, &mut below);
        let column = table.regular()[0].clone();
        let dropped = DroppedColumn {
            id: column.id,
            name: column.name,
            kind: column.kind,
            cql_type: column.cql_type,
            dropped_at: below(9) as i64,
        };
        let naive = NaivePurge {
            now: below(10) as i64,
            gc_before: below(10) as i64,
            dropped: if below(3) == 0 { &[dropped] } else { &[] },
            limits: [(); 3].map(|()| below(10) as i64),
        };
        let limits = naive.limits;
        let purge = Purge::new(naive.now, GcBefore::At(naive.gc_before), naive.dropped, move |token, key| {
            assert_eq!(token, Token(i64::from(key[0] / 2)));
            limits[usize::from(key[0])]
        });
        let merged = fragments(&table, &writes, false);
        let expected = naive.all(merged.clone());
        let merge =
            Merge::new(Partitioner::Murmur3, sources(&table, &parts, false, &mut below), false).with_purge(purge);
        assert_eq!(drain(merge), expected, "round {round} {parts:?}");
        asked += merged.len();
        purged += expected.len();
    }
    assert!(purged > asked / 4 && purged < asked * 19 / 20, "{purged} of {asked}");
}

#[test]
fn a_flush_keeps_tombstones_and_expired_cells() {
    let table = table();
    let mut below = generator(7);
    for _ in 0..500 {
        let writes = writes(&table, &mut below);
        let parts = split(&writes, &mut below);
        let merge = Merge::new(Partitioner::Murmur3, sources(&table, &parts, false, &mut below), false);
        let found = drain(merge.with_purge(Purge::dropped_columns(&[])));
        let keep = NaivePurge { now: i64::MIN, gc_before: i64::MIN, dropped: &[], limits: [0; 3] };
        assert_eq!(found, keep.all(fragments(&table, &writes, false)));
    }
}

#[test]
fn the_rest_of_a_partition_can_be_skipped() {
    let table = table();
    let mut below = generator(8);
    for round in 0..2000 {
        let writes = writes(&table, &mut below);
        let parts = split(&writes, &mut below);
        let reversed = below(2) == 1;
        let all = fragments(&table, &writes, reversed);
        let mut merge = Merge::new(Partitioner::Murmur3, sources(&table, &parts, reversed, &mut below), reversed);
        let (mut at, mut skips) = (0, 0);
        loop {
            match merge.advance().expect("no source fails") {
                FragmentStep::Fragment => {
                    assert_eq!(merge.fragment().map(Owned::of).as_ref(), all.get(at), "round {round} {parts:?}");
                    at += 1;
                    if below(4) == 0 && all[at - 1] != Owned::End {
                        merge.skip_partition();
                        assert!(merge.fragment().is_none());
                        at += 1 + all[at..].iter().take_while(|fragment| **fragment != Owned::End).count();
                        skips += 1;
                    }
                }
                FragmentStep::Need(_) => {
                    for need in merge.needs().to_vec() {
                        merge.source_mut(need.source).expect("a source").missing = false;
                    }
                }
                FragmentStep::End => break,
            }
        }
        assert_eq!(at, all.len(), "round {round}");
        assert!(skips > 0 || all.len() < 40);
    }
}

#[test]
fn the_source_that_fails_is_named() {
    struct Fails(bool);
    impl Cursor for Fails {
        type Error = &'static str;
        fn advance(&mut self) -> Result<FragmentStep, &'static str> {
            if self.0 { Err("bad") } else { Ok(FragmentStep::End) }
        }
        fn fragment(&self) -> Option<Fragment<'_>> {
            None
        }
        fn skip_partition(&mut self) {}
    }
    let mut merge = Merge::new(Partitioner::Murmur3, vec![Fails(false), Fails(true), Fails(false)], false);
    for _ in 0..2 {
        assert_eq!(merge.advance(), Err("bad"));
        assert_eq!(merge.failed(), Some(1));
        assert!(merge.fragment().is_none());
    }
}
