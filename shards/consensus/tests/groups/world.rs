//! A group in the simulator: nodes with a store each, connections that lose, repeat and delay messages, clients that
//! propose, and the promises that are checked meanwhile.

use consensus::testing::MemoryStore;
use consensus::{Config, Group, ProposeError, StateMachine, Status, StoreError, Timings, Transport, Unreachable};
use runtime::mesh::NodeId;
use runtime::sim::{Options, Sim, Stop};
use runtime::{Listener, Stream};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

const PORT: u16 = 7000;
pub(crate) const TIMINGS: Timings = Timings {
    heartbeat: Duration::from_millis(100),
    election: (Duration::from_millis(300), Duration::from_millis(600)),
    snapshot_after: 40,
    records_kept: 10,
};

/// The longest pause of a node.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What a node is told to do.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    AddLearners(BTreeSet<Uuid>),
    Remove(BTreeSet<Uuid>),
    SetVoters(BTreeSet<Uuid>),
    Recover(BTreeSet<Uuid>),
    Propose(Vec<u8>),
    Stop,
}

/// Faults of the connections, as chances per message.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) lost: f64,
    pub(crate) repeated: f64,
    pub(crate) delayed: f64,
}

/// What outlives the nodes: their stores, and everything that was seen.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) stores: RefCell<BTreeMap<u32, MemoryStore>>,
    pub(crate) faults: Cell<Faults>,
    /// Whether clients propose.
    pub(crate) busy: Cell<bool>,
    orders: RefCell<BTreeMap<u32, VecDeque<Order>>>,
    pub(crate) results: RefCell<Vec<(u32, Result<(), ProposeError>)>>,
    /// The command at each index, as the first node applied it.
    pub(crate) history: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// The index of each applied command.
    commands: RefCell<BTreeMap<Vec<u8>, u64>>,
    leaders: RefCell<BTreeMap<u64, Uuid>>,
    pub(crate) acknowledged: RefCell<BTreeMap<u64, Vec<u8>>>,
    pub(crate) unknown: Cell<u64>,
    pub(crate) refused: Cell<u64>,
    pub(crate) states: RefCell<BTreeMap<u32, BTreeMap<u64, Vec<u8>>>>,
    pub(crate) statuses: RefCell<BTreeMap<u32, Status>>,
    pub(crate) restored: Cell<u64>,
    /// Whether a recovery may have lost what was acknowledged.
    pub(crate) lossy: Cell<bool>,
    proposed: Cell<u64>,
    /// Messages and answers between members so far, and their bytes.
    pub(crate) sent: Cell<(u64, u64)>,
    timings: Option<Timings>,
}

pub(crate) fn host(n: u32) -> Uuid {
    Uuid::from_u128(u128::from(n))
}

pub(crate) fn hosts(n: impl IntoIterator<Item = u32>) -> BTreeSet<Uuid> {
    n.into_iter().map(host).collect()
}

fn address(n: u32) -> SocketAddr {
    SocketAddr::new(Sim::address_of(NodeId(n)), PORT)
}

/// A run: the simulator and the world in it.
pub(crate) struct Run {
    pub(crate) sim: Sim,
    pub(crate) world: Rc<World>,
}

impl Run {
    pub(crate) fn new(seed: u64, faults: Faults) -> Run {
        Run::with_timings(seed, faults, TIMINGS)
    }

    pub(crate) fn with_timings(seed: u64, faults: Faults, timings: Timings) -> Run {
        let sim = Sim::new(seed, Options::default());
        let world = Rc::new(World { timings: Some(timings), ..World::default() });
        world.faults.set(faults);
        Run { sim, world }
    }

    /// Starts node `n`, anew with what it has stored if it ran before.
    pub(crate) fn start(&mut self, n: u32) {
        let store = MemoryStore::new(Duration::from_millis(3));
        self.world.stores.borrow_mut().entry(n).or_insert(store).mend();
        self.world.states.borrow_mut().remove(&n);
        self.world.statuses.borrow_mut().remove(&n);
        let world = self.world.clone();
        self.sim.start_node(NodeId(n), 1, move |_| run_node(world.clone(), n));
    }

    pub(crate) fn crash(&mut self, n: u32) {
        self.sim.crash(NodeId(n));
        self.world.statuses.borrow_mut().remove(&n);
    }

    pub(crate) fn order(&self, n: u32, order: Order) {
        self.world.orders.borrow_mut().entry(n).or_default().push_back(order);
    }

