//! Requests: a body is decoded into a [`Request`] that borrows from it.
//!
//! Invariants: a malformed body gives a [`Failure`] with Cassandra's error code and, where drivers or tools may look at
//! it, Cassandra's text; unknown flags and bytes after the message are accepted, as Cassandra accepts them.

use crate::notation::Reader;
use crate::{Opcode, Version, flags};
use model::{BatchEntry, BatchKind, BatchStatement, Consistency, Failure, QueryParameters};

/// The name in a request's custom payload that asks for the price of the request, and in an answer's that tells it.
pub const REQUEST_CHARGE: &str = "RequestCharge";
/// The name in an error's custom payload that tells after how many milliseconds the request may be tried again.
pub const RETRY_AFTER: &str = "RetryAfter";

/// A message of a client.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum Request<'a> {
    Options,
    Startup(Vec<(&'a str, &'a str)>),
    AuthResponse(Option<&'a [u8]>),
    Query { text: &'a str, parameters: QueryParameters<'a> },
    Prepare { text: &'a str, keyspace: Option<&'a str> },
    Execute { id: &'a [u8], result_metadata_id: Option<&'a [u8]>, parameters: QueryParameters<'a> },
    Batch(Batch<'a>),
    Register(Vec<EventType>),
}

/// The message BATCH.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch<'a> {
    /// Logged, unlogged or of counters.
    pub kind: BatchKind,
    /// The statements with their values, in the order in which they apply.
    pub entries: Vec<BatchEntry<'a>>,
    /// Parameters of the whole batch, without values and paging.
    pub parameters: QueryParameters<'a>,
}

/// A kind of event that clients register for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum EventType {
    TopologyChange,
    StatusChange,
    SchemaChange,
}

impl EventType {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            EventType::TopologyChange => "TOPOLOGY_CHANGE",
            EventType::StatusChange => "STATUS_CHANGE",
            EventType::SchemaChange => "SCHEMA_CHANGE",
        }
    }
}

/// Flags that say which query parameters follow.
pub(crate) mod parameter_flags {
    pub(crate) const VALUES: u32 = 0x01;
    pub(crate) const SKIP_METADATA: u32 = 0x02;
    pub(crate) const PAGE_SIZE: u32 = 0x04;
    pub(crate) const PAGING_STATE: u32 = 0x08;
    pub(crate) const SERIAL_CONSISTENCY: u32 = 0x10;
    pub(crate) const TIMESTAMP: u32 = 0x20;
    pub(crate) const NAMES: u32 = 0x40;
    pub(crate) const KEYSPACE: u32 = 0x80;
    pub(crate) const NOW_IN_SECONDS: u32 = 0x100;
}

/// The flag of PREPARE that says that a keyspace follows (v5).
pub(crate) const PREPARE_KEYSPACE: u32 = 0x01;

