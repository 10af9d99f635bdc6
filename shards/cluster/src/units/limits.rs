//! What the capacity of a table and quotas limit: the scopes of a request, their rates, and what the request costs in
//! each.
//!
//! The rates that a capacity gives hold in each data centre by itself.

use crate::units::HUNDREDTHS;
use crate::units::price::Work;
use model::Consistency;
use model::capacity::{Capacity, Distribution, KEY_READS_MAX, KEY_WRITES_MAX, Provisioned};
use uuid::Uuid;

/// Bytes that one unit of reading counts where a table has a capacity mode.
pub const READ_UNIT_BYTES: u64 = 4096;
/// Bytes that one unit of writing counts there.
pub const WRITE_UNIT_BYTES: u64 = 1024;
/// Of the rate of a partition key the cores of a data centre together admit one in so many parts without asking.
pub const UNASKED_PART: u64 = 40;

/// In what a limit is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Measure {
    /// Request units.
    Units = 0,
    /// Reads of 4 KB.
    ReadUnits = 1,
    /// Writes of 1 KB.
    WriteUnits = 2,
    /// Reading requests.
    Reads = 3,
    /// Writing requests.
    Writes = 4,
}

impl Measure {
    /// The measure with a number.
    pub fn of(number: u8) -> Option<Measure> {
        [Measure::Units, Measure::ReadUnits, Measure::WriteUnits, Measure::Reads, Measure::Writes]
            .into_iter()
            .find(|measure| *measure as u8 == number)
    }
}

/// What is limited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// All of a table.
    Table,
    /// One physical partition of a table: what a core has as the first of its replicas.
    Physical {
        /// The host id of the core's node.
        host_id: Uuid,
        /// The core.
        core: u16,
    },
    /// A partition key of a table, by the first 64 bits of its token.
    Key(i64),
    /// The tables of a keyspace together, by its quota.
    Keyspace,
    /// What a role asks for, by its quota.
    Role,
}

impl Scope {
    /// Whether it is one of a quota, which limits more than one table.
    pub fn is_of_quota(self) -> bool {
        matches!(self, Scope::Keyspace | Scope::Role)
    }
}

/// A limit of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// In what it is counted.
    pub measure: Measure,
    /// Hundredths a second.
    pub rate: u64,
    /// Whether it is one of the partition key; else it is one of the table or of a physical partition.
    pub is_of_key: bool,
}

/// What a request costs, hundredths of each kind of unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Request units.
    pub units: u64,
    /// Reads of 4 KB or writes of 1 KB.
    pub capacity_units: u64,
}

impl Cost {
    /// What counts for a limit.
    pub fn of(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Units => self.units,
            Measure::ReadUnits | Measure::WriteUnits => self.capacity_units,
            Measure::Reads | Measure::Writes => HUNDREDTHS,
        }
    }

    /// The cost of a read at a level.
    pub fn of_read(work: &Work, level: Consistency) -> Cost {
        let whole = work.read_bytes.div_ceil(READ_UNIT_BYTES).max(work.partitions).max(1) * HUNDREDTHS;
        let is_weak = matches!(level, Consistency::One | Consistency::LocalOne);
        Cost { units: super::price(work), capacity_units: if is_weak { whole / 2 } else { whole } }
    }

    /// The cost of a write.
    pub fn of_write(work: &Work) -> Cost {
        let kib_per_unit = WRITE_UNIT_BYTES / 1024;
        Cost { units: super::price(work), capacity_units: work.written_kib.div_ceil(kib_per_unit).max(1) * HUNDREDTHS }
    }
}

/// The limits of requests that read or write, given how many cores the data centre has: that of the partition key
/// comes first, because few requests fail by it alone.
pub fn limits(capacity: &Capacity, is_write: bool, cores: u64) -> Vec<Limit> {
    let mut out = Vec::with_capacity(2);
    let mut of_key = |measure, rate: u32| {
        out.push(Limit { measure, rate: u64::from(rate) * HUNDREDTHS, is_of_key: true });
    };
    let capacity_measure = if is_write { Measure::WriteUnits } else { Measure::ReadUnits };
    match (if is_write { capacity.writes_per_key } else { capacity.reads_per_key }, is_write) {
        (Some(rate), true) => of_key(Measure::Writes, rate),
        (Some(rate), false) => of_key(Measure::Reads, rate),
        (None, _) => {}
    }
    if let Some(rate) = capacity.units_per_key() {
        of_key(Measure::Units, rate);
    }
    if capacity.has_capacity_mode() {
        of_key(capacity_measure, if is_write { KEY_WRITES_MAX } else { KEY_READS_MAX });
    }
    let parts = match capacity.distribution {
        Distribution::Demand => 1,
        Distribution::Equal => cores.max(1),
    };
    let whole = match capacity.provisioned {
        Provisioned::Nothing | Provisioned::OnDemand => None,
        Provisioned::Units { per_second, .. } => Some((Measure::Units, per_second)),
        Provisioned::ReadWrite { reads, .. } if !is_write => Some((Measure::ReadUnits, reads)),
        Provisioned::ReadWrite { writes, .. } => Some((Measure::WriteUnits, writes)),
    };
    if let Some((measure, rate)) = whole {
        out.push(Limit { measure, rate: u64::from(rate) * HUNDREDTHS / parts, is_of_key: false });
    }
    out
}