    /// Gives an order and runs until it is done; its result.
    pub(crate) fn obey(&mut self, n: u32, order: Order) -> Result<(), ProposeError> {
        let before = self.world.results.borrow().len();
        self.order(n, order.clone());
        let world = self.world.clone();
        let stop = self.sim.run_until(Duration::from_secs(60), || world.results.borrow().len() > before);
        assert_eq!(stop, Stop::Condition, "node {n} did not finish {order:?}: {:?}", self.world.statuses.borrow());
        self.world.results.borrow()[before].1.clone()
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.sim.run_until(time, || false);
    }

    /// Runs until `done`, which is asked about the nodes' last statuses.
    pub(crate) fn wait(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        let world = self.world.clone();
        let stop = self.sim.run_until(Duration::from_secs(120), || done(&world));
        assert_eq!(stop, Stop::Condition, "{what}: {:#?}", self.world.statuses.borrow());
    }

    /// Starts nodes 1 to `nodes` as one group, all voters if there are few.
    pub(crate) fn group(&mut self, nodes: u32) {
        for n in 1..=nodes {
            self.start(n);
        }
        self.wait("the first node leads", |world| world.leader() == Some(1));
        self.obey(1, Order::AddLearners(hosts(1..=nodes))).expect("added");
        self.obey(1, Order::SetVoters(hosts(1..=nodes))).expect("voters");
    }

    /// Ends all faults, and waits until all running nodes that are members have the same; checks what was promised.
    pub(crate) fn settle(&mut self, nodes: &[u32]) {
        self.world.faults.set(Faults::default());
        self.world.stores.borrow().values().for_each(MemoryStore::mend);
        // Nodes whose disk has failed end now, those too that were paused just after that.
        self.pass(PAUSE_MAX + Duration::from_millis(100));
        for (at, a) in nodes.iter().enumerate() {
            for b in &nodes[at + 1..] {
                self.sim.partition(NodeId(*a), NodeId(*b), false);
            }
            let failed = self.world.statuses.borrow().get(a).is_some_and(|status| status.failure.is_some());
            if failed && self.sim.is_running(NodeId(*a)) {
                // It still waits for the end of an order.
                self.crash(*a);
            }
            if !self.sim.is_running(NodeId(*a)) {
                self.start(*a);
            }
        }
        self.world.busy.set(false);
        // A command of its own, so that all that was proposed before is decided or forgotten.
        let last = nodes[0];
        self.obey(last, Order::Propose(b"the last one".to_vec())).expect("a healed group decides");
        let members = nodes.to_vec();
        self.wait("all nodes have all commands", move |world| {
            let states = world.states.borrow();
            let last = world.history.borrow().last_key_value().map(|(index, _)| *index);
            members.iter().all(|n| states.get(n).is_some_and(|state| state.keys().next_back().copied() == last))
        });
        self.check(nodes);
    }

    /// Checks that all nodes have the same state with all that was acknowledged, and that logs match.
    fn check(&self, nodes: &[u32]) {
        let states = self.world.states.borrow();
        let first = &states[&nodes[0]];
        for n in nodes {
            assert_eq!(&states[n], first, "nodes {} and {n} differ", nodes[0]);
        }
        for (index, command) in self.world.acknowledged.borrow().iter() {
            if !self.world.lossy.get() {
                assert_eq!(first.get(index), Some(command), "the acknowledged command at {index}");
            }
        }
        let stores = self.world.stores.borrow();
        let mut records: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
        for n in nodes {
            for record in stores[n].stored().records {
                let term = u64::from_be_bytes(record.bytes[1..9].try_into().expect("eight bytes"));
                let known = records.entry((term, record.index)).or_insert_with(|| record.bytes.clone());
                assert_eq!(*known, record.bytes, "record {} of term {term} on node {n}", record.index);
            }
        }
    }
}

impl World {
    /// The node that says that it leads, if one does.
    pub(crate) fn leader(&self) -> Option<u32> {
        let statuses = self.statuses.borrow();
        let leading = statuses.iter().filter(|(_, status)| status.leader == Some(status.me));
        leading.max_by_key(|(_, status)| status.term).map(|(n, _)| *n)
    }

    fn saw(&self, n: u32, status: Status) {
        if status.leader == Some(status.me) {
            let first = *self.leaders.borrow_mut().entry(status.term).or_insert(status.me);
            assert_eq!(first, status.me, "two leaders in term {}", status.term);
        }
        self.statuses.borrow_mut().insert(n, status);
    }
}

