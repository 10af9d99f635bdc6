//! `helenus bench sessions`: what connections cost the server, and the clients that are busy beside them.
//!
//! 1. With `--busy N` that many connections send `--rate` requests a second together, from a thread of their own, all
//!    the time. Their response times are taken for `--window` with nothing beside them, and then beside each of the
//!    following that is asked for; `--rounds` repeats that, so that noise shows.
//! 2. `--idle N` opens N connections, each with its handshake (TLS and a login too, if asked for), and tells how long
//!    that took and how much the server's resident memory grew. They stay open for `--hold`.
//! 3. `--slow-readers N` and `--slow-writers N` are clients that hardly read their answers, and that send a byte a
//!    second.
//! 4. `--relogin N` closes N connections and opens all of them again at once.
//! 5. `--connects N` opens and closes N connections at a steady rate within `--within`.
//! 6. `--cycles TIME` makes sessions that last for one query: connect, handshake, query, close, `--at-once` of them
//!    at a time, and tells how many there were per second and per CPU-second of the server.
//!
//! Connections to a loopback address come from many addresses of that network, so that ports do not run out.

mod board;
mod busy;
mod crowd;
mod slow;

use crate::arguments::{DEFAULT_PORT, consistency, duration, resolve};
use board::Times;
use clap::Args;
use crowd::Crowd;
use model::Consistency;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use board::Board;

/// Connections from one source address.
const CONNECTIONS_PER_SOURCE: usize = 5_000;
/// Pause before response times are taken, in which what has been opened or closed comes to rest.
const SETTLE: Duration = Duration::from_secs(1);

/// Settings of the command.
#[derive(Args, Clone, Debug)]
pub struct SessionArguments {
    /// The server, IP or name with an optional port
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1")]
    host: String,
    /// Name for servers that ask (SASL PLAIN)
    #[arg(long, requires = "password")]
    user: Option<String>,
    /// Password for servers that ask
    #[arg(long, requires = "user")]
    password: Option<String>,
    /// Encrypt connections; every server is trusted
    #[arg(long)]
    ssl: bool,
    /// Connect to loopback from one address too, not from many
    #[arg(long)]
    one_source: bool,
    /// Connections that send requests all the time
    #[arg(long, default_value_t = 0)]
    busy: usize,
    /// Requests a second of all busy connections together
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    /// How long response times of busy connections are taken for each figure
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    window: Duration,
    /// How often everything but --cycles is repeated
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Connections to open and hold
    #[arg(long, default_value_t = 0)]
    idle: usize,
    /// How long they are held after everything has been measured
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    hold: Duration,
    /// Connections that ask for much and hardly read
    #[arg(long, default_value_t = 0)]
    slow_readers: usize,
    /// What they ask for
    #[arg(long, default_value = "SELECT * FROM system_schema.columns")]
    slow_query: String,
    /// Connections that send a byte a second, every second one of them before it has logged in
    #[arg(long, default_value_t = 0)]
    slow_writers: usize,
    /// Connections that are closed and opened again at once
    #[arg(long, default_value_t = 0)]
    relogin: usize,
    /// Connections to open and close again at a steady rate
    #[arg(long, default_value_t = 0)]
    connects: usize,
    /// The time in which these are opened
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    within: Duration,
    /// How long sessions of one query are made
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    cycles: Duration,
    /// Connections that are being opened, or sessions, at a time
    #[arg(long, default_value_t = 64)]
    at_once: usize,
    /// The query of a session and of busy connections
    #[arg(long, default_value = "SELECT key FROM system.local")]
    query: String,
    /// Consistency of the query
    #[arg(long, value_name = "LEVEL", default_value = "ONE", value_parser = consistency)]
    consistency: Consistency,
    /// The server's process, whose memory and CPU time are measured
    #[arg(long)]
    pid: Option<u32>,
}

impl SessionArguments {
    /// What there is beside busy connections.
    fn beside(&self) -> Vec<Beside> {
        let all = [
            (Beside::Idle, self.idle),
            (Beside::SlowReaders, self.slow_readers),
            (Beside::SlowWriters, self.slow_writers),
            (Beside::Relogin, self.relogin),
            (Beside::Connects, self.connects),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).map(|(kind, _)| kind).collect()
    }

