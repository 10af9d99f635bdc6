//! One run: a node and its clients in a simulated world.

use crate::forgetful::forget_end_of_log;
use crate::seeds::SeedReport;
use crate::workload::operator;
use crate::workload::world::{SharedWorld, Work, World};
use crate::workload::{checker, client};
use runtime::rng::Rng;
use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId};
use server::client::Client;
use server::{Config, Exit, Node};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The node.
pub(crate) const SERVER: NodeId = NodeId(0);
const CLIENTS: NodeId = NodeId(1);
const CHECKER: NodeId = NodeId(2);
const NATIVE_PORT: u16 = 9042;
const SHARD_AWARE_PORT: u16 = 19042;
const SHARDS_MAX: u64 = 4;
/// Most crashes and orderly stops of one run.
const ROUNDS_MAX: u64 = 4;
/// Most clients of a run.
const CLIENTS_MAX: u64 = 4;
/// Simulator events between two crashes at most.
const EVENTS_MAX: u64 = 6000;
/// Simulator events between two crashes at most when clients send only conditional changes.
const REGISTER_EVENTS_MAX: u64 = 60_000;
/// Most clients of a run that sends only conditional changes.
const REGISTER_CLIENTS_MAX: u64 = 6;
/// `commitlog_sync_period` in mode `periodic`.
const PERIOD: Duration = Duration::from_millis(50);
/// Greatest age of a write that a crash may lose in mode `periodic`: the period, and ample time for the sync itself.
const PERIODIC_LOSS: Duration = Duration::from_millis(500);
/// Longest a start, a stop or a check may take, virtual time.
const PATIENCE: Duration = Duration::from_secs(120);

/// What happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Statements answered.
    pub answered: u64,
    /// Reads checked.
    pub reads_checked: u64,
    /// Those of the checked reads that read a whole table through an index.
    pub index_reads: u64,
    /// Conditional changes and SERIAL reads answered.
    pub decisions: u64,
    /// Commands of the operator that were carried out.
    pub commands: u64,
    /// Crashes and orderly stops.
    pub rounds: u64,
    /// Simulator events.
    pub events: u64,
    /// Hash of everything that happened.
    pub trace_hash: u64,
    /// The run's configuration as text.
    pub configuration: String,
    /// The first broken rule, if any.
    pub violation: Option<String>,
}

impl SeedReport for Report {
    fn violation(&self) -> Option<String> {
        self.violation.as_ref().map(|violation| format!("{violation} ({})", self.configuration))
    }

    fn add(&mut self, other: &Report) {
        for (sum, count) in [
            (&mut self.answered, other.answered),
            (&mut self.reads_checked, other.reads_checked),
            (&mut self.index_reads, other.index_reads),
            (&mut self.decisions, other.decisions),
            (&mut self.commands, other.commands),
            (&mut self.rounds, other.rounds),
            (&mut self.events, other.events),
        ] {
            *sum += count;
        }
    }

    fn totals(&self) -> String {
        let Report { answered, reads_checked, index_reads, decisions, commands, rounds, events, .. } = self;
        format!(
            "{rounds} restarts, {answered} statements, {reads_checked} reads checked, {index_reads} through indexes, \
             {decisions} decisions, {commands} commands, {events} events"
        )
    }
}

/// A run under way.
pub(crate) struct Run {
    pub(crate) sim: Sim,
    pub(crate) rng: Rng,
    pub(crate) world: SharedWorld,
    clients: u8,
    /// Whether there is an operator.
    operated: bool,
    events_max: u64,
    /// Whether crashes lose the end of the commit log. No disk may do that, and a test checks that the judges notice.
    forgetful: bool,
    sync: &'static str,
    shards: usize,
    rounds: u64,
    ready: Arc<AtomicBool>,
    failed: Rc<Cell<Option<Exit>>>,
    /// Set by a disk fault to end the current start or check with an error.
    pub(crate) halt: Rc<Cell<bool>>,
}

/// Runs one seed to its verdict.
pub fn run(seed: u64) -> Report {
    run_with(seed, Work::Everything, false)
}

/// Runs one seed to its verdict, with clients that send only conditional changes and SERIAL reads. A `forgetful` node
/// loses the end of its commit log in every crash.
pub fn run_registers(seed: u64, forgetful: bool) -> Report {
    run_with(seed, Work::Registers, forgetful)
}

