//! A node in the simulator whose shards take jobs from a test.

use cluster::gossip::EndpointState;
use model::value::{BoundValue, TupleElements};
use model::{BatchEntry, BatchKind, BatchStatement, Consistency, Failure, QueryParameters};
use runtime::mesh::{Mesh, NodeId, ShardId};
use runtime::sim::{Options, Sim, Stop};
use shard::{Answer, Config, NoPeers, Notifier, PreparedAnswer, Response, Rows, SchemaChange, Session, Shard};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

pub(crate) const NODE: NodeId = NodeId(1);
const LIMIT: Duration = Duration::from_secs(60);

type Job = Box<dyn FnOnce(Shard) -> Pin<Box<dyn Future<Output = ()>>>>;
/// A row as bytes.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// One core, as the test communicates with it.
#[derive(Clone, Default)]
struct Core {
    jobs: Rc<RefCell<VecDeque<Job>>>,
    stop: Rc<Cell<bool>>,
    serving: Rc<Cell<bool>>,
    changes: Rc<RefCell<Vec<SchemaChange>>>,
    endpoints: Rc<RefCell<Vec<(SocketAddr, EndpointState)>>>,
}

impl Notifier for Core {
    fn schema_changed(&self, change: &SchemaChange) {
        self.changes.borrow_mut().push(change.clone());
    }

    fn endpoints(&self) -> Vec<(SocketAddr, EndpointState)> {
        self.endpoints.borrow().clone()
    }
}

/// A running node.
pub(crate) struct World {
    pub(crate) sim: Sim,
    cores: Vec<Core>,
    session: Rc<Session>,
    pub(crate) memory_bytes: usize,
    tweak: fn(&mut Config),
}

/// Parameters of a request at ONE without anything else.
pub(crate) fn plain<'a>() -> QueryParameters<'a> {
    QueryParameters::new(Consistency::One)
}

/// The variable parts of a request, owned.
#[derive(Clone, Default)]
pub(crate) struct Request {
    pub(crate) consistency: Option<Consistency>,
    pub(crate) values: Vec<Value>,
    pub(crate) names: Option<Vec<&'static str>>,
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<Vec<u8>>,
    pub(crate) timestamp: Option<i64>,
}

/// A bound value, owned.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

pub(crate) fn int(value: i32) -> Value {
    Value::Bytes(value.to_be_bytes().to_vec())
}

pub(crate) fn text(value: &str) -> Value {
    Value::Bytes(value.as_bytes().to_vec())
}

pub(crate) fn values(values: &[Value]) -> Request {
    Request { values: values.to_vec(), ..Request::default() }
}

impl Request {
    fn parameters(&self) -> QueryParameters<'_> {
        QueryParameters {
            consistency: self.consistency.unwrap_or(Consistency::One),
            values: self.values.iter().map(Value::bound).collect(),
            names: self.names.clone(),
            page_size: self.page_size,
            paging_state: self.paging_state.as_deref(),
            timestamp: self.timestamp,
            ..plain()
        }
    }
}

impl Value {
    pub(crate) fn bound(&self) -> BoundValue<'_> {
        match self {
            Value::Null => BoundValue::Null,
            Value::Unset => BoundValue::Unset,
            Value::Bytes(bytes) => BoundValue::Bytes(bytes),
        }
    }
}

fn config(shards: usize, memory_bytes: usize) -> Config {
    Config {
        directories: "/data".into(),
        num_tokens: 4,
        segment_bytes: 8 << 20,
        log_bytes: shards as u64 * (1 << 30),
        memory_bytes: shards * memory_bytes,
        drop_compact_storage: true,
        compaction_bytes_per_second: 0,
        ..Config::default()
    }
}

impl World {
    /// Starts a node of `shards` cores and waits until it serves.
    pub(crate) fn start(shards: usize) -> World {
        World::with_memory(shards, 64 << 20)
    }

    /// Starts a node with `memory_bytes` per core.
    pub(crate) fn with_memory(shards: usize, memory_bytes: usize) -> World {
        World::start_with(shards, memory_bytes, |_| {})
    }

