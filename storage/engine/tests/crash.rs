//! Crashes at random steps and at every step, with restarts on the same or another number of shards: acknowledged
//! writes are found, refused ones are not, no mutation is found in part, and what was seen once does not disappear.

use crate::support::*;
use engine::store::{LogPosition, Truncation};
use engine::{Error, Options, Store, SyncMode};
use model::Partitioner;
use model::key::ShardMap;
use model::{Home, MutationBuilder, Table};
use runtime::mesh::{NodeId, ShardId};
use runtime::rng::Rng;
use runtime::sim::{self, Sim};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const NODE: NodeId = NodeId(1);
const LONG: Duration = Duration::from_secs(3600);
/// A table that is only written to.
const KEPT: u8 = 1;
/// A table that is also truncated now and then.
const TRUNCATED: u8 = 2;
/// A table that lives on shard 0.
const LOCAL: u8 = 3;

/// What is known about the outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Started,
    /// Acknowledged and promised to be durable by the sync mode, or seen after a restart.
    Certain,
    Refused,
}

/// When a write to the truncated table happened, relative to the truncations that its shard made in the same run.
#[derive(Clone, Copy, Debug)]
struct Moment {
    run: u64,
    shard: u16,
    /// How many truncations of the shard had ended when the write began.
    done_before: u64,
    /// How many truncations of the shard had begun when the write was acknowledged.
    begun_before: Option<u64>,
}

/// What the test knows across all runs of the node.
#[derive(Default)]
struct Known {
    run: Cell<u64>,
    moments: RefCell<BTreeMap<u64, Moment>>,
    /// How many truncations each shard has begun and ended in this run.
    begun: RefCell<BTreeMap<u16, u64>>,
    done: RefCell<BTreeMap<u16, u64>>,
    /// The truncation that was made durable: its run, and its number on each shard.
    installed: RefCell<Option<(u64, BTreeMap<u16, u64>)>>,
    fates: RefCell<BTreeMap<(u8, u64), Fate>>,
    next_write: Cell<u64>,
    truncations: RefCell<Vec<Truncation>>,
    /// In this run: the highest counters, the rows read at the start, and the number of shards that serve.
    counters: RefCell<Vec<u64>>,
    rows: RefCell<Vec<(u8, Row)>>,
    serving: Cell<usize>,
    /// Whether shard 0 has cleaned up transactions.
    cleaned: Cell<bool>,
    /// How many shards have flushed what they replayed.
    flushed: Cell<usize>,
    error: RefCell<Option<Error>>,
    /// The positions of the truncation under way.
    cuts: RefCell<Vec<LogPosition>>,
    truncating: Cell<bool>,
    stop: Cell<bool>,
}

#[derive(Clone, Copy)]
struct Plan {
    shards: u16,
    sync: SyncMode,
    segment_bytes: u32,
    /// Whether to truncate and release now and then.
    truncate: bool,
    /// Whether calls on the disk fail now and then while the node serves.
    failing: bool,
    /// Whether to flush what was replayed, and tables now and then.
    flush: bool,
    writers: u64,
}

fn tables() -> [(Arc<Table>, Home); 3] {
    [(table(KEPT), Home::ByToken), (table(TRUNCATED), Home::ByToken), (table(LOCAL), Home::Shard0)]
}

fn key_of(write: u64) -> Vec<u8> {
    vec![(write % 11) as u8; 3]
}

async fn wait_for(condition: impl Fn() -> bool) {
    while !condition() {
        runtime::sleep(Duration::from_micros(50)).await;
    }
}

async fn serve(plan: Plan, shard: ShardId, known: Rc<Known>) {
    if let Err(error) = try_serve(plan, shard, &known).await {
        known.error.borrow_mut().get_or_insert(error);
    }
}