    fn check(&self) -> Result<(), String> {
        if self.at_once == 0 || self.rounds == 0 {
            return Err("--at-once and --rounds: at least 1".into());
        }
        if self.busy == 0 && self.beside().is_empty() && self.cycles.is_zero() {
            return Err("nothing to do: --busy, --idle, --slow-readers, --slow-writers, --relogin, --connects or \
                        --cycles must be given"
                .into());
        }
        if !self.rate.is_finite() || self.rate <= 0.0 {
            return Err("--rate: more than 0".into());
        }
        Ok(())
    }
}

/// What busy connections have beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    Idle,
    SlowReaders,
    SlowWriters,
    Relogin,
    Connects,
}

impl Beside {
    fn describe(self, settings: &SessionArguments) -> String {
        match self {
            Beside::Idle => format!("{} idle connections", settings.idle),
            Beside::SlowReaders => format!("{} slow readers", settings.slow_readers),
            Beside::SlowWriters => format!("{} slow writers", settings.slow_writers),
            Beside::Relogin => format!("{} connections that are opened again at once", settings.relogin),
            Beside::Connects => format!("{} connections within {:?}", settings.connects, settings.within),
        }
    }
}

/// Runs the command and returns its report.
pub fn run(settings: &SessionArguments) -> Result<String, String> {
    settings.check()?;
    let host = resolve(&settings.host, DEFAULT_PORT)?;
    let settings = settings.clone();
    let board = Arc::new(Board::default());
    let shards = usize::from(settings.busy > 0) + 1;
    let options = runtime::uring::Options { shards, cpus: Vec::new(), spin: Duration::ZERO, helpers: 1 };
    let reports =
        runtime::uring::run(options, move |shard| measure(settings.clone(), host, board.clone(), shard.0.into()));
    let reports = reports.map_err(|error| format!("the runtime did not start: {error}"))?;
    reports.into_iter().next().unwrap_or_else(|| Err("nothing ran".into()))
}

/// The work of one thread: the first one does and reports everything but what busy connections do, the second one is
/// for these. Settings and `board` are the same for both.
pub async fn measure(
    settings: SessionArguments,
    host: SocketAddr,
    board: Arc<Board>,
    thread: usize,
) -> Result<String, String> {
    if thread > 0 {
        return busy::serve(&settings, host, &board).await;
    }
    let outcome = Rounds::new(settings, host, board.clone())?.run().await;
    board.stop();
    outcome
}

/// Everything that the first thread does.
struct Rounds {
    settings: SessionArguments,
    crowd: Rc<Crowd>,
    board: Arc<Board>,
    out: String,
    /// For everything beside the busy connections, how many times the median and the 99th percentile alone those
    /// beside it were, by round.
    ratios: Vec<(Beside, Vec<(f64, f64)>)>,
}

impl Rounds {
    fn new(settings: SessionArguments, host: SocketAddr, board: Arc<Board>) -> Result<Rounds, String> {
        let ratios = settings.beside().into_iter().map(|kind| (kind, Vec::new())).collect();
        Ok(Rounds { crowd: Crowd::new(&settings, host)?, settings, board, out: String::new(), ratios })
    }

