//! Responses: each function appends one envelope. The caller wraps them into segments in version 5.
//!
//! Invariants: warnings are sent from version 4 on; what a version does not know is left out, never sent.

use crate::decoder::Address;
use crate::envelope::put_envelope;
use crate::metadata::{self, one_table, put_columns};
use crate::notation::{put_bytes, put_inet_address, put_int, put_short, put_short_bytes, put_string, put_string_list};
use crate::{Opcode, Version, flags};
use model::failure::{Detail, FailureReason};
use model::{ColumnSpec, Consistency, ErrorCode, Failure};
use std::borrow::Cow;
use std::net::IpAddr;

/// Where a response goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct To {
    /// The connection's version.
    pub version: Version,
    /// The request's stream.
    pub stream: i16,
    /// The session that traces the request.
    pub tracing_id: Option<[u8; 16]>,
}

impl To {
    /// To a stream, without tracing.
    pub fn new(version: Version, stream: i16) -> To {
        To { version, stream, tracing_id: None }
    }
}

/// The stream of events.
pub const EVENT_STREAM: i16 = -1;

const RESPONSE_BIT: u8 = 0x80;

/// The version that Cassandra has in beta.
const BETA_NUMBER: u8 = 6;

const VOID: i32 = 1;
const ROWS: i32 = 2;
const SET_KEYSPACE: i32 = 3;
const PREPARED: i32 = 4;
const SCHEMA_CHANGE: i32 = 5;

fn put(out: &mut Vec<u8>, to: To, opcode: Opcode, warnings: &[String], encode: impl FnOnce(&mut Vec<u8>)) {
    let warned = !warnings.is_empty() && to.version >= Version::V4;
    let traced = if to.tracing_id.is_some() { flags::TRACING } else { 0 };
    let header_flags = traced | if warned { flags::WARNINGS } else { 0 };
    put_envelope(out, to.version.number() | RESPONSE_BIT, header_flags, to.stream, opcode, |out| {
        if let Some(id) = &to.tracing_id {
            out.extend_from_slice(id);
        }
        if warned {
            put_string_list(out, warnings.iter().map(String::as_str));
        }
        encode(out);
    });
}

/// ERROR. What the version does not know is told in words that it does.
pub fn error(out: &mut Vec<u8>, to: To, warnings: &[String], failure: &Failure) {
    put(out, to, Opcode::Error, warnings, |out| put_error(out, to.version, failure));
}

/// ERROR to whom the decoder names, also in the headers of versions that are not spoken.
pub fn refusal(out: &mut Vec<u8>, address: Address, failure: &Failure) {
    match address {
        Address::Stream { version, stream } => {
            // The answer in a beta version says so.
            let header_flags = if version == BETA_NUMBER { flags::USE_BETA } else { 0 };
            let known = Version::from_number(version).unwrap_or(Version::HIGHEST);
            put_envelope(out, version | RESPONSE_BIT, header_flags, stream, Opcode::Error, |out| {
                put_error(out, known, failure);
            });
        }
        Address::Old { version, stream } => {
            out.extend_from_slice(&[version | RESPONSE_BIT, 0, stream as u8, Opcode::Error as u8]);
            let start = out.len();
            put_int(out, 0);
            put_error(out, Version::V3, failure);
            let len = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&len.to_be_bytes());
        }
    }
}

/// The write type of conditional changes.
const CAS: &str = "CAS";

