//! What requests to tables whose throughput is limited were charged.

use model::TableId;
use model::quota::Quota;

/// What was charged to a role since the start of the node. Units are hundredths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charges {
    /// Reading requests.
    pub reads: u64,
    /// Their units.
    pub read_units: u64,
    /// Writing requests.
    pub writes: u64,
    /// Their units.
    pub write_units: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl Charges {
    /// Adds what another core or role was charged.
    pub fn add(&mut self, other: &Charges) {
        self.reads += other.reads;
        self.read_units += other.read_units;
        self.writes += other.writes;
        self.write_units += other.write_units;
        self.refused += other.refused;
    }
}

/// What a core has charged of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableCharges {
    /// The table.
    pub table: TableId,
    /// Its keyspace and name.
    pub name: (String, String),
    /// By role; the name of clients without one is empty.
    pub roles: Vec<(String, Charges)>,
    /// Hundredths of the last whole second.
    pub last_second: u64,
    /// The keys that were charged the most, and what was charged to all keys, in the last whole interval of
    /// [`HOT_SECONDS`]; in the first one, until now.
    pub hot: Vec<HotKey>,
    /// See `hot`.
    pub hot_total: u64,
    /// The seconds of that interval.
    pub hot_seconds: u64,
}

/// Whose quota it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QuotaOwner {
    /// A keyspace.
    Keyspace,
    /// A role.
    Role,
}

/// What a core has charged to one quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaCharges {
    /// Whose it is.
    pub owner: QuotaOwner,
    /// The name of the keyspace or role.
    pub name: String,
    /// The quota.
    pub limits: Quota,
    /// What it was charged.
    pub charges: Charges,
}

/// How long keys are counted before their counts are shown and others begin.
pub const HOT_SECONDS: u64 = 10;

/// A partition key that was charged much.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotKey {
    /// The key, serialised.
    pub key: Box<[u8]>,
    /// Hundredths, perhaps more than were charged.
    pub units: u64,
    /// Reading requests.
    pub reads: u64,
    /// Writing requests.
    pub writes: u64,
}

/// A partition that is read so often that its reads are relieved.
#[derive(Clone, PartialEq, Debug)]
pub struct RelievedPartition {
    /// Its table.
    pub table: TableId,
    /// The key, serialised.
    pub key: Box<[u8]>,
    /// Reads a second that the core could not answer by itself at once, of the last whole second or so.
    pub reads_per_second: f64,
    /// Reads that were answered by an equal one, since the partition is hot.
    pub reads_joined: u64,
    /// Reads that have asked other replicas than the nearest, since the partition is hot.
    pub reads_spread: u64,
}
