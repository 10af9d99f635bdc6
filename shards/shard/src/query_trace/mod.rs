//! The trace of a request that asks for one: what was done for it, when and on which core.
//!
//! 1. The server begins a [`Trace`] and runs the request within it ([`Shard::traced`]): while that future is polled, the
//!    shard's `Slot` holds the trace, and `Shard::trace` adds events to it.
//! 2. A call to another core takes along when the request began; the events come back with the reply.
//! 3. After the answer is sent, session and events are written into `system_traces` in the background (`store`).
//!
//! Invariants: without a trace an event costs one branch; a trace never fails or delays its request; events of a trace
//! are at most [`EVENTS_MAX`], traces being written at most [`WRITES_MAX`]: what is beyond is left out.

mod store;

use crate::Shard;
use model::value::Bound;
use model::{ColumnSpec, Consistency, QueryParameters, text};
use runtime::{Instant, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Events of one request.
pub const EVENTS_MAX: usize = 1000;
/// Traces of one shard that are being written.
pub const WRITES_MAX: u64 = 256;
/// Characters of a bound value that a session shows.
const BOUND_VALUE_CHARS_MAX: usize = 1000;

/// The trace of one request. Cloning shares it.
#[derive(Clone)]
pub struct Trace(Rc<Inner>);

struct Inner {
    id: [u8; 16],
    client: IpAddr,
    began: Instant,
    began_micros: i64,
    session: RefCell<Option<Session>>,
    events: RefCell<Vec<Event>>,
}

/// What is known of a request once it is understood.
struct Session {
    request: &'static str,
    parameters: BTreeMap<String, String>,
}

/// Something that was done for a request.
#[derive(Debug)]
struct Event {
    /// A version 1 uuid: its time and its place among the events.
    id: [u8; 16],
    activity: String,
    /// Since the request began.
    elapsed_micros: i32,
    shard: ShardId,
}

/// What another core did, on its way back.
#[derive(Debug)]
pub struct Events(Vec<Event>);

impl Trace {
    fn new(id: [u8; 16], client: IpAddr, began: Instant) -> Trace {
        Trace(Rc::new(Inner {
            id,
            client,
            began,
            began_micros: runtime::wall_micros(),
            session: RefCell::default(),
            events: RefCell::default(),
        }))
    }

    /// The id of its session, which the answer carries.
    pub fn id(&self) -> [u8; 16] {
        self.0.id
    }

    /// When the request began, on every core's clock.
    pub(crate) fn began(&self) -> Instant {
        self.0.began
    }

    fn elapsed_micros(&self) -> i32 {
        i32::try_from(runtime::now().since(self.0.began).as_micros()).unwrap_or(i32::MAX)
    }

    /// Adds what another core did.
    pub(crate) fn add(&self, events: Events) {
        let mut known = self.0.events.borrow_mut();
        let room = EVENTS_MAX.saturating_sub(known.len());
        known.extend(events.0.into_iter().take(room));
    }

    fn take_events(&self) -> Events {
        Events(std::mem::take(&mut *self.0.events.borrow_mut()))
    }
}

/// The trace of the request whose task is being polled.
#[derive(Default)]
pub(crate) struct Slot {
    on: Cell<bool>,
    trace: RefCell<Option<Trace>>,
}

impl Slot {
    /// The current trace.
    pub(crate) fn get(&self) -> Option<Trace> {
        if self.on.get() { self.trace.borrow().clone() } else { None }
    }

    fn swap(&self, trace: Option<Trace>) -> Option<Trace> {
        self.on.set(trace.is_some());
        self.trace.replace(trace)
    }
}

/// A future during whose polls a slot holds a trace.
struct Scope<F> {
    slot: Rc<Slot>,
    trace: Trace,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = self.slot.swap(Some(self.trace.clone()));
        let polled = self.future.as_mut().poll(cx);
        self.slot.swap(before);
        polled
    }
}

impl Shard {
    /// A trace for a request of `client` that begins now.
    pub fn begin_trace(&self, client: IpAddr) -> Trace {
        Trace::new(self.clock().timeuuid(), client, runtime::now())
    }

    /// Runs a request within its trace.
    pub fn traced<F: Future>(&self, trace: &Trace, request: F) -> impl Future<Output = F::Output> {
        Scope { slot: self.mailbox().tracing().clone(), trace: trace.clone(), future: Box::pin(request) }
    }

