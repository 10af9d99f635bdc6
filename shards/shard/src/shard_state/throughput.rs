//! The tables whose throughput is limited, by themselves or with their keyspaces, the buckets that this core keeps, and
//! what was charged.
//!
//! 1. Each table with a capacity has a [`Meter`], which begins when the schema that has it is served. Keyspaces and
//!    roles with quotas have meters of their own ([`super::quotas`]).
//! 2. A coordinating core admits requests by the leases of the meters (`coordinator::throttle`, [`LeaseBook`]).
//! 3. The buckets of the scopes that this core keeps are in [`Throughput::lease`]; they begin when they are asked.
//!
//! Invariants: where nothing has a capacity or a quota, a request looks at one flag. Buckets and roles that are told
//! apart are bounded.

use super::lease_book::{IDLE_MICROS, LeaseBook, SWEEP_MICROS};
use super::quotas::{self, QuotaMeter, RoleQuotas, RunningRequests};
use crate::messages::units::{CountedQuota, LeaseRequest};
use crate::metrics::heavy_hitters::HeavyHitters;
use crate::metrics::{Charges, HOT_SECONDS, HotKey, QuotaCharges, TableCharges};
use cluster::units::limits::{Measure, Scope, rate_of};
use cluster::units::{Grant, Keeper};
use model::capacity::Capacity;
use model::quota::Quota;
use model::{HashMap, IdMap, Partitioner, Schema, TableId};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Most buckets that a core keeps.
pub(crate) const KEEPERS_MAX: usize = 1 << 16;
/// Most roles of a table that are told apart; the others are added up as `(others)`.
pub(crate) const ROLES_MAX: usize = 64;
/// Keys of a table of which a core knows whether they are hot.
const HOT_KEYS_MAX: usize = 128;
/// The name under which roles beyond [`ROLES_MAX`] are shown.
pub(crate) const OTHER_ROLES: &str = "(others)";

/// The state of one core.
#[derive(Default)]
pub(crate) struct Throughput {
    is_metered: Cell<bool>,
    tables: RefCell<IdMap<TableId, Metered>>,
    keyspaces: RefCell<HashMap<String, Rc<QuotaMeter>>>,
    roles: RoleQuotas,
    running: RunningRequests,
    keepers: RefCell<HashMap<(TableId, Measure, Scope), Keeper>>,
    swept_at: Cell<u64>,
}

/// What limits the requests of a table.
#[derive(Clone, Default)]
pub(crate) struct Metered {
    /// Its capacity.
    pub(crate) table: Option<Rc<Meter>>,
    /// The quota of its keyspace.
    pub(crate) keyspace: Option<Rc<QuotaMeter>>,
}

/// A table with a capacity.
pub(crate) struct Meter {
    /// The keyspace and name of the table.
    name: (String, String),
    pub(crate) capacity: Arc<Capacity>,
    pub(crate) leases: Rc<LeaseBook>,
    charges: RefCell<Vec<(Rc<str>, Charges)>>,
    second: Cell<SecondSum>,
    hot: RefCell<HotKeys>,
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
    /// Meters those tables of a schema that have a capacity, or whose keyspaces have a quota. A meter goes on if the
    /// capacity is the same.
    pub(crate) fn adopt(&self, schema: &Schema) {
        let mut tables = self.tables.borrow_mut();
        let before = std::mem::take(&mut *tables);
        for table in schema.tables.values() {
            let Some(capacity) = &table.options.capacity else { continue };
            let name = (table.keyspace.clone(), table.name.clone());
            let meter = match before.get(&table.id).and_then(|metered| metered.table.as_ref()) {
                Some(meter) if meter.capacity == *capacity => meter.clone(),
                Some(meter) => Rc::new(Meter { charges: meter.charges.clone(), ..Meter::new(name, capacity.clone()) }),
                None => Rc::new(Meter::new(name, capacity.clone())),
            };
            tables.insert(table.id, Metered { table: Some(meter), keyspace: None });
        }
        let mut keyspaces = self.keyspaces.borrow_mut();
        let before = std::mem::take(&mut *keyspaces);
        for keyspace in schema.keyspaces.values().filter(|keyspace| !keyspace.quota.is_empty()) {
            let meter = quotas::of_keyspace(&keyspace.name, keyspace.quota, before.get(&keyspace.name));
            for table in keyspace.tables.values() {
                tables.entry(table.id).or_default().keyspace = Some(meter.clone());
            }
            keyspaces.insert(keyspace.name.clone(), meter);
        }
        self.is_metered.set(!tables.is_empty() || !self.roles.is_empty());
    }

