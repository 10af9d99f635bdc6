//! Traces of a shard's requests: beginning them, and adding to the current one. `query_trace` has the steps.

use super::Shard;
use crate::peer::head::TracedSession;
use crate::query_trace::{Event, Events, Trace, TracedRequest, in_slot};
use model::value::BoundValue;
use model::{ColumnSpec, QueryParameters};
use runtime::Instant;
use std::future::Future;
use std::net::IpAddr;

impl Shard {
    /// Begins a trace for a request of `client`.
    pub fn begin_trace(&self, client: IpAddr) -> Trace {
        Trace::new(self.clock().timeuuid(), client, runtime::now())
    }

    /// Runs a request within its trace.
    pub fn traced<F: Future>(&self, trace: &Trace, request: F) -> impl Future<Output = F::Output> {
        in_slot(self.mailbox().tracing(), trace, request)
    }

    /// Whether the current request is traced.
    pub(crate) fn is_traced(&self) -> bool {
        self.mailbox().tracing().is_on()
    }

    /// The trace of the current request.
    pub(crate) fn current_trace(&self) -> Option<Trace> {
        self.mailbox().tracing().get()
    }

    /// The trace of the current request, as other nodes are told of it.
    pub(crate) fn traced_session(&self) -> Option<TracedSession> {
        let id = self.current_trace()?.id();
        (id != [0; 16]).then(|| TracedSession { id, coordinator: self.host_id() })
    }

    /// Begins the part of a trace that this node has in a request of another one.
    pub(crate) fn begin_part(&self, session: TracedSession) -> Trace {
        Trace::new(session.id, self.config().listen_address, runtime::now())
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

    /// Runs a request of another core within a trace of its own and returns its output with the events.
    pub(crate) async fn traced_for_peer<F: Future>(&self, began: Instant, request: F) -> (F::Output, Events) {
        // Only the events are sent back; id and client belong to the trace on the core that asked.
        let trace = Trace::new([0; 16], self.config().listen_address, began);
        let output = self.traced(&trace, request).await;
        (output, trace.take_events())
    }

    /// Describes the current request as a QUERY in its trace.
    pub(crate) fn trace_query(&self, text: &str, parameters: &QueryParameters<'_>) {
        self.describe_traced("Execute CQL3 query", |request| {
            request.query(text).page(parameters).levels(parameters);
        });
    }

    /// Describes the current request as an EXECUTE in its trace; `values` are in the order of `markers`.
    pub(crate) fn trace_execute(
        &self,
        text: &str,
        parameters: &QueryParameters<'_>,
        markers: &[ColumnSpec],
        values: Option<&[BoundValue<'_>]>,
    ) {
        self.describe_traced("Execute CQL3 prepared query", |request| {
            request.query(text).page(parameters).levels(parameters).bound(markers, values.unwrap_or_default());
        });
    }

    /// Describes the current request as a BATCH in its trace.
    pub(crate) fn trace_batch(&self, parameters: &QueryParameters<'_>) {
        self.describe_traced("Execute batch of CQL3 queries", |request| {
            request.levels(parameters);
        });
    }

    /// Describes the current request as a PREPARE in its trace.
    pub(crate) fn trace_prepare(&self, text: &str) {
        self.describe_traced("Preparing CQL3 query", |request| {
            request.query(text);
        });
    }

    #[inline]
    fn describe_traced(&self, kind: &'static str, describe: impl FnOnce(&mut TracedRequest)) {
        if let Some(trace) = self.mailbox().tracing().get() {
            let mut request = TracedRequest::new(kind);
            describe(&mut request);
            trace.set_request(request);
        }
    }
}
