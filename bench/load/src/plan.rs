//! The plan of a run: all its settings, whichever kind of command line they came from.

use crate::encryption::Ssl;
use crate::keys::Distribution;
use crate::schedule::Arrivals;
use model::Consistency;
use std::net::SocketAddr;
use std::time::Duration;
use wire::Version;

/// What paces the operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// Closed loop: the next operation is sent as soon as a request has its reply.
    Closed,
    /// Open loop: operations are due at times fixed in advance, `rate` per second over all threads.
    Open {
        /// Operations per second, above 0.
        rate: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
    /// Closed loop of at most `rate` operations per second, like cassandra-stress's `throttle=`. Late operations do not
    /// count against the server, so there is no response time.
    Throttled {
        /// Operations per second, above 0.
        rate: f64,
    },
}

/// How long a run warms up before it measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmup {
    /// Not at all.
    None,
    /// This long, rounded up to whole windows.
    Fixed(Duration),
    /// Until throughput and p99 have stopped changing, at most this long.
    Steady(Duration),
}

/// When measuring ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// After this long, rounded up to whole windows.
    Time(Duration),
    /// After this many operations, over all threads.
    Operations(u64),
}

/// A workload by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum WorkloadName {
    /// A blob key with five blobs, cassandra-stress's standard1: write, read
    Standard,
    /// Samples by series and time, newest first: write, read
    Series,
    /// Partitions of many rows: write, read, slice
    Wide,
    /// Conditional statements: insert, update, read
    Lwt,
    /// Counters: write, read
    Counter,
    /// Batches of rows of one partition: write, read
    Batch,
}

/// What is stored and asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    /// The workload.
    pub workload: WorkloadName,
    /// The keyspace, made if it does not exist.
    pub keyspace: String,
    /// Its replication, a CQL map.
    pub replication: String,
    /// Blobs in a row of `standard`, 1 to 1000.
    pub columns: usize,
    /// Bytes of each blob, 8 to 1 MiB.
    pub value_bytes: usize,
    /// Rows of a partition of `wide`, at least 1.
    pub partition_rows: u64,
    /// Rows that a slice reads or a batch writes, at least 1.
    pub slice_rows: u64,
    /// Whether batches go through the batch log.
    pub logged: bool,
    /// Number of the first key.
    pub first_key: u64,
    /// Keys, at least 1.
    pub keys: u64,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// Weights of the workload's kinds of operation, by name; a kind that is not named does not occur.
    pub ratio: Vec<(String, f64)>,
    /// Whether a missing row is an error.
    pub missing_is_error: bool,
    /// Whether the tables are emptied first.
    pub truncate: bool,
    /// Whether every key is written before the run.
    pub populate: bool,
}

/// All settings of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Servers, 1 to 256; connections go to them in turn.
    pub hosts: Vec<SocketAddr>,
    /// Name and password for servers that ask.
    pub login: Option<(String, String)>,
    /// How connections are encrypted; `None` if they are not.
    pub ssl: Option<Ssl>,
    /// The protocol's version, 4 or 5.
    pub version: Version,
    /// Consistency of requests.
    pub consistency: Consistency,
    /// Serial consistency of conditional requests, if not the server's default.
    pub serial: Option<Consistency>,
    /// Connections of all threads together, at least one for each thread.
    pub connections: usize,
    /// Requests that may be under way on all connections together, at least one for each connection.
    pub in_flight: usize,
    /// Whether each request goes to the server that is the first replica of its key. Needs connections to every server
    /// on every thread.
    pub token_aware: bool,
    /// Whether connections go to the servers' shards through their shard-aware ports, and each request to the shard
    /// that owns its key. Needs a single host or `token_aware`, and on every thread connections to every shard.
    pub shard_aware: bool,
    /// Threads of the generator, at least 1.
    pub threads: usize,
    /// CPUs that the threads are pinned to, one each; empty if they are not pinned.
    pub cpus: Vec<usize>,
    /// How long an idle thread polls before it sleeps: send times become more exact and the CPU stays busy.
    pub spin: Duration,
    /// What paces the operations.
    pub pace: Pace,
    /// How long a run warms up.
    pub warmup: Warmup,
    /// When measuring ends.
    pub length: Length,
    /// Length of a window, at least 10 ms.
    pub window: Duration,
    /// How long a request may take.
    pub timeout: Duration,
    /// Sends later than this after their due time count against the verdict.
    pub late: Duration,
    /// Share of failed operations up to which a run is valid, 0 to 1.
    pub errors_max: f64,
    /// Seed of keys and kinds.
    pub seed: u64,
    /// Server processes on this machine whose CPU time is measured.
    pub pids: Vec<u32>,
    /// Whether the generator's own CPU time is measured.
    pub own_cpu: bool,
    /// Whether a progress line goes to standard error.
    pub progress: bool,
    /// What is stored and asked.
    pub data: Data,
}