    /// Starts a node with the configuration as `tweak` changed it.
    pub(crate) fn with_config(shards: usize, tweak: fn(&mut Config)) -> World {
        World::start_with(shards, 64 << 20, tweak)
    }

    fn start_with(shards: usize, memory_bytes: usize, tweak: fn(&mut Config)) -> World {
        let sim = Sim::new(shards as u64, Options::default());
        let mut world = World { sim, cores: Vec::new(), session: Rc::default(), memory_bytes, tweak };
        world.run(shards);
        world
    }

    /// Starts the stopped node again, with `shards` cores.
    pub(crate) fn run(&mut self, shards: usize) {
        self.session = Rc::default();
        self.cores = (0..shards).map(|_| Core::default()).collect();
        let mesh = Mesh::simulated(shards, shard::MAILBOX_MESSAGES_MAX);
        let (cores, mut config) = (self.cores.clone(), config(shards, self.memory_bytes));
        (self.tweak)(&mut config);
        self.sim.start_node(NODE, shards, move |id: ShardId| {
            let (core, mesh, config) = (cores[id.0 as usize].clone(), mesh.clone(), config.clone());
            async move {
                let shard = Shard::start(config, mesh, Rc::new(core.clone()), Rc::new(NoPeers))
                    .await
                    .expect("a shard that starts");
                core.serving.set(true);
                while !core.stop.get() {
                    let job = core.jobs.borrow_mut().pop_front();
                    match job {
                        Some(job) => job(shard.clone()).await,
                        None => runtime::sleep(Duration::from_micros(100)).await,
                    }
                }
                shard.stop().await.expect("a shard that stops");
            }
        });
        let cores = self.cores.clone();
        let stop = self.sim.run_until(LIMIT, || cores.iter().all(|core| core.serving.get()));
        assert_eq!(stop, Stop::Condition, "the node serves");
    }

    /// What gossip is to know of a node.
    pub(crate) fn gossip_of(&mut self, address: SocketAddr, state: EndpointState) {
        self.cores[0].endpoints.borrow_mut().push((address, state));
    }

    /// Stops the node cleanly.
    pub(crate) fn stop(&mut self) {
        self.cores.iter().for_each(|core| core.stop.set(true));
        for _ in 0..1_000_000 {
            if !self.sim.is_running(NODE) {
                return;
            }
            self.sim.step();
        }
        panic!("the node does not stop");
    }

    /// Kills the node.
    pub(crate) fn crash(&mut self) {
        self.sim.crash(NODE);
    }

    /// Runs a job on a core and returns its result.
    pub(crate) fn on<T: 'static, Fut: Future<Output = T> + 'static>(
        &mut self,
        core: usize,
        job: impl FnOnce(Shard, Rc<Session>) -> Fut + 'static,
    ) -> T {
        let (result, session) = (Rc::new(RefCell::new(None)), self.session.clone());
        let given = result.clone();
        let job: Job = Box::new(move |shard| {
            Box::pin(async move {
                let value = job(shard, session).await;
                *given.borrow_mut() = Some(value);
            })
        });
        self.cores[core].jobs.borrow_mut().push_back(job);
        let stop = self.sim.run_until(LIMIT, || result.borrow().is_some());
        assert_eq!(stop, Stop::Condition, "the job ends");
        result.borrow_mut().take().expect("a result")
    }

    /// Runs a QUERY on a core.
    pub(crate) fn try_query(&mut self, core: usize, text: &str, request: Request) -> Result<Answer, Failure> {
        let text = text.to_owned();
        self.on(core, |shard, session| async move { shard.query(&session, &text, &request.parameters()).await })
    }

    /// Runs a QUERY on core 0, which must succeed.
    pub(crate) fn run_query(&mut self, text: &str) -> Answer {
        self.try_query(0, text, Request::default()).unwrap_or_else(|failure| panic!("{text}: {failure}"))
    }

