//! The throughput that a table may use: what services for Cassandra's tables and ScyllaDB let a table's owner say about
//! it.
//!
//! | option | unit |
//! |---|---|
//! | `cosmosdb_provisioned_throughput`, `cosmosdb_autoscale_max_throughput` | request units a second, in all |
//! | `CUSTOM_PROPERTIES = {'capacity_mode': ...}` | reads of 4 KB and writes of 1 KB a second, in all and for a key |
//! | `per_partition_rate_limit` | requests a second for a key |
//!
//! Cassandra has no columns for them, so they are stored as an extension of the table, [`EXTENSION`]: the options as
//! text, `name=value` separated by `;`, in the order of [`Capacity::options`]. Names that are not known are left out
//! when it is read, and so are values that are no numbers.

/// The name of the extension.
pub const EXTENSION: &str = "helenus.capacity";
/// Most request units a second of one partition key where throughput is provisioned in request units.
pub const KEY_UNITS_MAX: u32 = 10_000;
/// Most reads of 4 KB a second of one partition key where a table has a capacity mode.
pub const KEY_READS_MAX: u32 = 3_000;
/// Most writes of 1 KB a second of one partition key where a table has a capacity mode.
pub const KEY_WRITES_MAX: u32 = 1_000;
/// The longest time for which a request may wait for units, milliseconds.
pub const RETRY_MILLIS_MAX: u32 = 60_000;

/// What a table may use. The default limits nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// What is provisioned for the whole table.
    pub provisioned: Provisioned,
    /// Requests a second for a partition key.
    pub reads_per_key: Option<u32>,
    /// See `reads_per_key`.
    pub writes_per_key: Option<u32>,
    /// How what is provisioned is shared out.
    pub distribution: Distribution,
    /// How long a request waits for units before it is refused, milliseconds.
    pub retry_millis: u32,
}

/// What is provisioned for a whole table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Provisioned {
    /// Nothing: the table is not limited.
    #[default]
    Nothing,
    /// Request units a second.
    Units {
        /// How many.
        per_second: u32,
        /// Whether that is the most that it may be scaled to.
        is_autoscaled: bool,
    },
    /// Nothing for the whole table, but for each partition key: `PAY_PER_REQUEST`.
    OnDemand,
    /// Reads of 4 KB and writes of 1 KB a second: `PROVISIONED`.
    ReadWrite {
        /// Reads.
        reads: u32,
        /// Writes.
        writes: u32,
    },
}

/// How what is provisioned is shared out among the physical partitions of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Distribution {
    /// All of it to whoever needs it.
    #[default]
    Demand,
    /// The same to each physical partition, as the services do.
    Equal,
}

const UNITS: &str = "cosmosdb_provisioned_throughput";
const AUTOSCALED: &str = "cosmosdb_autoscale_max_throughput";
const READS: &str = "read_capacity_units";
const WRITES: &str = "write_capacity_units";
const ON_DEMAND: &str = "pay_per_request";
const KEY_READS: &str = "max_reads_per_second";
const KEY_WRITES: &str = "max_writes_per_second";
const EQUAL: &str = "equal";
const RETRY: &str = "server_side_retry_in_ms";

