//! Responses: each function appends one envelope, which the caller compresses or wraps into a segment.
//!
//! Invariants: warnings are sent from version 4 on; what a version does not know is left out or told in terms that it
//! knows.

use crate::decoder::AnswerHeader;
use crate::envelope::put_envelope;
use crate::metadata::{self, one_table, put_columns};
use crate::notation::{
    fill_in, put_bytes, put_inet_address, put_int, put_short, put_short_bytes, put_string, put_string_list,
};
use crate::request::{EventType, REQUEST_CHARGE, RETRY_AFTER};
use crate::{Opcode, Version, flags};
use model::failure::{Detail, FailureReason};
use model::tablets::TabletRoute;
use model::{ColumnSpec, Consistency, ErrorCode, Failure};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The request that a response answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct To<'a> {
    /// The connection's version.
    pub version: Version,
    /// The request's stream.
    pub stream: i16,
    /// The tracing session of the request, if it is traced.
    pub tracing_id: Option<[u8; 16]>,
    /// What the custom payload says, from version 4 on.
    pub told: Option<Told>,
    /// Where a tablet is, which the custom payload says too: ScyllaDB's `tablets-routing-v1`.
    pub tablet: Option<&'a TabletRoute>,
    /// Whether the client knows [`ErrorCode::RateLimit`].
    pub knows_rate_limits: bool,
}

/// What a custom payload says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// `RequestCharge`: what the request has cost, hundredths of a request unit; sent as a double in whole units.
    Charge(u64),
    /// `RetryAfter`: milliseconds after which the request may be tried again; sent as a 64-bit integer.
    RetryAfter(u32),
}

impl To<'_> {
    /// An answer without tracing.
    pub fn new(version: Version, stream: i16) -> To<'static> {
        To { version, stream, tracing_id: None, told: None, tablet: None, knows_rate_limits: false }
    }
}

/// The name in an answer's custom payload that tells where a tablet is.
const TABLETS_ROUTING_PAYLOAD: &str = "tablets-routing-v1";

/// The stream number of events, which answer no request.
pub const EVENT_STREAM: i16 = -1;

/// The bit of a header's version byte that marks responses.
const RESPONSE_BIT: u8 = 0x80;

const VOID: i32 = 1;
const ROWS: i32 = 2;
const SET_KEYSPACE: i32 = 3;
const PREPARED: i32 = 4;
const SCHEMA_CHANGE: i32 = 5;

fn put(out: &mut Vec<u8>, to: To, opcode: Opcode, warnings: &[String], encode: impl FnOnce(&mut Vec<u8>)) {
    let warned = !warnings.is_empty() && to.version >= Version::V4;
    let traced = if to.tracing_id.is_some() { flags::TRACING } else { 0 };
    let has_payload = to.version >= Version::V4 && (to.told.is_some() || to.tablet.is_some());
    let payload = if has_payload { flags::CUSTOM_PAYLOAD } else { 0 };
    let header_flags = traced | payload | to.version.beta_flag() | if warned { flags::WARNINGS } else { 0 };
    put_envelope(out, to.version.number() | RESPONSE_BIT, header_flags, to.stream, opcode, |out| {
        if let Some(id) = &to.tracing_id {
            out.extend_from_slice(id);
        }
        if warned {
            put_string_list(out, warnings.iter().map(String::as_str));
        }
        if has_payload {
            put_payload(out, to);
        }
        encode(out);
    });
}

/// Appends the custom payload.
fn put_payload(out: &mut Vec<u8>, to: To) {
    put_short(out, u16::from(to.told.is_some()) + u16::from(to.tablet.is_some()));
    if let Some(told) = to.told {
        let (name, bytes) = match told {
            Told::Charge(hundredths) => (REQUEST_CHARGE, (hundredths as f64 / 100.0).to_be_bytes()),
            Told::RetryAfter(millis) => (RETRY_AFTER, i64::from(millis).to_be_bytes()),
        };
        put_string(out, name);
        put_bytes(out, Some(&bytes));
    }
    if let Some(tablet) = to.tablet {
        put_string(out, TABLETS_ROUTING_PAYLOAD);
        put_bytes(out, Some(&tablet_value(tablet)));
    }
}