    /// The failure's text of a QUERY on core 0, which must fail.
    pub(crate) fn refusal(&mut self, text: &str, request: Request) -> String {
        match self.try_query(0, text, request) {
            Err(failure) => failure.text.into_owned(),
            Ok(answer) => panic!("{text}: {:?}", answer.response),
        }
    }

    /// The rows of a QUERY on a core.
    pub(crate) fn rows_on(&mut self, core: usize, text: &str) -> Vec<Row> {
        let answer = self.try_query(core, text, Request::default());
        rows_of(answer.unwrap_or_else(|failure| panic!("{text}: {failure}")))
    }

    /// The integers in the result of a QUERY on core 0; -1 for null.
    pub(crate) fn ints(&mut self, text: &str) -> Vec<Vec<i64>> {
        self.rows_on(0, text).iter().map(|row| row.iter().map(number).collect()).collect()
    }

    /// All pages of a QUERY; each page is requested from the next core.
    pub(crate) fn pages(&mut self, text: &str, page_size: i32) -> Vec<Vec<Row>> {
        let mut pages = Vec::new();
        let mut paging_state = None;
        for core in (0..self.cores.len()).cycle() {
            let request = Request { page_size: Some(page_size), paging_state, ..Request::default() };
            let answer = self.try_query(core, text, request).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            let Response::Rows(rows) = answer.response else { panic!("{text} gives no rows") };
            paging_state = rows.paging_state.clone();
            pages.push(decode(&rows));
            if paging_state.is_none() {
                break;
            }
        }
        pages
    }

    /// Runs a PREPARE on a core.
    pub(crate) fn prepare(&mut self, core: usize, text: &str) -> Result<[u8; 16], Failure> {
        let text = text.to_owned();
        self.on(core, |shard, session| async move {
            let answer: PreparedAnswer = shard.prepare(&session, &text, None).await?;
            Ok(answer.id)
        })
    }

    /// Runs an EXECUTE on a core.
    pub(crate) fn execute(&mut self, core: usize, id: [u8; 16], request: Request) -> Result<Answer, Failure> {
        self.on(core, move |shard, session| async move { shard.execute(&session, &id, &request.parameters()).await })
    }

    /// Runs a BATCH of texts on a core.
    pub(crate) fn batch(&mut self, core: usize, kind: BatchKind, texts: &[String]) -> Result<Answer, Failure> {
        let texts = texts.to_vec();
        self.on(core, move |shard, session| async move {
            let entries: Vec<BatchEntry<'_>> = texts
                .iter()
                .map(|text| BatchEntry { statement: BatchStatement::Text(text), values: Vec::new() })
                .collect();
            shard.batch(&session, kind, &entries, &plain()).await
        })
    }

    /// Messages that a core has sent.
    pub(crate) fn messages(&mut self, core: usize) -> u64 {
        self.on(core, |shard, _| async move { shard.messages_sent() })
    }

    /// Number of schema changes that a core was told about.
    pub(crate) fn changes(&self, core: usize) -> usize {
        self.cores[core].changes.borrow().len()
    }
}

/// The rows of an answer.
pub(crate) fn rows_of(answer: Answer) -> Vec<Row> {
    match answer.response {
        Response::Rows(rows) => decode(&rows),
        other => panic!("no rows but {other:?}"),
    }
}

fn decode(rows: &Rows) -> Vec<Row> {
    let cells: Row = TupleElements::new(&rows.block.bytes).map(|cell| cell.map(<[u8]>::to_vec)).collect();
    assert_eq!(cells.len(), rows.columns.len() * rows.block.rows as usize);
    cells.chunks(rows.columns.len().max(1)).map(<[_]>::to_vec).collect()
}

/// A big-endian integer of any length; -1 for null.
pub(crate) fn number(cell: &Option<Vec<u8>>) -> i64 {
    match cell.as_deref() {
        None => -1,
        Some([]) => -2,
        Some(bytes) => bytes[1..].iter().fold(i64::from(bytes[0] as i8), |sum, byte| sum << 8 | i64::from(*byte)),
    }
}
