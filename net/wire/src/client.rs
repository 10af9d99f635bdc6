//! The client's direction: requests are encoded, responses decoded. For tests, the simulator and load tools.

use crate::envelope::{Envelope, put_envelope};
use crate::metadata::{self, read_columns};
use crate::notation::{
    Reader, put_bytes, put_int, put_long_string, put_short, put_short_bytes, put_string, put_string_list, put_value,
};
use crate::request::{
    Batch, EventType, PREPARE_KEYSPACE, REQUEST_CHARGE, Request,
    parameter_flags::{
        KEYSPACE, NAMES, NOW_IN_SECONDS, PAGE_SIZE, PAGING_STATE, SERIAL_CONSISTENCY, SKIP_METADATA, TIMESTAMP, VALUES,
    },
};
use crate::{Opcode, Version, flags};
use model::{BatchStatement, ColumnSpec, Failure, QueryParameters};
use std::net::SocketAddr;

/// Appends a request's envelope. The caller wraps it into a segment once version 5 is agreed.
pub fn put_request(out: &mut Vec<u8>, version: Version, stream: i16, request: &Request<'_>) {
    let opcode = match request {
        Request::Options => Opcode::Options,
        Request::Startup(_) => Opcode::Startup,
        Request::AuthResponse(_) => Opcode::AuthResponse,
        Request::Query { .. } => Opcode::Query,
        Request::Prepare { .. } => Opcode::Prepare,
        Request::Execute { .. } => Opcode::Execute,
        Request::Batch(_) => Opcode::Batch,
        Request::Register(_) => Opcode::Register,
    };
    let asks = match request {
        Request::Query { parameters, .. }
        | Request::Execute { parameters, .. }
        | Request::Batch(Batch { parameters, .. }) => parameters.wants_charge && version >= Version::V4,
        _ => false,
    };
    let header_flags = version.beta_flag() | if asks { flags::CUSTOM_PAYLOAD } else { 0 };
    put_envelope(out, version.number(), header_flags, stream, opcode, |out| {
        if asks {
            put_short(out, 1);
            put_string(out, REQUEST_CHARGE);
            put_bytes(out, None);
        }
        put_body(out, version, request);
    });
}

fn put_body(out: &mut Vec<u8>, version: Version, request: &Request<'_>) {
    match request {
        Request::Options => {}
        Request::Startup(options) => {
            put_short(out, options.len() as u16);
            for (name, value) in options {
                put_string(out, name);
                put_string(out, value);
            }
        }
        Request::AuthResponse(token) => put_bytes(out, *token),
        Request::Query { text, parameters } => {
            put_long_string(out, text);
            put_parameters(out, version, parameters, false);
        }
        Request::Prepare { text, keyspace } => {
            put_long_string(out, text);
            if version >= Version::V5 {
                put_int(out, if keyspace.is_some() { PREPARE_KEYSPACE as i32 } else { 0 });
                if let Some(keyspace) = keyspace {
                    put_string(out, keyspace);
                }
            }
        }
        Request::Execute { id, result_metadata_id, parameters } => {
            put_short_bytes(out, id);
            if version >= Version::V5 {
                put_short_bytes(out, result_metadata_id.unwrap_or_default());
            }
            put_parameters(out, version, parameters, false);
        }
        Request::Batch(batch) => {
            out.push(batch.kind as u8);
            put_short(out, batch.entries.len() as u16);
            for entry in &batch.entries {
                match entry.statement {
                    BatchStatement::Text(text) => {
                        out.push(0);
                        put_long_string(out, text);
                    }
                    BatchStatement::Id(id) => {
                        out.push(1);
                        put_short_bytes(out, id);
                    }
                }
                put_short(out, entry.values.len() as u16);
                entry.values.iter().for_each(|value| put_value(out, value));
            }
            put_parameters(out, version, &batch.parameters, true);
        }
        Request::Register(types) => put_string_list(out, types.iter().map(|event| event.name())),
    }
}

