//! Properties of all pickers, on tables whose SSTables are sets of keys.

use super::*;
use model::compaction::{CommonOptions, SizeTieredOptions};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn sstable(id: u64, bytes: u64, first: i64, last: i64) -> Candidate {
    Candidate {
        id,
        bytes,
        level: 0,
        min_timestamp: 0,
        max_timestamp: id as i64,
        first: Token(first),
        last: Token(last),
        droppable_ratio: 0.0,
        max_local_deletion_time: i64::MAX,
        created_at: 0,
        hotness: 0.0,
        repaired: false,
        busy: false,
        suspect: false,
    }
}

pub(super) fn moment(now: i64) -> Moment {
    Moment { now, gc_before: now, memtable_min_timestamp: None, flush_bytes: 1 << 20 }
}

pub(super) fn common() -> CommonOptions {
    CompactionOptions::of(&BTreeMap::new()).common
}

pub(super) fn tiered() -> SizeTieredOptions {
    match CompactionOptions::of(&BTreeMap::new()).strategy {
        Strategy::SizeTiered(options) => options,
        other => panic!("{other:?}"),
    }
}

/// Bytes of a key's data.
const KEY_BYTES: u64 = 64 << 10;
/// Number of keys of a table.
const KEYS: u64 = 4000;
/// Number of keys that a flush writes.
const FLUSHED: usize = 64;

/// A table: SSTables and their keys.
struct Model {
    picker: Picker,
    sstables: Vec<(Candidate, BTreeSet<u64>)>,
    next_id: u64,
    now: i64,
    random: u64,
    flushed: u64,
    written: u64,
}

fn token(key: u64) -> Token {
    Token(i64::MIN.wrapping_add((key * (u64::MAX / KEYS)) as i64))
}

