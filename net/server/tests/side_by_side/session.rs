//! A connection in protocol version 4. Its decoder is its own, so that the judge shares no code with the server.

use crate::script::{KEYSPACE, Step};
use crate::value::Bind;
use runtime::Stream;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The parts of an answer on which the two servers must agree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Void(Vec<String>),
    Keyspace(String),
    SchemaChange(String),
    Rows(Rows),
    Prepared {
        id: Vec<u8>,
        markers: Vec<Column>,
        key_markers: Vec<u16>,
        result: Vec<Column>,
        warnings: Vec<String>,
    },
    Error {
        code: u32,
        text: String,
    },
    /// No answer, or bytes that are not one.
    Broken(String),
}

impl Reply {
    /// The page, if the reply is one.
    pub(crate) fn rows(&self) -> Option<&Rows> {
        match self {
            Reply::Rows(rows) => Some(rows),
            _ => None,
        }
    }
}

/// A page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Option<Vec<u8>>>>,
    pub(crate) more: bool,
    pub(crate) warnings: Vec<String>,
}

impl Rows {
    /// Whether a conditional update was applied; `None` if this does not answer one.
    pub(crate) fn applied(&self) -> Option<bool> {
        let answers = self.columns.first().is_some_and(|column| column.name == "[applied]");
        let first = self.rows.first().and_then(|row| row.first());
        answers.then(|| first.is_some_and(|cell| cell.as_deref() == Some(&[1])))
    }
}

/// A column of metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) cql_type: String,
}

const VERSION: u8 = 4;
const HEADER: usize = 9;
const OP_STARTUP: u8 = 1;
const OP_QUERY: u8 = 7;
const OP_PREPARE: u8 = 9;
const OP_EXECUTE: u8 = 10;
const FLAG_WARNING: u8 = 8;
/// The most pages that are fetched of one SELECT.
const PAGES_MAX: usize = 400;
/// How often to check whether an index is built, and how long to wait before checking again.
const BUILT_ATTEMPTS_MAX: usize = 400;
const BUILT_WAIT: Duration = Duration::from_millis(25);

/// A connection that has sent STARTUP.
pub(crate) struct Session {
    stream: Stream,
    received: Vec<u8>,
}

impl Session {
    /// Connects and sends STARTUP.
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Session> {
        let mut session = Session { stream: Stream::connect(address, None).await?, received: Vec::new() };
        let mut body = vec![0, 1];
        push_string(&mut body, "CQL_VERSION");
        push_string(&mut body, "3.0.0");
        session.call(OP_STARTUP, &body).await?;
        Ok(session)
    }

    /// Sends a step and fetches all its pages.
    pub(crate) async fn play(&mut self, step: &Step, page_size: Option<i32>) -> Vec<Reply> {
        let mut replies = Vec::new();
        let mut paging_state = None;
        let mut prepared_id = None;
        if step.prepared {
            let mut body = (step.text.len() as i32).to_be_bytes().to_vec();
            body.extend(step.text.as_bytes());
            let (reply, _) = self.reply(OP_PREPARE, &body).await;
            if let Reply::Prepared { id, .. } = &reply {
                prepared_id = Some(id.clone());
            }
            let failed = prepared_id.is_none();
            replies.push(reply);
            if failed {
                return replies;
            }
        }
        for _ in 0..PAGES_MAX {
            let mut body = Vec::new();
            let operation = match &prepared_id {
                Some(id) => {
                    body.extend((id.len() as u16).to_be_bytes());
                    body.extend(id);
                    OP_EXECUTE
                }
                None => {
                    body.extend((step.text.len() as i32).to_be_bytes());
                    body.extend(step.text.as_bytes());
                    OP_QUERY
                }
            };
            push_parameters(&mut body, step, page_size, paging_state.as_deref());
            let (reply, state) = self.reply(operation, &body).await;
            replies.push(reply);
            match state {
                Some(state) => paging_state = Some(state),
                None => break,
            }
        }
        if step.text.starts_with("CREATE INDEX") && matches!(replies.last(), Some(Reply::SchemaChange(_))) {
            self.wait_for_indexes().await;
        }
        replies
    }

