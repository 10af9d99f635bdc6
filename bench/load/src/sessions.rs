//! `helenus bench sessions`: what connections cost the server, in place of what requests do.
//!
//! 1. `--idle N` opens N connections, each with its handshake (TLS and a login too, if asked for), and tells how long
//!    that took and how much the server's resident memory grew. They stay open for `--hold`.
//! 2. `--cycles TIME` makes sessions that last for one query: connect, handshake, query, close, `--at-once` of them
//!    at a time, and tells how many there were per second and per CPU-second of the server.
//!
//! Connections to a loopback address come from many addresses of that network, so that ports do not run out.

use crate::arguments::{DEFAULT_PORT, consistency, duration, resolve};
use crate::encryption::Ssl;
use crate::session::{Address, Session};
use clap::Args;
use model::{Consistency, QueryParameters};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use wire::Version;
use wire::client::Response;
use wire::request::Request;

/// The longest `/proc/PID/status` that is read.
const STATUS_BYTES_MAX: u64 = 64 << 10;
/// Connections from one source address.
const CONNECTIONS_PER_SOURCE: usize = 5_000;

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
    /// Connections to open and hold
    #[arg(long, default_value_t = 0)]
    idle: usize,
    /// How long they are held
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    hold: Duration,
    /// How long sessions of one query are made
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    cycles: Duration,
    /// Connections that are being opened, or sessions, at a time
    #[arg(long, default_value_t = 64)]
    at_once: usize,
    /// The query of a session
    #[arg(long, default_value = "SELECT key FROM system.local")]
    query: String,
    /// Consistency of the query
    #[arg(long, value_name = "LEVEL", default_value = "ONE", value_parser = consistency)]
    consistency: Consistency,
    /// The server's process, whose memory and CPU time are measured
    #[arg(long)]
    pid: Option<u32>,
}

/// What tasks share.
struct Work {
    settings: SessionArguments,
    address: Address,
    begun: Cell<usize>,
    failed: Cell<usize>,
    first_failure: RefCell<Option<String>>,
    sessions: RefCell<Vec<Session>>,
    nanos: RefCell<Vec<u64>>,
}

/// Runs the command and returns its report.
pub fn run(settings: &SessionArguments) -> Result<String, String> {
    if settings.at_once == 0 || (settings.idle == 0 && settings.cycles.is_zero()) {
        return Err("--at-once: at least 1, and --idle or --cycles must be given".into());
    }
    let host = resolve(&settings.host, DEFAULT_PORT)?;
    let settings = settings.clone();
    let options = runtime::uring::Options { shards: 1, cpus: Vec::new(), spin: Duration::ZERO, helpers: 1 };
    let reports = runtime::uring::run(options, move |_| measure(settings.clone(), host));
    let reports = reports.map_err(|error| format!("the runtime did not start: {error}"))?;
    reports.into_iter().next().unwrap_or_else(|| Err("nothing ran".into()))
}

