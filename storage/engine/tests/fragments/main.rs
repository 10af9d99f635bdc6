//! Reads that answer with fragments or digests. Shaping the merged fragments of several stores gives the rows that one
//! store with all their writes gives; digests are equal exactly when contents are.
//!
//! The stores are tables of one [`Store`] in the simulator, each with memtables and SSTables of its own.
//!
//! `FRAGMENT_COMMANDS` says how many random commands are tried, `FRAGMENT_SEED` from which seed on.

#[path = "../support/mod.rs"]
mod support;

mod contents;
mod cost;
mod repair;
mod world;

use engine::{Options, Store};
use model::arbitrary::{generator, pick};
use model::digest::{Digest, DigestSink};
use model::fragment_block::{FragmentBlock, FragmentBlockWriter};
use model::query::{EveryRow, LiveRow, Partitions, Position, ReadCommand, ReadEnd, RowSink, SinkState};
use model::row::Cell;
use model::shape::reconcile::ReconcilingRead;
use model::{ColumnId, DecoratedKey, Mutation, Partitioner, RingToken, Table, Token, TokenRange};
use std::sync::Arc;
use support::*;
use world::{World, retargeted};

/// The table with all writes, and the one that gets the same writes in another order and other files.
const WHOLE: u8 = 1;
const REORDERED: u8 = 2;
/// The first of the tables among which the writes are split.
const FIRST_PART: u8 = 3;
const PARTS_MAX: u64 = 5;
/// Commands that are tried in one world.
const COMMANDS_PER_WORLD: u64 = 120;
/// No row of a random table is larger.
const ROW_BYTES_MAX: usize = 1 << 16;
/// Rounds after which a reconciling read counts as stuck.
const ROUNDS_MAX: usize = 2000;

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A sink that keeps its rows as text.
#[derive(Default)]
struct Told {
    rows: Vec<String>,
    keys: Vec<DecoratedKey>,
    last: Option<Position>,
    /// Rows with this many cells are rejected.
    refused: Option<usize>,
    /// At this many rows it is full.
    full_at: usize,
    /// The columns that a read of named rows must give, if it is one.
    columns: Option<Arc<[ColumnId]>>,
}

impl RowSink for Told {
    fn row(&mut self, row: &LiveRow<'_>) -> SinkState {
        if self.refused == Some(row.cells.len()) {
            return SinkState::Rejected;
        }
        let is_asked = |cell: &&Cell<'_>| self.columns.as_ref().is_none_or(|columns| columns.contains(&cell.column));
        let cells: Vec<Cell<'_>> = row.cells.iter().filter(is_asked).copied().collect();
        self.rows.push(format!("{:?}", LiveRow { cells: &cells, ..*row }));
        let key = DecoratedKey::new(Partitioner::Murmur3, row.key);
        self.keys.push(key.clone());
        self.last = Some(Position { key, comparable: (!row.static_only).then(|| row.comparable.into()) });
        if self.rows.len() == self.full_at { SinkState::Full } else { SinkState::Open }
    }
}

/// A store and the tables in it.
struct Stores {
    store: Store,
    world: World,
    tables: Vec<Arc<Table>>,
}

impl Stores {
    fn table(&self, number: u8) -> &Table {
        &self.tables[usize::from(number - 1)]
    }

    fn parts(&self) -> std::ops::RangeInclusive<u8> {
        FIRST_PART..=self.tables.len() as u8
    }

    async fn apply(&self, mutation: &Mutation, number: u8) {
        self.store.apply(retargeted(mutation, self.table(number).id), false).await.expect("apply");
    }

    async fn read(&self, number: u8, command: &ReadCommand, told: &mut Told, at_once: bool) -> ReadEnd {
        let command = ReadCommand { table: self.table(number).id, ..command.clone() };
        match self.store.read_now(&command, told).filter(|_| at_once) {
            Some(end) => end.expect("read"),
            None => {
                let columns = told.columns.take();
                *told = Told { full_at: told.full_at, refused: told.refused, columns, ..Told::default() };
                self.store.read(&command, told).await.expect("read")
            }
        }
    }