    /// Waits until every index of the keyspace is built, but not for ever: a missing one shows as a difference.
    async fn wait_for_indexes(&mut self) {
        let step = |text: String| Step { text, ..Step::default() };
        let all = step(format!("SELECT index_name FROM system_schema.indexes WHERE keyspace_name = '{KEYSPACE}'"));
        let built = step(format!("SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = '{KEYSPACE}'"));
        for _ in 0..BUILT_ATTEMPTS_MAX {
            let all = self.first_cells(&all).await;
            let built = self.first_cells(&built).await;
            if all.iter().all(|name| built.contains(name)) {
                return;
            }
            runtime::sleep(BUILT_WAIT).await;
        }
    }

    /// The first column of the rows of a SELECT.
    async fn first_cells(&mut self, step: &Step) -> Vec<Vec<u8>> {
        let mut body = (step.text.len() as i32).to_be_bytes().to_vec();
        body.extend(step.text.as_bytes());
        push_parameters(&mut body, step, None, None);
        match self.reply(OP_QUERY, &body).await {
            (Reply::Rows(found), _) => found.rows.into_iter().filter_map(|mut row| row.swap_remove(0)).collect(),
            _ => Vec::new(),
        }
    }

    async fn reply(&mut self, operation: u8, body: &[u8]) -> (Reply, Option<Vec<u8>>) {
        match self.call(operation, body).await {
            Err(error) => (Reply::Broken(error.to_string()), None),
            Ok((header, body)) => {
                let read = decode(&header, &mut Bytes { bytes: &body });
                read.unwrap_or_else(|| (Reply::Broken("an answer that does not decode".into()), None))
            }
        }
    }