fn put_parameters(out: &mut Vec<u8>, version: Version, parameters: &QueryParameters<'_>, batch: bool) {
    let bit = |condition: bool, flag: u32| if condition { flag } else { 0 };
    let v5 = version >= Version::V5;
    put_short(out, parameters.consistency as u16);
    let set = bit(!batch && (!parameters.values.is_empty() || parameters.names.is_some()), VALUES)
        | bit(!batch && parameters.names.is_some(), NAMES)
        | bit(!batch && parameters.skip_metadata, SKIP_METADATA)
        | bit(!batch && parameters.page_size.is_some(), PAGE_SIZE)
        | bit(!batch && parameters.paging_state.is_some(), PAGING_STATE)
        | bit(parameters.serial_consistency.is_some(), SERIAL_CONSISTENCY)
        | bit(parameters.timestamp.is_some(), TIMESTAMP)
        | bit(parameters.keyspace.is_some(), KEYSPACE)
        | bit(v5 && parameters.now_in_seconds.is_some(), NOW_IN_SECONDS);
    if v5 {
        put_int(out, set as i32);
    } else {
        out.push(set as u8);
    }
    if set & VALUES != 0 {
        put_short(out, parameters.values.len() as u16);
        for (index, value) in parameters.values.iter().enumerate() {
            if let Some(names) = &parameters.names {
                put_string(out, names.get(index).copied().unwrap_or_default());
            }
            put_value(out, value);
        }
    }
    if let (false, Some(size)) = (batch, parameters.page_size) {
        put_int(out, size);
    }
    if let (false, Some(state)) = (batch, parameters.paging_state) {
        put_bytes(out, Some(state));
    }
    if let Some(level) = parameters.serial_consistency {
        put_short(out, level as u16);
    }
    if let Some(timestamp) = parameters.timestamp {
        out.extend_from_slice(&timestamp.to_be_bytes());
    }
    if let Some(keyspace) = parameters.keyspace {
        put_string(out, keyspace);
    }
    if let (true, Some(now)) = (v5, parameters.now_in_seconds) {
        put_int(out, now);
    }
}

/// A message of a server.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum Response {
    Error {
        code: i32,
        text: String,
        detail: Vec<u8>,
    },
    Ready,
    Authenticate(String),
    AuthSuccess,
    Supported(Vec<(String, Vec<String>)>),
    Void,
    Rows(Rows),
    SetKeyspace(String),
    Prepared(Prepared),
    SchemaChange(SchemaChange),
    Event(SchemaChange),
    /// EVENT of a change of a node: kind, what happened, where the node serves clients.
    NodeEvent(EventType, String, SocketAddr),
}

/// A page of rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Rows {
    /// Metadata flags, see [`metadata::flags`].
    pub flags: i32,
    /// The columns; empty if they were left out.
    pub columns: Vec<ColumnSpec>,
    /// How many columns there are, sent or left out.
    pub column_count: usize,
    /// Where the next page begins; `None` after the last one.
    pub paging_state: Option<Vec<u8>>,
    /// The columns' new id, if the one that the client sent is stale (v5).
    pub new_metadata_id: Option<Vec<u8>>,
    /// The rows' cells; `None` is null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// The answer to PREPARE.
#[derive(Clone, PartialEq, Debug)]
pub struct Prepared {
    /// The statement's id, for EXECUTE.
    pub id: Vec<u8>,
    /// The result columns' id (v5).
    pub result_metadata_id: Option<Vec<u8>>,
    /// Indexes of the markers that give the partition key, in the key's order.
    pub partition_key_markers: Vec<u16>,
    /// The markers.
    pub markers: Vec<ColumnSpec>,
    /// The result's columns.
    pub result: Vec<ColumnSpec>,
    /// Metadata flags of the result.
    pub result_flags: i32,
}

/// A change of the schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaChange {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub change: String,
    /// `KEYSPACE`, `TABLE` or `TYPE`.
    pub target: String,
    /// The keyspace.
    pub keyspace: String,
    /// The table or type; empty for a keyspace.
    pub name: String,
}

/// A response and what its header announces.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The message.
    pub response: Response,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// The tracing session of the request, if it was traced.
    pub tracing_id: Option<[u8; 16]>,
    /// The custom payload: names and values.
    pub payload: Vec<(String, Vec<u8>)>,
}

