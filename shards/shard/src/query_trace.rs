//! The trace of a request: what was done for it, when and on which core.
//!
//! 1. The server begins a [`Trace`] and runs the request within it: while that future is polled, the shard's
//!    [`TraceSlot`] holds the trace, and whatever serves the request adds events to it (`shard_state::tracing`).
//! 2. A call to another core carries the time at which the request began; the events come back with the reply.
//! 3. A request to another node names the session and the node that asks (`peer::head`). The other node serves it
//!    within a trace of its own, whose events it writes itself.
//! 4. After the answer was sent, session and events are written into `system_traces` in the background
//!    (`operations::trace_writes`).
//!
//! Invariants: without a trace an event costs one branch; a trace never fails or delays its request; a trace has at
//! most [`EVENTS_MAX`] events and at most [`WRITES_MAX`] traces are being written at once; what exceeds these is
//! dropped.

use model::value::BoundValue;
use model::{ColumnSpec, Consistency, QueryParameters, text};
use runtime::{Instant, ShardId};
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Most events of one request.
pub(crate) const EVENTS_MAX: usize = 1000;
/// Most traces of one shard that are being written at once.
pub(crate) const WRITES_MAX: u64 = 256;
/// Characters of a bound value that a session shows at most.
const BOUND_VALUE_CHARS_MAX: usize = 1000;

/// The trace of one request. Cloning shares it.
#[derive(Clone)]
pub struct Trace(Rc<Inner>);

struct Inner {
    id: [u8; 16],
    client: IpAddr,
    began: Instant,
    began_micros: i64,
    session: RefCell<Option<TracedRequest>>,
    events: RefCell<Vec<Event>>,
}

/// A request as the session of its trace shows it.
pub(crate) struct TracedRequest {
    /// The kind of request, in Cassandra's words.
    pub(crate) request: &'static str,
    /// Query text, level, page size and bound values.
    pub(crate) parameters: BTreeMap<String, String>,
}

/// A step in serving a request.
#[derive(Debug)]
pub(crate) struct Event {
    /// A version 1 uuid of its time and its number among the events.
    pub(crate) id: [u8; 16],
    pub(crate) activity: String,
    /// Microseconds after the request began.
    pub(crate) elapsed_micros: i32,
    pub(crate) shard: ShardId,
}

/// The events of another core, on their way back to the request's core.
#[derive(Debug)]
pub struct Events(pub(crate) Vec<Event>);

impl Trace {
    pub(crate) fn new(id: [u8; 16], client: IpAddr, began: Instant) -> Trace {
        Trace(Rc::new(Inner {
            id,
            client,
            began,
            began_micros: runtime::wall_micros(),
            session: RefCell::default(),
            events: RefCell::default(),
        }))
    }

    /// The id of the session, which the answer carries.
    pub fn id(&self) -> [u8; 16] {
        self.0.id
    }

    /// The address of the client.
    pub(crate) fn client(&self) -> IpAddr {
        self.0.client
    }

    /// When the request began; the clock is the same on all cores.
    pub(crate) fn began(&self) -> Instant {
        self.0.began
    }

    /// When the request began, microseconds since 1970.
    pub(crate) fn began_micros(&self) -> i64 {
        self.0.began_micros
    }

    /// Microseconds since the request began.
    pub(crate) fn elapsed_micros(&self) -> i32 {
        i32::try_from(runtime::now().since(self.0.began).as_micros()).unwrap_or(i32::MAX)
    }

    /// Adds events while there is room.
    pub(crate) fn add(&self, events: Events) {
        let mut known = self.0.events.borrow_mut();
        let room = EVENTS_MAX.saturating_sub(known.len());
        known.extend(events.0.into_iter().take(room));
    }

    /// Takes the events out of the trace.
    pub(crate) fn take_events(&self) -> Events {
        Events(std::mem::take(&mut *self.0.events.borrow_mut()))
    }

    /// Sets what the request is.
    pub(crate) fn set_request(&self, request: TracedRequest) {
        *self.0.session.borrow_mut() = Some(request);
    }

    /// What the request is; `None` until it was parsed.
    pub(crate) fn request(&self) -> Ref<'_, Option<TracedRequest>> {
        self.0.session.borrow()
    }
}

/// Holds the trace of the request whose task is being polled.
#[derive(Default)]
pub(crate) struct TraceSlot {
    on: Cell<bool>,
    trace: RefCell<Option<Trace>>,
}

impl TraceSlot {
    /// Whether the current request is traced.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// The current trace.
    pub(crate) fn get(&self) -> Option<Trace> {
        if self.on.get() { self.trace.borrow().clone() } else { None }
    }

    fn swap(&self, trace: Option<Trace>) -> Option<Trace> {
        self.on.set(trace.is_some());
        self.trace.replace(trace)
    }
}

/// Runs a future; while it is polled, `slot` holds `trace`.
pub(crate) fn in_slot<F: Future>(slot: &Rc<TraceSlot>, trace: &Trace, future: F) -> impl Future<Output = F::Output> {
    Scope { slot: slot.clone(), trace: trace.clone(), future: Box::pin(future) }
}

/// See [`in_slot`].
struct Scope<F> {
    slot: Rc<TraceSlot>,
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

impl TracedRequest {
    /// A request of this kind, without parameters.
    pub(crate) fn new(request: &'static str) -> TracedRequest {
        TracedRequest { request, parameters: BTreeMap::new() }
    }

    fn put(&mut self, name: &str, value: impl Into<String>) -> &mut TracedRequest {
        self.parameters.insert(name.into(), value.into());
        self
    }

    /// Adds the query's text.
    pub(crate) fn query(&mut self, text: &str) -> &mut TracedRequest {
        self.put("query", cql::without_passwords(text))
    }

    /// Adds the page size, if the request is paged.
    pub(crate) fn page(&mut self, parameters: &QueryParameters<'_>) -> &mut TracedRequest {
        if let Some(rows) = parameters.page_size {
            self.put("page_size", rows.to_string());
        }
        self
    }

    /// Adds both consistency levels.
    pub(crate) fn levels(&mut self, parameters: &QueryParameters<'_>) -> &mut TracedRequest {
        let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
        self.put("consistency_level", parameters.consistency.name()).put("serial_consistency_level", serial.name())
    }

    /// Adds bound values, in the order of `markers`.
    pub(crate) fn bound(&mut self, markers: &[ColumnSpec], values: &[BoundValue<'_>]) {
        for (index, (marker, value)) in markers.iter().zip(values).enumerate() {
            let mut shown = match value {
                BoundValue::Bytes(bytes) => text::to_literal(&marker.cql_type, bytes),
                BoundValue::Null | BoundValue::Unset => "null".to_string(),
            };
            if let Some((cut, _)) = shown.char_indices().nth(BOUND_VALUE_CHARS_MAX) {
                shown.truncate(cut);
                shown.push_str("...'");
            }
            self.put(&format!("bound_var_{index}_{}", marker.name), shown);
        }
    }
}