    /// The fragments of a table.
    async fn block(&self, number: u8, command: &ReadCommand, bytes_max: usize, at_once: bool) -> FragmentBlock {
        let command = ReadCommand { table: self.table(number).id, ..command.clone() };
        let mut writer = FragmentBlockWriter::new(Partitioner::Murmur3, bytes_max);
        let now = match at_once {
            true => self.store.read_fragments_now(&command, &mut EveryRow, &mut writer),
            false => None,
        };
        let end = match now {
            Some(end) => end,
            None => self.store.read_fragments(&command, &mut EveryRow, &mut writer).await,
        };
        let block = writer.finish(&end.expect("read"));
        assert!(block.bytes().len() < bytes_max.saturating_add(ROW_BYTES_MAX), "{} bytes", block.bytes().len());
        FragmentBlock::decode(Partitioner::Murmur3, block.into_bytes(), command.reversed).expect("a well-formed block")
    }

    /// The rows that the fragments of all parts give.
    async fn reconciled(&self, command: &ReadCommand, told: &mut Told, below: &mut impl FnMut(u64) -> u64) -> ReadEnd {
        let mut read = ReconcilingRead::new(command.clone());
        for _ in 0..ROUNDS_MAX {
            let mut blocks = Vec::new();
            for part in self.parts() {
                let bytes_max = if below(2) == 0 { 1 + below(600) as usize } else { usize::MAX };
                blocks.push(self.block(part, read.command(), bytes_max, below(2) == 0).await);
            }
            if let Some(end) = read.take(&self.world.table, &blocks, told) {
                return end;
            }
        }
        panic!("a reconciling read does not end: {command:?}");
    }

    /// The digest of a read, with the rows that it gives.
    async fn digest(&self, number: u8, command: &ReadCommand, told: &mut Told, at_once: bool) -> (Digest, ReadEnd) {
        let command = ReadCommand { table: self.table(number).id, ..command.clone() };
        let mut digest = DigestSink::new(&self.world.table, &command);
        let now = match at_once {
            true => self.store.read_fragments_now(&command, told, &mut digest),
            false => None,
        };
        let end = match now {
            Some(end) => end,
            None => self.store.read_fragments(&command, told, &mut digest).await,
        };
        (digest.finish(), end.expect("read"))
    }
}

/// A store with a world and `parts` parts.
async fn stores(world: World, parts: u64, below: &mut impl FnMut(u64) -> u64) -> Stores {
    let tables: Vec<_> = (1..FIRST_PART + parts as u8).map(|number| world.table_of(number)).collect();
    let cache_bytes_max = 1 << (10 + 2 * below(7));
    let store = start(Options { cache_bytes_max, ..options(1, GROUP) }, &tables).await;
    Stores { store, world, tables }
}

/// Limits of a command as a client sets them.
fn limit(command: &mut ReadCommand, below: &mut impl FnMut(u64) -> u64) {
    if below(3) == 0 {
        command.per_partition_max = 1 + below(3);
    }
    if below(2) == 0 {
        command.rows_max = 1 + below(6);
    }
}

/// Where the next page of a read goes on; `None` at its end.
fn next_page(command: &ReadCommand, told: &Told, end: ReadEnd) -> Option<ReadCommand> {
    let (position, partition_rows) = match end {
        ReadEnd::Exhausted => return None,
        ReadEnd::Paused(resume) => (resume.position, resume.partition_rows),
        ReadEnd::Stopped => {
            let last = told.last.clone().expect("a row was given");
            let before = match &command.resume {
                Some(resume) if resume.key == last.key => command.resume_partition_rows,
                _ => 0,
            };
            let rows = told.keys.iter().filter(|key| **key == last.key).count() as u64;
            (last, before + rows)
        }
    };
    Some(ReadCommand { resume: Some(position), resume_partition_rows: partition_rows, ..command.clone() })
}

