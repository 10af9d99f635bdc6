//! Serves one request: decodes its body, has the shard execute it, encodes the answer into the connection's output.
//!
//! Invariants: every request is answered exactly once; a panic while the body is decoded is caught here, because it
//! cannot have touched the shard (in the simulator it fails the run).

use crate::cql::connection::Connection;
use crate::cql::schema_change;
use model::Failure;
use shard::{Answer, PreparedAnswer, Response};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use wire::envelope::Envelope;
use wire::request::{Batch, Request};
use wire::response::{self, To, Told};
use wire::{Version, flags};

/// Decodes a request's body. A panic becomes a server error, and the log names the body's hash; in the simulator the
/// panic continues.
pub(crate) fn decode<'a>(connection: &Connection, envelope: &'a Envelope) -> Result<Request<'a>, Failure> {
    let header = envelope.header;
    let decoding = || Request::decode(header.version, header.opcode, header.flags, &envelope.body);
    match catch_unwind(AssertUnwindSafe(decoding)) {
        Ok(decoded) => decoded,
        Err(panic) if connection.context.simulated => resume_unwind(panic),
        Err(_) => {
            connection.context.metrics.panics.increment();
            let hash = runtime::hash64(&envelope.body);
            tracing::error!(opcode = header.opcode.name(), body_hash = %format!("{hash:016x}"), "decoding panicked");
            Err(Failure::server("Unexpected error while decoding the request"))
        }
    }
}

/// Executes a QUERY, PREPARE, EXECUTE or BATCH and queues its answer, with a warning if the request had to wait.
pub(crate) async fn run(connection: &Connection, envelope: &Envelope, warning: Option<String>) {
    let mut to = To::new(envelope.header.version, envelope.header.stream);
    let mut trace = None;
    let decoded = decode(connection, envelope);
    let mut outcome = match &decoded {
        Ok(request) if envelope.header.flags & flags::TRACING == 0 => call(connection, request).await,
        Ok(request) => {
            let shard = &connection.context.shard;
            let trace = trace.insert(shard.begin_trace(connection.peer().ip()));
            to.tracing_id = Some(trace.id());
            Box::pin(shard.traced(trace, call(connection, request))).await
        }
        Err(failure) => Err(failure.clone()),
    };
    if let Some(warning) = warning {
        warn(&mut outcome, warning);
    }
    connection.wait_for_room().await;
    let metrics = &connection.context.metrics;
    metrics.requests.increment();
    match &outcome {
        Ok(Outcome::Answer(answer)) => {
            let form = decoded.as_ref().map(RowsForm::of).unwrap_or_default();
            to.told = answer.charge.map(Told::Charge);
            to.tablet = answer.tablet.as_deref();
            connection.send(|out| put_answer(out, to, answer, form));
        }
        Ok(Outcome::Prepared(prepared)) => connection.send(|out| put_prepared(out, to, prepared)),
        Err(failure) => {
            metrics.errors.increment();
            to.knows_rate_limits = connection.knows_rate_limits();
            connection.send(|out| response::error(out, to, &[], failure));
        }
    }
    if let Some(trace) = trace {
        connection.context.shard.end_trace(trace);
    }
}

/// Adds a warning to an answer that can have one.
fn warn(outcome: &mut Result<Outcome, Failure>, warning: String) {
    match outcome {
        Ok(Outcome::Answer(answer)) => answer.warnings.push(warning),
        Ok(Outcome::Prepared(prepared)) => prepared.warnings.push(warning),
        Err(_) => {}
    }
}

/// The shard's answer to a request.
enum Outcome {
    Answer(Answer),
    Prepared(Box<PreparedAnswer>),
}

/// The form in which a request wants its rows.
#[derive(Clone, Copy, Default)]
struct RowsForm<'a> {
    skip_metadata: bool,
    is_execute: bool,
    /// The id of the columns that the client knows (EXECUTE, v5).
    metadata_id: Option<&'a [u8]>,
}