impl Answer {
    /// Decodes an envelope from a server.
    pub fn decode(envelope: &Envelope) -> Result<Answer, Failure> {
        let header = envelope.header;
        let mut reader = Reader::new(&envelope.body);
        let reader = &mut reader;
        let tracing_id = if header.flags & flags::TRACING != 0 { Some(reader.uuid()?) } else { None };
        let mut warnings = Vec::new();
        if header.flags & flags::WARNINGS != 0 {
            warnings = owned(reader.string_list()?);
        }
        let mut payload = Vec::new();
        if header.flags & flags::CUSTOM_PAYLOAD != 0 {
            payload = reader.bytes_map()?;
        }
        let response = match header.opcode {
            Opcode::Error => {
                let (code, text) = (reader.int()?, reader.string()?.to_string());
                Response::Error { code, text, detail: reader.rest().to_vec() }
            }
            Opcode::Ready => Response::Ready,
            Opcode::Authenticate => Response::Authenticate(reader.string()?.into()),
            Opcode::AuthSuccess => Response::AuthSuccess,
            Opcode::Supported => {
                let options = reader.string_multimap()?;
                Response::Supported(options.into_iter().map(|(name, list)| (name.into(), owned(list))).collect())
            }
            Opcode::Result => result(header.version, reader)?,
            Opcode::Event => match reader.string()? {
                "SCHEMA_CHANGE" => Response::Event(schema_change(reader)?),
                "STATUS_CHANGE" => node_event(EventType::StatusChange, reader)?,
                "TOPOLOGY_CHANGE" => node_event(EventType::TopologyChange, reader)?,
                other => return Err(Failure::protocol(format!("Unknown event {other}"))),
            },
            other => return Err(Failure::protocol(format!("Unexpected {}", other.name()))),
        };
        Ok(Answer { response, warnings, tracing_id, payload })
    }
}

fn owned(list: Vec<&str>) -> Vec<String> {
    list.into_iter().map(String::from).collect()
}

fn node_event(kind: EventType, reader: &mut Reader<'_>) -> Result<Response, Failure> {
    let change = reader.string()?.to_owned();
    let ip = reader.inet_address()?;
    let port = u16::try_from(reader.int()?).map_err(|_| Failure::protocol("a port is out of range"))?;
    Ok(Response::NodeEvent(kind, change, SocketAddr::new(ip, port)))
}

fn schema_change(reader: &mut Reader<'_>) -> Result<SchemaChange, Failure> {
    let change = reader.string()?.to_string();
    let target = reader.string()?.to_string();
    let keyspace = reader.string()?.to_string();
    let name = if target == "KEYSPACE" { String::new() } else { reader.string()?.to_string() };
    Ok(SchemaChange { change, target, keyspace, name })
}

fn result(version: Version, reader: &mut Reader<'_>) -> Result<Response, Failure> {
    Ok(match reader.int()? {
        1 => Response::Void,
        2 => Response::Rows(rows(reader)?),
        3 => Response::SetKeyspace(reader.string()?.into()),
        4 => Response::Prepared(prepared(version, reader)?),
        5 => Response::SchemaChange(schema_change(reader)?),
        kind => return Err(Failure::protocol(format!("Unknown result kind {kind}"))),
    })
}

fn rows(reader: &mut Reader<'_>) -> Result<Rows, Failure> {
    use metadata::flags::*;
    let set = reader.int()?;
    let count = reader.int()?;
    let paging_state = if set & HAS_MORE_PAGES != 0 { reader.bytes()?.map(<[u8]>::to_vec) } else { None };
    let new_metadata_id = if set & METADATA_CHANGED != 0 { Some(reader.short_bytes()?.to_vec()) } else { None };
    let columns = match set & NO_METADATA {
        0 => read_columns(reader, count, set & GLOBAL_TABLES_SPEC != 0)?,
        _ => Vec::new(),
    };
    let row_count = reader.int()?;
    let mut rows = Vec::new();
    for _ in 0..row_count {
        let mut row = Vec::new();
        for _ in 0..count {
            row.push(reader.bytes()?.map(<[u8]>::to_vec));
        }
        // Rows without columns take no bytes in the body: a declared count must not make memory of them.
        if row.is_empty() {
            break;
        }
        rows.push(row);
    }
    let column_count = usize::try_from(count).unwrap_or_default();
    Ok(Rows { flags: set, columns, column_count, paging_state, new_metadata_id, rows })
}

fn prepared(version: Version, reader: &mut Reader<'_>) -> Result<Prepared, Failure> {
    use metadata::flags::*;
    let id = reader.short_bytes()?.to_vec();
    let result_metadata_id = if version >= Version::V5 { Some(reader.short_bytes()?.to_vec()) } else { None };
    let set = reader.int()?;
    let count = reader.int()?;
    let mut partition_key_markers = Vec::new();
    if version >= Version::V4 {
        for _ in 0..reader.int()? {
            partition_key_markers.push(reader.short()?);
        }
    }
    let markers = read_columns(reader, count, count > 0 && set & GLOBAL_TABLES_SPEC != 0)?;
    let result_flags = reader.int()?;
    let result_count = reader.int()?;
    let result = match result_flags & NO_METADATA {
        0 => read_columns(reader, result_count, result_flags & GLOBAL_TABLES_SPEC != 0)?,
        _ => Vec::new(),
    };
    Ok(Prepared { id, result_metadata_id, partition_key_markers, markers, result, result_flags })
}