/// The rate of a scope in a measure; `None` if it is not limited.
pub fn rate_of(capacity: &Capacity, measure: Measure, scope: Scope, cores: u64) -> Option<u64> {
    if scope.is_of_quota() {
        return None;
    }
    let is_of_key = matches!(scope, Scope::Key(_));
    let is_physical = matches!(scope, Scope::Physical { .. });
    if !is_of_key && is_physical != (capacity.distribution == Distribution::Equal) {
        return None;
    }
    let both = [true, false].into_iter().flat_map(|is_write| limits(capacity, is_write, cores));
    both.into_iter().find(|limit| limit.measure == measure && limit.is_of_key == is_of_key).map(|limit| limit.rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(measure: Measure, per_second: u64, is_of_key: bool) -> Limit {
        Limit { measure, rate: per_second * HUNDREDTHS, is_of_key }
    }

    #[test]
    fn limits_of_the_services() {
        let units = Provisioned::Units { per_second: 400, is_autoscaled: false };
        let cosmos = Capacity { provisioned: units, ..Capacity::default() };
        let of_units = [limit(Measure::Units, 10_000, true), limit(Measure::Units, 400, false)];
        assert_eq!(limits(&cosmos, true, 8), of_units);
        assert_eq!(limits(&cosmos, false, 8), of_units);
        let equal = Capacity { distribution: Distribution::Equal, ..cosmos.clone() };
        assert_eq!(limits(&equal, true, 8)[1], limit(Measure::Units, 50, false));
        let keyspaces = Capacity { provisioned: Provisioned::ReadWrite { reads: 7, writes: 9 }, ..Capacity::default() };
        let of_writes = [limit(Measure::WriteUnits, 1_000, true), limit(Measure::WriteUnits, 9, false)];
        assert_eq!(limits(&keyspaces, true, 1), of_writes);
        let of_reads = [limit(Measure::ReadUnits, 3_000, true), limit(Measure::ReadUnits, 7, false)];
        assert_eq!(limits(&keyspaces, false, 1), of_reads);
        let on_demand = Capacity { provisioned: Provisioned::OnDemand, ..Capacity::default() };
        assert_eq!(limits(&on_demand, false, 1), of_reads[..1]);
        let scylla = Capacity { writes_per_key: Some(0), ..Capacity::default() };
        assert_eq!(limits(&scylla, true, 1), [limit(Measure::Writes, 0, true)]);
        assert_eq!(limits(&scylla, false, 1), []);
        let physical = Scope::Physical { host_id: Uuid::nil(), core: 1 };
        assert_eq!(rate_of(&equal, Measure::Units, physical, 8), Some(5_000));
        assert_eq!(rate_of(&equal, Measure::Units, Scope::Table, 8), None);
        assert_eq!(rate_of(&cosmos, Measure::Units, Scope::Table, 8), Some(40_000));
        assert_eq!(rate_of(&cosmos, Measure::Units, physical, 8), None);
        assert_eq!(rate_of(&cosmos, Measure::Units, Scope::Key(7), 8), Some(1_000_000));
        assert_eq!(rate_of(&cosmos, Measure::Reads, Scope::Key(7), 8), None);
        assert_eq!(rate_of(&cosmos, Measure::Units, Scope::Keyspace, 8), None, "no capacity says it");
        assert_eq!((0..=255).filter_map(Measure::of).count(), 5);
    }

    #[test]
    fn units_of_capacity_modes() {
        let read = |bytes, level| {
            let work = Work { partitions: 1, rows: 1, read_bytes: bytes, readers: 2, ..Work::default() };
            Cost::of_read(&work, level).capacity_units
        };
        assert_eq!(read(4096, Consistency::LocalQuorum), 100);
        assert_eq!(read(4097, Consistency::LocalQuorum), 200);
        assert_eq!(read(4096, Consistency::LocalOne), 50);
        assert_eq!(read(0, Consistency::One), 50);
        let mut work = Work::default();
        work.mutation(1025, 0);
        work.mutation(1, 0);
        assert_eq!(Cost::of_write(&work).capacity_units, 300);
        assert_eq!(Cost::of_write(&work).of(Measure::Writes), 100, "one request");
    }
}