fn put_error(out: &mut Vec<u8>, version: Version, failure: &Failure) {
    let (code, text) = match failure.code {
        ErrorCode::ReadFailure if version < Version::V4 => (ErrorCode::ReadTimeout, timed_out(failure)),
        ErrorCode::WriteFailure if version < Version::V4 => (ErrorCode::WriteTimeout, timed_out(failure)),
        ErrorCode::CasWriteUnknown if version < Version::V5 => (ErrorCode::WriteTimeout, timed_out(failure)),
        code => (code, failure.text.clone()),
    };
    put_int(out, code as i32);
    put_string(out, &text);
    match &failure.detail {
        Detail::None => {}
        Detail::Unavailable { consistency, required, alive } => {
            put_short(out, *consistency as u16);
            put_int(out, *required);
            put_int(out, *alive);
        }
        Detail::WriteTimeout { consistency, received, block_for, write_type } => {
            put_acks(out, *consistency, *received, *block_for);
            put_string(out, write_type);
        }
        Detail::CasWriteTimeout { consistency, received, block_for, contentions } => {
            put_acks(out, *consistency, *received, *block_for);
            put_string(out, CAS);
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

/// What version 3 is told instead of a failure of replicas.
fn timed_out(failure: &Failure) -> Cow<'static, str> {
    match failure.detail {
        Detail::ReadFailure { received, .. }
        | Detail::WriteFailure { received, .. }
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

/// Version 4 knows how many replicas failed, version 5 which and why.
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

/// READY.
pub fn ready(out: &mut Vec<u8>, to: To) {
    put(out, to, Opcode::Ready, &[], |_| {});
}

/// AUTH_SUCCESS without a token.
pub fn auth_success(out: &mut Vec<u8>, to: To) {
    put(out, to, Opcode::AuthSuccess, &[], |out| put_bytes(out, None));
}

/// SUPPORTED with these options.
pub fn supported(out: &mut Vec<u8>, to: To, options: &[(&str, &[&str])]) {
    put(out, to, Opcode::Supported, &[], |out| {
        put_short(out, options.len() as u16);
        for (name, values) in options {
            put_string(out, name);
            put_string_list(out, values.iter().copied());
        }
    });
}

/// RESULT without anything.
pub fn void(out: &mut Vec<u8>, to: To, warnings: &[String]) {
    put(out, to, Opcode::Result, warnings, |out| put_int(out, VOID));
}

/// RESULT of USE.
pub fn set_keyspace(out: &mut Vec<u8>, to: To, warnings: &[String], keyspace: &str) {
    put(out, to, Opcode::Result, warnings, |out| {
        put_int(out, SET_KEYSPACE);
        put_string(out, keyspace);
    });
}

/// What DDL did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchemaChange<'a> {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub change: &'a str,
    /// `KEYSPACE`, `TABLE` or `TYPE`.
    pub target: &'a str,
    /// The keyspace.
    pub keyspace: &'a str,
    /// The table or type; unused for a keyspace.
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

/// RESULT of DDL.
pub fn schema_change(out: &mut Vec<u8>, to: To, warnings: &[String], change: SchemaChange<'_>) {
    put(out, to, Opcode::Result, warnings, |out| {
        put_int(out, SCHEMA_CHANGE);
        change.put(out);
    });
}

/// EVENT of DDL.
pub fn schema_event(out: &mut Vec<u8>, version: Version, change: SchemaChange<'_>) {
    put(out, To::new(version, EVENT_STREAM), Opcode::Event, &[], |out| {
        put_string(out, "SCHEMA_CHANGE");
        change.put(out);
    });
}

/// What PREPARE answers.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    /// The statement's id.
    pub id: &'a [u8],
    /// The result columns' id (v5).
    pub result_metadata_id: &'a [u8],
    /// The markers that are the partition key, in its order (v4 and later).
    pub partition_key_markers: &'a [u16],
}

/// RESULT of PREPARE: the markers, and the result's columns if the statement has a result.
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

/// A page of rows, already in protocol form.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Leave the columns out.
    pub skip_metadata: bool,
    /// The columns' new id, when the client's is stale (v5).
    pub new_metadata_id: Option<&'a [u8]>,
    /// Where the next page begins.
    pub paging_state: Option<&'a [u8]>,
    /// Rows in `bytes`.
    pub count: u32,
    /// Cells as `[bytes]`, row after row.
    pub bytes: &'a [u8],
}

/// RESULT of SELECT.
pub fn rows(out: &mut Vec<u8>, to: To, warnings: &[String], rows: &Rows<'_>, columns: &[ColumnSpec]) {
    use metadata::flags::*;
    // With what segments add to each 128 KiB.
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
