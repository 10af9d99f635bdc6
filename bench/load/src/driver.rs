//! The load of one thread: sends due operations, receives answers, ends windows.
//!
//! 1. The first thread creates keyspace and table; then every thread connects; once all have, the time of the start is
//!    fixed.
//! 2. One task per connection receives answers and hands each to the recorder. In a closed loop it then sends the next
//!    operation. In other loops a task sleeps until the schedule's next arrival and sends it; receiving an answer also
//!    sends what is due, because it frees a request.
//! 3. At the end of each window the recorder starts a new one, and requests that take too long are given up. The first
//!    thread decides when the warm-up is over, which also fixes the end of the run; the others learn it from
//!    [`Shared`].
//! 4. At the end nothing more is sent. The thread waits for the requests under way, and counts the arrivals that were
//!    due and not sent.
//!
//! Invariants: no allocation per operation; the threads share nothing but the counters of [`Shared`].

use crate::connection::{Connection, Frame, Inbox};
use crate::encryption::Ssl;
use crate::errors::Class;
use crate::judge::Judge;
use crate::keys::Keys;
use crate::meters::Meters;
use crate::plan::{Length, Pace, Plan, Warmup};
use crate::recorder::{Recorder, Window};
use crate::reply::{self, Reply};
use crate::routing::Routing;
use crate::schedule::{Arrivals, Schedule};
use crate::session::{Address, Session};
use crate::shared::Shared;
use crate::statement::Common;
use crate::workload::{self, Check, Operation, Workload};
use runtime::Instant;
use runtime::rng::Rng;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Duration;
use tls::ClientContext;

/// The measurements of one thread.
#[derive(Debug)]
pub struct ThreadResult {
    /// The thread's windows in order. The last one occurs twice, the second time with the answers that arrived after
    /// its end.
    pub windows: Vec<Window>,
    /// The first measured window.
    pub measure_from: u64,
    /// Whether the warm-up ended because the run was steady; also true if the plan does not ask for that.
    pub steady: bool,
    /// How many arrivals were due and not sent.
    pub unsent: u64,
    /// An example text for each class of server errors.
    pub error_texts: Vec<(Class, String)>,
    /// Microseconds since 1970 at the start of the first window.
    pub started_micros: i64,
}

/// How far ahead the start is fixed, so that all threads learn of it in time.
const START_DELAY: Duration = Duration::from_millis(20);
/// Pause before a broken connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How often a thread checks at the end whether answers are still missing.
const DRAIN_PAUSE: Duration = Duration::from_millis(5);

/// Runs thread `thread` of `plan`. The error says why there was no run.
pub async fn run(plan: Arc<Plan>, shared: Arc<Shared>, thread: usize) -> Result<ThreadResult, String> {
    let result = load(&plan, &shared, thread).await;
    if result.is_err() {
        shared.failed.store(true, Ordering::Release);
    }
    result
}

async fn load(plan: &Arc<Plan>, shared: &Arc<Shared>, thread: usize) -> Result<ThreadResult, String> {
    let driver = Driver::new(plan.clone(), thread)?;
    if thread == 0 {
        driver.make_tables().await?;
        shared.ready.store(true, Ordering::Release);
    } else {
        shared.until(|shared| shared.ready.load(Ordering::Acquire)).await?;
    }
    if plan.shard_aware || plan.token_aware {
        driver.find_routing().await?;
    }
    let mut inboxes = Vec::new();
    for place in 0..driver.places.len() {
        inboxes.push(driver.connect(place).await?);
        shared.connected.fetch_add(1, Ordering::AcqRel);
    }
    if thread == 0 {
        let all = plan.connections as u64;
        shared.until(|shared| shared.connected.load(Ordering::Acquire) == all).await?;
        shared.start.store(runtime::now().after(START_DELAY).0, Ordering::Release);
    } else {
        shared.until(|shared| shared.start.load(Ordering::Acquire) > 0).await?;
    }
    let start = Instant(shared.start.load(Ordering::Acquire));
    runtime::sleep_until(start).await;
    let started_micros = runtime::wall_micros();
    driver.begin(start, inboxes);
    let (mut windows, steady) = driver.windows(shared, start).await;
    let last = windows.last().map_or(0, |window| window.index);
    let end = start.after(plan.window * (last as u32 + 1));
    let unsent = driver.drain(end).await;
    windows.push(driver.state.borrow_mut().recorder.roll(last, Duration::ZERO));
    let error_texts = std::mem::take(&mut *driver.error_texts.borrow_mut()).into_values().collect();
    let measure_from = shared.measure_from.load(Ordering::Acquire);
    Ok(ThreadResult { windows, measure_from, steady, unsent, error_texts, started_micros })
}