    /// Notes the quota with which a role was read.
    pub(crate) fn note_role(&self, role: &str, quota: Quota, now: Instant) {
        self.roles.note(role, quota, micros(now));
        self.is_metered.set(!self.tables.borrow().is_empty() || !self.roles.is_empty());
    }

    /// The quota of a role, for a request; `None` if it has none.
    pub(crate) fn of_role(&self, role: &str, now: Instant) -> Option<Rc<QuotaMeter>> {
        self.roles.of(role, micros(now))
    }

    /// Counts a request of this node, on the core that counts those of the quota, unless there are `most` already.
    pub(crate) fn begin_request(&self, quota: CountedQuota, most: u32) -> bool {
        self.running.begin(quota, most)
    }

    /// Takes a request off that was counted.
    pub(crate) fn end_request(&self, quota: CountedQuota) {
        self.running.end(quota);
    }

    /// Whether anything is metered.
    #[inline]
    pub(crate) fn is_metered(&self) -> bool {
        self.is_metered.get()
    }

    /// Whether requests of a table are metered, whoever asks.
    pub(crate) fn is_metered_table(&self, table: TableId) -> bool {
        self.is_metered.get() && self.tables.borrow().contains_key(&table)
    }

    /// The meters of a table.
    #[inline]
    pub(crate) fn of(&self, table: TableId) -> Metered {
        if !self.is_metered.get() {
            return Metered::default();
        }
        self.tables.borrow().get(&table).cloned().unwrap_or_default()
    }