/// A tablet as a value of `tuple<bigint, bigint, list<tuple<uuid, int>>>`: the token after which it begins, its last
/// token, and its replicas with their cores.
fn tablet_value(tablet: &TabletRoute) -> Vec<u8> {
    let mut replicas = Vec::new();
    put_int(&mut replicas, tablet.replicas.len() as i32);
    for (host_id, shard) in &tablet.replicas {
        let mut replica = Vec::new();
        put_bytes(&mut replica, Some(host_id));
        put_bytes(&mut replica, Some(&i32::from(*shard).to_be_bytes()));
        put_bytes(&mut replicas, Some(&replica));
    }
    let mut value = Vec::new();
    put_bytes(&mut value, Some(&tablet.after.to_be_bytes()));
    put_bytes(&mut value, Some(&tablet.until.to_be_bytes()));
    put_bytes(&mut value, Some(&replicas));
    value
}

/// Appends ERROR. An error that the version does not know becomes the nearest one that it does.
pub fn error(out: &mut Vec<u8>, to: To, warnings: &[String], failure: &Failure) {
    let to = match &failure.detail {
        Detail::Throttled { retry_after_millis, .. } => To { told: Some(Told::RetryAfter(*retry_after_millis)), ..to },
        _ => to,
    };
    let is_unknown = failure.code == ErrorCode::RateLimit && !to.knows_rate_limits;
    put(out, to, Opcode::Error, warnings, |out| match is_unknown {
        true => put_error(out, to.version, &Failure::config(failure.text.clone())),
        false => put_error(out, to.version, failure),
    });
}

/// Appends the ERROR that answers a refused envelope, whose version may be one that is not spoken.
pub fn refusal(out: &mut Vec<u8>, header: AnswerHeader, failure: &Failure) {
    match header {
        AnswerHeader::Long { version, stream } => {
            let known = Version::from_number(version).unwrap_or(Version::HIGHEST);
            put_envelope(out, version | RESPONSE_BIT, known.beta_flag(), stream, Opcode::Error, |out| {
                put_error(out, known, failure);
            });
        }
        AnswerHeader::Short { version, stream } => {
            out.extend_from_slice(&[version | RESPONSE_BIT, 0, stream as u8, Opcode::Error as u8]);
            let start = out.len();
            put_int(out, 0);
            put_error(out, Version::V3, failure);
            let len = (out.len() - start - 4) as u32;
            fill_in(out, start, len.to_be_bytes());
        }
    }
}

/// The write type of conditional updates whose outcome is unknown.
const CAS: &str = "CAS";

fn put_error(out: &mut Vec<u8>, version: Version, failure: &Failure) {
    let (code, text) = match failure.code {
        ErrorCode::ReadFailure if version < Version::V4 => (ErrorCode::ReadTimeout, timed_out(failure)),
        ErrorCode::WriteFailure if version < Version::V4 => (ErrorCode::WriteTimeout, timed_out(failure)),
        ErrorCode::CasWriteUnknown if version < Version::V5 => (ErrorCode::WriteTimeout, timed_out(failure)),
        ErrorCode::WriteTimeout
            if version < Version::V5 && matches!(failure.detail, Detail::CasWriteTimeout { .. }) =>
        {
            (ErrorCode::WriteTimeout, timed_out(failure))
        }
        code => (code, failure.text.clone()),
    };
    put_int(out, code as i32);
    put_string(out, &text);
    put_detail(out, version, &failure.detail);
}

/// Appends the fields that follow code and text.
fn put_detail(out: &mut Vec<u8>, version: Version, detail: &Detail) {
    match detail {
        Detail::None | Detail::Replica { .. } => {}
        Detail::Throttled { as_told, .. } => put_detail(out, version, as_told),
        Detail::RateLimit { is_write, by_coordinator } => {
            out.extend_from_slice(&[u8::from(*is_write), u8::from(*by_coordinator)]);
        }
        Detail::Unavailable { consistency, required, alive } => {
            put_short(out, *consistency as u16);
            put_int(out, *required);
            put_int(out, *alive);
        }
        Detail::WriteTimeout { consistency, received, block_for, write_type } => {
            put_acks(out, *consistency, *received, *block_for);
            put_string(out, write_type);
        }
        Detail::CasWriteTimeout { consistency, received, block_for, write_type, contentions } => {
            put_acks(out, *consistency, *received, *block_for);
            put_string(out, write_type);
            if version >= Version::V5 {
                put_short(out, *contentions);
            }
        }
        Detail::CasWriteUnknown { consistency, received, block_for } => {
            put_acks(out, *consistency, *received, *block_for);
            if version < Version::V5 {
                put_string(out, CAS);
            }
        }
        Detail::ReadTimeout { consistency, received, block_for, data_present } => {
            put_acks(out, *consistency, *received, *block_for);
            out.push(*data_present as u8);
        }
        Detail::WriteFailure { consistency, received, block_for, failures, write_type } => {
            put_acks(out, *consistency, *received, *block_for);
            put_failures(out, version, failures);
            put_string(out, write_type);
        }
        Detail::ReadFailure { consistency, received, block_for, failures, data_present } => {
            put_acks(out, *consistency, *received, *block_for);
            put_failures(out, version, failures);
            out.push(*data_present as u8);
        }
        Detail::AlreadyExists { keyspace, table } => {
            put_string(out, keyspace);
            put_string(out, table);
        }
        Detail::Function { keyspace, function, arguments } => {
            put_string(out, keyspace);
            put_string(out, function);
            put_string_list(out, arguments.iter().map(String::as_str));
        }
        Detail::Unprepared { id } => put_short_bytes(out, id),
    }
}