struct Driver {
    plan: Arc<Plan>,
    /// What connections are encrypted with.
    ssl: Option<ClientContext>,
    thread: usize,
    common: Common,
    workload: Box<dyn Workload>,
    texts: Vec<String>,
    shares: Vec<f64>,
    /// The thread's connections by number; `None` while one is down.
    places: Vec<(usize, RefCell<Option<Rc<Connection>>>)>,
    /// Where each operation goes, if its key decides that.
    routing: OnceCell<Routing>,
    /// Requests that may be under way on the thread's connections together.
    in_flight: usize,
    /// An operation that could not be sent yet, because no connection that it may use had room.
    held: Cell<Option<Operation>>,
    /// The connection at which the search for a free request begins.
    turn: Cell<usize>,
    state: RefCell<State>,
    /// Requests without an answer.
    under_way: Cell<usize>,
    /// How many operations may still be sent.
    budget: Cell<u64>,
    /// Whether sends count against the budget; they do not during the warm-up.
    measuring: Cell<bool>,
    stopping: Cell<bool>,
    /// Arrivals from here on are not part of the run.
    end: Cell<Instant>,
    /// Whether the last due arrival found no free request.
    blocked: Cell<bool>,
    /// To be woken when the budget is used up and nothing is under way.
    finished: RefCell<Option<Waker>>,
    error_texts: RefCell<BTreeMap<u8, (Class, String)>>,
}

struct State {
    rng: Rng,
    keys: Keys,
    number: u64,
    schedule: Option<Schedule>,
    recorder: Recorder,
}

impl Driver {
    fn new(plan: Arc<Plan>, thread: usize) -> Result<Rc<Driver>, String> {
        let workload = workload::of(&plan.data);
        let shares = workload::shares(workload.kinds(), &plan.data.ratio)?;
        let table = format!("{}.{}", plan.data.keyspace, workload.table().0);
        let texts = workload.statements(&table);
        let places: Vec<_> = plan.connections_of(thread).map(|index| (index, RefCell::default())).collect();
        let depth: usize = places.iter().map(|(index, _)| plan.depth_of(*index)).sum();
        let data = &plan.data;
        let keys = Keys::new(data.distribution, data.first_key, data.keys, thread, plan.threads, depth as u64);
        let open = matches!(plan.pace, Pace::Open { .. });
        let late = if matches!(plan.pace, Pace::Throttled { .. }) { Duration::MAX } else { plan.late };
        let budget = match plan.length {
            Length::Time(_) => u64::MAX,
            Length::Operations(count) => {
                let (count, thread, threads) = (count, thread as u64, plan.threads as u64);
                count / threads + u64::from(thread < count % threads)
            }
        };
        let state = State {
            rng: Rng::new(plan.seed.wrapping_add((thread as u64) << 32)),
            keys,
            number: runtime::wall_micros() as u64,
            schedule: None,
            recorder: Recorder::new(workload.kinds().len(), plan.hosts.len(), open, late),
        };
        Ok(Rc::new(Driver {
            ssl: plan.ssl.as_ref().map(Ssl::context).transpose()?,
            thread,
            common: Common { version: plan.version, consistency: plan.consistency, serial: plan.serial },
            workload,
            texts,
            shares,
            places,
            routing: OnceCell::new(),
            in_flight: depth,
            held: Cell::new(None),
            turn: Cell::new(0),
            state: RefCell::new(state),
            under_way: Cell::new(0),
            budget: Cell::new(budget),
            measuring: Cell::new(false),
            stopping: Cell::new(false),
            end: Cell::new(Instant(u64::MAX)),
            blocked: Cell::new(false),
            finished: RefCell::default(),
            error_texts: RefCell::default(),
            plan,
        }))
    }

