//! The keyspaces and roles with quotas, as this core has them.
//!
//! 1. A keyspace's meter begins when the schema that has the quota is served.
//! 2. A role's meter begins when the role is read because somebody is logged in as it, and follows the role from then
//!    on: it is read again once a second at least, and at once if it is changed.
//!
//! Invariants: a keyspace or role without a quota has no meter; meters of roles are at most [`ROLES_MAX`] unless more
//! of them were used within a second.

use super::lease_book::{IDLE_MICROS, LeaseBook};
use crate::messages::units::CountedQuota;
use crate::metrics::{Charges, QuotaCharges, QuotaOwner};
use cluster::units::HUNDREDTHS;
use cluster::units::limits::Scope;
use model::quota::Quota;
use model::{Failure, HashMap, TableId};
use sha2::{Digest, Sha256};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Most meters of roles beyond those that were used lately.
const ROLES_MAX: usize = 1024;

/// A keyspace or role with a quota.
pub(crate) struct QuotaMeter {
    pub(crate) owner: QuotaOwner,
    /// The name of the keyspace or role.
    pub(crate) name: Box<str>,
    /// By what keepers know it, in place of the id of a table: the same on all nodes.
    pub(crate) id: TableId,
    quota: Cell<Quota>,
    used_at: Cell<u64>,
    pub(crate) leases: Rc<LeaseBook>,
    /// What this core has charged to it.
    charges: RefCell<Charges>,
    /// The bytes that one replica of the keyspace stores in this data centre, as was told last.
    stored: Cell<u64>,
}

impl QuotaMeter {
    fn new(owner: QuotaOwner, name: &str, quota: Quota) -> QuotaMeter {
        let digest = Sha256::digest(name.as_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        QuotaMeter {
            owner,
            name: name.into(),
            id: TableId(id),
            quota: Cell::new(quota),
            used_at: Cell::new(0),
            leases: Rc::default(),
            charges: RefCell::default(),
            stored: Cell::new(0),
        }
    }

    /// Adds to what was charged to it.
    pub(crate) fn charge(&self, charged: &Charges) {
        self.charges.borrow_mut().add(charged);
    }

    /// Counts a request that it has refused with this failure.
    pub(crate) fn refused(&self, failure: Failure) -> Failure {
        self.charge(&Charges { refused: 1, ..Charges::default() });
        failure
    }

    /// What was charged to it.
    pub(super) fn shown(&self) -> QuotaCharges {
        let limits = self.quota.get();
        QuotaCharges { owner: self.owner, name: self.name.to_string(), limits, charges: *self.charges.borrow() }
    }

    pub(super) fn set_stored(&self, bytes: u64) {
        self.stored.set(bytes);
    }

    /// Fails if the keyspace stores as much as it may.
    pub(crate) fn check_stored(&self) -> Result<(), Failure> {
        let stored = self.stored.get();
        match self.quota.get().bytes_stored {
            Some(most) if stored >= most => Err(self.refused(Failure::invalid(format!(
                "The keyspace {} stores {stored} bytes, and its quota allows {most}: only deletions are possible",
                self.name
            )))),
            _ => Ok(()),
        }
    }

    /// Hundredths a second; `None` if units are not limited.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.quota.get().units_per_second.map(|units| u64::from(units) * HUNDREDTHS)
    }

    /// The requests that a node may coordinate at the same time; `None` if they are not limited.
    pub(crate) fn requests_at_once(&self) -> Option<u32> {
        self.quota.get().requests_at_once
    }

    /// By what its requests at once are counted.
    pub(crate) fn counted(&self) -> CountedQuota {
        (self.owner, self.id)
    }

    /// The scope of its leases.
    pub(crate) fn scope(&self) -> Scope {
        match self.owner {
            QuotaOwner::Keyspace => Scope::Keyspace,
            QuotaOwner::Role => Scope::Role,
        }
    }
}

/// The requests of this node that run, by the quotas of which this core counts them.
#[derive(Default)]
pub(super) struct RunningRequests {
    counts: RefCell<HashMap<CountedQuota, u32>>,
}

impl RunningRequests {
    /// Counts a request unless there are `most` already.
    pub(super) fn begin(&self, quota: CountedQuota, most: u32) -> bool {
        let mut counts = self.counts.borrow_mut();
        let count = counts.entry(quota).or_default();
        let begins = *count < most;
        *count += u32::from(begins);
        begins
    }

    /// Takes a request off that was counted. Quotas of which no request runs are forgotten.
    pub(super) fn end(&self, quota: CountedQuota) {
        let mut counts = self.counts.borrow_mut();
        let left = counts.get(&quota).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => counts.remove(&quota),
            left => counts.insert(quota, left),
        };
    }
}

/// The meters of roles.
#[derive(Default)]
pub(crate) struct RoleQuotas {
    meters: RefCell<HashMap<Box<str>, Rc<QuotaMeter>>>,
}