    /// The answer is sent: writes the trace in the background.
    pub fn end_trace(&self, trace: Trace) {
        let duration = trace.elapsed_micros();
        let Some(permit) = self.trace_writes().try_acquire(1) else { return };
        let Ok(pass) = self.enter() else { return };
        let shard = self.clone();
        runtime::spawn(async move {
            if let Err(failure) = store::write(&shard, &trace, duration).await {
                tracing::debug!(%failure, "a trace was not written");
            }
            drop((permit, pass));
        });
    }

    /// Whether the current request is traced.
    pub(crate) fn is_traced(&self) -> bool {
        self.mailbox().tracing().on.get()
    }

    /// Adds an event to the current request's trace, if it has one.
    #[inline]
    pub(crate) fn trace(&self, activity: impl FnOnce() -> String) {
        if self.is_traced() {
            self.add_event(activity());
        }
    }

    #[cold]
    fn add_event(&self, activity: String) {
        let Some(trace) = self.mailbox().tracing().get() else { return };
        let (id, elapsed_micros) = (self.clock().timeuuid(), trace.elapsed_micros());
        trace.add(Events(vec![Event { id, activity, elapsed_micros, shard: self.id() }]));
    }

    /// Runs what another core asks for within a trace of its own and gives the events.
    pub(crate) async fn traced_for_peer<F: Future>(&self, began: Instant, request: F) -> (F::Output, Events) {
        // Only the events leave; id and client are those of the asking core's trace.
        let trace = Trace::new([0; 16], self.config().listen_address, began);
        let output = self.traced(&trace, request).await;
        (output, trace.take_events())
    }

    /// Tells the current trace that the request is a QUERY.
    pub(crate) fn trace_query(&self, text: &str, parameters: &QueryParameters<'_>) {
        self.trace_session("Execute CQL3 query", |session| {
            session.query(text).page(parameters).levels(parameters);
        });
    }

    /// The same for an EXECUTE; `values` in the order of `markers`.
    pub(crate) fn trace_execute(
        &self,
        text: &str,
        parameters: &QueryParameters<'_>,
        markers: &[ColumnSpec],
        values: Option<&[Bound<'_>]>,
    ) {
        self.trace_session("Execute CQL3 prepared query", |session| {
            session.query(text).page(parameters).levels(parameters).bound(markers, values.unwrap_or_default());
        });
    }

    /// The same for a BATCH.
    pub(crate) fn trace_batch(&self, parameters: &QueryParameters<'_>) {
        self.trace_session("Execute batch of CQL3 queries", |session| {
            session.levels(parameters);
        });
    }

    /// The same for a PREPARE.
    pub(crate) fn trace_prepare(&self, text: &str) {
        self.trace_session("Preparing CQL3 query", |session| {
            session.query(text);
        });
    }

    #[inline]
    fn trace_session(&self, request: &'static str, describe: impl FnOnce(&mut Session)) {
        if let Some(trace) = self.mailbox().tracing().get() {
            let mut session = Session { request, parameters: BTreeMap::new() };
            describe(&mut session);
            *trace.0.session.borrow_mut() = Some(session);
        }
    }
}

impl Session {
    fn put(&mut self, name: &str, value: impl Into<String>) -> &mut Session {
        self.parameters.insert(name.into(), value.into());
        self
    }

    fn query(&mut self, text: &str) -> &mut Session {
        self.put("query", text)
    }

    fn page(&mut self, parameters: &QueryParameters<'_>) -> &mut Session {
        if let Some(rows) = parameters.page_size {
            self.put("page_size", rows.to_string());
        }
        self
    }

    fn levels(&mut self, parameters: &QueryParameters<'_>) -> &mut Session {
        let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
        self.put("consistency_level", parameters.consistency.name()).put("serial_consistency_level", serial.name())
    }

    fn bound(&mut self, markers: &[ColumnSpec], values: &[Bound<'_>]) {
        for (index, (marker, value)) in markers.iter().zip(values).enumerate() {
            let mut shown = match value {
                Bound::Bytes(bytes) => text::to_literal(&marker.cql_type, bytes),
                Bound::Null | Bound::Unset => "null".to_string(),
            };
            if let Some((cut, _)) = shown.char_indices().nth(BOUND_VALUE_CHARS_MAX) {
                shown.truncate(cut);
                shown.push_str("...'");
            }
            self.put(&format!("bound_var_{index}_{}", marker.name), shown);
        }
    }
}