async fn try_serve(plan: Plan, shard: ShardId, known: &Rc<Known>) -> Result<(), Error> {
    let store = Store::open(Options { segment_bytes: plan.segment_bytes, ..options(plan.shards, plan.sync) }).await?;
    if shard.0 == 0 {
        store.clean().await?;
        known.cleaned.set(true);
    }
    wait_for(|| known.cleaned.get()).await;
    // Replayed in two calls, as a node does: system tables come first.
    let truncations: Vec<_> = known.truncations.borrow().iter().map(|t| (table(TRUNCATED).id, t.clone())).collect();
    for (table, home) in tables().into_iter().rev() {
        store.add_table(table, home);
        store.load(&truncations).await?;
        store.replay(&truncations).await?;
    }
    known.counters.borrow_mut().push(store.highest_counter());
    wait_for(|| known.counters.borrow().len() == plan.shards as usize).await;
    let floor = known.counters.borrow().iter().max().copied().expect("not empty");
    store.start(floor).await?;
    for number in [KEPT, TRUNCATED, LOCAL] {
        let rows = read_all(&store, table(number).id).await;
        known.rows.borrow_mut().extend(rows.into_iter().map(|row| (number, row)));
    }
    known.serving.set(known.serving.get() + 1);
    wait_for(|| known.serving.get() == plan.shards as usize).await;
    if plan.flush {
        let flushed = store.flush_replayed().await;
        if !plan.failing {
            flushed?;
            known.flushed.set(known.flushed.get() + 1);
            if shard.0 == 0 {
                wait_for(|| known.flushed.get() == plan.shards as usize || known.stop.get()).await;
                store.release_replayed().await?;
            }
        }
        runtime::spawn(flush(plan, store.clone(), known.clone()));
    }
    for _ in 0..plan.writers {
        runtime::spawn(write(plan, shard, store.clone(), known.clone()));
    }
    if plan.truncate {
        truncate(plan, shard, &store, known).await;
    } else {
        wait_for(|| known.stop.get()).await;
    }
    let closed = store.close().await;
    if plan.failing { Ok(()) } else { closed }
}

