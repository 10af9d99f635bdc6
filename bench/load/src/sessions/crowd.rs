//! Many sessions: opened so many at a time, at a steady rate, or all at once.

use super::{SessionArguments, source};
use crate::encryption::Ssl;
use crate::recorder::histogram;
use crate::session::{Address, Session};
use hdrhistogram::Histogram;
use model::QueryParameters;
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use wire::Version;
use wire::client::Response;
use wire::request::Request;

/// The longest `/proc/PID/status` that is read.
const STATUS_BYTES_MAX: u64 = 64 << 10;
/// A server that refuses is not asked without a pause.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// The sessions of a thread.
pub(super) struct Crowd {
    settings: SessionArguments,
    address: Address,
    /// How many sessions have been begun; each number belongs to a source address.
    begun: Cell<usize>,
    failed: Cell<usize>,
    first_failure: RefCell<Option<String>>,
}

/// What the tasks of one step share.
struct Step {
    left: Cell<usize>,
    sessions: RefCell<Vec<Session>>,
    times: RefCell<Histogram<u64>>,
}

impl Step {
    fn of(count: usize) -> Rc<Step> {
        Rc::new(Step { left: Cell::new(count), sessions: RefCell::default(), times: RefCell::new(histogram()) })
    }

    /// Takes one of those that are left to do.
    fn next(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    fn record(&self, since: Instant) {
        self.times.borrow_mut().saturating_record(runtime::now().since(since).as_nanos() as u64);
    }

    /// "100 in 0.5 s, 200 per second; p50 ..., p99 ...".
    fn report(&self, what: &str, seconds: f64) -> String {
        let times = self.times.borrow();
        let millis = |share| times.value_at_quantile(share) as f64 / 1e6;
        format!(
            "{} {what} in {seconds:.2} s, {:.0} per second; p50 {:.2} ms, p99 {:.2} ms\n",
            times.len(),
            times.len() as f64 / seconds,
            millis(0.5),
            millis(0.99)
        )
    }
}

impl Crowd {
    pub(super) fn new(settings: &SessionArguments, host: SocketAddr) -> Result<Rc<Crowd>, String> {
        let ssl = if settings.ssl { Some(Ssl::default().context()?) } else { None };
        let login = settings.user.clone().zip(settings.password.clone());
        Ok(Rc::new(Crowd {
            address: Address { host, source: None, login, ssl, version: Version::V5 },
            settings: settings.clone(),
            begun: Cell::new(0),
            failed: Cell::new(0),
            first_failure: RefCell::default(),
        }))
    }

    /// How many sessions have failed and why the first one did; `None` if none has.
    pub(super) fn failure(&self) -> Option<String> {
        let first = self.first_failure.borrow();
        first.as_ref().map(|text| format!("{} sessions failed, the first one: {text}", self.failed.get()))
    }

    pub(super) fn note_failure(&self, text: String) {
        self.failed.set(self.failed.get() + 1);
        self.first_failure.borrow_mut().get_or_insert(text);
    }

    /// Opens a session from the next source address.
    pub(super) async fn reopen(&self) -> Result<Session, String> {
        Session::open(&self.next_address()).await
    }

    /// The server, and the source address whose turn it is.
    pub(super) fn next_address(&self) -> Address {
        let number = self.begun.get();
        self.begun.set(number + 1);
        let source = source(self.address.host.ip(), number).filter(|_| !self.settings.one_source);
        Address { source, ..self.address.clone() }
    }

    /// Sends the query and returns the session once it is answered.
    pub(super) async fn ask(&self, mut session: Session) -> Result<Session, String> {
        let parameters = QueryParameters::new(self.settings.consistency);
        match session.call(&Request::Query { text: &self.settings.query, parameters }).await? {
            Response::Rows(_) | Response::Void => Ok(session),
            other => Err(format!("an unexpected answer: {other:?}")),
        }
    }

    /// Opens `count` sessions, `at_once` of them at a time. Those that cannot be opened are missing.
    pub(super) async fn open(self: &Rc<Self>, count: usize, at_once: usize) -> Vec<Session> {
        self.opened(&Step::of(count), at_once).await
    }

    async fn opened(self: &Rc<Self>, step: &Rc<Step>, at_once: usize) -> Vec<Session> {
        let tasks: Vec<_> =
            (0..at_once).map(|_| runtime::spawn(self.clone().open_one_after_the_other(step.clone()))).collect();
        for task in tasks {
            task.await;
        }
        step.sessions.take()
    }