/// The state: every command with its index.
struct Commands {
    n: u32,
    world: Rc<World>,
}

impl StateMachine for Commands {
    async fn apply(&self, index: u64, command: &[u8]) -> Result<Vec<u8>, StoreError> {
        if runtime::rng::below(4) == 0 {
            runtime::sleep(Duration::from_micros(runtime::rng::below(500))).await;
        }
        let mut states = self.world.states.borrow_mut();
        let state = states.entry(self.n).or_default();
        assert!(state.keys().next_back().is_none_or(|last| *last < index), "index {index} comes after a later one");
        assert!(!state.values().any(|applied| applied == command), "a command is applied twice");
        state.insert(index, command.to_vec());
        let mut history = self.world.history.borrow_mut();
        if self.world.lossy.get() {
            history.insert(index, command.to_vec());
        } else {
            let first = history.entry(index).or_insert_with(|| command.to_vec());
            assert_eq!(first, command, "another command at index {index} on node {}", self.n);
            let place = *self.world.commands.borrow_mut().entry(command.to_vec()).or_insert(index);
            assert_eq!(place, index, "a command at two indexes");
        }
        let mut answer = index.to_be_bytes().to_vec();
        answer.extend_from_slice(&command[..command.len().min(64)]);
        Ok(answer)
    }

    fn snapshot(&self) -> Vec<u8> {
        let states = self.world.states.borrow();
        let mut out = Vec::new();
        for (index, command) in states.get(&self.n).into_iter().flatten() {
            out.extend_from_slice(&index.to_be_bytes());
            out.extend_from_slice(&(command.len() as u64).to_be_bytes());
            out.extend_from_slice(command);
        }
        out
    }

    async fn restore(&self, index: u64, mut snapshot: &[u8]) -> Result<(), StoreError> {
        let mut state = BTreeMap::new();
        let number = |bytes: &mut &[u8]| {
            let (number, rest) = bytes.split_first_chunk::<8>().expect("a snapshot of this test");
            *bytes = rest;
            u64::from_be_bytes(*number)
        };
        while !snapshot.is_empty() {
            let (index, len) = (number(&mut snapshot), number(&mut snapshot) as usize);
            state.insert(index, snapshot[..len].to_vec());
            snapshot = &snapshot[len..];
        }
        assert!(state.keys().next_back().is_none_or(|last| *last <= index), "a snapshot of the future");
        self.world.states.borrow_mut().insert(self.n, state);
        self.world.restored.set(self.world.restored.get() + 1);
        Ok(())
    }
}

/// One connection for each call.
struct Connections {
    world: Rc<World>,
}

async fn exchange(target: SocketAddr, message: &[u8]) -> Result<Vec<u8>, Unreachable> {
    let stream = Stream::connect(target, None).await.map_err(|_| Unreachable::NotSent)?;
    send(&stream, message);
    receive(&stream).await.map_err(|_| Unreachable::NoAnswer)
}

fn send(stream: &Stream, message: &[u8]) {
    stream.write(|out| {
        out.extend_from_slice(&(message.len() as u32).to_be_bytes());
        out.extend_from_slice(message);
    });
}

