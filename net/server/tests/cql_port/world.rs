//! A simulated node and its clients.

use model::value::BoundValue;
use model::{Consistency, QueryParameters};
use runtime::sim::{Options, Sim, Stop};
use runtime::{NodeId, ShardId, Stream};
use server::{Config, Exit, Node};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use wire::Version;
use wire::client::{Answer, Response, Rows, put_request};
use wire::compression::Compression;
use wire::decoder::{Decoder, Event, RESPONSE_BYTES_MAX};
use wire::envelope::Envelope;
use wire::request::Request;
use wire::segment::SegmentWriter;

pub(crate) const SERVER: NodeId = NodeId(1);
pub(crate) const CLIENT: NodeId = NodeId(2);
pub(crate) const OTHER_CLIENT: NodeId = NodeId(3);
pub(crate) const PORT: u16 = 9042;
pub(crate) const SHARD_AWARE_PORT: u16 = 19042;
const LIMIT: Duration = Duration::from_secs(600);

/// The server's address.
pub(crate) fn address(port: u16) -> SocketAddr {
    SocketAddr::new(Sim::address_of(SERVER), port)
}

/// The client's address.
pub(crate) fn source(port: u16) -> SocketAddr {
    SocketAddr::new(Sim::address_of(CLIENT), port)
}

pub(crate) fn config() -> Config {
    let address: IpAddr = Sim::address_of(SERVER);
    let mut config = Config::default();
    config.node.listen_address = address;
    config.node.rpc_address = address;
    config.node.directories = "data".into();
    config.node.segment_bytes = 1 << 20;
    config.node.memory_bytes = 256 << 20;
    config
}

/// Options without faults of disks and delays: these tests are about the port.
pub(crate) fn options() -> Options {
    Options { buggify: false, ..Options::default() }
}

/// The exits of the shards, in the order in which they ended.
pub(crate) type Exits = Rc<RefCell<Vec<Exit>>>;

/// Starts the server node. The cell is set once it serves.
pub(crate) fn start(sim: &mut Sim, shards: usize, config: Config) -> (Exits, Rc<Cell<bool>>) {
    let exits = Exits::default();
    let ready = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = ready.clone();
    let node = Node::simulated(config, shards, move |_| seen.store(true, std::sync::atomic::Ordering::Relaxed));
    let kept = exits.clone();
    sim.start_node(SERVER, shards, move |shard: ShardId| {
        let (node, kept) = (node.clone(), kept.clone());
        async move {
            let exit = node.run(shard).await;
            kept.borrow_mut().push(exit);
        }
    });
    let up = Rc::new(Cell::new(false));
    let stop = sim.run_until(LIMIT, || ready.load(std::sync::atomic::Ordering::Relaxed) || !exits.borrow().is_empty());
    assert_eq!(stop, Stop::Condition, "the node neither serves nor stops");
    up.set(ready.load(std::sync::atomic::Ordering::Relaxed));
    (exits, up)
}

/// Runs `client` against a node of `shards` shards and then stops the node in order.
pub(crate) fn with_node<Fut: Future<Output = ()> + 'static>(shards: usize, client: impl Fn() -> Fut + 'static) {
    with_config(shards, config(), client);
}

/// Runs `client` against a node with this configuration and then stops the node in order.
pub(crate) fn with_config<Fut: Future<Output = ()> + 'static>(
    shards: usize,
    config: Config,
    client: impl Fn() -> Fut + 'static,
) {
    let mut sim = Sim::new(7, options());
    let (exits, up) = start(&mut sim, shards, config);
    assert!(up.get(), "the node did not start: {exits:?}");
    run_client(&mut sim, client);
    sim.terminate(SERVER);
    let stop = sim.run_until(LIMIT, || exits.borrow().len() == shards);
    assert_eq!(stop, Stop::Condition, "the node does not stop");
    assert!(exits.borrow().iter().all(|exit| *exit == Exit::Stopped), "{exits:?}");
}

/// Runs `client` on the client node to its end.
pub(crate) fn run_client<Fut: Future<Output = ()> + 'static>(sim: &mut Sim, client: impl Fn() -> Fut + 'static) {
    let done = Rc::new(Cell::new(false));
    let set = done.clone();
    let client = Rc::new(client);
    sim.start_node(CLIENT, 1, move |_| {
        let (client, set) = (client.clone(), set.clone());
        async move {
            client().await;
            set.set(true);
        }
    });
    let stop = sim.run_until(LIMIT, || done.get());
    assert_eq!(stop, Stop::Condition, "the client does not end");
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: Stream,
    decoder: RefCell<Decoder>,
    writer: RefCell<SegmentWriter>,
    version: Version,
    compression: Cell<Option<Compression>>,
    framed: Cell<bool>,
    next_stream: Cell<i16>,
    pub(crate) events: RefCell<Vec<Answer>>,
}

impl Client {
    /// Connects and sends nothing.
    pub(crate) async fn connect(version: Version) -> Client {
        Client::connect_to(address(PORT), None, version).await
    }

