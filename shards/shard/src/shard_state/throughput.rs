//! What this core has leased of the tables whose throughput is limited, the buckets that it keeps, and what was
//! charged.
//!
//! 1. Each table with a capacity has a [`Meter`], which begins when the schema that has it is served.
//! 2. A coordinating core admits requests by the leases of the meter (`coordinator::throttle`).
//! 3. The buckets of the scopes that this core keeps are in [`Throughput::lease`]; they begin when they are asked.
//!
//! Invariants: where no table has a capacity, a request looks at one flag. Leases of keys, buckets and roles are
//! bounded; a lease that is dropped to make room has not been used for a second, or its key is not limited for a while.

use crate::messages::units::LeaseRequest;
use crate::metrics::heavy_hitters::HeavyHitters;
use crate::metrics::{Charges, HOT_SECONDS, HotKey, TableCharges};
use cluster::units::limits::{Measure, Scope, rate_of};
use cluster::units::{Grant, HUNDREDTHS, Keeper, Lease};
use model::capacity::Capacity;
use model::{HashMap, IdMap, Partitioner, Schema, TableId};
use runtime::Instant;
use runtime::sync::Condition;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Most partition keys of a table of which a core has leases.
pub(crate) const KEYS_MAX: usize = 8192;
/// Most buckets that a core keeps.
pub(crate) const KEEPERS_MAX: usize = 1 << 16;
/// Most roles of a table that are told apart; the others are added up as `(others)`.
pub(crate) const ROLES_MAX: usize = 64;
/// What is not used for so long may be forgotten, microseconds.
const IDLE_MICROS: u64 = 1_000_000;
/// How often what is not used is looked for, microseconds.
const SWEEP_MICROS: u64 = 100_000;
/// Keys of a table of which a core knows whether they are hot.
const HOT_KEYS_MAX: usize = 128;
/// The name under which roles beyond [`ROLES_MAX`] are shown.
pub(crate) const OTHER_ROLES: &str = "(others)";

/// The state of one core.
#[derive(Default)]
pub(crate) struct Throughput {
    is_metered: Cell<bool>,
    meters: RefCell<IdMap<TableId, Rc<Meter>>>,
    keepers: RefCell<HashMap<(TableId, Measure, Scope), Keeper>>,
    swept_at: Cell<u64>,
}

/// A table whose throughput is limited.
pub(crate) struct Meter {
    /// The keyspace and name of the table.
    name: (String, String),
    pub(crate) capacity: Arc<Capacity>,
    leases: RefCell<HashMap<(Measure, Scope), LeaseSlot>>,
    swept_at: Cell<u64>,
    /// Told when a keeper has answered.
    pub(crate) answered: Condition,
    /// What the next read is expected to cost, hundredths.
    read_estimate: Cell<u64>,
    charges: RefCell<Vec<(Rc<str>, Charges)>>,
    second: Cell<SecondSum>,
    hot: RefCell<HotKeys>,
}

struct LeaseSlot {
    lease: Lease,
    used_at: u64,
}

/// Hundredths of the second that runs and of the one before.
#[derive(Clone, Copy, Default)]
struct SecondSum {
    second: u64,
    sum: u64,
    before: u64,
}

/// The time as leases count it.
pub(crate) fn micros(now: Instant) -> u64 {
    now.0 / 1_000
}

impl Throughput {
    /// Meters those tables of a schema that have a capacity. A meter goes on if the capacity is the same.
    pub(crate) fn adopt(&self, schema: &Schema) {
        let mut meters = self.meters.borrow_mut();
        let before = std::mem::take(&mut *meters);
        for table in schema.tables.values() {
            let Some(capacity) = &table.options.capacity else { continue };
            let name = (table.keyspace.clone(), table.name.clone());
            let meter = match before.get(&table.id) {
                Some(meter) if meter.capacity == *capacity => meter.clone(),
                Some(meter) => Rc::new(Meter { charges: meter.charges.clone(), ..Meter::new(name, capacity.clone()) }),
                None => Rc::new(Meter::new(name, capacity.clone())),
            };
            meters.insert(table.id, meter);
        }
        self.is_metered.set(!meters.is_empty());
    }