/// The text for versions that know timeouts but not this kind of failure.
fn timed_out(failure: &Failure) -> Cow<'static, str> {
    match failure.detail {
        Detail::ReadFailure { received, .. }
        | Detail::WriteFailure { received, .. }
        | Detail::CasWriteTimeout { received, .. }
        | Detail::CasWriteUnknown { received, .. } => {
            format!("Operation timed out - received only {received} responses.").into()
        }
        _ => failure.text.clone(),
    }
}

fn put_acks(out: &mut Vec<u8>, consistency: Consistency, received: i32, block_for: i32) {
    put_short(out, consistency as u16);
    put_int(out, received);
    put_int(out, block_for);
}

/// Appends how many replicas failed (version 4) and which and why (version 5).
fn put_failures(out: &mut Vec<u8>, version: Version, failures: &[(IpAddr, FailureReason)]) {
    if version < Version::V4 {
        return;
    }
    put_int(out, failures.len() as i32);
    if version >= Version::V5 {
        for (address, reason) in failures {
            put_inet_address(out, *address);
            put_short(out, *reason as u16);
        }
    }
}

/// Appends READY.
pub fn ready(out: &mut Vec<u8>, to: To) {
    put(out, to, Opcode::Ready, &[], |_| {});
}

/// Appends AUTHENTICATE, which asks for a token in the way of an authenticator.
pub fn authenticate(out: &mut Vec<u8>, to: To, authenticator: &str) {
    put(out, to, Opcode::Authenticate, &[], |out| put_string(out, authenticator));
}

/// Appends AUTH_SUCCESS without a token.
pub fn auth_success(out: &mut Vec<u8>, to: To) {
    put(out, to, Opcode::AuthSuccess, &[], |out| put_bytes(out, None));
}

/// Appends SUPPORTED with these options.
pub fn supported(out: &mut Vec<u8>, to: To, options: &[(&str, &[&str])]) {
    put(out, to, Opcode::Supported, &[], |out| {
        put_short(out, options.len() as u16);
        for (name, values) in options {
            put_string(out, name);
            put_string_list(out, values.iter().copied());
        }
    });
}

/// Appends RESULT of kind void.
pub fn void(out: &mut Vec<u8>, to: To, warnings: &[String]) {
    put(out, to, Opcode::Result, warnings, |out| put_int(out, VOID));
}

/// Appends RESULT of USE.
pub fn set_keyspace(out: &mut Vec<u8>, to: To, warnings: &[String], keyspace: &str) {
    put(out, to, Opcode::Result, warnings, |out| {
        put_int(out, SET_KEYSPACE);
        put_string(out, keyspace);
    });
}

/// A change of the schema, in the protocol's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchemaChange<'a> {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub change: &'a str,
    /// `KEYSPACE`, `TABLE` or `TYPE`.
    pub target: &'a str,
    /// The keyspace.
    pub keyspace: &'a str,
    /// The table or type; not used for a keyspace.
    pub name: &'a str,
}

impl SchemaChange<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        put_string(out, self.change);
        put_string(out, self.target);
        put_string(out, self.keyspace);
        if self.target != "KEYSPACE" {
            put_string(out, self.name);
        }
    }
}

/// Appends RESULT of a schema change.
pub fn schema_change(out: &mut Vec<u8>, to: To, warnings: &[String], change: SchemaChange<'_>) {
    put(out, to, Opcode::Result, warnings, |out| {
        put_int(out, SCHEMA_CHANGE);
        change.put(out);
    });
}

