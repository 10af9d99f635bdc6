//! What a request costs, and who pays for it.

use super::Admitted;
use super::permit::Permit;
use crate::coordinator::read::ReadPlan;
use crate::messages::units::CountedQuota;
use crate::metrics::Charges;
use crate::shard_state::quotas::QuotaMeter;
use crate::shard_state::throughput::Meter;
use cluster::units::Work;
use cluster::units::limits::Cost;
use model::DecoratedKey;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Who is charged for a request, and how much. There is none where nothing is metered and the client does not ask.
pub(crate) struct Bill {
    role: Option<Rc<str>>,
    role_quota: Option<Rc<QuotaMeter>>,
    hundredths: Cell<u64>,
    /// Whether the client is told.
    is_told: Cell<bool>,
    /// The read that has been admitted and is not charged yet. It is kept here, and not by the read itself, so that the
    /// futures of requests without a bill are no larger for it.
    reading: RefCell<Option<ReadCharge>>,
    /// What counts the request among those at once, until it ends.
    permits: RefCell<SmallVec<[Permit; 2]>>,
}

impl Bill {
    /// A bill for a role and its quota. `is_asked` says that the client has asked for it.
    pub(crate) fn new(role: Option<Rc<str>>, role_quota: Option<Rc<QuotaMeter>>, is_asked: bool) -> Bill {
        let (hundredths, is_told) = (Cell::new(0), Cell::new(is_asked));
        Bill { role, role_quota, hundredths, is_told, reading: RefCell::default(), permits: RefCell::default() }
    }

    /// Hundredths of request units, if the client is to be told.
    pub(crate) fn told(&self) -> Option<u64> {
        self.is_told.get().then(|| self.hundredths.get())
    }

    pub(super) fn add(&self, units: u64, is_metered: bool) {
        self.hundredths.set(self.hundredths.get() + units);
        self.is_told.set(self.is_told.get() || is_metered);
    }

    pub(super) fn role(&self) -> Option<&Rc<str>> {
        self.role.as_ref()
    }

    /// The quota of the role; `None` if it has none.
    pub(super) fn role_quota(&self) -> Option<&Rc<QuotaMeter>> {
        self.role_quota.as_ref()
    }

    /// Whether the request counts already among those at once of a quota: a batch is one request.
    pub(super) fn has_permit(&self, quota: CountedQuota) -> bool {
        self.permits.borrow().iter().any(|permit| permit.quota == quota)
    }

    pub(super) fn keep_permit(&self, permit: Permit) {
        self.permits.borrow_mut().push(permit);
    }

    /// Keeps what was admitted until the read ends.
    pub(super) fn begin_read(&self, charge: ReadCharge) {
        self.reading.replace(Some(charge));
    }

    /// Charges the read that was admitted for what it has looked at and returns.
    pub(crate) fn end_read(&self, plan: &ReadPlan, read_bytes: usize) {
        if let Some(charge) = self.reading.take() {
            charge.end(self, plan, read_bytes);
        }
    }
}

/// A read that has been admitted and is not charged yet.
pub(super) struct ReadCharge {
    /// The table's meter, if it has one.
    pub(super) meter: Option<Rc<Meter>>,
    /// The quotas that it is charged to.
    pub(super) quotas: SmallVec<[Rc<QuotaMeter>; 2]>,
    pub(super) admitted: Admitted,
    /// The partitions; none: a range is read.
    pub(super) keys: SmallVec<[DecoratedKey; 1]>,
}

impl ReadCharge {
    /// Charges the read for what it has looked at and returns.
    fn end(self, bill: &Bill, plan: &ReadPlan, read_bytes: usize) {
        let consistency = plan.terms.consistency;
        let required = plan.placement.keyspace().levels().required_by_read(consistency);
        let work = Work {
            partitions: (self.keys.len() as u64).max(1),
            rows: plan.looked_at.get(),
            read_bytes: read_bytes as u64,
            indexes_read: u64::from(plan.index.is_some()),
            readers: if plan.table.is_virtual() { 1 } else { u64::from(required.block_for) },
            ..Work::default()
        };
        let cost = Cost::of_read(&work, consistency);
        bill.add(cost.units, self.meter.is_some() || !self.admitted.scopes.is_empty());
        self.admitted.settle(&cost);
        let charged = Charges { reads: 1, read_units: cost.units, ..Charges::default() };
        self.quotas.iter().for_each(|quota| quota.charge(&charged));
        let Some(meter) = self.meter else { return };
        let now = runtime::now();
        meter.leases.note_read(cost.units);
        let part = cost.units / (self.keys.len() as u64).max(1);
        self.keys.iter().for_each(|key| meter.note_key(&key.key, part, false, now));
        meter.charge(bill.role(), &charged, now);
    }
}