async fn receive(stream: &Stream) -> io::Result<Vec<u8>> {
    let mut got: Vec<u8> = Vec::new();
    loop {
        if let Some((len, rest)) = got.split_first_chunk::<4>()
            && rest.len() >= u32::from_be_bytes(*len) as usize
        {
            return Ok(rest.to_vec());
        }
        match stream.recv().await? {
            Some(bytes) => got.extend_from_slice(&bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn happens(chance: f64) -> bool {
    chance > 0.0 && (runtime::rng::below(1 << 20) as f64) < chance * f64::from(1 << 20)
}

impl Transport for Connections {
    async fn call(&self, target: Uuid, message: Vec<u8>) -> Result<Vec<u8>, Unreachable> {
        let target = address(target.as_u128() as u32);
        let faults = self.world.faults.get();
        if happens(faults.lost) {
            runtime::sleep(Duration::from_millis(runtime::rng::below(300))).await;
            return Err(Unreachable::NoAnswer);
        }
        if happens(faults.delayed) {
            runtime::sleep(Duration::from_millis(runtime::rng::below(1_000))).await;
        }
        if happens(faults.repeated) {
            let again = message.clone();
            runtime::spawn(async move {
                runtime::sleep(Duration::from_millis(runtime::rng::below(2_000))).await;
                let _ = exchange(target, &again).await;
            });
        }
        let (messages, bytes) = self.world.sent.get();
        self.world.sent.set((messages + 1, bytes + message.len() as u64));
        let answer = exchange(target, &message).await?;
        let (messages, bytes) = self.world.sent.get();
        self.world.sent.set((messages + 1, bytes + answer.len() as u64));
        // The answer is lost, not the message.
        if happens(faults.lost) { Err(Unreachable::NoAnswer) } else { Ok(answer) }
    }
}

async fn serve(group: Group) {
    let listener = Listener::bind(address(runtime::current_node().0)).await.expect("the port is free");
    loop {
        let Ok(accepted) = listener.accept().await else { continue };
        let Ok(stream) = accepted.attach() else { continue };
        let group = group.clone();
        runtime::spawn(async move {
            if let Ok(message) = receive(&stream).await {
                let answer = group.handle(&message).await;
                send(&stream, &answer);
                let _ = stream.drained_to(0).await;
                // The caller closes first.
                let _ = stream.recv().await;
            }
        });
    }
}

async fn run_node(world: Rc<World>, n: u32) {
    let config = Config { me: host(n), timings: world.timings.clone().unwrap_or_default() };
    let store = world.stores.borrow()[&n].clone();
    let fresh = store.stored().vote.is_none();
    let machine = Commands { n, world: world.clone() };
    let group = match Group::start(config, store, Connections { world: world.clone() }, machine).await {
        Ok(group) => group,
        // Its disk fails; the driver starts it again.
        Err(_) => return,
    };
    world.states.borrow_mut().entry(n).or_default();
    runtime::spawn(serve(group.clone()));
    if fresh && n == 1 && group.create().await.is_err() {
        return;
    }
    runtime::spawn(propose(world.clone(), n, group.clone()));
    loop {
        let status = group.status();
        if status.failure.is_some() {
            return;
        }
        world.saw(n, status);
        let order = world.orders.borrow_mut().get_mut(&n).and_then(VecDeque::pop_front);
        let deadline = runtime::now().after(Duration::from_secs(20));
        let result = match order {
            Some(Order::AddLearners(nodes)) => group.add_learners(nodes, deadline).await,
            Some(Order::Remove(nodes)) => group.remove(nodes, deadline).await,
            Some(Order::SetVoters(nodes)) => group.set_voters(nodes, deadline).await,
            Some(Order::Recover(nodes)) => group.recover(nodes).await,
            Some(Order::Propose(command)) => group.propose(command, deadline).await.map(|_| ()),
            Some(Order::Stop) => {
                group.stop().await;
                world.results.borrow_mut().push((n, Ok(())));
                return;
            }
            None => {
                runtime::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        world.saw(n, group.status());
        world.results.borrow_mut().push((n, result));
    }
}

/// A client of node `n`: one command after another, each other than all others.
async fn propose(world: Rc<World>, n: u32, group: Group) {
    loop {
        runtime::sleep(Duration::from_millis(1 + runtime::rng::below(40))).await;
        world.saw(n, group.status());
        if !world.busy.get() {
            continue;
        }
        let number = world.proposed.get();
        world.proposed.set(number + 1);
        let command = format!("{n}:{number}").into_bytes();
        let before = world.acknowledged.borrow().keys().next_back().copied();
        let barrier = (runtime::rng::below(8) == 0).then_some(before).flatten();
        let deadline = runtime::now().after(Duration::from_millis(500 + runtime::rng::below(4_000)));
        if let Some(before) = barrier
            && let Ok(index) = group.read_index(deadline).await
        {
            assert!(index >= before || world.lossy.get(), "a barrier at {index} after {before} was acknowledged");
        }
        match group.propose(command.clone(), deadline).await {
            Ok((index, answer)) => {
                assert_eq!(answer[..8], index.to_be_bytes());
                assert_eq!(answer[8..], command);
                let twice = world.acknowledged.borrow_mut().insert(index, command);
                assert!(twice.is_none() || world.lossy.get(), "two commands were acknowledged at {index}");
            }
            Err(ProposeError::Unknown) => world.unknown.set(world.unknown.get() + 1),
            Err(ProposeError::NoLeader | ProposeError::NoMajority) => {
                // A definite refusal: it may never be applied.
                let applied = world.history.borrow().values().any(|applied| *applied == command);
                assert!(!applied, "a refused command was applied");
                world.refused.set(world.refused.get() + 1);
            }
            Err(ProposeError::Stopped(_)) => return,
            Err(error) => panic!("node {n}: {error}"),
        }
    }
}
