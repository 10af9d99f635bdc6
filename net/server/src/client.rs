//! A small CQL client over the runtime's sockets, one request at a time: for tests, the simulator and load probes.

use model::value::BoundValue;
use model::{BatchEntry, BatchKind, BatchStatement, ColumnSpec, Consistency, Failure, QueryParameters};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use tls::{ClientContext, Stream};
use wire::client::{Answer, Response, put_request};
use wire::decoder::{Decoder, Event};
use wire::request::{Batch, EventType, Request};
use wire::{Version, segment};

/// A value to send.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum Value {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

impl Value {
    fn bound(&self) -> BoundValue<'_> {
        match self {
            Value::Null => BoundValue::Null,
            Value::Unset => BoundValue::Unset,
            Value::Bytes(bytes) => BoundValue::Bytes(bytes),
        }
    }
}

/// The parameters of a request.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the protocol's words")]
pub struct QueryOptions {
    pub consistency: Consistency,
    pub values: Vec<Value>,
    pub page_size: Option<i32>,
    pub paging_state: Option<Vec<u8>>,
    pub timestamp: Option<i64>,
    pub now_in_seconds: Option<i32>,
    pub serial_consistency: Option<Consistency>,
    pub skip_metadata: bool,
}

impl Default for QueryOptions {
    fn default() -> QueryOptions {
        QueryOptions {
            consistency: Consistency::One,
            values: Vec::new(),
            page_size: None,
            paging_state: None,
            timestamp: None,
            now_in_seconds: None,
            serial_consistency: None,
            skip_metadata: false,
        }
    }
}

impl QueryOptions {
    fn parameters(&self) -> QueryParameters<'_> {
        QueryParameters {
            values: self.values.iter().map(Value::bound).collect(),
            page_size: self.page_size,
            paging_state: self.paging_state.as_deref(),
            timestamp: self.timestamp,
            now_in_seconds: self.now_in_seconds,
            serial_consistency: self.serial_consistency,
            skip_metadata: self.skip_metadata,
            ..QueryParameters::new(self.consistency)
        }
    }
}

/// Why a request has no outcome.
#[derive(Debug)]
pub enum CallError {
    /// The server answered with an error.
    Failure {
        /// The error's code.
        code: u16,
        /// The error's text.
        text: String,
        /// The fields after the text, as they were sent.
        detail: Vec<u8>,
    },
    /// The connection broke, or what arrived is not an answer. Whether the request took effect is unknown.
    Broken(io::Error),
}

/// What a request did.
#[derive(Clone, PartialEq, Debug)]
pub enum OutcomeKind {
    /// It succeeded without a result.
    Void,
    /// It returned rows, which are in [`Outcome::rows`].
    Rows,
    /// USE set this keyspace.
    SetKeyspace(String),
    /// It changed the schema, for instance `CREATED TABLE ks.name` or `DROPPED KEYSPACE ks`.
    SchemaChange(String),
}

/// A request's answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The kind of outcome.
    pub kind: OutcomeKind,
    /// The result's columns.
    pub columns: Vec<ColumnSpec>,
    /// The rows' cells; `None` is null.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// Where the next page begins; `None` after the last one.
    pub paging_state: Option<Vec<u8>>,
    /// The server's warnings.
    pub warnings: Vec<String>,
}

/// A prepared statement.
#[derive(Clone, PartialEq, Debug)]
pub struct PreparedStatement {
    /// The statement's id, for EXECUTE.
    pub id: Vec<u8>,
    /// Id of the result's columns; empty before version 5.
    pub result_metadata_id: Vec<u8>,
    /// The markers.
    pub markers: Vec<ColumnSpec>,
    /// Indexes of the markers that give the partition key.
    pub key_markers: Vec<u16>,
    /// The result's columns.
    pub result: Vec<ColumnSpec>,
    /// The server's warnings.
    pub warnings: Vec<String>,
}

/// A connection that has completed STARTUP.
pub struct Client {
    stream: Stream,
    decoder: Decoder,
    version: Version,
    next_stream: i16,
    events: VecDeque<String>,
    /// The server's answer to OPTIONS.
    pub supported: Vec<(String, Vec<String>)>,
}

/// A connection that was refused, as an error of the connection.
fn told(begun: Result<Client, CallError>) -> io::Result<Client> {
    begun.map_err(|error| match error {
        CallError::Broken(error) => error,
        CallError::Failure { text, .. } => io::Error::new(io::ErrorKind::PermissionDenied, text),
    })
}