fn run_with(seed: u64, work: Work, forgetful: bool) -> Report {
    let mut rng = Rng::new(seed);
    let sync = match rng.below(4) {
        0 => "periodic",
        1 => "batch",
        _ => "group",
    };
    let clients_max = if work == Work::Registers { REGISTER_CLIENTS_MAX } else { CLIENTS_MAX };
    let clients = 1 + rng.below(clients_max) as u8;
    let operated = rng.below(3) > 0;
    let mut run = Run::new(rng, sync, clients, operated);
    run.forgetful = forgetful;
    if work == Work::Registers {
        run.events_max = REGISTER_EVENTS_MAX;
        run.world.borrow_mut().work = work;
    }
    let violation = run.play().err().or_else(|| run.world.borrow().violation.clone());
    let world = run.world.borrow();
    Report {
        seed,
        answered: world.answered,
        reads_checked: world.reads_checked,
        index_reads: world.index_reads,
        decisions: world.registers.answered,
        commands: world.commands.values().sum(),
        rounds: run.rounds,
        events: run.sim.steps(),
        trace_hash: run.sim.trace_hash(),
        configuration: format!("{sync}, {clients} clients, {} rounds, operated: {operated}", run.rounds),
        violation,
    }
}

impl Run {
    pub(crate) fn new(mut rng: Rng, sync: &'static str, clients: u8, operated: bool) -> Run {
        let world = World { reads_are_durable: sync != "periodic", ..World::default() };
        Run {
            sim: Sim::new(rng.next_u64(), Options::default()),
            rng,
            world: Rc::new(RefCell::new(world)),
            clients,
            operated,
            events_max: EVENTS_MAX,
            forgetful: false,
            sync,
            shards: 0,
            rounds: 0,
            ready: Arc::default(),
            failed: Rc::default(),
            halt: Rc::default(),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        self.start_server()?;
        self.check("the first start")?;
        self.start_clients();
        for _ in 0..1 + self.rng.below(ROUNDS_MAX) {
            let events = self.rng.below(self.events_max);
            for _ in 0..events {
                if !self.sim.step() || self.world.borrow().violation.is_some() {
                    break;
                }
            }
            if self.world.borrow().violation.is_some() {
                return Ok(());
            }
            self.rounds += 1;
            let lossy_since = self.end_server()?;
            self.start_server()?;
            let now = self.sim.now().0;
            self.world.borrow_mut().restarted(now, lossy_since);
            self.check("a restart")?;
        }
        self.finish()
    }

    /// Starts the node with a random number of cores and waits until it serves.
    pub(crate) fn start_server(&mut self) -> Result<(), String> {
        self.shards = 1 + self.rng.below(SHARDS_MAX) as usize;
        let address = Sim::address_of(SERVER);
        let options = [
            format!("listen_address={address}"),
            format!("rpc_address={address}"),
            format!("commitlog_sync={}", self.sync),
            "commitlog_segment_size=1MiB".to_string(),
        ]
        .into_iter()
        .chain((self.sync == "periodic").then(|| format!("commitlog_sync_period={}ms", PERIOD.as_millis())))
        .collect::<Vec<_>>();
        let mut config = Config::read("", &options).map_err(|error| error.to_string())?;
        config.node.directories = "/data".into();
        self.ready = Arc::default();
        let ready = self.ready.clone();
        let node = Node::simulated(config, self.shards, move |_| ready.store(true, Ordering::Relaxed));
        self.failed.set(None);
        let failed = self.failed.clone();
        self.sim.start_node(SERVER, self.shards, move |shard: ShardId| {
            let (node, failed) = (node.clone(), failed.clone());
            async move {
                let exit = node.run(shard).await;
                if exit != Exit::Stopped {
                    failed.set(Some(exit));
                }
            }
        });
        let (ready, failed, halt) = (self.ready.clone(), self.failed.clone(), self.halt.clone());
        let ended = move || ready.load(Ordering::Relaxed) || failed.get().is_some() || halt.get();
        match self.sim.run_until(PATIENCE, ended) {
            Stop::Condition if self.halt.get() => Err("halted".into()),
            Stop::Condition if self.failed.get().is_none() => Ok(()),
            other => Err(format!("the node did not start: {other:?}, {:?}", self.failed.get())),
        }
    }

    /// Crashes the node, or stops it in order. Returns the time since which acknowledged writes may be lost, if any.
    fn end_server(&mut self) -> Result<Option<u64>, String> {
        let orderly = self.rng.below(4) == 0;
        if orderly {
            return self.stop().map(|()| None);
        }
        let now = self.sim.now().0;
        self.sim.crash(SERVER);
        if self.forgetful {
            forget_end_of_log(&mut self.sim, SERVER);
        }
        Ok((self.sync == "periodic").then(|| now.saturating_sub(PERIODIC_LOSS.as_nanos() as u64)))
    }

    pub(crate) fn start_clients(&mut self) {
        let server = Sim::address_of(SERVER);
        let servers = vec![SocketAddr::new(server, NATIVE_PORT), SocketAddr::new(server, SHARD_AWARE_PORT)];
        let (clients, operated, world) = (self.clients, self.operated, self.world.clone());
        self.sim.start_node(CLIENTS, 1, move |_| {
            let (servers, world) = (servers.clone(), world.clone());
            async move {
                let mut tasks: Vec<_> = (0..clients)
                    .map(|number| runtime::spawn(client::client(number, servers.clone(), world.clone())))
                    .collect();
                if operated {
                    tasks.push(runtime::spawn(operator::operate(server, clients, world)));
                }
                for task in tasks {
                    task.await;
                }
            }
        });
    }

    /// Creates missing parts of the schema and reads everything while the clients pause. `when` goes into the error.
    pub(crate) fn check(&mut self, when: &str) -> Result<(), String> {
        self.world.borrow_mut().paused = true;
        let done = Rc::new(Cell::new(None));
        let address = SocketAddr::new(Sim::address_of(SERVER), NATIVE_PORT);
        let (world, clients, told) = (self.world.clone(), self.clients, done.clone());
        self.sim.start_node(CHECKER, 1, move |_| {
            let (world, told) = (world.clone(), told.clone());
            async move {
                while world.borrow().busy > 0 {
                    runtime::sleep(Duration::from_millis(1)).await;
                }
                told.set(Some(check_once(address, clients, &world).await));
            }
        });
        let seen = done.clone();
        let halt = self.halt.clone();
        let stop = self.sim.run_until(PATIENCE, move || {
            let result = seen.take();
            let ended = result.is_some();
            seen.set(result);
            ended || halt.get()
        });
        if self.halt.get() {
            self.sim.kill(CHECKER);
        }
        let mut world = self.world.borrow_mut();
        world.paused = false;
        drop(world);
        match (stop, done.take()) {
            (Stop::Condition, Some(Ok(()))) => {}
            (_, Some(Err(text))) => return Err(format!("check after {when}: {text}")),
            (stop, _) => return Err(format!("check after {when} did not end: {stop:?}")),
        }
        while self.sim.is_running(CHECKER) {
            self.sim.step();
        }
        Ok(())
    }

    /// Ends the run: clients leave, everything is checked once more, the node stops in order.
    fn finish(&mut self) -> Result<(), String> {
        self.leave()?;
        self.stop()
    }

    /// Lets the clients leave, with a check of everything before and after.
    pub(crate) fn leave(&mut self) -> Result<(), String> {
        self.check("the last restart")?;
        self.world.borrow_mut().stop = true;
        let (world, clients) = (self.world.clone(), self.clients as usize);
        let stop = self.sim.run_until(PATIENCE, move || {
            let world = world.borrow();
            world.left == clients || world.violation.is_some()
        });
        if stop != Stop::Condition {
            return Err(format!("the clients did not leave: {stop:?}"));
        }
        self.check("the end")
    }

    /// Stops the node in order.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.sim.terminate(SERVER);
        let mut left = 0;
        while self.sim.is_running(SERVER) {
            left += 1;
            if !self.sim.step() || left > 50_000_000 {
                return Err("the node did not stop in order".into());
            }
        }
        Ok(())
    }
}

async fn check_once(address: SocketAddr, clients: u8, world: &SharedWorld) -> Result<(), String> {
    let mut client = Client::connect(address, None, 5).await.map_err(|error| format!("connect: {error}"))?;
    let replicas = world.borrow().replicas;
    checker::create_schema(&mut client, clients, &replicas.options(replicas.factor))
        .await
        .map_err(|error| format!("schema: {error:?}"))?;
    checker::check_all(&mut client, clients, world).await
}
