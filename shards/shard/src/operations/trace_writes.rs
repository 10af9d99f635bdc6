//! A trace as rows of `system_traces`: one in `sessions` and one per event in `events`, all in one mutation. Each node
//! that did something for the request writes its own events; its coordinator writes the session.
//!
//! The session of a request that could not be parsed has only its duration, as in Cassandra.

use crate::coordinator::write::{Routed, write as write_mutations};
use crate::query_trace::Trace;
use crate::request::AckTerms;
use crate::schema::cells::RowWriter;
use crate::schema::local::inet;
use crate::schema::rows::system_table;
use crate::shard_state::Shard;
use model::{Consistency, Failure, Mutation, MutationBuilder, Schema};

/// Time to live of traces, seconds.
const TTL_SECONDS: i32 = 86_400;

impl Shard {
    /// Ends a trace and writes it in the background. To be called when the answer was sent.
    pub fn end_trace(&self, trace: Trace) {
        let duration = trace.elapsed_micros();
        self.write_trace(trace, Some(duration));
    }

    /// Ends the part of a trace that this node has in a request of another one, and writes it in the background.
    pub(crate) fn end_part(&self, trace: Trace) {
        self.write_trace(trace, None);
    }

    fn write_trace(&self, trace: Trace, duration: Option<i32>) {
        let Some(permit) = self.trace_writes().try_acquire(1) else { return };
        let Ok(pass) = self.enter() else { return };
        let shard = self.clone();
        runtime::spawn(async move {
            if let Err(failure) = write(&shard, &trace, duration).await {
                tracing::debug!(%failure, "a trace was not written");
            }
            drop((permit, pass));
        });
    }
}

/// Writes a trace; `duration` is in microseconds, `None` for a part of the trace of another node.
async fn write(shard: &Shard, trace: &Trace, duration: Option<i32>) -> Result<(), Failure> {
    let schema = shard.schema();
    let table = system_table(&schema, "system_traces", "sessions");
    let terms = AckTerms { consistency: Consistency::Any, timeout: shard.timeouts().write };
    let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
    let mutation = mutation(shard, &schema, trace, duration, now_in_seconds);
    write_mutations(shard, vec![Routed { mutation, table: table.clone(), counts: false }], &terms).await
}

fn mutation(shard: &Shard, schema: &Schema, trace: &Trace, duration: Option<i32>, now_in_seconds: i64) -> Mutation {
    let config = shard.config();
    let (address, port) = (inet(config.listen_address), i32::from(config.storage_port).to_be_bytes());
    let timestamp = shard.clock().timestamp();
    let mut mutation = MutationBuilder::new(shard.partitioner(), &trace.id());

    let sessions = system_table(schema, "system_traces", "sessions");
    if let Some(duration) = duration {
        mutation.table(sessions.id);
        let mut row = RowWriter::new(sessions, &[], timestamp);
        row.expire(TTL_SECONDS, now_in_seconds).set("duration", duration.to_be_bytes());
        if let Some(session) = &*trace.request() {
            let started_at = trace.began_micros().div_euclid(1_000).to_be_bytes();
            row.set("client", inet(trace.client()))
                .set("command", "QUERY")
                .set("coordinator", address.clone())
                .set("coordinator_port", port)
                .set("request", session.request)
                .set("started_at", started_at);
            for (name, value) in &session.parameters {
                row.element("parameters", name.as_bytes(), value.as_bytes());
            }
        }
        row.finish(&mut mutation);
    }

    let events = system_table(schema, "system_traces", "events");
    mutation.table(events.id);
    let mut found = trace.take_events().0;
    // Events of other cores were appended when their replies arrived, out of order.
    found.sort_by_key(|event| (event.elapsed_micros, event.id));
    for event in found {
        let mut row = RowWriter::new(events, &[&event.id], timestamp);
        row.expire(TTL_SECONDS, now_in_seconds)
            .set("activity", event.activity)
            .set("source", address.clone())
            .set("source_elapsed", event.elapsed_micros.to_be_bytes())
            .set("source_port", port)
            .set("thread", format!("shard-{}", event.shard));
        row.finish(&mut mutation);
    }
    mutation.finish()
}