    /// Whether any table is metered.
    #[inline]
    pub(crate) fn is_metered(&self) -> bool {
        self.is_metered.get()
    }

    /// The meter of a table; `None` if the table is not metered.
    #[inline]
    pub(crate) fn of(&self, table: TableId) -> Option<Rc<Meter>> {
        if !self.is_metered.get() {
            return None;
        }
        self.meters.borrow().get(&table).cloned()
    }

    /// Serves a holder from a bucket that this core keeps; `None` if this core knows of no such limit. `cores` is the
    /// number of cores of the data centre. Now and then it also tells what percentage of the limit was used.
    pub(crate) fn lease(&self, request: &LeaseRequest, cores: u64, now: u64) -> Option<(Grant, Option<u64>)> {
        let meter = self.of(request.table)?;
        let rate = rate_of(&meter.capacity, request.measure, request.scope, cores)?;
        let mut keepers = self.keepers.borrow_mut();
        if keepers.len() >= KEEPERS_MAX && now.saturating_sub(self.swept_at.get()) >= SWEEP_MICROS {
            self.swept_at.set(now);
            keepers.retain(|_, keeper| now.saturating_sub(keeper.asked_at()) < IDLE_MICROS);
        }
        let name = (request.table, request.measure, request.scope);
        if keepers.len() >= KEEPERS_MAX && !keepers.contains_key(&name) {
            // Keys that are not tracked are not limited: there are more hot ones than a core has room for.
            return Some((Grant { units: request.ask.wanted, ask_again_micros: IDLE_MICROS }, None));
        }
        let keeper = keepers.entry(name).or_insert_with(|| Keeper::new(rate, now));
        keeper.set_rate(rate, now);
        let grant = keeper.ask(request.holder, request.ask, now);
        Some((grant, keeper.take_use(now)))
    }

    /// What was charged of each metered table.
    pub(crate) fn charges(&self, now: Instant) -> Vec<TableCharges> {
        let meters = self.meters.borrow();
        let mut all: Vec<TableCharges> = meters.iter().map(|(table, meter)| meter.shown(*table, now)).collect();
        all.sort_by_key(|charges| charges.table);
        all
    }
}

impl Meter {
    fn new(name: (String, String), capacity: Arc<Capacity>) -> Meter {
        Meter {
            name,
            capacity,
            leases: RefCell::default(),
            swept_at: Cell::new(0),
            answered: Condition::default(),
            read_estimate: Cell::new(HUNDREDTHS),
            charges: RefCell::default(),
            second: Cell::default(),
            hot: RefCell::new(HotKeys::new()),
        }
    }

    /// Runs `look` on the lease of a scope, which begins with `first` hundredths; `None` if there is no room for it.
    pub(crate) fn with_lease<T>(
        &self,
        name: (Measure, Scope),
        first: u64,
        now: u64,
        look: impl FnOnce(&mut Lease) -> T,
    ) -> Option<T> {
        let mut leases = self.leases.borrow_mut();
        if leases.len() >= KEYS_MAX && !leases.contains_key(&name) {
            if now.saturating_sub(self.swept_at.get()) < SWEEP_MICROS {
                return None;
            }
            self.swept_at.set(now);
            leases.retain(|_, slot| now.saturating_sub(slot.used_at) < IDLE_MICROS);
            if leases.len() >= KEYS_MAX {
                return None;
            }
        }
        let slot = leases.entry(name).or_insert_with(|| LeaseSlot { lease: Lease::new(first, now), used_at: now });
        slot.used_at = now;
        Some(look(&mut slot.lease))
    }

    /// What the next read is expected to cost.
    pub(crate) fn read_estimate(&self) -> u64 {
        self.read_estimate.get()
    }

