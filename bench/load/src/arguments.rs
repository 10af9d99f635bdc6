//! The settings of a run on the command line of `helenus bench`.

use crate::encryption::Ssl;
use crate::keys::Distribution;
use crate::plan::{Data, Length, Pace, Plan, Warmup, WorkloadName};
use crate::schedule::Arrivals;
use crate::workload;
use clap::{Args, Parser, ValueEnum};
use model::Consistency;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;
use wire::Version;

/// Settings of a run.
#[derive(Args, Clone, Debug)]
pub struct RunArguments {
    /// Servers, IP or name with an optional port; may be repeated
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',', default_value = "127.0.0.1")]
    host: Vec<String>,
    /// Name for servers that ask (SASL PLAIN)
    #[arg(long, requires = "password")]
    user: Option<String>,
    /// Password for servers that ask
    #[arg(long, requires = "user")]
    password: Option<String>,
    /// Encrypt connections
    #[arg(long)]
    ssl: bool,
    /// PEM with the certificates that are trusted [default: every server is]
    #[arg(long, value_name = "FILE", requires = "ssl")]
    ssl_trust: Option<PathBuf>,
    /// PEM with the certificate to show, and its key unless --ssl-key names that
    #[arg(long, value_name = "FILE", requires = "ssl")]
    ssl_certificate: Option<PathBuf>,
    /// PEM with the key of the certificate
    #[arg(long, value_name = "FILE", requires = "ssl_certificate")]
    ssl_key: Option<PathBuf>,
    /// Version of the native protocol
    #[arg(long, value_name = "4|5", default_value = "4", value_parser = version)]
    protocol: Version,
    /// Consistency of requests
    #[arg(long, value_name = "LEVEL", default_value = "ONE", value_parser = consistency)]
    consistency: Consistency,
    /// Serial consistency of conditional requests [default: the server's]
    #[arg(long, value_name = "LEVEL", value_parser = serial)]
    serial_consistency: Option<Consistency>,
    /// Connections
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Requests under way on each connection at most
    #[arg(long, default_value_t = 16)]
    depth: usize,
    /// Send each request to the first replica of its key among the servers; name all nodes
    #[arg(long)]
    token_aware: bool,
    /// Connect to every shard of the server and send each request to the shard that owns its key; of several servers
    /// with --token-aware
    #[arg(long)]
    shard_aware: bool,
    /// Threads of the generator
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// CPUs to pin the threads to, one each: 2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpu: Vec<usize>,
    /// How long an idle thread watches memory before it sleeps: exact send times for a busy CPU
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    spin: Duration,
    /// Open loop: operations per second [default: closed loop]
    #[arg(long)]
    rate: Option<f64>,
    /// How the arrivals of an open loop are spaced
    #[arg(long, value_enum, default_value_t = ArrivalsName::Constant)]
    arrivals: ArrivalsName,
    /// Time to measure
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, conflicts_with = "operations")]
    duration: Duration,
    /// Operations to measure, in place of a time
    #[arg(long)]
    operations: Option<u64>,
    /// auto: until steady; none; or a time
    #[arg(long, value_name = "auto|none|TIME", default_value = "auto", value_parser = warmup)]
    warmup: WarmupChoice,
    /// Longest warm-up until steady
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    warmup_max: Duration,
    /// Length of a window: of the time line, the log and the warm-up's comparison
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// How long a request may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// Sends later than this after their due time count against the verdict
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration)]
    late: Duration,
    /// Share of failed operations up to which a run is valid
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    errors_max: f64,
    /// Seed of keys and kinds of operation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Server processes on this machine whose CPU time is measured
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// No progress line
    #[arg(long)]
    quiet: bool,
    /// What is stored and asked
    #[arg(long, value_enum, default_value_t = WorkloadName::Standard)]
    workload: WorkloadName,
    /// Weights of the workload's kinds of operation: write=1,read=3
    #[arg(long, value_name = "KIND=WEIGHT", value_delimiter = ',', value_parser = weight)]
    ratio: Vec<(String, f64)>,
    /// Keys
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// uniform, sequential, zipf[:EXPONENT], latest[:EXPONENT], hotspot[:KEYS,OPERATIONS], gaussian[:DEVIATIONS]
    #[arg(long, default_value = "uniform", value_parser = Distribution::parse)]
    distribution: Distribution,
    /// Write every key before the run
    #[arg(long)]
    populate: bool,
    /// Empty the table before the run
    #[arg(long)]
    truncate: bool,
    /// A row that is not there is no error
    #[arg(long)]
    missing_ok: bool,
    /// The keyspace, made if it does not exist
    #[arg(long, default_value = "keyspace1")]
    keyspace: String,
    /// Its replication
    #[arg(long, value_name = "CQL", default_value = "{'class': 'SimpleStrategy', 'replication_factor': 1}")]
    replication: String,
    /// Blobs in a row of the standard workload
    #[arg(long, default_value_t = 5)]
    columns: usize,
    /// Bytes of each blob
    #[arg(long, default_value_t = 34)]
    value_bytes: usize,
    /// Rows of a partition of the wide workload
    #[arg(long, default_value_t = 1000)]
    partition_rows: u64,
    /// Rows that a slice takes, and rows of a batch
    #[arg(long, default_value_t = 10)]
    slice_rows: u64,
    /// Batches go through the batch log
    #[arg(long)]
    logged: bool,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum ArrivalsName {
    /// Equal gaps
    Constant,
    /// Exponential gaps
    Poisson,
}