impl Model {
    fn new(options: &[(&str, &str)], seed: u64) -> Model {
        let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let picker = Picker::new(CompactionOptions::of(&options), 0);
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Model { picker, sstables: Vec::new(), next_id: 1, now: 0, random, flushed: 0, written: 0 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn add(&mut self, keys: BTreeSet<u64>, level: u32, max_timestamp: i64) -> Candidate {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { panic!("an SSTable of nothing") };
        let bytes = keys.len() as u64 * KEY_BYTES;
        let made = sstable(self.next_id, bytes, token(*first).0, token(*last).0);
        let made = Candidate { level, max_timestamp, created_at: self.now, ..made };
        self.next_id += 1;
        self.sstables.push((made.clone(), keys));
        made
    }

    fn flush(&mut self) {
        self.now += 60;
        let keys: BTreeSet<u64> = (0..FLUSHED).map(|_| self.random(KEYS)).collect();
        self.flushed += keys.len() as u64 * KEY_BYTES;
        self.add(keys, 0, self.now * 1_000_000);
    }

    fn candidates(&self) -> Vec<Candidate> {
        self.sstables.iter().map(|(candidate, _)| candidate.clone()).collect()
    }

    /// Runs one task.
    fn run(&mut self, task: &Task) {
        let (inputs, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sstables).into_iter().partition(|(one, _)| task.inputs.contains(&one.id));
        self.sstables = rest;
        let candidates: Vec<Candidate> = inputs.iter().map(|(one, _)| one.clone()).collect();
        assert_eq!(candidates.len(), task.inputs.len());
        let newest = candidates.iter().map(|one| one.max_timestamp).max().unwrap_or(0);
        let keys: BTreeSet<u64> = inputs.into_iter().flat_map(|(_, keys)| keys).collect();
        let per_output = task.output_bytes_max.map_or(usize::MAX, |bytes| (bytes / KEY_BYTES).max(1) as usize);
        let mut outputs = Vec::new();
        let mut open: BTreeSet<u64> = BTreeSet::new();
        for key in keys {
            let place = |key: u64| task.output_boundaries.partition_point(|boundary| *boundary < token(key));
            if open.len() >= per_output || open.last().is_some_and(|last| place(*last) != place(key)) {
                let full = std::mem::take(&mut open);
                outputs.push(self.add(full, task.output_level, newest));
            }
            open.insert(key);
        }
        outputs.push(self.add(open, task.output_level, newest));
        if task.kind != TaskKind::Uplevel {
            self.written += outputs.iter().map(|one| one.bytes).sum::<u64>();
        }
        self.picker.done(task, &candidates, &outputs);
    }

    fn check(&self) {
        let leveled = matches!(self.picker.options().strategy, Strategy::Leveled(_));
        for (i, (one, _)) in self.sstables.iter().enumerate().filter(|_| leveled) {
            for (other, _) in &self.sstables[..i] {
                assert!(one.level == 0 || one.level != other.level || !one.overlaps(other), "{one:?} {other:?}");
            }
        }
    }

    /// Compacts until nothing is left to do.
    fn settle(&mut self) -> usize {
        let mut steps = 0;
        loop {
            let most = 1 + self.random(4) as usize;
            let tasks = self.picker.pick(&self.candidates(), &moment(self.now), most);
            let mut seen = BTreeSet::new();
            assert!(tasks.iter().flat_map(|task| &task.inputs).all(|id| seen.insert(*id)), "an SSTable in two tasks");
            if tasks.is_empty() {
                return steps;
            }
            for task in tasks {
                self.run(&task);
                self.check();
                steps += 1;
            }
            assert!(steps < 5000, "no end");
        }
    }

    fn amplification(&self) -> f64 {
        self.written as f64 / self.flushed as f64
    }
}

const STRATEGIES: [(&[(&str, &str)], f64); 7] = [
    (&[("class", "SizeTieredCompactionStrategy"), ("min_sstable_size", "0")], 3.0),
    (&[("class", "SizeTieredCompactionStrategy"), ("max_threshold", "4")], 4.0),
    (&[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "2"), ("fanout_size", "4")], 10.0),
    (&[("class", "TimeWindowCompactionStrategy"), ("compaction_window_unit", "HOURS")], 4.0),
    (&[("class", "UnifiedCompactionStrategy"), ("min_sstable_size", "0B"), ("flush_size_override", "4MiB")], 4.0),
    (
        &[
            ("class", "UnifiedCompactionStrategy"),
            ("scaling_parameters", "L4"),
            ("flush_size_override", "4MiB"),
            ("target_sstable_size", "4MiB"),
            ("min_sstable_size", "1MiB"),
        ],
        8.0,
    ),
    (
        &[
            ("class", "UnifiedCompactionStrategy"),
            ("scaling_parameters", "T4, N, L4"),
            ("flush_size_override", "4MiB"),
            ("overlap_inclusion_method", "SINGLE"),
            ("target_sstable_size", "2MiB"),
            ("min_sstable_size", "0B"),
        ],
        6.0,
    ),
];

#[test]
fn compaction_keeps_up_and_ends() {
    for (options, amplification_max) in STRATEGIES {
        for seed in 1..4 {
            let mut model = Model::new(options, seed);
            for _ in 0..150 {
                model.flush();
                model.settle();
            }
            let (found, count) = (model.amplification(), model.sstables.len());
            assert!(found < amplification_max, "{options:?}: everything was written {found} times");
            assert!(count < 300, "{options:?}: {count} SSTables");
            let pending = model.picker.pending(&model.candidates(), &moment(model.now));
            assert!(pending <= 2, "{options:?}: {pending} pending tasks");
        }
    }
}

#[test]
fn late_compaction_ends_too() {
    for (options, _) in STRATEGIES {
        let mut model = Model::new(options, 7);
        (0..300).for_each(|_| model.flush());
        assert!(model.picker.pending(&model.candidates(), &moment(model.now)) > 0, "{options:?}");
        assert!(model.settle() > 0, "{options:?}");
    }
}

#[test]
fn a_major_compaction_takes_everything() {
    for (options, _) in STRATEGIES {
        let mut model = Model::new(options, 3);
        (0..40).for_each(|_| model.flush());
        let all = model.candidates();
        let tasks = model.picker.major(&all, &moment(model.now), false);
        let inputs: BTreeSet<u64> = tasks.iter().flat_map(|task| task.inputs.iter().copied()).collect();
        assert_eq!(inputs.len(), all.len(), "{options:?}");
        tasks.iter().for_each(|task| model.run(task));
        model.check();
        let mut busy = all.clone();
        busy.iter_mut().for_each(|candidate| candidate.busy = true);
        assert!(model.picker.major(&busy, &moment(0), false).is_empty());
        assert!(model.picker.pick(&busy, &moment(0), 9).is_empty());
    }
}

#[test]
fn tasks_are_bounded() {
    let options = [("class".to_owned(), "UnifiedCompactionStrategy".to_owned())].into();
    let mut picker = Picker::new(CompactionOptions::of(&options), 0);
    let pairs = TASKS_MAX as i64 + 1;
    let four = |i: i64| (0..4).map(move |j| sstable((4 * i + j) as u64, 1 << 20, i << 50, (i << 50) + (1 << 49)));
    let all: Vec<Candidate> = (0..pairs).flat_map(four).collect();
    assert_eq!(picker.pick(&all, &moment(0), usize::MAX).len(), TASKS_MAX);
    assert_eq!(picker.pick(&all, &moment(0), 3).len(), 3);
}