/// Compares a page of the whole table with the reconciled parts, and gives the next page.
async fn compare_page(
    stores: &Stores,
    command: &ReadCommand,
    below: &mut impl FnMut(u64) -> u64,
) -> Option<ReadCommand> {
    let refused = (below(5) == 0 && command.row_columns.is_none()).then(|| below(4) as usize);
    let full_at = if below(4) == 0 { 1 + below(5) as usize } else { 0 };
    let told = || Told { refused, full_at, columns: command.row_columns.clone(), ..Told::default() };
    let (mut expected, mut found) = (told(), told());
    let expected_end = stores.read(WHOLE, command, &mut expected, below(2) == 0).await;
    let end = stores.reconciled(command, &mut found, below).await;
    let mut again = told();
    let (_, again_end) = stores.digest(REORDERED, command, &mut again, below(2) == 0).await;
    let [mut expected_rows, mut found, mut again] = [&expected, &found, &again].map(|told| told.rows.clone());
    if command.visits_max == u64::MAX {
        assert_eq!((&end, &again_end), (&expected_end, &expected_end), "{command:?}");
    } else {
        // How much work a read is depends on what is stored, and with it where the read pauses.
        let len = expected_rows.len().min(found.len()).min(again.len());
        let _ = [&mut expected_rows, &mut found, &mut again].map(|rows| rows.truncate(len));
    }
    assert_eq!(found, expected_rows, "{command:?}");
    assert_eq!(again, expected_rows, "{command:?}");
    next_page(command, &expected, expected_end)
}

/// Compares the digests of two tables with the same contents, and of the same content read in other ways.
async fn compare_digests(stores: &Stores, command: &ReadCommand, below: &mut impl FnMut(u64) -> u64) {
    let digest = async |number, command: &ReadCommand, at_once| {
        stores.digest(number, command, &mut Told::default(), at_once).await.0
    };
    let expected = digest(WHOLE, command, below(2) == 0).await;
    assert_eq!(digest(REORDERED, command, below(2) == 0).await, expected, "{command:?}");
    if command.rows_max != u64::MAX || command.per_partition_max != u64::MAX || command.resume.is_some() {
        return;
    }
    let reversed = ReadCommand { reversed: !command.reversed, ..command.clone() };
    assert_eq!(digest(REORDERED, &reversed, false).await, expected, "{command:?}");
    if command.partitions == Partitions::Range(TokenRange::FULL) {
        // Two cores have a part of the ring each.
        let middle = Token(below(u64::MAX) as i64);
        let halves = [(Token::MIN, middle), (middle, Token::MIN)];
        let mut sum = Digest::default();
        for (after, until) in halves {
            let partitions =
                Partitions::Range(TokenRange::between(RingToken::Murmur3(after.0), RingToken::Murmur3(until.0)));
            sum = sum + digest(WHOLE, &ReadCommand { partitions, ..command.clone() }, false).await;
        }
        assert_eq!(sum, expected, "{command:?}");
    }
}

/// Tries commands in a world. Returns how many.
async fn try_world(world: World, below: &mut impl FnMut(u64) -> u64) -> u64 {
    let parts = 1 + below(PARTS_MAX);
    let stores = stores(world, parts, below).await;
    let mut commands = 0;
    let mut delayed: Vec<Mutation> = Vec::new();
    while commands < COMMANDS_PER_WORLD {
        for _ in 0..1 + below(8) {
            let mutation = stores.world.write(below);
            stores.apply(&mutation, WHOLE).await;
            let certain = FIRST_PART + below(parts) as u8;
            for part in stores.parts() {
                if part == certain || below(4) == 0 {
                    stores.apply(&mutation, part).await;
                }
            }
            delayed.push(mutation);
        }
        while !delayed.is_empty() {
            let mutation = delayed.swap_remove(below(delayed.len() as u64) as usize);
            stores.apply(&mutation, REORDERED).await;
        }
        for table in &stores.tables {
            if below(8) == 0 {
                stores.store.flush(table.id).await.expect("flush");
            }
        }
        for _ in 0..8 {
            let mut command = Some(stores.world.command(below));
            limit(command.as_mut().expect("a command"), below);
            compare_digests(&stores, command.as_ref().expect("a command"), below).await;
            while let Some(mut page) = command {
                page.visits_max = if below(6) == 0 { 1 + below(9) } else { u64::MAX };
                command = compare_page(&stores, &page, below).await;
                commands += 1;
            }
        }
    }
    stores.store.close().await.expect("close");
    commands
}

