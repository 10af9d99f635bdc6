//! A server of a few lines for the simulator: versions 4 and 5, the standard workload's two statements, and faults.

use load::values;
use model::value::BoundValue;
use runtime::{Listener, Stream};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use wire::decoder::{Decoder, Event};
use wire::envelope::put_envelope;
use wire::notation::{put_bytes, put_int, put_short, put_short_bytes, put_string};
use wire::request::Request;
use wire::segment::SegmentWriter;
use wire::{Opcode, Version};

/// How the server behaves. Numbers count requests on all connections; 0 is never.
#[derive(Clone, Default)]
pub(crate) struct Behaviour {
    /// From a request to its answer.
    pub(crate) latency: Duration,
    /// Time that each request has the server to itself.
    pub(crate) each: Duration,
    /// When, from its first request, the server stands still, and how long.
    pub(crate) stall: Option<(Duration, Duration)>,
    /// More latency at first, and how much less each second.
    pub(crate) warming: Option<(Duration, Duration)>,
    pub(crate) wrong_every: u64,
    pub(crate) missing_every: u64,
    pub(crate) overloaded_every: u64,
    pub(crate) lost_every: u64,
    /// Every connection is closed after so many requests on it.
    pub(crate) close_after: Option<u64>,
    /// The token that it asks for.
    pub(crate) login: Option<&'static str>,
}

impl Behaviour {
    pub(crate) fn prompt(latency: Duration) -> Behaviour {
        Behaviour { latency, ..Behaviour::default() }
    }
}

struct State {
    behaviour: Behaviour,
    requests: Cell<u64>,
    first: Cell<Option<runtime::Instant>>,
    /// When the server is free again.
    free: Cell<runtime::Instant>,
}

pub(crate) async fn serve(behaviour: Behaviour) {
    let address = runtime::sim::Sim::address_of(runtime::current_node());
    let listener = Listener::bind(SocketAddr::new(address, 9042)).await.expect("a free port");
    let (requests, first, free) = Default::default();
    let state = Rc::new(State { behaviour, requests, first, free });
    loop {
        let stream = listener.accept().await.expect("a connection").attach().expect("attached");
        drop(runtime::spawn(connection(Rc::new(stream), state.clone())));
    }
}

async fn connection(stream: Rc<Stream>, state: Rc<State>) {
    let mut decoder = Decoder::server(Version::V4);
    let segments: Rc<RefCell<Option<SegmentWriter>>> = Rc::default();
    let mut requests = 0;
    while let Ok(Some(bytes)) = stream.recv().await {
        decoder.feed(&bytes);
        while let Some(event) = decoder.next_event() {
            let Event::Envelope(envelope) = event else { panic!("{event:?}") };
            let (version, number) = (envelope.header.version, envelope.header.stream);
            let request = Request::decode(version, envelope.header.opcode, 0, &envelope.body);
            let login = state.behaviour.login;
            let (delay, opcode, body) = match request.expect("well-formed") {
                Request::Startup(_) => {
                    let mut body = Vec::new();
                    let opcode = if login.is_some() { Opcode::Authenticate } else { Opcode::Ready };
                    if login.is_some() {
                        put_string(&mut body, "PasswordAuthenticator");
                    }
                    stream.write(|out| {
                        put_envelope(out, 0x80 | version.number(), 0, number, opcode, |out| out.extend(body))
                    });
                    decoder.agree(version);
                    *segments.borrow_mut() = (version >= Version::V5).then(SegmentWriter::default);
                    continue;
                }
                Request::AuthResponse(token) => {
                    assert_eq!(token, login.map(str::as_bytes));
                    (Duration::ZERO, Opcode::AuthSuccess, (-1i32).to_be_bytes().to_vec())
                }
                Request::Query { .. } => (Duration::ZERO, Opcode::Result, 1i32.to_be_bytes().to_vec()),
                Request::Prepare { text, .. } => (Duration::ZERO, Opcode::Result, prepared(text, version)),
                Request::Execute { id, parameters, .. } => {
                    requests += 1;
                    if state.behaviour.close_after.is_some_and(|most| requests > most) {
                        return stream.shutdown();
                    }
                    let Some(answer) = state.execute(id, &parameters.values) else { continue };
                    answer
                }
                other => panic!("{other:?}"),
            };
            let (stream, segments) = (stream.clone(), segments.clone());
            drop(runtime::spawn(async move {
                if !delay.is_zero() {
                    runtime::sleep(delay).await;
                }
                let frame = |out: &mut Vec<u8>| {
                    put_envelope(out, 0x80 | version.number(), 0, number, opcode, |out| out.extend(body));
                };
                stream.write(|out| match &mut *segments.borrow_mut() {
                    Some(segments) => segments.write(out, frame),
                    None => frame(out),
                });
            }));
        }
    }
}