impl Client {
    /// Connects from `source`, or from any port, and sends OPTIONS and STARTUP in `version` (4 or 5).
    pub async fn connect(address: SocketAddr, source: Option<SocketAddr>, version: u8) -> io::Result<Client> {
        let socket = runtime::Stream::connect(address, source).await?;
        told(Client::begin(socket.into(), version, None).await)
    }

    /// As [`Client::connect`], on a connection that is encrypted.
    pub async fn connect_encrypted(address: SocketAddr, version: u8, keys: &ClientContext) -> io::Result<Client> {
        let socket = runtime::Stream::connect(address, None).await?;
        told(Client::begin(Stream::connect(socket, keys).await?, version, None).await)
    }

    /// As [`Client::connect`], and logs in with the name of a role and its password if the server asks for them.
    pub async fn connect_as(address: SocketAddr, version: u8, name: &str, password: &str) -> Result<Client, CallError> {
        let socket = runtime::Stream::connect(address, None).await.map_err(CallError::Broken)?;
        Client::begin(socket.into(), version, Some((name, password))).await
    }

    async fn begin(stream: Stream, version: u8, credentials: Option<(&str, &str)>) -> Result<Client, CallError> {
        let refused = |text: &str| CallError::Broken(broken(text));
        let version = Version::from_number(version).ok_or_else(|| refused("no such protocol version"))?;
        let mut client = Client {
            stream,
            decoder: Decoder::client(),
            version,
            next_stream: 0,
            events: VecDeque::new(),
            supported: Vec::new(),
        };
        match client.call_plain(&Request::Options).await.map_err(CallError::Broken)? {
            Response::Supported(options) => client.supported = options,
            other => return Err(refused(&format!("OPTIONS answered {other:?}"))),
        }
        let startup = Request::Startup(vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "helenus")]);
        match (client.call_plain(&startup).await.map_err(CallError::Broken)?, credentials) {
            (Response::Ready, _) => client.decoder.agree(version),
            (Response::Authenticate(_), Some((name, password))) => {
                client.decoder.agree(version);
                let token = format!("\0{name}\0{password}");
                match client.call(&Request::AuthResponse(Some(token.as_bytes()))).await?.response {
                    Response::AuthSuccess => {}
                    other => return Err(refused(&format!("AUTH_RESPONSE answered {other:?}"))),
                }
            }
            (other, _) => return Err(refused(&format!("STARTUP answered {other:?}"))),
        }
        Ok(client)
    }

    async fn call_plain(&mut self, request: &Request<'_>) -> io::Result<Response> {
        let stream = self.send(request, false);
        Ok(self.answer(stream).await?.response)
    }

    fn send(&mut self, request: &Request<'_>, framed: bool) -> i16 {
        let stream = self.next_stream;
        self.next_stream = (stream + 1) & 0x3fff;
        let mut envelope = Vec::new();
        put_request(&mut envelope, self.version, stream, request);
        self.stream.write(|out| match () {
            () if !framed => out.extend_from_slice(&envelope),
            () if envelope.len() > segment::PAYLOAD_BYTES_MAX => segment::put_split(out, &envelope),
            () => segment::put_segment(out, &envelope, true),
        });
        stream
    }

    async fn answer(&mut self, stream: i16) -> io::Result<Answer> {
        loop {
            while let Some(event) = self.decoder.next_event() {
                let Event::Envelope(envelope) = event else { return Err(broken("bytes that are no answer")) };
                let answer = Answer::decode(&envelope).map_err(|failure| broken(&failure.to_string()))?;
                match answer.response {
                    Response::Event(change) => self.events.push_back(words_of(&change)),
                    Response::NodeEvent(kind, change, node) => {
                        self.events.push_back(words_of_node(kind, &change, node))
                    }
                    _ if envelope.header.stream == stream => return Ok(answer),
                    _ => return Err(broken("an answer to another request")),
                }
            }
            match self.stream.recv().await? {
                Some(bytes) => self.decoder.feed(&bytes),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    async fn call(&mut self, request: &Request<'_>) -> Result<Answer, CallError> {
        let stream = self.send(request, self.version >= Version::V5);
        let answer = self.answer(stream).await.map_err(CallError::Broken)?;
        match answer.response {
            Response::Error { code, text, detail } => Err(CallError::Failure { code: code as u16, text, detail }),
            _ => Ok(answer),
        }
    }

    async fn outcome(&mut self, request: &Request<'_>) -> Result<Outcome, CallError> {
        let answer = self.call(request).await?;
        let mut outcome = Outcome {
            kind: OutcomeKind::Void,
            columns: Vec::new(),
            rows: Vec::new(),
            paging_state: None,
            warnings: answer.warnings,
        };
        match answer.response {
            Response::Void => {}
            Response::SetKeyspace(name) => outcome.kind = OutcomeKind::SetKeyspace(name),
            Response::SchemaChange(change) => outcome.kind = OutcomeKind::SchemaChange(words_of(&change)),
            Response::Rows(rows) => {
                outcome.kind = OutcomeKind::Rows;
                outcome.columns = rows.columns;
                outcome.rows = rows.rows;
                outcome.paging_state = rows.paging_state;
            }
            other => return Err(CallError::Broken(broken(&format!("unexpected {other:?}")))),
        }
        Ok(outcome)
    }

    /// Sends QUERY.
    pub async fn query(&mut self, text: &str, options: &QueryOptions) -> Result<Outcome, CallError> {
        self.outcome(&Request::Query { text, parameters: options.parameters() }).await
    }

    /// Sends PREPARE.
    pub async fn prepare(&mut self, text: &str) -> Result<PreparedStatement, CallError> {
        let answer = self.call(&Request::Prepare { text, keyspace: None }).await?;
        match answer.response {
            Response::Prepared(prepared) => Ok(PreparedStatement {
                id: prepared.id,
                result_metadata_id: prepared.result_metadata_id.unwrap_or_default(),
                markers: prepared.markers,
                key_markers: prepared.partition_key_markers,
                result: prepared.result,
                warnings: answer.warnings,
            }),
            other => Err(CallError::Broken(broken(&format!("unexpected {other:?}")))),
        }
    }

    /// Sends EXECUTE.
    pub async fn execute(
        &mut self,
        prepared: &PreparedStatement,
        options: &QueryOptions,
    ) -> Result<Outcome, CallError> {
        let request = Request::Execute {
            id: &prepared.id,
            result_metadata_id: Some(&prepared.result_metadata_id),
            parameters: options.parameters(),
        };
        self.outcome(&request).await
    }

    /// Sends BATCH with prepared statements and their values.
    pub async fn batch(
        &mut self,
        kind: BatchKind,
        entries: &[(&PreparedStatement, Vec<Value>)],
        options: &QueryOptions,
    ) -> Result<Outcome, CallError> {
        let entries = entries
            .iter()
            .map(|(prepared, values)| BatchEntry {
                statement: BatchStatement::Id(&prepared.id),
                values: values.iter().map(Value::bound).collect(),
            })
            .collect();
        self.outcome(&Request::Batch(Batch { kind, entries, parameters: options.parameters() })).await
    }

    /// Sends REGISTER for events of every kind.
    pub async fn register(&mut self) -> Result<(), CallError> {
        let kinds = vec![EventType::TopologyChange, EventType::StatusChange, EventType::SchemaChange];
        self.call(&Request::Register(kinds)).await.map(|_| ())
    }

    /// The next event, which may have arrived already; waits if there is none.
    pub async fn next_event(&mut self) -> io::Result<String> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            while let Some(event) = self.decoder.next_event() {
                let Event::Envelope(envelope) = event else { return Err(broken("bytes that are no answer")) };
                let answer = Answer::decode(&envelope).map_err(|failure: Failure| broken(&failure.to_string()))?;
                match answer.response {
                    Response::Event(change) => self.events.push_back(words_of(&change)),
                    Response::NodeEvent(kind, change, node) => {
                        self.events.push_back(words_of_node(kind, &change, node))
                    }
                    _ => {}
                }
            }
            if self.events.is_empty() {
                match self.stream.recv().await? {
                    Some(bytes) => self.decoder.feed(&bytes),
                    None => return Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
        }
    }
}

fn words_of_node(kind: EventType, change: &str, node: SocketAddr) -> String {
    format!("{} {change} {node}", kind.name())
}

fn words_of(change: &wire::client::SchemaChange) -> String {
    let dot = if change.name.is_empty() { "" } else { "." };
    format!("{} {} {}{dot}{}", change.change, change.target, change.keyspace, change.name)
}

fn broken(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_string())
}
