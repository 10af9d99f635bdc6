//! A trace as rows of `system_traces`: one of `sessions`, one per event of `events`, all in one mutation.
//!
//! A session without a request that was understood has its duration alone, as in Cassandra.

use super::Trace;
use crate::Shard;
use crate::coordinator::write::{Routed, write as write_mutations};
use crate::coordinator::write_terms;
use crate::schema::cells::RowWriter;
use crate::schema::rows::system_table;
use model::{Consistency, Failure, Mutation, MutationBuilder, Schema};
use std::net::IpAddr;

/// Seconds that traces live.
const TTL_SECONDS: i32 = 86_400;

/// Writes a trace; `duration` is in microseconds.
pub(super) async fn write(shard: &Shard, trace: &Trace, duration: i32) -> Result<(), Failure> {
    let schema = shard.schema();
    let table = system_table(&schema, "system_traces", "sessions");
    let timeout = shard.config().write_timeout;
    let (local, terms) = write_terms(shard, table, Consistency::Any, timeout)?;
    let now_in_seconds = runtime::wall_micros().div_euclid(1_000_000);
    let mutation = mutation(shard, &schema, trace, duration, now_in_seconds);
    write_mutations(shard, vec![Routed { mutation, local, counts: false }], &terms).await
}

fn mutation(shard: &Shard, schema: &Schema, trace: &Trace, duration: i32, now_in_seconds: i64) -> Mutation {
    let config = shard.config();
    let (address, port) = (inet(config.listen_address), i32::from(config.storage_port).to_be_bytes());
    let timestamp = shard.clock().timestamp();
    let mut mutation = MutationBuilder::new(&trace.id());

    let sessions = system_table(schema, "system_traces", "sessions");
    mutation.table(sessions.id);
    let mut row = RowWriter::new(sessions, &[], timestamp);
    row.expire(TTL_SECONDS, now_in_seconds).set("duration", duration.to_be_bytes());
    if let Some(session) = &*trace.0.session.borrow() {
        let started_at = trace.0.began_micros.div_euclid(1_000).to_be_bytes();
        row.set("client", inet(trace.0.client))
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

    let events = system_table(schema, "system_traces", "events");
    mutation.table(events.id);
    let mut found = trace.take_events().0;
    // Those of other cores came with their replies.
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

fn inet(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