impl Plan {
    /// The requests that connection `index` (of all threads) may have under way.
    pub fn depth_of(&self, index: usize) -> usize {
        self.in_flight / self.connections + usize::from(index < self.in_flight % self.connections)
    }

    /// The numbers of a thread's connections.
    pub fn connections_of(&self, thread: usize) -> impl Iterator<Item = usize> {
        (thread..self.connections).step_by(self.threads)
    }

    /// Refuses settings that contradict each other; the error names them.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |wrong: bool, text: &str| if wrong { Err(text.to_string()) } else { Ok(()) };
        refuse(self.hosts.is_empty(), "no host is given")?;
        refuse(self.hosts.len() > HOSTS_MAX, "host: at most 256")?;
        refuse(
            self.shard_aware && self.hosts.len() > 1 && !self.token_aware,
            "shard-aware: one host, or token-aware too",
        )?;
        refuse(
            (self.shard_aware || self.token_aware) && self.in_flight / self.threads > DEPTH_MAX,
            "depth: too many requests for a connection",
        )?;
        refuse(self.threads == 0 || self.threads > 256, "threads: 1 to 256")?;
        refuse(self.connections < self.threads, "connections: at least one for each thread")?;
        refuse(self.in_flight < self.connections, "depth: at least one request for each connection")?;
        refuse(self.depth_of(0) > DEPTH_MAX, "depth: at most 16384 requests on a connection")?;
        refuse(!self.cpus.is_empty() && self.cpus.len() < self.threads, "cpu: one for each thread")?;
        refuse(self.window < Duration::from_millis(10), "interval: at least 10ms")?;
        refuse(self.timeout.is_zero(), "timeout: above 0")?;
        refuse(!(0.0..=1.0).contains(&self.errors_max), "errors-max: a share from 0 to 1")?;
        if let Pace::Open { rate, .. } | Pace::Throttled { rate } = self.pace {
            refuse(!(rate > 0.0 && rate <= 1e9), "rate: above 0 and at most 1e9 per second")?;
        }
        let data = &self.data;
        refuse(data.keys == 0 || data.keys > 1 << 40, "keys: 1 to 2^40")?;
        refuse(data.first_key > 1 << 40, "first key: at most 2^40")?;
        refuse(data.columns == 0 || data.columns > 1000, "columns: 1 to 1000")?;
        refuse(data.value_bytes < 8 || data.value_bytes > 1 << 20, "value-bytes: 8 to 1048576")?;
        refuse(data.partition_rows == 0 || data.slice_rows == 0, "rows: at least 1")?;
        refuse(data.slice_rows > 5000, "slice-rows: at most 5000, a page")?;
        let word = data.keyspace.starts_with(|c: char| c.is_ascii_lowercase());
        let plain = data.keyspace.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        refuse(!word || !plain, "keyspace: lower-case letters, digits and _")?;
        refuse(matches!(self.length, Length::Operations(0)), "operations: at least 1")?;
        refuse(matches!(self.length, Length::Time(time) if time < self.window), "duration: at least one interval")
    }
}

/// Most requests under way on one connection: half of the stream numbers that are not negative.
const DEPTH_MAX: usize = 16_384;
/// Most servers of a plan.
const HOSTS_MAX: usize = 256;