    /// Takes the price of a read into account for the next ones: by an eighth of the difference.
    pub(crate) fn note_read(&self, units: u64) {
        let estimate = self.read_estimate.get();
        self.read_estimate.set((estimate - estimate / 8 + units / 8).max(1));
    }

    /// Adds to what was charged for a key.
    pub(crate) fn note_key(&self, key: &[u8], units: u64, is_write: bool, now: Instant) {
        let mut hot = self.hot.borrow_mut();
        hot.advance(now.0 / 1_000_000_000);
        hot.now.add_use(&key.into(), units, usize::from(is_write));
    }

    /// The key with a token, if it is among those that this core has charged the most.
    pub(crate) fn hot_key(&self, partitioner: Partitioner, token: i64) -> Option<Box<[u8]>> {
        let hot = self.hot.borrow();
        let sketches = std::iter::once(&hot.now).chain(&hot.before);
        let mut keys = sketches.flat_map(HeavyHitters::top).map(|counted| counted.key);
        keys.find(|key| partitioner.token(key).0 == token)
    }

    /// Adds to what was charged to a role.
    pub(crate) fn charge(&self, role: Option<&Rc<str>>, charged: &Charges, now: Instant) {
        let mut charges = self.charges.borrow_mut();
        let name = role.map_or("", |role| role);
        let is_full = charges.len() >= ROLES_MAX;
        match charges.iter().position(|(other, _)| **other == *name) {
            Some(at) => charges[at].1.add(charged),
            None if is_full => match charges.iter_mut().find(|(other, _)| **other == *OTHER_ROLES) {
                Some((_, others)) => others.add(charged),
                None => charges.push((OTHER_ROLES.into(), *charged)),
            },
            None => charges.push((name.into(), *charged)),
        }
        let at = now.0 / 1_000_000_000;
        let mut second = self.second.get().at(at);
        second.sum += charged.read_units + charged.write_units;
        self.second.set(second);
    }

    fn shown(&self, table: TableId, now: Instant) -> TableCharges {
        let roles = self.charges.borrow().iter().map(|(role, charges)| (role.to_string(), *charges)).collect();
        let (second, hot) = (now.0 / 1_000_000_000, &mut *self.hot.borrow_mut());
        hot.advance(second);
        let (shown, hot_seconds) = match &hot.before {
            Some(before) => (before, HOT_SECONDS),
            None => (&hot.now, (second + 1).saturating_sub(hot.began).max(1)),
        };
        let top = shown.top().into_iter().filter(|counted| counted.count > counted.error);
        let top = top.map(|counted| {
            let [reads, writes] = counted.uses;
            HotKey { key: counted.key, units: counted.count, reads, writes }
        });
        TableCharges {
            table,
            name: self.name.clone(),
            roles,
            last_second: self.second.get().at(second).before,
            hot: top.collect(),
            hot_total: shown.total(),
            hot_seconds,
        }
    }
}

/// The keys that are charged the most, in this interval and in the one before.
struct HotKeys {
    /// The second in which the interval began.
    began: u64,
    now: HeavyHitters<Box<[u8]>>,
    before: Option<HeavyHitters<Box<[u8]>>>,
}

impl HotKeys {
    fn new() -> HotKeys {
        HotKeys { began: 0, now: HeavyHitters::new(HOT_KEYS_MAX), before: None }
    }

    /// Begins another interval if this one is over.
    fn advance(&mut self, second: u64) {
        if self.began == 0 {
            self.began = second;
        }
        let passed = second.saturating_sub(self.began) / HOT_SECONDS;
        if passed == 0 {
            return;
        }
        let ended = std::mem::replace(&mut self.now, HeavyHitters::new(HOT_KEYS_MAX));
        self.before = Some(if passed == 1 { ended } else { HeavyHitters::new(HOT_KEYS_MAX) });
        self.began += passed * HOT_SECONDS;
    }
}