    pub(crate) async fn connect_to(to: SocketAddr, from: Option<SocketAddr>, version: Version) -> Client {
        Client {
            stream: Stream::connect(to, from).await.expect("the port is open"),
            decoder: RefCell::new(Decoder::client()),
            writer: RefCell::default(),
            version,
            compression: Cell::new(None),
            framed: Cell::new(false),
            next_stream: Cell::new(0),
            events: RefCell::default(),
        }
    }

    /// Connects and completes the handshake.
    pub(crate) async fn ready(version: Version) -> Client {
        let client = Client::connect(version).await;
        client.startup().await;
        client
    }

    pub(crate) async fn startup(&self) {
        self.startup_with(vec![("CQL_VERSION", "3.0.0")]).await;
    }

    pub(crate) async fn startup_with(&self, options: Vec<(&str, &str)>) {
        let name = options.iter().find(|(name, _)| *name == "COMPRESSION").map(|(_, value)| *value);
        let agreed = name.and_then(Compression::of_name);
        let answer = self.ask_with(&Request::Startup(options), agreed).await;
        assert_eq!(answer.response, Response::Ready);
        self.compression.set(agreed);
        self.framed.set(self.version >= Version::V5);
        self.decoder.borrow_mut().agree(self.version);
        if self.version >= Version::V5 && agreed.is_some() {
            self.decoder.borrow_mut().agree_compressed_segments();
            *self.writer.borrow_mut() = SegmentWriter::compressed();
        }
    }

    /// Connects and completes a handshake with compression.
    pub(crate) async fn compressed(version: Version, name: &str) -> Client {
        let client = Client::connect(version).await;
        client.startup_with(vec![("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)]).await;
        client
    }

    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.stream.write(|out| out.extend_from_slice(bytes));
    }

    /// Sends one envelope in whatever form the connection has reached, or bytes instead of its body.
    pub(crate) fn send(&self, stream: i16, request: &Request<'_>) {
        let version = self.version;
        self.stream.write(|out| {
            if self.framed.get() {
                self.writer.borrow_mut().write(out, |out| put_request(out, version, stream, request));
                return;
            }
            let start = out.len();
            put_request(out, version, stream, request);
            if let Some(compression) = self.compression.get() {
                compression.seal(out, start);
            }
        });
    }

    /// The next envelope; `None` once the server has closed the connection.
    pub(crate) async fn receive(&self) -> Option<Envelope> {
        loop {
            match self.decoder.borrow_mut().next_event() {
                Some(Event::Envelope(envelope)) => return Some(envelope),
                Some(Event::Refusal(refusal)) => panic!("the server sent {refusal:?}"),
                None => {}
            }
            let bytes = self.stream.recv().await.ok()??;
            self.decoder.borrow_mut().feed(&bytes);
        }
    }

    /// Sends a request and waits for the answer. Events are kept for later.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> Answer {
        self.ask_with(request, self.compression.get()).await
    }

    async fn ask_with(&self, request: &Request<'_>, agreed: Option<Compression>) -> Answer {
        let stream = self.next_stream.get();
        self.send(stream, request);
        self.next_stream.set(stream + 1);
        loop {
            let mut envelope = self.receive().await.expect("an answer");
            let compressed = envelope.compression(agreed).is_some();
            assert_eq!(compressed, agreed.is_some() && self.version < Version::V5, "all answers or none");
            envelope.open(agreed, RESPONSE_BYTES_MAX).expect("a valid body");
            let answer = Answer::decode(&envelope).expect("a valid answer");
            if envelope.header.stream == -1 {
                self.events.borrow_mut().push(answer);
                continue;
            }
            assert_eq!(envelope.header.stream, stream);
            return answer;
        }
    }

    pub(crate) async fn query(&self, text: &str) -> Response {
        let parameters = QueryParameters::new(Consistency::One);
        self.ask(&Request::Query { text, parameters }).await.response
    }

    pub(crate) async fn rows(&self, text: &str) -> Rows {
        match self.query(text).await {
            Response::Rows(rows) => rows,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Creates a keyspace `k` and a table `k.t (a int PRIMARY KEY, b text)`.
    pub(crate) async fn create(&self) {
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        for text in [keyspace, "CREATE TABLE k.t (a int PRIMARY KEY, b text)"] {
            let response = self.query(text).await;
            assert!(matches!(response, Response::SchemaChange(_)), "{text}: {response:?}");
        }
    }
}

/// The code and text of an error.
pub(crate) fn error(response: Response) -> (i32, String) {
    match response {
        Response::Error { code, text, .. } => (code, text),
        other => panic!("expected an error, got {other:?}"),
    }
}

/// Parameters at ONE with these values.
pub(crate) fn values<'a>(values: &[&'a [u8]]) -> QueryParameters<'a> {
    QueryParameters {
        values: values.iter().map(|value| BoundValue::Bytes(value)).collect(),
        ..QueryParameters::new(Consistency::One)
    }
}