    async fn run(mut self) -> Result<String, String> {
        let is_busy = self.settings.busy > 0;
        if is_busy {
            self.board.started().await?;
        }
        for round in 0..self.settings.rounds {
            let mut alone = None;
            for (at, kind) in self.settings.beside().into_iter().enumerate() {
                // What came before may have left something behind.
                if is_busy {
                    runtime::sleep(SETTLE).await;
                    let times = self.board.during(runtime::sleep(self.settings.window)).await?.1;
                    self.line(&format!("{} busy connections alone: {times}", self.settings.busy));
                    alone = Some(times);
                }
                let times = self.beside(kind).await?;
                if let (Some(alone), Some(times)) = (alone, times) {
                    let what = kind.describe(&self.settings);
                    self.line(&format!("{} busy connections beside {what}: {times}", self.settings.busy));
                    // Nothing may have been due if it was over at once.
                    if times.count > 0 {
                        self.ratios[at].1.push(times.ratios(&alone));
                    }
                }
            }
            if is_busy && alone.is_none() {
                let times = self.board.during(runtime::sleep(self.settings.window)).await?.1;
                self.line(&format!("round {round}: {} busy connections: {times}", self.settings.busy));
            }
        }
        for (kind, ratios) in std::mem::take(&mut self.ratios) {
            if let Some((p50, p99)) = medians(ratios) {
                let what = kind.describe(&self.settings);
                self.line(&format!("beside {what} p50 is {p50:.2} times and p99 {p99:.2} times that alone"));
            }
        }
        if !self.settings.cycles.is_zero() {
            self.out += &self.crowd.cycles().await;
        }
        self.crowd.failure().map_or(Ok(self.out.clone()), |failure| Err(format!("{}{failure}", self.out)))
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }

    /// Does something beside the busy connections, and returns their response times meanwhile if there are any.
    async fn beside(&mut self, kind: Beside) -> Result<Option<Times>, String> {
        let (settings, crowd, board) = (self.settings.clone(), self.crowd.clone(), self.board.clone());
        let is_busy = settings.busy > 0;
        match kind {
            Beside::Idle => {
                let (sessions, report) = crowd.open_idle(settings.idle).await;
                self.out += &report;
                let mut times = None;
                if is_busy {
                    runtime::sleep(SETTLE).await;
                    times = Some(board.during(runtime::sleep(settings.window)).await?.1);
                }
                runtime::sleep(settings.hold).await;
                drop(sessions);
                Ok(times)
            }
            Beside::SlowReaders | Beside::SlowWriters => {
                let slow = slow::Slow::begin(&crowd, kind == Beside::SlowReaders, &settings);
                // What readers get at first fills the buffers of the system.
                runtime::sleep(5 * SETTLE).await;
                let ((), times) = board.during_if(is_busy, runtime::sleep(settings.window)).await?;
                self.out += &slow.end().await;
                Ok(times)
            }
            Beside::Relogin => {
                let (sessions, _) = crowd.open_idle(settings.relogin).await;
                runtime::sleep(SETTLE).await;
                let again = async {
                    drop(sessions);
                    crowd.open_at_once(settings.relogin).await
                };
                let (report, times) = board.during_if(is_busy, again).await?;
                self.out += &report;
                Ok(times)
            }
            Beside::Connects => {
                let connects = crowd.connect_steadily(settings.connects, settings.within);
                let (report, times) = board.during_if(is_busy, connects).await?;
                self.out += &report;
                Ok(times)
            }
        }
    }
}

/// The median of each of the two.
fn medians(pairs: Vec<(f64, f64)>) -> Option<(f64, f64)> {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let (first, second) = pairs.into_iter().unzip();
    Some((median(first)?, median(second)?))
}

/// The address that connection `number` comes from; any of this machine if the server is not on it.
fn source(host: IpAddr, number: usize) -> Option<SocketAddr> {
    let IpAddr::V4(host) = host else { return None };
    let group = number / CONNECTIONS_PER_SOURCE % 250;
    host.is_loopback().then(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 200, 0, group as u8 + 1)), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_on_the_machine_come_from_many_addresses() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let of = |number| source(loopback, number).expect("chosen").ip().to_string();
        assert_eq!(of(0), of(CONNECTIONS_PER_SOURCE - 1));
        assert_eq!((of(0).as_str(), of(CONNECTIONS_PER_SOURCE).as_str()), ("127.200.0.1", "127.200.0.2"));
        assert_eq!(source(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 0), None);
    }

    #[test]
    fn the_median_of_rounds_counts() {
        assert_eq!(medians(vec![]), None);
        assert_eq!(medians(vec![(1.0, 9.0), (3.0, 2.0), (2.0, 1.0)]), Some((2.0, 2.0)));
    }
}