async fn measure(settings: SessionArguments, host: SocketAddr) -> Result<String, String> {
    let ssl = if settings.ssl { Some(Ssl::default().context()?) } else { None };
    let login = settings.user.clone().zip(settings.password.clone());
    let work = Rc::new(Work {
        address: Address { host, source: None, login, ssl, version: Version::V5 },
        settings,
        begun: Cell::new(0),
        failed: Cell::new(0),
        first_failure: RefCell::default(),
        sessions: RefCell::default(),
        nanos: RefCell::default(),
    });
    let mut out = String::new();
    let idle = work.settings.idle;
    if idle > 0 {
        let (began, before) = (runtime::now(), work.resident());
        work.clone().at_once(None).await;
        let seconds = runtime::now().since(began).as_secs_f64();
        let opened = work.sessions.borrow().len();
        let _ =
            writeln!(out, "opened {opened} connections in {seconds:.2} s, {:.0} per second", opened as f64 / seconds);
        if let (Some(before), Some(after)) = (before, work.resident()) {
            let each = after.saturating_sub(before) as f64 / opened.max(1) as f64;
            let _ = writeln!(out, "memory of the server: {before} -> {after} bytes, {each:.0} bytes per connection");
        }
        runtime::sleep(work.settings.hold).await;
        work.sessions.borrow_mut().clear();
    }
    if !work.settings.cycles.is_zero() {
        work.begun.set(0);
        let (began, cpu_before) = (runtime::now(), work.cpu());
        work.clone().at_once(Some(began.after(work.settings.cycles))).await;
        let seconds = runtime::now().since(began).as_secs_f64();
        let mut nanos = work.nanos.take();
        nanos.sort_unstable();
        let at = |share: f64| nanos.get(((nanos.len() as f64 * share) as usize).min(nanos.len().max(1) - 1));
        let millis = |share: f64| at(share).map_or(0.0, |nanos| *nanos as f64 / 1e6);
        let count = nanos.len();
        let _ = writeln!(
            out,
            "{count} sessions in {seconds:.2} s, {:.0} per second; p50 {:.2} ms, p99 {:.2} ms",
            count as f64 / seconds,
            millis(0.5),
            millis(0.99)
        );
        if let (Some(before), Some(after)) = (cpu_before, work.cpu()) {
            let cpu = after.saturating_sub(before).as_secs_f64();
            let each = count as f64 / cpu.max(f64::MIN_POSITIVE);
            let _ = writeln!(out, "CPU of the server: {cpu:.2} s, {each:.0} sessions per CPU-second");
        }
    }
    match (work.failed.get(), work.first_failure.borrow().as_deref()) {
        (0, _) => Ok(out),
        (failed, text) => Err(format!("{out}{failed} sessions failed, the first one: {}", text.unwrap_or_default())),
    }
}

impl Work {
    fn resident(&self) -> Option<u64> {
        let status = format!("/proc/{}/status", self.settings.pid?);
        let text = runtime::machine::read_text(Path::new(&status), STATUS_BYTES_MAX).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    }

    fn cpu(&self) -> Option<Duration> {
        runtime::machine::process_cpu(self.settings.pid?)
    }

    /// Runs tasks, `at_once` of them: until `end` each makes one session after the other, without an end all of them
    /// together open the idle connections.
    async fn at_once(self: Rc<Self>, end: Option<Instant>) {
        let tasks = self.settings.at_once;
        let tasks: Vec<_> = (0..tasks).map(|_| runtime::spawn(self.clone().one_after_the_other(end))).collect();
        for task in tasks {
            task.await;
        }
    }

    async fn one_after_the_other(self: Rc<Self>, end: Option<Instant>) {
        loop {
            let number = self.begun.get();
            let is_over = match end {
                Some(end) => runtime::now() >= end,
                None => number >= self.settings.idle,
            };
            if is_over {
                return;
            }
            self.begun.set(number + 1);
            let began = runtime::now();
            let address = Address { source: source(self.address.host.ip(), number), ..self.address.clone() };
            let outcome = match Session::open(&address).await {
                Ok(session) if end.is_none() => {
                    self.sessions.borrow_mut().push(session);
                    Ok(())
                }
                Ok(session) => self.ask(session).await,
                Err(text) => Err(text),
            };
            match outcome {
                Ok(()) if end.is_some() => self.nanos.borrow_mut().push(runtime::now().since(began).as_nanos() as u64),
                Ok(()) => {}
                Err(text) => {
                    self.failed.set(self.failed.get() + 1);
                    self.first_failure.borrow_mut().get_or_insert(text);
                    // A server that refuses is not asked without a pause.
                    runtime::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }

    async fn ask(&self, mut session: Session) -> Result<(), String> {
        let parameters = QueryParameters::new(self.settings.consistency);
        match session.call(&Request::Query { text: &self.settings.query, parameters }).await? {
            Response::Rows(_) | Response::Void => Ok(()),
            other => Err(format!("an unexpected answer: {other:?}")),
        }
    }
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
}