    async fn call(&mut self, operation: u8, body: &[u8]) -> io::Result<([u8; HEADER], Vec<u8>)> {
        self.stream.write(|out| {
            out.extend([VERSION, 0, 0, 1, operation]);
            out.extend((body.len() as i32).to_be_bytes());
            out.extend(body);
        });
        loop {
            if let Some(header) = self.received.first_chunk::<HEADER>().copied() {
                let len = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
                if self.received.len() >= HEADER + len {
                    let body = self.received[HEADER..HEADER + len].to_vec();
                    self.received.drain(..HEADER + len);
                    return Ok((header, body));
                }
            }
            match self.stream.recv().await? {
                Some(bytes) => self.received.extend_from_slice(&bytes),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

fn push_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn push_parameters(out: &mut Vec<u8>, step: &Step, page_size: Option<i32>, paging_state: Option<&[u8]>) {
    out.extend(step.consistency.code().to_be_bytes());
    let mut flags = 0u8;
    flags |= u8::from(!step.values.is_empty());
    flags |= u8::from(page_size.is_some()) << 2;
    flags |= u8::from(paging_state.is_some()) << 3;
    flags |= u8::from(step.serial.is_some()) << 4;
    flags |= u8::from(step.timestamp.is_some()) << 5;
    out.push(flags);
    if !step.values.is_empty() {
        out.extend((step.values.len() as u16).to_be_bytes());
        for (_, value) in &step.values {
            match value {
                Bind::Null => out.extend((-1i32).to_be_bytes()),
                Bind::Unset => out.extend((-2i32).to_be_bytes()),
                Bind::Bytes(bytes) => {
                    out.extend((bytes.len() as i32).to_be_bytes());
                    out.extend(bytes);
                }
            }
        }
    }
    if let Some(rows) = page_size {
        out.extend(rows.to_be_bytes());
    }
    if let Some(state) = paging_state {
        out.extend((state.len() as i32).to_be_bytes());
        out.extend(state);
    }
    if let Some(serial) = step.serial {
        out.extend(serial.code().to_be_bytes());
    }
    if let Some(timestamp) = step.timestamp {
        out.extend(timestamp.to_be_bytes());
    }
}

/// The bytes that are not read yet. Reads beyond their end return `None`.
struct Bytes<'a> {
    bytes: &'a [u8],
}

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn int(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn string(&mut self) -> Option<String> {
        let len = self.short()?;
        String::from_utf8(self.take(len as usize)?.to_vec()).ok()
    }

    fn bytes(&mut self) -> Option<Option<Vec<u8>>> {
        let len = self.int()?;
        if len < 0 { Some(None) } else { Some(Some(self.take(len as usize)?.to_vec())) }
    }

    fn cql_type(&mut self) -> Option<String> {
        const NATIVES: [&str; 22] = [
            "",
            "ascii",
            "bigint",
            "blob",
            "boolean",
            "counter",
            "decimal",
            "double",
            "float",
            "int",
            "",
            "timestamp",
            "uuid",
            "text",
            "varint",
            "timeuuid",
            "inet",
            "date",
            "time",
            "smallint",
            "tinyint",
            "duration",
        ];
        Some(match self.short()? {
            0x00 => format!("'{}'", self.string()?),
            0x20 => format!("list<{}>", self.cql_type()?),
            0x21 => format!("map<{}, {}>", self.cql_type()?, self.cql_type()?),
            0x22 => format!("set<{}>", self.cql_type()?),
            0x30 => {
                let (keyspace, name) = (self.string()?, self.string()?);
                let count = self.short()?;
                let fields: Option<Vec<String>> =
                    (0..count).map(|_| Some(format!("{} {}", self.string()?, self.cql_type()?))).collect();
                format!("{keyspace}.{name}({})", fields?.join(", "))
            }
            0x31 => {
                let count = self.short()?;
                let elements: Option<Vec<String>> = (0..count).map(|_| self.cql_type()).collect();
                format!("tuple<{}>", elements?.join(", "))
            }
            native => NATIVES.get(native as usize).filter(|name| !name.is_empty())?.to_string(),
        })
    }

    /// Metadata of rows: the columns and where the next page begins.
    fn metadata(&mut self, flags: i32, count: i32) -> Option<(Vec<Column>, Option<Vec<u8>>)> {
        let state = if flags & 2 != 0 { self.bytes()? } else { None };
        if flags & 4 != 0 {
            return Some((Vec::new(), state));
        }
        Some((self.columns(flags, count)?, state))
    }

    fn columns(&mut self, flags: i32, count: i32) -> Option<Vec<Column>> {
        let global = if flags & 1 != 0 { Some((self.string()?, self.string()?)) } else { None };
        (0..count)
            .map(|_| {
                let (keyspace, table) = match &global {
                    Some(both) => both.clone(),
                    None => (self.string()?, self.string()?),
                };
                Some(Column { keyspace, table, name: self.string()?, cql_type: self.cql_type()? })
            })
            .collect()
    }
}

fn decode(header: &[u8; HEADER], body: &mut Bytes<'_>) -> Option<(Reply, Option<Vec<u8>>)> {
    let mut warnings = Vec::new();
    if header[1] & FLAG_WARNING != 0 {
        for _ in 0..body.short()? {
            warnings.push(body.string()?);
        }
    }
    const ERROR: u8 = 0;
    const RESULT: u8 = 8;
    let reply = match header[4] {
        ERROR => Reply::Error { code: body.int()? as u32, text: body.string()? },
        RESULT => match body.int()? {
            1 => Reply::Void(warnings),
            2 => {
                let (flags, count) = (body.int()?, body.int()?);
                let (columns, state) = body.metadata(flags, count)?;
                let found = body.int()?;
                let rows: Option<Vec<Vec<_>>> =
                    (0..found).map(|_| (0..count).map(|_| body.bytes()).collect()).collect();
                if !body.bytes.is_empty() {
                    return None;
                }
                return Some((Reply::Rows(Rows { columns, rows: rows?, more: state.is_some(), warnings }), state));
            }
            3 => Reply::Keyspace(body.string()?),
            4 => {
                let len = body.short()?;
                let id = body.take(len as usize)?.to_vec();
                let (flags, count, keys) = (body.int()?, body.int()?, body.int()?);
                let key_markers: Option<Vec<u16>> = (0..keys).map(|_| body.short()).collect();
                let markers = body.columns(flags, count)?;
                let (flags, count) = (body.int()?, body.int()?);
                let (result, _) = body.metadata(flags, count)?;
                Reply::Prepared { id, markers, key_markers: key_markers?, result, warnings }
            }
            5 => {
                let (change, target, keyspace) = (body.string()?, body.string()?, body.string()?);
                let name = if target == "KEYSPACE" { String::new() } else { body.string()? };
                Reply::SchemaChange(format!("{change} {target} {keyspace} {name}"))
            }
            _ => return None,
        },
        _ => Reply::Void(warnings),
    };
    Some((reply, None))
}