impl RoleQuotas {
    /// Notes the quota with which a role was read at `now`, microseconds.
    pub(super) fn note(&self, role: &str, quota: Quota, now: u64) {
        let mut meters = self.meters.borrow_mut();
        if quota.is_empty() {
            meters.remove(role);
            return;
        }
        if meters.len() >= ROLES_MAX && !meters.contains_key(role) {
            meters.retain(|_, meter| now.saturating_sub(meter.used_at.get()) < IDLE_MICROS);
        }
        let begin = || Rc::new(QuotaMeter::new(QuotaOwner::Role, role, quota));
        let meter = meters.entry(role.into()).or_insert_with(begin);
        meter.quota.set(quota);
        meter.used_at.set(now);
    }

    /// The meter of a role, for a request at `now`.
    pub(super) fn of(&self, role: &str, now: u64) -> Option<Rc<QuotaMeter>> {
        let meters = self.meters.borrow();
        let meter = meters.get(role)?;
        meter.used_at.set(now);
        Some(meter.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.meters.borrow().is_empty()
    }

    /// The meters, in no order.
    pub(super) fn all(&self) -> Vec<Rc<QuotaMeter>> {
        self.meters.borrow().values().cloned().collect()
    }
}

/// The meter of a keyspace, which goes on if there was one `before`.
pub(super) fn of_keyspace(name: &str, quota: Quota, before: Option<&Rc<QuotaMeter>>) -> Rc<QuotaMeter> {
    match before {
        Some(meter) => {
            meter.quota.set(quota);
            meter.clone()
        }
        None => Rc::new(QuotaMeter::new(QuotaOwner::Keyspace, name, quota)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(units: u32) -> Quota {
        Quota { units_per_second: Some(units), ..Quota::default() }
    }

    #[test]
    fn a_role_has_a_meter_as_long_as_it_has_a_quota() {
        let roles = RoleQuotas::default();
        assert!(roles.is_empty() && roles.of("r", 0).is_none());
        roles.note("r", units(10), 0);
        let meter = roles.of("r", 0).expect("there");
        assert_eq!((meter.rate(), meter.scope()), (Some(1_000), Scope::Role));
        roles.note("r", units(20), 5);
        assert_eq!(meter.rate(), Some(2_000), "whoever has it sees the change");
        assert!(Rc::ptr_eq(&meter, &roles.of("r", 5).expect("there")), "what is owed is still owed");
        roles.note("r", Quota::default(), 6);
        assert!(roles.is_empty());
    }

    #[test]
    fn meters_that_nobody_uses_make_room() {
        let roles = RoleQuotas::default();
        (0..ROLES_MAX).for_each(|number| roles.note(&number.to_string(), units(1), 0));
        roles.note("one more", units(1), IDLE_MICROS - 1);
        assert_eq!(roles.meters.borrow().len(), ROLES_MAX + 1, "all were used lately");
        roles.of("7", IDLE_MICROS);
        roles.note("another", units(1), IDLE_MICROS + 1);
        let mut left: Vec<Box<str>> = roles.meters.borrow().keys().cloned().collect();
        left.sort();
        assert_eq!(left, ["7".into(), "another".into(), "one more".into()] as [Box<str>; 3]);
    }

    #[test]
    fn as_many_requests_run_as_there_may_be() {
        let running = RunningRequests::default();
        let (of_role, other) = ((QuotaOwner::Role, TableId([1; 16])), (QuotaOwner::Keyspace, TableId([1; 16])));
        assert!(running.begin(of_role, 2) && running.begin(of_role, 2));
        assert!(!running.begin(of_role, 2) && running.begin(other, 1));
        running.end(of_role);
        assert!(running.begin(of_role, 2) && !running.begin(of_role, 1), "by the number of the moment");
        [of_role, of_role, other].into_iter().for_each(|quota| running.end(quota));
        assert!(running.counts.borrow().is_empty());
    }

    #[test]
    fn a_keyspace_may_store_less_than_its_quota_says() {
        let quota = Quota { bytes_stored: Some(10), ..Quota::default() };
        let meter = of_keyspace("k", quota, None);
        meter.set_stored(9);
        assert!(meter.check_stored().is_ok());
        meter.set_stored(10);
        let text = "The keyspace k stores 10 bytes, and its quota allows 10: only deletions are possible";
        assert_eq!(meter.check_stored(), Err(Failure::invalid(text)));
        assert_eq!(meter.shown().charges.refused, 1);
        of_keyspace("k", units(1), Some(&meter));
        assert!(meter.check_stored().is_ok(), "bytes are not limited any more");
    }

    #[test]
    fn all_nodes_know_a_quota_by_one_id() {
        let id = of_keyspace("k", units(1), None).id;
        assert_eq!(id.to_string(), ID_OF_K);
        assert_ne!(id, of_keyspace("K", units(1), None).id);
    }

    const ID_OF_K: &str = "8254c329-a928-50f6-d539-dd376f4816ee";
}
