//! A connection before it carries load, with one request at a time: STARTUP, SASL PLAIN, schema, PREPARE.

use crate::statement::{Common, Statement};
use model::QueryParameters;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tls::{ClientContext, Stream};
use wire::client::{Answer, Response, put_request};
use wire::decoder::{Decoder, Event};
use wire::request::Request;
use wire::segment::SegmentWriter;
use wire::{Opcode, Version};

/// An open connection on which one request at a time is sent.
pub struct Session {
    stream: Stream,
    decoder: Decoder,
    segments: Option<SegmentWriter>,
    version: Version,
}

/// How long connecting and each request before the load may take; ample, because schema changes are slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where and how to connect.
#[derive(Clone, Debug)]
pub struct Address {
    /// The server.
    pub host: SocketAddr,
    /// The local address to connect from; `None` for any.
    pub source: Option<SocketAddr>,
    /// Name and password for servers that ask.
    pub login: Option<(String, String)>,
    /// How the connection is encrypted; `None` if it is not.
    pub ssl: Option<ClientContext>,
    /// The protocol's version.
    pub version: Version,
}

impl Session {
    /// Connects and authenticates. The error says what went wrong where.
    pub async fn open(address: &Address) -> Result<Session, String> {
        let stream = Session::connect(address).await.map_err(|error| format!("{}: {error}", address.host))?;
        Session::begin(stream, address).await
    }

    /// Connects.
    pub async fn connect(address: &Address) -> io::Result<Stream> {
        let connected = runtime::timeout(PATIENCE, async {
            let socket = runtime::Stream::connect(address.host, address.source).await?;
            match &address.ssl {
                None => Ok(socket.into()),
                Some(ssl) => Stream::connect(socket, ssl).await,
            }
        });
        connected.await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Authenticates on a new connection. The error says what went wrong where.
    pub async fn begin(stream: Stream, address: &Address) -> Result<Session, String> {
        let version = address.version;
        let mut session = Session { stream, decoder: Decoder::client(), segments: None, version };
        let started = session.start(address.login.as_ref()).await;
        started.map(|()| session).map_err(|error| format!("{}: {error}", address.host))
    }

    async fn start(&mut self, login: Option<&(String, String)>) -> Result<(), String> {
        let startup = Request::Startup(vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "helenus bench")]);
        let answer = self.call(&startup).await?;
        // In version 5 everything after the answer to STARTUP is in segments.
        self.decoder.agree(self.version);
        if self.version >= Version::V5 {
            self.segments = Some(SegmentWriter::default());
        }
        match answer {
            Response::Ready => Ok(()),
            Response::Authenticate(_) => {
                let (name, password) = login.ok_or("the server asks for --user and --password")?;
                let token = format!("\0{name}\0{password}");
                match self.call(&Request::AuthResponse(Some(token.as_bytes()))).await? {
                    Response::AuthSuccess => Ok(()),
                    other => Err(unexpected(&other)),
                }
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request and returns its answer. An ERROR of the server is returned as an error.
    pub async fn call(&mut self, request: &Request<'_>) -> Result<Response, String> {
        match self.exchange(request).await? {
            Response::Error { text, code, .. } => Err(format!("{text} (0x{code:04x})")),
            response => Ok(response),
        }
    }

    /// Sends a request and returns its answer, which may be an ERROR. After an error of this function the connection
    /// is of no use any more.
    pub async fn exchange(&mut self, request: &Request<'_>) -> Result<Response, String> {
        let (version, segments) = (self.version, &mut self.segments);
        self.stream.write(|out| match segments {
            Some(segments) => segments.write(out, |out| put_request(out, version, 0, request)),
            None => put_request(out, version, 0, request),
        });
        runtime::timeout(PATIENCE, self.answer()).await.ok_or("no answer in time")?
    }

    async fn answer(&mut self) -> Result<Response, String> {
        loop {
            while let Some(event) = self.decoder.next_event() {
                match event {
                    Event::Envelope(envelope) if envelope.header.opcode == Opcode::Event => {}
                    Event::Envelope(envelope) => {
                        let answer = Answer::decode(&envelope).map_err(|failure| failure.text.to_string())?;
                        return Ok(answer.response);
                    }
                    Event::Refusal(refusal) => return Err(refusal.failure.text.to_string()),
                }
            }
            match self.stream.recv().await {
                Ok(Some(bytes)) => self.decoder.feed(&bytes),
                Ok(None) => return Err("the server closed the connection".into()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Runs a statement that has no values.
    pub async fn query(&mut self, text: &str, common: &Common) -> Result<Response, String> {
        let parameters = QueryParameters::new(common.consistency);
        let answer = self.call(&Request::Query { text, parameters }).await;
        answer.map_err(|error| format!("{text}: {error}"))
    }

    /// The options that the server supports.
    pub async fn options(&mut self) -> Result<Vec<(String, Vec<String>)>, String> {
        match self.call(&Request::Options).await? {
            Response::Supported(options) => Ok(options),
            other => Err(unexpected(&other)),
        }
    }

    /// Prepares a statement.
    pub async fn prepare(&mut self, text: &str, common: &Common) -> Result<Statement, String> {
        match self.call(&Request::Prepare { text, keyspace: None }).await {
            Ok(Response::Prepared(prepared)) => Ok(Statement::new(&prepared, common)),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(format!("{text}: {error}")),
        }
    }

    /// Takes the connection apart, so that it can carry load. No request is under way.
    pub fn into_parts(self) -> (Stream, Decoder, Option<SegmentWriter>) {
        (self.stream, self.decoder, self.segments)
    }
}

fn unexpected(response: &Response) -> String {
    format!("an unexpected answer: {response:?}")
}