    async fn open_one_after_the_other(self: Rc<Self>, step: Rc<Step>) {
        while step.next() {
            let began = runtime::now();
            match self.reopen().await {
                Ok(session) => {
                    step.record(began);
                    step.sessions.borrow_mut().push(session);
                }
                Err(text) => {
                    self.note_failure(text);
                    runtime::sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }

    /// Opens idle sessions, and tells how long that took and how much memory they take.
    pub(super) async fn open_idle(self: &Rc<Self>, count: usize) -> (Vec<Session>, String) {
        let (began, before) = (runtime::now(), self.resident());
        let sessions = self.open(count, self.settings.at_once).await;
        let seconds = runtime::now().since(began).as_secs_f64();
        let opened = sessions.len();
        let mut out = String::new();
        let _ =
            writeln!(out, "opened {opened} connections in {seconds:.2} s, {:.0} per second", opened as f64 / seconds);
        if let (Some(before), Some(after)) = (before, self.resident()) {
            let each = after.saturating_sub(before) as f64 / opened.max(1) as f64;
            let _ = writeln!(out, "memory of the server: {before} -> {after} bytes, {each:.0} bytes per connection");
        }
        (sessions, out)
    }

    /// Opens all of `count` sessions at the same time and closes them once all are open.
    pub(super) async fn open_at_once(self: &Rc<Self>, count: usize) -> String {
        let (began, cpu, step) = (runtime::now(), self.cpu(), Step::of(count));
        let sessions = self.opened(&step, count).await;
        let seconds = runtime::now().since(began).as_secs_f64();
        let report = step.report("sessions opened again at once", seconds) + &self.per_cpu_second(cpu, sessions.len());
        drop(sessions);
        report
    }

    /// Opens `count` sessions one after the other, evenly over `within`, and closes each as soon as it is open. Times
    /// count from when each was due.
    pub(super) async fn connect_steadily(self: &Rc<Self>, count: usize, within: Duration) -> String {
        let (began, cpu, step) = (runtime::now(), self.cpu(), Step::of(count));
        let tasks = (0..self.settings.at_once).map(|_| {
            let (crowd, step) = (self.clone(), step.clone());
            runtime::spawn(async move {
                loop {
                    let number = count - step.left.get();
                    if !step.next() {
                        return;
                    }
                    let due = began.after(within.mul_f64(number as f64 / count as f64));
                    runtime::sleep_until(due).await;
                    match crowd.reopen().await {
                        Ok(session) => {
                            step.record(due);
                            drop(session);
                        }
                        Err(text) => crowd.note_failure(text),
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await;
        }
        let seconds = runtime::now().since(began).as_secs_f64();
        let opened = step.times.borrow().len() as usize;
        step.report("connections opened and closed", seconds) + &self.per_cpu_second(cpu, opened)
    }

    /// Makes sessions of one query, `at_once` of them at a time, for as long as the settings say.
    pub(super) async fn cycles(self: &Rc<Self>) -> String {
        let (began, cpu, step) = (runtime::now(), self.cpu(), Step::of(usize::MAX));
        let end = began.after(self.settings.cycles);
        let tasks = (0..self.settings.at_once).map(|_| {
            let (crowd, step) = (self.clone(), step.clone());
            runtime::spawn(async move {
                while runtime::now() < end {
                    let began = runtime::now();
                    let outcome = match crowd.reopen().await {
                        Ok(session) => crowd.ask(session).await,
                        Err(text) => Err(text),
                    };
                    match outcome {
                        Ok(_) => step.record(began),
                        Err(text) => {
                            crowd.note_failure(text);
                            runtime::sleep(REFUSED_PAUSE).await;
                        }
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await;
        }
        let seconds = runtime::now().since(began).as_secs_f64();
        let count = step.times.borrow().len() as usize;
        step.report("sessions", seconds) + &self.per_cpu_second(cpu, count)
    }

    fn per_cpu_second(&self, before: Option<Duration>, count: usize) -> String {
        let (Some(before), Some(after)) = (before, self.cpu()) else { return String::new() };
        let cpu = after.saturating_sub(before).as_secs_f64();
        let each = count as f64 / cpu.max(f64::MIN_POSITIVE);
        format!("CPU of the server: {cpu:.2} s, {each:.0} sessions per CPU-second\n")
    }

    pub(super) fn resident(&self) -> Option<u64> {
        let status = format!("/proc/{}/status", self.settings.pid?);
        let text = runtime::machine::read_text(Path::new(&status), STATUS_BYTES_MAX).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    }

    fn cpu(&self) -> Option<Duration> {
        runtime::machine::process_cpu(self.settings.pid?)
    }
}