impl State {
    /// When to answer, and what; `None`: not at all.
    fn execute(&self, id: &[u8], values: &[BoundValue<'_>]) -> Option<(Duration, Opcode, Vec<u8>)> {
        let now = runtime::now();
        let behaviour = &self.behaviour;
        let first = self.first.get().unwrap_or(now);
        self.first.set(Some(first));
        let number = self.requests.get() + 1;
        self.requests.set(number);
        let turn = |every: u64| every > 0 && number.is_multiple_of(every);
        if turn(behaviour.lost_every) {
            return None;
        }
        let mut free = self.free.get().max(now);
        if let Some((at, long)) = behaviour.stall
            && (first.after(at)..first.after(at + long)).contains(&free)
        {
            free = first.after(at + long);
        }
        free = free.after(behaviour.each);
        self.free.set(free);
        let mut latency = behaviour.latency;
        if let Some((more, less)) = behaviour.warming {
            latency += more.saturating_sub(less * now.since(first).as_secs() as u32);
        }
        let delay = free.since(now) + latency;
        if turn(behaviour.overloaded_every) {
            let mut body = Vec::new();
            put_int(&mut body, 0x1001);
            put_string(&mut body, "too much");
            return Some((delay, Opcode::Error, body));
        }
        if id == b"w" {
            return Some((delay, Opcode::Result, 1i32.to_be_bytes().to_vec()));
        }
        let [BoundValue::Bytes(key)] = values else { panic!("a read has one value") };
        let number = u64::from_be_bytes(key[2..].try_into().expect("ten bytes"));
        let (rows, salt) = (i32::from(!turn(behaviour.missing_every)), u64::from(turn(behaviour.wrong_every)));
        let mut body = Vec::new();
        // Rows, without metadata, of 6 columns.
        [2, 4, 6, rows].into_iter().for_each(|n| put_int(&mut body, n));
        if rows > 0 {
            put_bytes(&mut body, Some(key));
            for column in 0..5 {
                put_int(&mut body, 34);
                values::put(&mut body, values::seed(number, 0, column) ^ salt, 34);
            }
        }
        Some((delay, Opcode::Result, body))
    }
}

fn prepared(text: &str, version: Version) -> Vec<u8> {
    let mut body = Vec::new();
    put_int(&mut body, 4);
    put_short_bytes(&mut body, if text.starts_with("INSERT") { b"w" } else { b"r" });
    if version >= Version::V5 {
        put_short_bytes(&mut body, b"m");
    }
    let markers = text.matches('?').count() as i32;
    // Flags: one table for all; no partition key markers.
    [1, markers, 0].into_iter().for_each(|n| put_int(&mut body, n));
    put_string(&mut body, "keyspace1");
    put_string(&mut body, "standard1");
    for _ in 0..markers {
        put_string(&mut body, "column");
        put_short(&mut body, 3);
    }
    // The result's columns: none told.
    [4, 0].into_iter().for_each(|n| put_int(&mut body, n));
    body
}