#[test]
fn shaped_fragments_of_parts_are_the_rows_of_the_whole() {
    let (wanted, mut seed) = (variable("FRAGMENT_COMMANDS", 2400), variable("FRAGMENT_SEED", 1));
    let mut commands = 0;
    while commands < wanted {
        let done = run(&mut calm(seed), move || async move {
            let below = &mut generator(seed);
            try_world(World::new(below), below).await
        });
        commands += done;
        seed += 1;
    }
}

#[test]
fn long_partitions_are_read_in_stretches_and_blocks() {
    for seed in 0..3 {
        run(&mut calm(seed), move || async move {
            let below = &mut generator(seed);
            try_world(World::of_long_partitions(below), below).await
        });
    }
}

/// The current second of the simulated clock.
fn now_in_seconds() -> i64 {
    runtime::wall_micros() / 1_000_000
}

/// Compares the digests of two tables with the same writes, one of which was compacted.
async fn try_purge(seed: u64) {
    let below = &mut generator(seed);
    let mut world = World::new(below);
    world.orderly = true;
    // A compaction purges what was deleted in one of the first seconds.
    world.table.options.gc_grace_seconds = i32::try_from(now_in_seconds()).expect("a second") - below(10) as i32;
    let stores = stores(world, 1, below).await;
    for _ in 0..1 + below(40) {
        let mutation = stores.world.write(below);
        for number in [WHOLE, REORDERED] {
            stores.apply(&mutation, number).await;
            if below(10) == 0 {
                stores.store.flush(stores.table(number).id).await.expect("flush");
            }
        }
    }
    stores.store.compact(stores.table(REORDERED).id, EVERYTHING).await.expect("compact");
    let now = now_in_seconds();
    for _ in 0..30 {
        let command = ReadCommand { now_in_seconds: now + below(3) as i64, ..stores.world.command(below) };
        let (one, _) = stores.digest(WHOLE, &command, &mut Told::default(), below(2) == 0).await;
        let (other, _) = stores.digest(REORDERED, &command, &mut Told::default(), below(2) == 0).await;
        assert_eq!(one, other, "{command:?}");
    }
    stores.store.close().await.expect("close");
}

#[test]
fn purged_tombstones_make_no_difference_to_digests() {
    for seed in 0..60 {
        run(&mut calm(seed), move || try_purge(seed));
    }
}

/// Tries commands on two tables whose writes differ in one, in a world of this seed.
async fn try_difference(seed: u64) {
    let below = &mut generator(seed);
    let stores = stores(World::new(below), 1, below).await;
    if stores.world.has_equal_keys() {
        return stores.store.close().await.expect("close");
    }
    let mut writes: Vec<Mutation> = (0..1 + below(30)).map(|_| stores.world.write(below)).collect();
    for mutation in &writes {
        stores.apply(mutation, WHOLE).await;
        if below(10) == 0 {
            stores.store.flush(stores.table(WHOLE).id).await.expect("flush");
        }
    }
    let mut others = writes.clone();
    if below(2) == 0 {
        others.swap_remove(below(others.len() as u64) as usize);
    }
    let more = stores.world.write(below);
    others.push(more);
    while !writes.is_empty() && below(3) == 0 {
        others.push(pick(&writes, below).clone());
    }
    for mutation in &others {
        stores.apply(mutation, REORDERED).await;
    }
    writes.sort_by_key(|mutation| mutation.bytes().len());
    for _ in 0..30 {
        let command = stores.world.command(below);
        let [one, other] = [&writes, &others].map(|writes| contents::of(&stores.world.table, writes, &command));
        let (first, _) = stores.digest(WHOLE, &command, &mut Told::default(), below(2) == 0).await;
        let (second, _) = stores.digest(REORDERED, &command, &mut Told::default(), below(2) == 0).await;
        assert_eq!(first == second, one == other, "{command:?}\n{one:#?}\n{other:#?}");
    }
    stores.store.close().await.expect("close");
}

#[test]
fn digests_are_equal_exactly_when_contents_are() {
    let first = variable("FRAGMENT_SEED", 1);
    for seed in first..first + variable("FRAGMENT_COMMANDS", 2400) / 40 {
        run(&mut calm(seed), move || try_difference(seed));
    }
}