impl SecondSum {
    /// The sums when the second `at` runs.
    fn at(self, at: u64) -> SecondSum {
        match at {
            at if at <= self.second => self,
            at if at == self.second + 1 => SecondSum { second: at, sum: 0, before: self.sum },
            at => SecondSum { second: at, sum: 0, before: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::units::Ask;
    use model::capacity::Provisioned;
    use uuid::Uuid;

    fn metered(capacity: Capacity) -> (Throughput, Rc<Meter>) {
        let throughput = Throughput::default();
        let meter = Rc::new(Meter::new(("ks".into(), "t".into()), Arc::new(capacity)));
        throughput.meters.borrow_mut().insert(TableId([7; 16]), meter.clone());
        throughput.is_metered.set(true);
        (throughput, meter)
    }

    fn request(scope: Scope) -> LeaseRequest {
        let ask = Ask { wanted: 500, least: 100, round_trip_micros: 0 };
        let holder = (Uuid::nil(), 0);
        LeaseRequest { table: TableId([7; 16]), measure: Measure::Writes, scope, holder, ask }
    }

    #[test]
    fn so_many_buckets_are_kept() {
        let (throughput, _) = metered(Capacity { writes_per_key: Some(10), ..Capacity::default() });
        for key in 0..KEEPERS_MAX as i64 {
            throughput.lease(&request(Scope::Key(key)), 1, 0);
        }
        assert_eq!(throughput.keepers.borrow().len(), KEEPERS_MAX);
        let beyond = throughput.lease(&request(Scope::Key(-1)), 1, SWEEP_MICROS);
        assert_eq!(beyond.map(|(grant, _)| grant.units), Some(500), "a key that is not tracked is not limited");
        throughput.lease(&request(Scope::Key(-1)), 1, 2 * IDLE_MICROS);
        assert_eq!(throughput.keepers.borrow().len(), 1, "those that nobody asks are forgotten");
        assert_eq!(throughput.lease(&request(Scope::Table), 1, 0), None, "the table as a whole is not limited");
    }

    #[test]
    fn so_many_keys_and_roles_are_told_apart() {
        let provisioned = Provisioned::Units { per_second: 400, is_autoscaled: false };
        let (throughput, meter) = metered(Capacity { provisioned, ..Capacity::default() });
        let look = |key, now| meter.with_lease((Measure::Units, Scope::Key(key)), 5, now, |lease| lease.balance());
        assert!((0..KEYS_MAX as i64).all(|key| look(key, 1) == Some(5)));
        assert_eq!(look(-1, SWEEP_MICROS + 1), None, "one more");
        assert_eq!(look(3, SWEEP_MICROS + 2), Some(5));
        assert_eq!(look(-1, 2 * IDLE_MICROS), Some(5), "those that are not used make room");
        let charged = Charges { writes: 1, write_units: 250, ..Charges::default() };
        for role in 0..=ROLES_MAX + 1 {
            meter.charge(Some(&format!("r{role}").into()), &charged, Instant(1_500_000_000));
        }
        let shown = throughput.charges(Instant(2_100_000_000)).remove(0);
        assert_eq!(shown.roles.len(), ROLES_MAX + 1);
        assert_eq!(shown.roles[ROLES_MAX], (OTHER_ROLES.into(), Charges { writes: 2, write_units: 500, ..charged }));
        assert_eq!(shown.last_second, (ROLES_MAX as u64 + 2) * 250);
        assert_eq!(throughput.charges(Instant(4_100_000_000))[0].last_second, 0);
    }

    #[test]
    fn the_expected_price_follows_what_reads_cost() {
        let (_, meter) = metered(Capacity::default());
        assert_eq!(meter.read_estimate(), 100);
        (0..60).for_each(|_| meter.note_read(900));
        assert!((880..=900).contains(&meter.read_estimate()), "{}", meter.read_estimate());
    }
}