impl<'a> Request<'a> {
    /// Decodes a plain body. Of a custom payload, which `header_flags` announce, only the name [`REQUEST_CHARGE`] means
    /// anything.
    pub fn decode(version: Version, opcode: Opcode, header_flags: u8, body: &'a [u8]) -> Result<Request<'a>, Failure> {
        let mut reader = Reader::new(body);
        match header_flags & flags::CUSTOM_PAYLOAD {
            0 => Request::without_payload(version, opcode, &mut reader),
            _ => Request::with_payload(version, opcode, &mut reader),
        }
    }

    #[cold]
    fn with_payload(version: Version, opcode: Opcode, reader: &mut Reader<'a>) -> Result<Request<'a>, Failure> {
        if version < Version::V4 {
            let text = "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4";
            return Err(Failure::protocol(text));
        }
        let wants_charge = reader.is_in_bytes_map(REQUEST_CHARGE)?;
        let mut request = Request::without_payload(version, opcode, reader)?;
        if let Request::Query { parameters, .. }
        | Request::Execute { parameters, .. }
        | Request::Batch(Batch { parameters, .. }) = &mut request
        {
            parameters.wants_charge = wants_charge;
        }
        Ok(request)
    }

    fn without_payload(version: Version, opcode: Opcode, reader: &mut Reader<'a>) -> Result<Request<'a>, Failure> {
        Ok(match opcode {
            Opcode::Options => Request::Options,
            Opcode::Startup => Request::Startup(reader.string_map()?),
            Opcode::AuthResponse => Request::AuthResponse(reader.bytes()?),
            Opcode::Query => {
                Request::Query { text: reader.long_string()?, parameters: paged_parameters(version, reader)? }
            }
            Opcode::Prepare => {
                let text = reader.long_string()?;
                let flags = if version >= Version::V5 { reader.int()? as u32 } else { 0 };
                let keyspace = if flags & PREPARE_KEYSPACE != 0 { Some(reader.string()?) } else { None };
                Request::Prepare { text, keyspace }
            }
            Opcode::Execute => Request::Execute {
                id: reader.short_bytes()?,
                result_metadata_id: if version >= Version::V5 { Some(reader.short_bytes()?) } else { None },
                parameters: paged_parameters(version, reader)?,
            },
            Opcode::Batch => Request::Batch(batch(version, reader)?),
            Opcode::Register => Request::Register(register(reader)?),
            _ => return Err(Failure::protocol("Unsupported message")),
        })
    }
}

fn register(reader: &mut Reader<'_>) -> Result<Vec<EventType>, Failure> {
    const ALL: [EventType; 3] = [EventType::TopologyChange, EventType::StatusChange, EventType::SchemaChange];
    let mut types = Vec::new();
    for name in reader.string_list()? {
        match ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name)) {
            Some(known) => types.push(known),
            None => return Err(Failure::protocol(format!("Invalid value '{name}' for Type"))),
        }
    }
    Ok(types)
}

fn consistency(reader: &mut Reader<'_>) -> Result<Consistency, Failure> {
    let code = reader.short()?;
    Consistency::from_code(code)
        .ok_or_else(|| Failure::protocol(format!("Unknown code {code} for a consistency level")))
}

fn parameter_flags(version: Version, reader: &mut Reader<'_>) -> Result<u32, Failure> {
    Ok(if version >= Version::V5 { reader.int()? as u32 } else { reader.byte()? as u32 })
}

fn parameters<'a>(version: Version, reader: &mut Reader<'a>) -> Result<QueryParameters<'a>, Failure> {
    use parameter_flags::*;
    let mut parameters = QueryParameters::new(consistency(reader)?);
    let flags = parameter_flags(version, reader)?;
    if flags & VALUES != 0 {
        let count = reader.short()?;
        // A declared count allocates no more than the body can hold: each value has at least the four bytes of its
        // length.
        parameters.values.reserve_exact(usize::from(count).min(reader.rest().len() / 4));
        let mut names = (flags & NAMES != 0).then(Vec::new);
        for _ in 0..count {
            if let Some(names) = &mut names {
                names.push(reader.string()?);
            }
            parameters.values.push(reader.value(version >= Version::V4)?);
        }
        parameters.names = names;
    }
    parameters.skip_metadata = flags & SKIP_METADATA != 0;
    if flags & PAGE_SIZE != 0 {
        parameters.page_size = Some(reader.int()?);
    }
    if flags & PAGING_STATE != 0 {
        parameters.paging_state = reader.bytes()?;
    }
    if flags & SERIAL_CONSISTENCY != 0 {
        parameters.serial_consistency = Some(consistency(reader)?);
    }
    if flags & TIMESTAMP != 0 {
        let timestamp = reader.long()?;
        if timestamp == i64::MIN {
            return Err(Failure::protocol(format!(
                "Out of bound timestamp, must be in [{}, {}] (got {timestamp})",
                i64::MIN + 1,
                i64::MAX
            )));
        }
        parameters.timestamp = Some(timestamp);
    }
    // Defined for version 5, but Cassandra reads it in every version.
    if flags & KEYSPACE != 0 {
        parameters.keyspace = Some(reader.string()?);
    }
    if flags & NOW_IN_SECONDS != 0 {
        parameters.now_in_seconds = Some(reader.int()?);
    }
    Ok(parameters)
}

/// Parameters of QUERY and EXECUTE, whose results have pages.
fn paged_parameters<'a>(version: Version, reader: &mut Reader<'a>) -> Result<QueryParameters<'a>, Failure> {
    let mut parameters = parameters(version, reader)?;
    if parameters.page_size == Some(0) {
        return Err(Failure::protocol("The page size cannot be 0"));
    }
    parameters.page_size = parameters.page_size.filter(|size| *size > 0);
    Ok(parameters)
}

fn batch<'a>(version: Version, reader: &mut Reader<'a>) -> Result<Batch<'a>, Failure> {
    let kind = match reader.byte()? {
        0 => BatchKind::Logged,
        1 => BatchKind::Unlogged,
        2 => BatchKind::Counter,
        other => return Err(Failure::protocol(format!("Invalid BATCH message type {other}"))),
    };
    let mut entries = Vec::new();
    for _ in 0..reader.short()? {
        let statement = match reader.byte()? {
            0 => BatchStatement::Text(reader.long_string()?),
            1 => BatchStatement::Id(reader.short_bytes()?),
            other => {
                return Err(Failure::protocol(format!(
                    "Invalid query kind in BATCH messages. Must be 0 or 1 but got {other}"
                )));
            }
        };
        let mut values = Vec::new();
        for _ in 0..reader.short()? {
            values.push(reader.value(version >= Version::V4)?);
        }
        entries.push(BatchEntry { statement, values });
    }
    // Values and paging can be sent with a batch but mean nothing there.
    let parameters = parameters(version, reader)?;
    let parameters = QueryParameters {
        values: Vec::new(),
        names: None,
        skip_metadata: false,
        page_size: None,
        paging_state: None,
        ..parameters
    };
    Ok(Batch { kind, entries, parameters })
}