/// Appends EVENT of a schema change.
pub fn schema_event(out: &mut Vec<u8>, version: Version, change: SchemaChange<'_>) {
    put(out, To::new(version, EVENT_STREAM), Opcode::Event, &[], |out| {
        put_string(out, "SCHEMA_CHANGE");
        change.put(out);
    });
}

/// Appends EVENT of a change of the node that serves clients at `address`. `kind` is STATUS_CHANGE or TOPOLOGY_CHANGE,
/// `change` the protocol's word for what happened.
pub fn node_event(out: &mut Vec<u8>, version: Version, kind: EventType, change: &str, address: SocketAddr) {
    put(out, To::new(version, EVENT_STREAM), Opcode::Event, &[], |out| {
        put_string(out, kind.name());
        put_string(out, change);
        put_inet_address(out, address.ip());
        put_int(out, i32::from(address.port()));
    });
}

/// What the answer to PREPARE says beside columns.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    /// The statement's id.
    pub id: &'a [u8],
    /// Id of the result's columns (v5).
    pub result_metadata_id: &'a [u8],
    /// Indexes of the markers that give the partition key, in the key's order (v4 and later).
    pub partition_key_markers: &'a [u16],
}

/// Appends RESULT of PREPARE: the markers, and the result's columns if the statement has a result.
pub fn prepared(
    out: &mut Vec<u8>,
    to: To,
    warnings: &[String],
    prepared: &Prepared<'_>,
    markers: &[ColumnSpec],
    result: Option<&[ColumnSpec]>,
) {
    put(out, to, Opcode::Result, warnings, |out| {
        put_int(out, PREPARED);
        put_short_bytes(out, prepared.id);
        if to.version >= Version::V5 {
            put_short_bytes(out, prepared.result_metadata_id);
        }
        let global = one_table(markers);
        let marker_flags = if global { metadata::flags::GLOBAL_TABLES_SPEC } else { 0 };
        metadata::put_head(out, marker_flags, markers.len());
        if to.version >= Version::V4 {
            put_int(out, prepared.partition_key_markers.len() as i32);
            prepared.partition_key_markers.iter().for_each(|marker| put_short(out, *marker));
        }
        put_columns(out, to.version, markers, global);
        match result {
            None => metadata::put_head(out, metadata::flags::NO_METADATA, 0),
            Some(columns) => {
                let global = one_table(columns);
                let result_flags = if global { metadata::flags::GLOBAL_TABLES_SPEC } else { 0 };
                metadata::put_head(out, result_flags, columns.len());
                put_columns(out, to.version, columns, global);
            }
        }
    });
}

/// A page of rows whose cells are already encoded.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Whether to leave the columns out.
    pub skip_metadata: bool,
    /// The columns' new id, if the client's is stale (v5).
    pub new_metadata_id: Option<&'a [u8]>,
    /// Where the next page begins; `None` for the last one.
    pub paging_state: Option<&'a [u8]>,
    /// How many rows `bytes` holds.
    pub count: u32,
    /// Cells as `[bytes]`, row after row.
    pub bytes: &'a [u8],
}

/// Appends RESULT of rows.
pub fn rows(out: &mut Vec<u8>, to: To, warnings: &[String], rows: &Rows<'_>, columns: &[ColumnSpec]) {
    use metadata::flags::*;
    // Includes what segments add to each 128 KiB.
    out.reserve(rows.bytes.len() + rows.bytes.len() / 4096 + 256);
    put(out, to, Opcode::Result, warnings, |out| {
        put_int(out, ROWS);
        let changed = rows.new_metadata_id.filter(|_| to.version >= Version::V5);
        let skip = rows.skip_metadata && changed.is_none();
        let global = !skip && one_table(columns);
        let mut row_flags = 0;
        if global {
            row_flags |= GLOBAL_TABLES_SPEC;
        }
        if rows.paging_state.is_some() {
            row_flags |= HAS_MORE_PAGES;
        }
        if skip {
            row_flags |= NO_METADATA;
        }
        if changed.is_some() {
            row_flags |= METADATA_CHANGED;
        }
        metadata::put_head(out, row_flags, columns.len());
        if let Some(state) = rows.paging_state {
            put_bytes(out, Some(state));
        }
        if let Some(id) = changed {
            put_short_bytes(out, id);
        }
        if !skip {
            put_columns(out, to.version, columns, global);
        }
        put_int(out, rows.count as i32);
        out.extend_from_slice(rows.bytes);
    });
}