#[derive(Clone, Copy, Debug)]
enum WarmupChoice {
    None,
    Auto,
    Fixed(Duration),
}

/// The plan for a command line without options.
pub fn default_plan() -> Plan {
    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        run: RunArguments,
    }
    Alone::parse_from(["bench"]).run.plan().expect("the defaults go together")
}

impl RunArguments {
    /// How the arrivals of open loops are spaced.
    pub fn arrivals(&self) -> Arrivals {
        match self.arrivals {
            ArrivalsName::Constant => Arrivals::Constant,
            ArrivalsName::Poisson => Arrivals::Poisson,
        }
    }

    /// Turns the settings into a plan. The error names the settings that do not fit together.
    pub fn plan(&self) -> Result<Plan, String> {
        let mut hosts = Vec::new();
        for host in &self.host {
            hosts.push(resolve(host, DEFAULT_PORT)?);
        }
        let arrivals = self.arrivals();
        let pace = self.rate.map_or(Pace::Closed, |rate| Pace::Open { rate, arrivals });
        let warmup = match self.warmup {
            WarmupChoice::None => Warmup::None,
            WarmupChoice::Auto => Warmup::Steady(self.warmup_max),
            WarmupChoice::Fixed(time) => Warmup::Fixed(time),
        };
        let plan = Plan {
            hosts,
            login: self.user.clone().zip(self.password.clone()),
            ssl: self.ssl.then(|| Ssl {
                trust: self.ssl_trust.clone(),
                certificate: self.ssl_certificate.clone(),
                key: self.ssl_key.clone(),
            }),
            version: self.protocol,
            consistency: self.consistency,
            serial: self.serial_consistency,
            connections: self.connections,
            in_flight: self.connections.saturating_mul(self.depth),
            token_aware: self.token_aware,
            shard_aware: self.shard_aware,
            threads: self.threads,
            cpus: self.cpu.clone(),
            spin: self.spin,
            pace,
            warmup,
            length: self.operations.map_or(Length::Time(self.duration), Length::Operations),
            window: self.interval,
            timeout: self.timeout,
            late: self.late,
            errors_max: self.errors_max,
            seed: self.seed,
            pids: self.pid.clone(),
            own_cpu: true,
            progress: !self.quiet,
            data: Data {
                workload: self.workload,
                keyspace: self.keyspace.clone(),
                replication: self.replication.clone(),
                columns: self.columns,
                value_bytes: self.value_bytes,
                partition_rows: self.partition_rows,
                slice_rows: self.slice_rows,
                logged: self.logged,
                first_key: 0,
                keys: self.keys,
                distribution: self.distribution,
                ratio: self.ratio.clone(),
                missing_is_error: !self.missing_ok,
                truncate: self.truncate,
                populate: self.populate,
            },
        };
        plan.check()?;
        workload::shares(workload::of(&plan.data).kinds(), &plan.data.ratio)?;
        for pid in &plan.pids {
            runtime::machine::process_cpu(*pid).ok_or_else(|| format!("--pid {pid}: there is no such process"))?;
        }
        Ok(plan)
    }
}

/// The native protocol's port.
pub const DEFAULT_PORT: u16 = 9042;

/// The address of `HOST`, `HOST:PORT` or `[IPv6]:PORT`.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, digits)) => (name, digits.parse().map_err(|_| format!("{host}: {digits} is no port"))?),
        None => (host, port),
    };
    let mut found = (name, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    found.next().ok_or_else(|| format!("{host}: no address"))
}

fn version(text: &str) -> Result<Version, String> {
    match text.trim_start_matches('v') {
        "4" => Ok(Version::V4),
        "5" => Ok(Version::V5),
        _ => Err("4 or 5 is needed".into()),
    }
}

/// A consistency level by name, in any case.
pub fn consistency(text: &str) -> Result<Consistency, String> {
    let found = (0..).map_while(Consistency::from_code).find(|level| level.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("{text} is no consistency level"))
}

fn serial(text: &str) -> Result<Consistency, String> {
    consistency(text)
        .and_then(|level| if level.is_serial() { Ok(level) } else { Err("SERIAL or LOCAL_SERIAL is needed".into()) })
}

fn weight(text: &str) -> Result<(String, f64), String> {
    let pair = text.split_once('=').and_then(|(name, weight)| Some((name.to_string(), weight.parse::<f64>().ok()?)));
    pair.ok_or_else(|| format!("{text}: KIND=WEIGHT is needed"))
}

fn warmup(text: &str) -> Result<WarmupChoice, String> {
    match text {
        "auto" => Ok(WarmupChoice::Auto),
        "none" => Ok(WarmupChoice::None),
        _ => duration(text).map(WarmupChoice::Fixed),
    }
}

/// A time such as `10s`, `250ms`, `50us`, `5m`, `1h`; seconds without a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text}: a time such as 10s, 250ms, 50us, 5m or 1h is needed")),
    };
    let number = number.parse::<f64>().map_err(|_| format!("{text}: a time such as 10s or 250ms is needed"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{text}: too long"))
}