    /// Serves a holder from a bucket that this core keeps; `None` if this core knows of no such limit. `cores` is the
    /// number of cores of the data centre. Now and then it also tells what percentage of the limit was used.
    pub(crate) fn lease(&self, request: &LeaseRequest, cores: u64, now: u64) -> Option<(Grant, Option<u64>)> {
        let rate = match request.quota_rate {
            Some(rate) => rate,
            None => rate_of(&self.of(request.table).table?.capacity, request.measure, request.scope, cores)?,
        };
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

    /// Notes what keyspaces store, of one replica.
    pub(crate) fn set_stored(&self, stored: &[(String, u64)]) {
        let keyspaces = self.keyspaces.borrow();
        for (name, bytes) in stored {
            if let Some(meter) = keyspaces.get(name) {
                meter.set_stored(*bytes);
            }
        }
    }

    /// The meters of all quotas, in no order.
    fn quotas(&self) -> Vec<Rc<QuotaMeter>> {
        self.keyspaces.borrow().values().cloned().chain(self.roles.all()).collect()
    }

    /// The meter of a quota of a scope, if this core has it.
    pub(crate) fn quota(&self, scope: Scope, id: TableId) -> Option<Rc<QuotaMeter>> {
        self.quotas().into_iter().find(|meter| meter.scope() == scope && meter.id == id)
    }

    /// What was charged to each quota.
    pub(crate) fn quota_charges(&self) -> Vec<QuotaCharges> {
        self.quotas().iter().map(|meter| meter.shown()).collect()
    }

    /// What was charged of each metered table.
    pub(crate) fn charges(&self, now: Instant) -> Vec<TableCharges> {
        let tables = self.tables.borrow();
        let meters = tables.iter().filter_map(|(table, metered)| Some((table, metered.table.as_ref()?)));
        let mut all: Vec<TableCharges> = meters.map(|(table, meter)| meter.shown(*table, now)).collect();
        all.sort_by_key(|charges| charges.table);
        all
    }
}

impl Meter {
    fn new(name: (String, String), capacity: Arc<Capacity>) -> Meter {
        Meter {
            name,
            capacity,
            leases: Rc::default(),
            charges: RefCell::default(),
            second: Cell::default(),
            hot: RefCell::new(HotKeys::new()),
        }
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
    use model::Keyspace;
    use model::capacity::Provisioned;
    use uuid::Uuid;

    fn metered(capacity: Capacity) -> (Throughput, Rc<Meter>) {
        let throughput = Throughput::default();
        let meter = Rc::new(Meter::new(("ks".into(), "t".into()), Arc::new(capacity)));
        let metered = Metered { table: Some(meter.clone()), keyspace: None };
        throughput.tables.borrow_mut().insert(TableId([7; 16]), metered);
        throughput.is_metered.set(true);
        (throughput, meter)
    }

    fn request(scope: Scope) -> LeaseRequest {
        let ask = Ask { wanted: 500, least: 100, round_trip_micros: 0 };
        let holder = (Uuid::nil(), 0);
        LeaseRequest { table: TableId([7; 16]), measure: Measure::Writes, scope, quota_rate: None, holder, ask }
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
    fn so_many_roles_are_told_apart() {
        let provisioned = Provisioned::Units { per_second: 400, is_autoscaled: false };
        let (throughput, meter) = metered(Capacity { provisioned, ..Capacity::default() });
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

    /// Whoever asks says the rate of a quota: a keeper need not have read the role.
    #[test]
    fn a_bucket_of_a_quota_has_the_rate_of_the_last_asking() {
        let throughput = Throughput::default();
        let ask = |rate, now| {
            let asked = LeaseRequest { measure: Measure::Units, quota_rate: Some(rate), ..request(Scope::Role) };
            throughput.lease(&asked, 1, now).map(|(grant, _)| grant.units)
        };
        assert_eq!(ask(100_000, 0), Some(500), "15 ms of the rate are more than that");
        assert_eq!(ask(10_000, 1_000_000), Some(150), "now they are less");
        assert_eq!(ask(100_000, 1_002_000), Some(0), "two milliseconds of the less are not enough");
        assert_eq!(ask(100_000, 1_004_000), Some(220), "and as many of the more");
        let other = LeaseRequest { measure: Measure::Units, quota_rate: Some(100_000), ..request(Scope::Keyspace) };
        assert_eq!(throughput.lease(&other, 1, 1_004_000).map(|(grant, _)| grant.units), Some(500), "another bucket");
    }

    #[test]
    fn tables_of_a_keyspace_share_the_meter_of_its_quota() {
        let throughput = Throughput::default();
        let mut schema = Schema::empty(Partitioner::Murmur3);
        let mut number = 0;
        let mut below = |most: u64| {
            number += 7;
            number % most
        };
        while schema.tables.len() < 2 {
            schema = model::arbitrary::schema(&mut below);
        }
        let mut keyspace = Keyspace::clone(schema.keyspaces.values().find(|k| !k.tables.is_empty()).expect("one"));
        keyspace.tables.values_mut().for_each(|table| Arc::make_mut(table).options.capacity = None);
        let ids: Vec<TableId> = keyspace.tables.values().map(|table| table.id).collect();
        let mut with = |units| {
            keyspace.quota = Quota { units_per_second: units, ..Quota::default() };
            let mut schema = Schema::empty(Partitioner::Murmur3);
            schema.put_keyspace(Arc::new(keyspace.clone()));
            throughput.adopt(&schema);
        };
        with(Some(5));
        let meters: Vec<Rc<QuotaMeter>> = ids.iter().filter_map(|id| throughput.of(*id).keyspace).collect();
        assert_eq!(meters.len(), ids.len());
        assert!(meters.iter().all(|meter| Rc::ptr_eq(meter, &meters[0]) && meter.rate() == Some(500)));
        with(Some(6));
        assert_eq!(meters[0].rate(), Some(600), "leases go on with another rate");
        with(None);
        assert!(!throughput.is_metered() && throughput.of(ids[0]).keyspace.is_none());
    }
}
