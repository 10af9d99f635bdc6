//! Recorded sessions of real drivers, replayed: every request is answered, no answer is an error, and every answer can
//! be read, however the bytes of the requests arrive.

use super::*;
use wire::client::{Answer, Response};
use wire::compression::Compression;
use wire::decoder::{Decoder, Event};
use wire::request::Request as WireRequest;
use wire::startup::Startup;
use wire::{Opcode, Version};

/// Larger than any answer here.
const ANSWER_BYTES_MAX: usize = 1 << 24;

/// What the Go driver is answered when it looks whether the server is Cassandra 2.
const PROBED: &str = "table schema_keyspaces does not exist";

/// One connection of a driver.
struct Connection {
    stream: Stream,
    /// Reads what the driver sends.
    sent: Decoder,
    /// Reads what the node answers.
    received: Decoder,
    startup: Option<(Version, Option<Compression>)>,
    asked: usize,
    answered: usize,
    /// Answers other than READY and the like.
    results: usize,
}

impl Connection {
    async fn open(node: NodeId) -> Connection {
        let stream = Stream::connect(at(node, 9042), None).await.expect("the node serves");
        let (sent, received) = (Decoder::server(Version::V3), Decoder::client());
        Connection { stream, sent, received, startup: None, asked: 0, answered: 0, results: 0 }
    }

    /// Sends bytes in pieces of some length.
    async fn send(&mut self, bytes: &[u8], piece: usize) {
        for part in bytes.chunks(piece) {
            self.stream.write(|out| out.extend_from_slice(part));
            self.stream.drained_to(0).await.expect("the node reads");
        }
        self.sent.feed(bytes);
        while let Some(event) = self.sent.next_event() {
            let Event::Envelope(envelope) = event else { panic!("a driver sends {event:?}") };
            self.asked += 1;
            if envelope.header.opcode == Opcode::Startup {
                let header = envelope.header;
                let request = WireRequest::decode(header.version, header.opcode, header.flags, &envelope.body);
                let Ok(WireRequest::Startup(options)) = request else { panic!("{request:?}") };
                let startup = Startup::check(header.version, &options).expect("options that are known");
                self.startup = Some((header.version, startup.compression));
            }
        }
    }

    /// Waits until every request has its answer.
    async fn answers(&mut self, what: &str) {
        while self.answered < self.asked {
            let bytes = self.stream.recv().await.expect("received");
            self.received.feed(&bytes.unwrap_or_else(|| panic!("{what}: closed")));
            while let Some(event) = self.received.next_event() {
                let Event::Envelope(mut envelope) = event else { panic!("{what}: {event:?}") };
                let compression = self.startup.and_then(|(_, compression)| compression);
                envelope.open(compression, ANSWER_BYTES_MAX).expect("a body that can be opened");
                let answer = Answer::decode(&envelope).unwrap_or_else(|failure| panic!("{what}: {failure}"));
                match answer.response {
                    Response::Event(_) | Response::NodeEvent(..) => continue,
                    Response::Error { text, .. } if text == PROBED => self.results += 1,
                    Response::Error { code, text, .. } => panic!("{what}: {code:?} {text}"),
                    Response::Ready => self.agree(),
                    Response::Supported(_) => {}
                    _ => self.results += 1,
                }
                self.answered += 1;
            }
        }
    }

    /// After STARTUP both sides go on in the version that it has named; READY also answers other requests.
    fn agree(&mut self) {
        let Some((version, compression)) = self.startup else { return };
        for decoder in [&mut self.sent, &mut self.received] {
            decoder.agree(version);
            if version >= Version::V5 && compression.is_some() {
                decoder.agree_compressed_segments();
            }
        }
    }
}

/// Replays a session against a new node. Returns the answers to statements.
fn replay(name: &'static str, file: &'static [u8], piece: usize) -> usize {
    let mut sim = Sim::new(27, Options { buggify: false, ..Options::default() });
    start(&mut sim, ONE, 2, config(ONE));
    let results = Rc::new(Cell::new(0));
    let counted = results.clone();
    run(&mut sim, move || {
        let counted = counted.clone();
        async move {
            let mut connections: Vec<Connection> = Vec::new();
            for (connection, bytes) in records::records(file) {
                while connections.len() <= connection {
                    connections.push(Connection::open(ONE).await);
                }
                connections[connection].send(bytes, piece).await;
                connections[connection].answers(&format!("{name} in pieces of {piece}")).await;
            }
            counted.set(connections.iter().map(|connection| connection.results).sum());
        }
    });
    results.get()
}

/// As they were sent; byte by byte; and so that most headers arrive alone.
#[test]
fn sessions_of_real_drivers_are_answered_however_their_bytes_arrive() {
    for (name, file) in records::SESSIONS {
        let whole = replay(name, file, usize::MAX);
        assert!(whole > 10, "{name}: {whole} answers");
        for piece in [1, 9] {
            assert_eq!(replay(name, file, piece), whole, "{name} in pieces of {piece}");
        }
    }
}