impl<'a> RowsForm<'a> {
    fn of(request: &Request<'a>) -> RowsForm<'a> {
        match request {
            Request::Query { parameters, .. } => {
                RowsForm { skip_metadata: parameters.skip_metadata, is_execute: false, metadata_id: None }
            }
            Request::Execute { parameters, result_metadata_id, .. } => {
                RowsForm { skip_metadata: parameters.skip_metadata, is_execute: true, metadata_id: *result_metadata_id }
            }
            _ => RowsForm::default(),
        }
    }
}

/// Has the shard execute a request, and logs that where what clients do is logged.
async fn call(connection: &Connection, request: &Request<'_>) -> Result<Outcome, Failure> {
    match connection.context.query_logs.is_on() {
        false => execute(connection, request).await,
        true => Box::pin(execute_logged(connection, request)).await,
    }
}

async fn execute_logged(connection: &Connection, request: &Request<'_>) -> Result<Outcome, Failure> {
    let began = runtime::wall_micros() / 1000;
    let outcome = execute(connection, request).await;
    connection.context.query_logs.note(&connection.asker(), request, outcome.as_ref().err(), began).await;
    outcome
}

/// Has the shard execute a request. Rare and large futures are boxed: a request's future is copied when it begins, and
/// it is as large as its largest part.
async fn execute(connection: &Connection, request: &Request<'_>) -> Result<Outcome, Failure> {
    let (shard, session) = (&connection.context.shard, &connection.session);
    Ok(match request {
        Request::Query { text, parameters } => Outcome::Answer(shard.query(session, text, parameters).await?),
        Request::Prepare { text, keyspace } => {
            Outcome::Prepared(Box::new(Box::pin(shard.prepare(session, text, *keyspace)).await?))
        }
        Request::Execute { id, parameters, .. } => Outcome::Answer(shard.execute(session, id, parameters).await?),
        Request::Batch(batch) => {
            let Batch { kind, entries, parameters } = batch;
            Outcome::Answer(Box::pin(shard.batch(session, *kind, entries, parameters)).await?)
        }
        _ => return Err(Failure::protocol("Unsupported message")),
    })
}

fn put_answer(out: &mut Vec<u8>, to: To, answer: &Answer, form: RowsForm<'_>) {
    let warnings = &answer.warnings;
    match &answer.response {
        Response::Void => response::void(out, to, warnings),
        Response::SetKeyspace(keyspace) => response::set_keyspace(out, to, warnings, keyspace),
        Response::SchemaChange(change) => {
            response::schema_change(out, to, warnings, schema_change::in_protocol_words(change))
        }
        Response::Rows(rows) => {
            let sending = metadata_to_send(to.version, rows.result_metadata_id.as_ref(), form);
            let rows_out = response::Rows {
                skip_metadata: sending == Metadata::Skip,
                new_metadata_id: match (sending, &rows.result_metadata_id) {
                    (Metadata::Changed, Some(id)) => Some(id),
                    _ => None,
                },
                paging_state: rows.paging_state.as_deref(),
                count: rows.block.rows,
                bytes: &rows.block.bytes,
            };
            response::rows(out, to, warnings, &rows_out, &rows.columns);
        }
    }
}

/// How the columns of a result are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metadata {
    Full,
    Skip,
    /// In full, with their new id (v5), because the id that the client sent is out of date.
    Changed,
}

/// How the columns of a result are sent. `current` is the id of the columns of an executed statement; `None` if they
/// depend on the data.
fn metadata_to_send(version: Version, current: Option<&[u8; 16]>, form: RowsForm<'_>) -> Metadata {
    let skip = if form.skip_metadata { Metadata::Skip } else { Metadata::Full };
    match (form.is_execute, current) {
        (false, _) => skip,
        (true, None) => Metadata::Full,
        (true, Some(current)) if version >= Version::V5 && form.metadata_id != Some(current.as_slice()) => {
            Metadata::Changed
        }
        (true, Some(_)) => skip,
    }
}

fn put_prepared(out: &mut Vec<u8>, to: To, answer: &PreparedAnswer) {
    let prepared = &answer.prepared;
    let ids = response::Prepared {
        id: &answer.id,
        result_metadata_id: &answer.result_metadata_id,
        partition_key_markers: &prepared.partition_key_markers,
    };
    response::prepared(out, to, &answer.warnings, &ids, &prepared.markers, prepared.result.as_deref());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_skipped_only_when_the_client_knows_it() {
        let (now, stale) = ([1; 16], [2; 16]);
        let execute = |skip_metadata, id| RowsForm { skip_metadata, is_execute: true, metadata_id: id };
        let v5 = |current, form| metadata_to_send(Version::V5, current, form);
        assert_eq!(v5(Some(&now), execute(true, Some(&now))), Metadata::Skip);
        assert_eq!(v5(Some(&now), execute(false, Some(&now))), Metadata::Full);
        assert_eq!(v5(Some(&now), execute(true, Some(&stale))), Metadata::Changed);
        assert_eq!(v5(Some(&now), execute(false, Some(&stale))), Metadata::Changed);
        assert_eq!(v5(None, execute(true, Some(&stale))), Metadata::Full);
        assert_eq!(metadata_to_send(Version::V4, Some(&now), execute(true, None)), Metadata::Skip);
        assert_eq!(metadata_to_send(Version::V4, Some(&now), execute(false, None)), Metadata::Full);
        let query = |skip_metadata| RowsForm { skip_metadata, is_execute: false, metadata_id: None };
        assert_eq!(v5(None, query(true)), Metadata::Skip);
        assert_eq!(v5(None, query(false)), Metadata::Full);
    }
}