impl Capacity {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.provisioned == Provisioned::Nothing && self.reads_per_key.is_none() && self.writes_per_key.is_none()
    }

    /// Request units a second for a partition key; `None`: not limited in these units.
    pub fn units_per_key(&self) -> Option<u32> {
        matches!(self.provisioned, Provisioned::Units { .. }).then_some(KEY_UNITS_MAX)
    }

    /// Whether reads of 4 KB and writes of 1 KB are counted.
    pub fn has_capacity_mode(&self) -> bool {
        matches!(self.provisioned, Provisioned::OnDemand | Provisioned::ReadWrite { .. })
    }

    /// The options by their stored names, without those that have their defaults.
    fn stored(&self) -> Vec<(&'static str, u32)> {
        let mut out = match self.provisioned {
            Provisioned::Nothing => Vec::new(),
            Provisioned::Units { per_second, is_autoscaled: false } => vec![(UNITS, per_second)],
            Provisioned::Units { per_second, is_autoscaled: true } => vec![(AUTOSCALED, per_second)],
            Provisioned::OnDemand => vec![(ON_DEMAND, 1)],
            Provisioned::ReadWrite { reads, writes } => vec![(READS, reads), (WRITES, writes)],
        };
        out.extend(self.reads_per_key.map(|rate| (KEY_READS, rate)));
        out.extend(self.writes_per_key.map(|rate| (KEY_WRITES, rate)));
        out.extend((self.distribution == Distribution::Equal).then_some((EQUAL, 1)));
        out.extend((self.retry_millis > 0).then_some((RETRY, self.retry_millis)));
        out
    }

    /// The value of the extension; `None` for the default.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let stored = self.stored();
        let parts: Vec<String> = stored.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!parts.is_empty()).then(|| parts.join(";").into_bytes())
    }

    /// What the value of an extension says.
    pub fn decode(bytes: &[u8]) -> Capacity {
        let mut capacity = Capacity::default();
        let (mut reads, mut writes) = (None, None);
        for part in std::str::from_utf8(bytes).unwrap_or_default().split(';') {
            let Some((name, value)) = part.split_once('=') else { continue };
            let Ok(value) = value.parse::<u32>() else { continue };
            match name {
                UNITS | AUTOSCALED => {
                    let is_autoscaled = name == AUTOSCALED;
                    capacity.provisioned = Provisioned::Units { per_second: value, is_autoscaled };
                }
                ON_DEMAND => capacity.provisioned = Provisioned::OnDemand,
                READS => reads = Some(value),
                WRITES => writes = Some(value),
                KEY_READS => capacity.reads_per_key = Some(value),
                KEY_WRITES => capacity.writes_per_key = Some(value),
                EQUAL => capacity.distribution = Distribution::Equal,
                RETRY => capacity.retry_millis = value.min(RETRY_MILLIS_MAX),
                _ => {}
            }
        }
        if let (Some(reads), Some(writes)) = (reads, writes) {
            capacity.provisioned = Provisioned::ReadWrite { reads, writes };
        }
        capacity
    }

    /// The options as WITH has them: names and values, as DESCRIBE shows them after those of Cassandra.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let mut out = match self.provisioned {
            Provisioned::Nothing => Vec::new(),
            Provisioned::Units { per_second, is_autoscaled } => {
                vec![(if is_autoscaled { AUTOSCALED } else { UNITS }, per_second.to_string())]
            }
            Provisioned::OnDemand => {
                vec![("CUSTOM_PROPERTIES", "{'capacity_mode': {'throughput_mode': 'PAY_PER_REQUEST'}}".to_owned())]
            }
            Provisioned::ReadWrite { reads, writes } => {
                let mode = format!(
                    "{{'capacity_mode': {{'throughput_mode': 'PROVISIONED', '{READS}': {reads}, '{WRITES}': {writes}}}}}"
                );
                vec![("CUSTOM_PROPERTIES", mode)]
            }
        };
        let rates = [(KEY_READS, self.reads_per_key), (KEY_WRITES, self.writes_per_key)];
        let rates: Vec<String> =
            rates.iter().filter_map(|(name, rate)| Some(format!("'{name}': {}", (*rate)?))).collect();
        if !rates.is_empty() {
            out.push(("per_partition_rate_limit", format!("{{{}}}", rates.join(", "))));
        }
        if self.distribution != Distribution::Demand || self.retry_millis > 0 {
            let distribution = if self.distribution == Distribution::Equal { "equal" } else { "demand" };
            let options = format!("{{'distribution': '{distribution}', '{RETRY}': {}}}", self.retry_millis);
            out.push(("throughput_options", options));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_holds_all_options() {
        let all = Capacity {
            provisioned: Provisioned::Units { per_second: 4_000, is_autoscaled: true },
            reads_per_key: Some(5),
            writes_per_key: Some(0),
            distribution: Distribution::Equal,
            retry_millis: 250,
        };
        let bytes = all.encode().expect("options");
        let text = "cosmosdb_autoscale_max_throughput=4000;max_reads_per_second=5;max_writes_per_second=0;equal=1;\
                    server_side_retry_in_ms=250";
        assert_eq!(String::from_utf8_lossy(&bytes), text);
        assert_eq!(Capacity::decode(&bytes), all);
        for provisioned in [
            Provisioned::Units { per_second: 400, is_autoscaled: false },
            Provisioned::OnDemand,
            Provisioned::ReadWrite { reads: 7, writes: 9 },
        ] {
            let capacity = Capacity { provisioned, ..Capacity::default() };
            assert_eq!(Capacity::decode(&capacity.encode().expect("options")), capacity);
        }
        assert_eq!(Capacity::default().encode(), None);
        for malformed in [&b"\xff"[..], b"", b";;=;equal", b"later_option=5", b"read_capacity_units=5", b"equal=x"] {
            assert_eq!(Capacity::decode(malformed), Capacity::default());
        }
    }
}