/// Writes two rows per mutation until told to stop.
async fn write(plan: Plan, shard: ShardId, store: Store, known: Rc<Known>) {
    let mut unsynced = Vec::new();
    while !known.stop.get() {
        let write = known.next_write.get();
        let number = [KEPT, TRUNCATED, KEPT, LOCAL][runtime::rng::below(4) as usize];
        let key = key_of(write);
        let owner = if number == LOCAL {
            0
        } else {
            ShardMap::new(Partitioner::Murmur3, plan.shards).owner(Partitioner::Murmur3.token(&key))
        };
        if owner != shard.0 {
            runtime::sleep(Duration::from_micros(runtime::rng::below(300))).await;
            // No other writer may use the number that comes next.
            if runtime::rng::below(4) == 0 {
                known.next_write.set(known.next_write.get() + 1);
            }
            continue;
        }
        known.next_write.set(write + 1);
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, &key);
        builder.table(table(number).id);
        let text = vec![b't'; runtime::rng::below(3000) as usize];
        add_row(&mut builder, write as i32, 0, 1, &text);
        add_row(&mut builder, write as i32, 1, 1, b"");
        known.fates.borrow_mut().insert((number, write), Fate::Started);
        let moment = Moment {
            run: known.run.get(),
            shard: shard.0,
            done_before: known.done.borrow().get(&shard.0).copied().unwrap_or(0),
            begun_before: None,
        };
        known.moments.borrow_mut().insert(write, moment);
        let applied = store.apply(builder.finish(), false).await;
        let begun_before = applied.is_ok().then(|| known.begun.borrow().get(&shard.0).copied().unwrap_or(0));
        known.moments.borrow_mut().insert(write, Moment { begun_before, ..moment });
        let fate = match applied {
            Ok(()) => Fate::Certain,
            Err(Error::LogFailed(_)) => Fate::Started,
            Err(_) => Fate::Refused,
        };
        if !matches!(plan.sync, SyncMode::Periodic { .. }) || fate != Fate::Certain {
            known.fates.borrow_mut().insert((number, write), fate);
        } else {
            unsynced.push((number, write));
            if runtime::rng::below(6) == 0 && store.sync().await.is_ok() {
                known.fates.borrow_mut().extend(unsynced.drain(..).map(|write| (write, Fate::Certain)));
            }
        }
        if fate != Fate::Certain {
            runtime::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Flushes random tables until told to stop.
async fn flush(plan: Plan, store: Store, known: Rc<Known>) {
    while !known.stop.get() {
        runtime::sleep(Duration::from_millis(runtime::rng::below(40))).await;
        let number = [KEPT, TRUNCATED, LOCAL][runtime::rng::below(3) as usize];
        match store.flush(table(number).id).await {
            Err(error) if !plan.failing && !matches!(error, Error::Closing) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Truncates on all shards together as the crate `shard` does: all cut, then the truncation becomes durable, then all
/// release.
async fn truncate(plan: Plan, shard: ShardId, store: &Store, known: &Known) {
    let id = table(TRUNCATED).id;
    loop {
        if shard.0 == 0 {
            runtime::sleep(Duration::from_millis(runtime::rng::below(60))).await;
            known.cuts.borrow_mut().clear();
            known.truncating.set(true);
        } else {
            wait_for(|| known.truncating.get() || known.stop.get()).await;
        }
        if known.stop.get() {
            return;
        }
        *known.begun.borrow_mut().entry(shard.0).or_default() += 1;
        let Ok(position) = store.truncate(id).await else { return };
        *known.done.borrow_mut().entry(shard.0).or_default() += 1;
        known.cuts.borrow_mut().push(position);
        // Segments are released once the truncation is durable, not before.
        let all_cut = || known.cuts.borrow().len() == plan.shards as usize;
        wait_for(|| (shard.0 == 0 && all_cut()) || !known.truncating.get() || known.stop.get()).await;
        if known.stop.get() {
            return;
        }
        if shard.0 == 0 {
            let positions = known.cuts.borrow().clone();
            let truncation = Truncation { counter_floor: store.counter_floor(), positions, at_millis: 0 };
            *known.truncations.borrow_mut() = vec![Truncation::decode(&truncation.encode()).expect("what encode made")];
            *known.installed.borrow_mut() = Some((known.run.get(), known.done.borrow().clone()));
            known.truncating.set(false);
        }
        if store.release(id).await.is_err() {
            return;
        }
    }
}

impl Known {
    /// Compares what was read at the start with what is known of every write. What was seen is certain from then on.
    fn check(&self, context: &str) {
        let mut seen: BTreeMap<(u8, u64), Vec<i32>> = BTreeMap::new();
        for (number, row) in self.rows.borrow().iter() {
            seen.entry((*number, row.1[0] as u64)).or_default().push(row.1[1]);
            assert_eq!(row.0, key_of(row.1[0] as u64), "{context}");
        }
        let mut fates = self.fates.borrow_mut();
        for (write, rows) in &seen {
            assert_eq!(*rows, [0, 1], "{context}: write {write:?} is there in part, or twice");
            let fate = fates.get(write).unwrap_or_else(|| panic!("{context}: {write:?} was never written"));
            assert_ne!(*fate, Fate::Refused, "{context}: {write:?} was refused");
        }
        for (write, fate) in fates.iter_mut() {
            let here = seen.contains_key(write);
            if write.0 == TRUNCATED {
                let (must_stay, must_go) = self.against_truncation(write.1);
                assert!(!(here && must_go), "{context}: {write:?} was truncated and is back");
                assert!(here || !must_stay || *fate != Fate::Certain, "{context}: {write:?} came after the truncation");
                *fate = if here { *fate } else { Fate::Refused };
                continue;
            }
            assert!(here || *fate != Fate::Certain, "{context}: {write:?} was acknowledged and is lost");
            *fate = if here { Fate::Certain } else { Fate::Refused };
        }
    }

    /// Whether a write must have survived the durable truncation, and whether it must have been removed.
    fn against_truncation(&self, write: u64) -> (bool, bool) {
        let moments = self.moments.borrow();
        let installed = self.installed.borrow();
        let (Some(moment), Some((run, cuts))) = (moments.get(&write), &*installed) else { return (true, false) };
        let cut = cuts.get(&moment.shard).copied().unwrap_or(0);
        match moment.run.cmp(run) {
            Ordering::Less => (false, true),
            Ordering::Greater => (true, false),
            Ordering::Equal => (moment.done_before >= cut, moment.begun_before.is_some_and(|begun| begun < cut)),
        }
    }

    fn reset(&self) {
        self.run.set(self.run.get() + 1);
        self.begun.borrow_mut().clear();
        self.done.borrow_mut().clear();
        self.counters.borrow_mut().clear();
        self.rows.borrow_mut().clear();
        self.serving.set(0);
        self.cleaned.set(false);
        self.flushed.set(0);
        self.cuts.borrow_mut().clear();
        self.truncating.set(false);
        self.stop.set(false);
    }
}

fn start_node(sim: &mut Sim, plan: Plan, known: &Rc<Known>) {
    known.reset();
    let shared = known.clone();
    sim.start_node(NODE, plan.shards as usize, move |shard| serve(plan, shard, shared.clone()));
}

fn await_serving(sim: &mut Sim, plan: Plan, known: &Rc<Known>, context: &str) {
    sim.run_until(LONG, || known.serving.get() == plan.shards as usize || known.error.borrow().is_some());
    let error = known.error.borrow();
    assert!(error.is_none(), "{context}: {:?}", *error);
    assert_eq!(known.serving.get(), plan.shards as usize, "{context}");
}

fn steps(sim: &mut Sim, count: u64) {
    for _ in 0..count {
        sim.step();
    }
}

fn random_plan(rng: &mut Rng) -> Plan {
    Plan {
        shards: 1 + rng.below(3) as u16,
        sync: match rng.below(5) {
            0 => SyncMode::Periodic { period: Duration::from_millis(1 + rng.below(20)) },
            1 => SyncMode::Batch,
            2 => SyncMode::Group { window: Duration::from_millis(rng.below(4)) },
            _ => GROUP,
        },
        segment_bytes: 16 << 10 << rng.below(3),
        truncate: rng.chance(0.5),
        failing: rng.chance(0.2),
        flush: rng.chance(0.7),
        writers: 1 + rng.below(4),
    }
}

#[test]
fn s1_s2_s3_random_crashes_lose_nothing_and_bring_nothing_back() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut sim = Sim::new(seed, sim::Options { disk_error: 0.0, ..sim::Options::of_seed(seed) });
        let known = Rc::new(Known::default());
        for round in 0..5 {
            let plan = random_plan(&mut rng);
            let context = format!("seed {seed} round {round}");
            start_node(&mut sim, plan, &known);
            if rng.chance(0.2) {
                // Sometimes crash within a start.
                steps(&mut sim, rng.below(300));
                sim.crash(NODE);
                start_node(&mut sim, plan, &known);
            }
            await_serving(&mut sim, plan, &known, &context);
            known.check(&context);
            let calm = sim::Options { disk_error: 0.0, ..sim::Options::of_seed(seed) };
            if plan.failing {
                sim.set_options(sim::Options { disk_error: 0.01, ..calm.clone() });
            }
            steps(&mut sim, rng.below(4000));
            sim.set_options(calm);
            assert!(known.error.borrow().is_none(), "{context}: {:?}", known.error.borrow());
            match rng.below(4) {
                0 => sim.kill(NODE),
                1 => {
                    known.stop.set(true);
                    sim.run_until(Duration::from_secs(20), || false);
                    assert!(!sim.is_running(NODE), "{context}: the node does not stop");
                }
                _ => sim.crash(NODE),
            }
            // S2: clocks must not affect the order of segments.
            sim.step_wall_clock(NODE, -365 * 86_400_000_000);
        }
        let certain = known.fates.borrow().values().filter(|fate| **fate == Fate::Certain).count();
        assert!(certain > 0, "seed {seed}: nothing was written");
    }
}

#[test]
fn s1_a_crash_at_every_step_loses_nothing_acknowledged() {
    let plan = Plan {
        shards: 2,
        sync: GROUP,
        segment_bytes: 16 << 10,
        truncate: false,
        failing: false,
        flush: true,
        writers: 2,
    };
    let other = Plan { shards: 3, ..plan };
    let first_write = Rc::new(Cell::new(None));
    let mut step = 0;
    let mut reached = BTreeSet::new();
    loop {
        let mut sim = Sim::new(11, sim::Options { buggify: false, ..sim::Options::default() });
        let known = Rc::new(Known::default());
        start_node(&mut sim, plan, &known);
        steps(&mut sim, step);
        if known.next_write.get() > 0 && first_write.get().is_none() {
            first_write.set(Some(step));
        }
        reached.insert(known.fates.borrow().values().filter(|fate| **fate == Fate::Certain).count());
        if step % 2 == 0 {
            sim.crash(NODE)
        } else {
            sim.kill(NODE)
        }
        let context = format!("crash at step {step}");
        start_node(&mut sim, if step % 3 == 0 { other } else { plan }, &known);
        await_serving(&mut sim, if step % 3 == 0 { other } else { plan }, &known, &context);
        known.check(&context);
        if known.next_write.get() > 16 {
            break;
        }
        step += 1 + u64::from(first_write.get().is_none()) * 3;
    }
    assert!(reached.len() > 5, "{reached:?}");
}