    fn address(&self, host: usize) -> Address {
        let plan = &self.plan;
        Address {
            host: plan.hosts[host],
            source: None,
            login: plan.login.clone(),
            ssl: self.ssl.clone(),
            version: plan.version,
        }
    }

    /// The server that a connection goes to.
    fn host_of(&self, place: usize) -> usize {
        match self.routing.get() {
            Some(routing) => routing.target(place).0,
            None => self.places[place].0 % self.plan.hosts.len(),
        }
    }

    async fn make_tables(&self) -> Result<(), String> {
        let mut session = Session::open(&self.address(0)).await?;
        let data = &self.plan.data;
        let (name, columns) = self.workload.table();
        let (keyspace, replication) = (&data.keyspace, &data.replication);
        let mut texts = vec![
            format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}"),
            format!("CREATE TABLE IF NOT EXISTS {keyspace}.{name} {columns}"),
        ];
        if data.truncate {
            texts.push(format!("TRUNCATE {keyspace}.{name}"));
        }
        for text in &texts {
            session.query(text, &self.common).await?;
        }
        Ok(())
    }

    async fn find_routing(&self) -> Result<(), String> {
        let plan = &self.plan;
        let hosts: Vec<Address> = (0..plan.hosts.len()).map(|host| self.address(host)).collect();
        let found = Routing::find(&hosts, plan.token_aware, plan.shard_aware, &self.common).await?;
        let least = found.connections_min();
        if self.places.len() < least {
            return Err(format!(
                "each thread needs a connection to each server and shard: --connections {} at least",
                plan.threads * least
            ));
        }
        let _ = self.routing.set(found);
        Ok(())
    }

    async fn connect(&self, place: usize) -> Result<Inbox, String> {
        let (index, connection) = &self.places[place];
        let address = self.address(self.host_of(place));
        let session = match self.routing.get().and_then(|routing| routing.target(place).1) {
            None => Session::open(&address).await?,
            Some((shards, shard)) => {
                let salt = self.state.borrow_mut().rng.next_u64();
                shards.open(&address, shard, salt).await?
            }
        };
        // Keys decide which connection gets a request: one could get all of them.
        let depth = if self.routing.get().is_some() { self.in_flight } else { self.plan.depth_of(*index) };
        let (made, inbox) = Connection::prepare(session, self.host_of(place), &self.texts, &self.common, depth).await?;
        *connection.borrow_mut() = Some(Rc::new(made));
        Ok(inbox)
    }

    /// Starts the schedule's task, if the loop has a rate, and a task for each connection.
    fn begin(self: &Rc<Driver>, start: Instant, inboxes: Vec<Inbox>) {
        let plan = &self.plan;
        let paced = match plan.pace {
            Pace::Closed => None,
            Pace::Open { rate, arrivals } => Some((rate, arrivals)),
            Pace::Throttled { rate } => Some((rate, Arrivals::Constant)),
        };
        self.measuring.set(plan.warmup == Warmup::None);
        if let Some((rate, arrivals)) = paced {
            let seed = plan.seed.wrapping_add(self.thread as u64);
            let schedule = Schedule::new(start, rate, arrivals, self.thread, plan.threads, seed);
            self.state.borrow_mut().schedule = Some(schedule);
            let driver = self.clone();
            drop(runtime::spawn(async move { driver.pace().await }));
        }
        for (place, inbox) in inboxes.into_iter().enumerate() {
            let driver = self.clone();
            drop(runtime::spawn(async move { driver.keep(place, inbox).await }));
        }
    }

    /// Sends operations when they are due by the schedule, until the end.
    async fn pace(&self) {
        while !self.stopping.get() {
            self.pump(runtime::now());
            let Some(next) = self.state.borrow().schedule.as_ref().map(Schedule::next_at) else { return };
            // While no request is free only an answer can help, and receiving one sends due operations too.
            let next = if self.blocked.get() { runtime::now().after(DRAIN_PAUSE) } else { next };
            runtime::sleep_until(next).await;
        }
    }

    /// Carries load over one connection, and opens it again when it breaks, until the end.
    async fn keep(&self, place: usize, inbox: Inbox) {
        let mut inbox = Some(inbox);
        while !self.stopping.get() {
            let connection = self.places[place].1.borrow().clone();
            if let (Some(connection), Some(inbox)) = (connection, inbox.take()) {
                let error = self.carry(&connection, inbox).await;
                *self.places[place].1.borrow_mut() = None;
                self.give_up(&connection, &error);
            }
            if !self.stopping.get() {
                runtime::sleep(RECONNECT_PAUSE).await;
                match self.connect(place).await {
                    Ok(made) => inbox = Some(made),
                    Err(error) => self.note(Class::Connection, &error),
                }
            }
        }
    }

    /// Receives answers until the connection ends. Returns why it ended.
    async fn carry(&self, connection: &Rc<Connection>, mut inbox: Inbox) -> String {
        self.resume(connection, runtime::now());
        loop {
            let received = match connection.stream().recv().await {
                Ok(Some(received)) => received,
                Ok(None) => return "the server closed the connection".into(),
                Err(error) => return error.to_string(),
            };
            let now = runtime::now();
            if let Err(error) = inbox.feed(&received, |frame| self.answered(connection, &frame, now)) {
                return error;
            }
            drop(received);
            self.resume(connection, now);
        }
    }

    /// Sends as many operations as possible; called when `connection` may have free requests again.
    fn resume(&self, connection: &Rc<Connection>, now: Instant) {
        if self.plan.pace != Pace::Closed {
            return self.pump(now);
        }
        while !self.stopping.get() && self.budget.get() > 0 {
            if self.routing.get().is_none() {
                if !connection.has_room() {
                    return;
                }
                self.send(connection, self.next_operation(), now, now, false);
            } else {
                let Some((connection, operation)) = self.owning_connection() else { return };
                self.send(&connection, operation, now, now, false);
            }
        }
    }

    fn pump(&self, now: Instant) {
        loop {
            let due = self.state.borrow().schedule.as_ref().map_or(Instant(u64::MAX), Schedule::next_at);
            if due > now || due >= self.end.get() || self.stopping.get() || self.budget.get() == 0 {
                return self.blocked.set(false);
            }
            let found = match self.routing.get() {
                None => self.free_connection().map(|connection| (connection, self.next_operation())),
                Some(_) => self.owning_connection(),
            };
            let Some((connection, operation)) = found else { return self.blocked.set(true) };
            if let Some(schedule) = &mut self.state.borrow_mut().schedule {
                schedule.take();
            }
            self.send(&connection, operation, due, now, self.blocked.get());
        }
    }

    /// The next connection in turn that has a free request and satisfies `fits`.
    fn connection_in_turn(&self, fits: impl Fn(usize) -> bool) -> Option<Rc<Connection>> {
        let count = self.places.len();
        let turn = self.turn.get();
        let mut order = (0..count).map(|step| (turn + step) % count).filter(|place| fits(*place));
        order.find_map(|place| {
            let connection = self.places[place].1.borrow();
            let connection = connection.as_ref().filter(|connection| connection.has_room())?;
            self.turn.set((place + 1) % count);
            Some(connection.clone())
        })
    }

    fn free_connection(&self) -> Option<Rc<Connection>> {
        self.connection_in_turn(|_| true)
    }

    /// The next operation and a connection to the server and shard that own its key. Returns `None` if no request is
    /// free; an operation that was chosen is then kept for the next call.
    fn owning_connection(&self) -> Option<(Rc<Connection>, Operation)> {
        let routing = self.routing.get().filter(|_| self.under_way.get() < self.in_flight)?;
        let operation = self.held.take().unwrap_or_else(|| self.next_operation());
        let (key, len) = self.workload.partition_key(&operation);
        let is_open = |place: usize| self.places[place].1.borrow().is_some();
        let is_connected =
            |host: usize| (0..self.places.len()).any(|place| self.host_of(place) == host && is_open(place));
        let owner = routing.owner(&key[..len], is_connected);
        let connection = self.connection_in_turn(|place| routing.suits(place, owner));
        if connection.is_none() {
            self.held.set(Some(operation));
        }
        connection.map(|connection| (connection, operation))
    }

    fn next_operation(&self) -> Operation {
        let state = &mut *self.state.borrow_mut();
        let share = (state.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let kind = workload::kind_of(&self.shares, share);
        let key = state.keys.next(&mut state.rng, self.workload.kinds()[kind].writes);
        let number = state.number;
        state.number += self.plan.threads as u64;
        self.workload.operation(kind, key, number + self.thread as u64)
    }

    fn send(&self, connection: &Connection, operation: Operation, due: Instant, now: Instant, blocked: bool) {
        self.state.borrow_mut().recorder.sent(now.since(due), blocked);
        connection.send(&*self.workload, &self.common, operation, due, now);
        self.under_way.set(self.under_way.get() + 1);
        if self.measuring.get() {
            self.budget.set(self.budget.get() - 1);
        }
    }

    fn answered(&self, connection: &Connection, frame: &Frame<'_>, now: Instant) {
        let Some(slot) = connection.take(frame.stream).filter(|slot| slot.waiting) else { return };
        let operation = slot.operation;
        let metadata = &connection.statement(operation.kind).metadata;
        let outcome = match reply::read(frame.flags, frame.opcode, frame.body, metadata) {
            Reply::Rows(rows) => match self.workload.check(&operation, rows) {
                Check::Fine => Ok(true),
                Check::NotApplied => Ok(false),
                Check::Missing if !self.plan.data.missing_is_error => Ok(true),
                Check::Missing => Err(Class::Missing),
                Check::Wrong => Err(Class::WrongData),
            },
            Reply::Failed(class, text) => {
                self.note(class, text);
                Err(class)
            }
            Reply::Malformed => Err(Class::Server),
        };
        let (service, response) = (now.since(slot.sent), now.since(slot.due));
        let recorder = &mut self.state.borrow_mut().recorder;
        match outcome {
            Ok(applied) => recorder.succeeded(connection.host(), operation.kind, service, response, applied),
            Err(class) => recorder.failed(connection.host(), operation.kind, class, service, response),
        }
        self.ended();
    }

    fn ended(&self) {
        self.under_way.set(self.under_way.get() - 1);
        if self.is_finished()
            && let Some(waker) = self.finished.borrow_mut().take()
        {
            waker.wake();
        }
    }

    fn is_finished(&self) -> bool {
        self.budget.get() == 0 && self.under_way.get() == 0
    }

    /// Keeps the text of the first error of each class.
    fn note(&self, class: Class, text: &str) {
        self.error_texts.borrow_mut().entry(class as u8).or_insert_with(|| (class, text.to_string()));
    }

    /// Counts the requests under way on a connection as failed, because the connection has ended.
    fn give_up(&self, connection: &Connection, error: &str) {
        let now = runtime::now();
        for slot in connection.waiting() {
            let (service, response) = (now.since(slot.sent), now.since(slot.due));
            self.state.borrow_mut().recorder.failed(
                connection.host(),
                slot.operation.kind,
                Class::Connection,
                service,
                response,
            );
            self.note(Class::Connection, error);
            self.ended();
        }
    }

    /// Counts requests that were sent more than `timeout` ago as timed out. A connection that has no stream numbers
    /// left because of them is closed.
    fn expire(&self, now: Instant, timeout: Duration) {
        let limit = Instant(now.0.saturating_sub(timeout.as_nanos() as u64));
        for (_, connection) in &self.places {
            let Some(connection) = connection.borrow().clone() else { continue };
            let stuck = connection.expire(limit, |slot| {
                let (service, response) = (now.since(slot.sent), now.since(slot.due));
                let recorder = &mut self.state.borrow_mut().recorder;
                recorder.failed(connection.host(), slot.operation.kind, Class::Timeout, service, response);
                self.ended();
            });
            if stuck {
                connection.stream().shutdown();
            }
        }
    }

    /// Sleeps until `boundary` or until everything that may be sent has been answered.
    async fn reach(&self, boundary: Instant) {
        let mut sleep = pin!(runtime::sleep_until(boundary));
        std::future::poll_fn(|cx| {
            *self.finished.borrow_mut() = Some(cx.waker().clone());
            if self.is_finished() { Poll::Ready(()) } else { sleep.as_mut().poll(cx) }
        })
        .await;
    }

    /// Ends one window after another until the run's end. Returns them, and whether the run became steady.
    async fn windows(&self, shared: &Shared, start: Instant) -> (Vec<Window>, bool) {
        let plan = &self.plan;
        let mut windows = Vec::new();
        let mut judge = Judge::new(plan, shared);
        let mut meters = Meters::new(plan, self.thread);
        let mut from = start;
        loop {
            let index = windows.len() as u64;
            if let Ok(end) = u32::try_from(shared.end.load(Ordering::Acquire)) {
                self.end.set(start.after(plan.window * end));
            }
            self.reach(start.after(plan.window * (index as u32 + 1))).await;
            let now = runtime::now();
            self.expire(now, self.plan.timeout);
            let mut window = self.state.borrow_mut().recorder.roll(index, now.since(from));
            meters.read(&mut window);
            from = now;
            shared.ended[self.thread].fetch_add(window.operations + window.failed(), Ordering::Relaxed);
            shared.failures[self.thread].fetch_add(window.failed(), Ordering::Relaxed);
            if self.thread == 0 {
                judge.window(&window);
            }
            windows.push(window);
            self.measuring.set(shared.measure_from.load(Ordering::Acquire) <= index + 1);
            let ended = shared.end.load(Ordering::Acquire) <= index + 1;
            if ended || self.is_finished() || shared.failed.load(Ordering::Acquire) {
                return (windows, judge.steady);
            }
        }
    }

    /// Stops sending at `end` and waits for requests under way. Returns how many arrivals were due and not sent.
    async fn drain(&self, end: Instant) -> u64 {
        self.end.set(end);
        self.pump(runtime::now());
        self.stopping.set(true);
        let limit = runtime::now().after(self.plan.timeout);
        let unsent = match &mut self.state.borrow_mut().schedule {
            Some(schedule) if self.budget.get() > 0 => schedule.abandon(end),
            _ => 0,
        };
        while self.under_way.get() > 0 {
            let now = runtime::now();
            self.expire(now, if now > limit { Duration::ZERO } else { self.plan.timeout });
            runtime::sleep(DRAIN_PAUSE).await;
        }
        for (_, connection) in &self.places {
            if let Some(connection) = connection.borrow().as_ref() {
                connection.stream().shutdown();
            }
        }
        unsent
    }
}
