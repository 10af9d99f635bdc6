//! Commands of an operator (`helenus nodetool`), on a socket with a path that only the node's user reaches.
//!
//! 1. Shard 0 listens; a connection brings one request ([`protocol`]) and takes one answer.
//! 2. A command is looked up by name, its arguments are checked as Cassandra's nodetool checks them, and what it prints
//!    is made here, beside the figures.
//!
//! Invariants: at most [`CONNECTIONS_MAX`] commands run at once, further ones wait; nothing that is not known is
//! pretended: it is refused by name. In simulation the socket is one of the simulated network, at [`SIMULATED_PORT`].

mod compact;
mod compaction;
pub mod figures;
mod flush;
mod history;
mod imports;
mod node;
pub mod protocol;
mod proxy;
mod ring;
mod shard_stats;
mod snapshots;
mod table_names;
mod tables;
mod thread_pools;

use crate::config::Config;
pub(crate) use node::RELEASE_VERSION;
use protocol::{Answer, REQUEST_BYTES_MAX, Request};
use runtime::gate::Semaphore;
use runtime::sync::{Either, Latch, race};
use runtime::{Instant, Listener, Stream};
use shard::Shard;
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Commands that run at the same time.
pub const CONNECTIONS_MAX: u64 = 16;
/// How long a request may take to arrive.
pub const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// Where a simulated node takes commands.
pub const SIMULATED_PORT: u16 = 7198;
/// Wait before accepting again after an accept failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The name of the directories that the sockets are in.
const DIRECTORY: &str = "helenus";

/// Where the node that listens on `address` may take commands, the likeliest path first.
pub fn paths(address: IpAddr) -> Vec<PathBuf> {
    let directories = runtime::local::directories(DIRECTORY);
    directories.into_iter().map(|directory| directory.join(format!("{address}.sock"))).collect()
}

/// What a command that ends badly prints, in Cassandra's two ways.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The caller's mistake: exit code 1, on standard output.
    Usage(String),
    /// The command failed: exit code 2, on standard error.
    Failed(String),
    /// Printed as it is on standard output, with exit code 1.
    Printed(String),
    /// The same on standard error.
    Complained(String),
}

/// The caller's mistake.
pub(crate) fn usage<T>(text: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Usage(text.into()))
}

impl From<model::Failure> for Refused {
    fn from(failure: model::Failure) -> Refused {
        Refused::Failed(failure.text.to_string())
    }
}

/// What commands know of their node.
pub(crate) struct Admin {
    pub(crate) config: Arc<Config>,
    pub(crate) shard: Shard,
    pub(crate) started: Instant,
    pub(crate) simulated: bool,
    /// Set to ask that no clients are served any more.
    pub(crate) drain: Latch,
    /// Set when that is so.
    pub(crate) drained: Latch,
    /// How many bytes per second compactions may read; 0: as many as they can.
    pub(crate) compaction_throughput: Cell<u64>,
    commands: Semaphore,
}

impl Admin {
    pub(crate) fn new(config: Arc<Config>, shard: Shard, simulated: bool) -> Rc<Admin> {
        let throughput = config.compaction_bytes_per_second;
        Rc::new(Admin {
            config,
            shard,
            started: runtime::now(),
            simulated,
            drain: Latch::default(),
            drained: Latch::default(),
            compaction_throughput: Cell::new(throughput),
            commands: Semaphore::new(CONNECTIONS_MAX),
        })
    }

    /// Listens where nodetool looks. A node whose socket cannot be made serves without: it says so in its log.
    pub(crate) async fn listen(&self) -> Option<Listener> {
        let address = self.config.listen_address;
        if self.simulated {
            return Listener::bind(SocketAddr::new(address, SIMULATED_PORT)).await.ok();
        }
        let path = paths(address).into_iter().next()?;
        match Listener::bind_local(&path).await {
            Ok(listener) => Some(listener),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "no socket for nodetool: its commands do not reach this node");
                None
            }
        }
    }

    /// Takes commands until `closing` is set.
    pub(crate) async fn serve(self: Rc<Self>, listener: Listener, closing: Latch) {
        loop {
            let permit = self.commands.acquire(1).await;
            match race(closing.wait(), listener.accept()).await {
                Either::Left(()) => return,
                Either::Right(Ok(accepted)) => {
                    let admin = self.clone();
                    runtime::spawn(async move {
                        let _permit = permit;
                        let answered = match accepted.attach() {
                            Ok(stream) => admin.answer(stream).await,
                            Err(error) => Err(error),
                        };
                        if let Err(error) = answered {
                            tracing::debug!(%error, "a command was not answered");
                        }
                    });
                }
                Either::Right(Err(error)) => {
                    tracing::warn!(%error, "accept failed");
                    runtime::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    async fn answer(self: &Rc<Self>, stream: Stream) -> io::Result<()> {
        let read = runtime::timeout(REQUEST_WAIT, read_all(&stream, REQUEST_BYTES_MAX)).await;
        let bytes = read.ok_or(io::ErrorKind::TimedOut)??;
        let answer = match Request::decode(&bytes) {
            Ok(request) => self.run(&request).await,
            Err(text) => Answer { exit: 2, out: String::new(), err: format!("error: {text}\n") },
        };
        stream.write(|out| out.extend_from_slice(&answer.encode()));
        stream.drained_to(0).await
    }

    /// Runs a command.
    pub(crate) async fn run(self: &Rc<Self>, request: &Request) -> Answer {
        let mut out = String::new();
        tracing::info!(command = %request.command, arguments = ?request.arguments, "nodetool");
        match Box::pin(self.dispatch(request, &mut out)).await {
            Ok(()) => Answer { exit: 0, out, err: String::new() },
            Err(Refused::Usage(text)) => {
                out.push_str(&usage_text(&text));
                Answer { exit: 1, out, err: String::new() }
            }
            Err(Refused::Failed(text)) => Answer { exit: 2, out, err: format!("error: {text}\n") },
            Err(Refused::Complained(err)) => Answer { exit: 1, out, err },
            Err(Refused::Printed(text)) => Answer { exit: 1, out: out + &text, err: String::new() },
        }
    }

    async fn dispatch(self: &Rc<Self>, request: &Request, out: &mut String) -> Result<(), Refused> {
        match request.command.as_str() {
            "version" => node::version(request, out),
            "info" => node::info(self, request, out).await,
            "statusbinary" => node::status_binary(self, out),
            "describecluster" => node::describe_cluster(self, out),
            "status" => ring::status(self, request, out).await,
            "ring" => ring::ring(self, request, out).await,
            "flush" => flush::flush(self, request).await,
            "compact" => compact::compact(self, request).await,
            "drain" => flush::drain(self).await,
            "tablestats" => tables::table_stats(self, request, out).await,
            "tablehistograms" => tables::table_histograms(self, request, out).await,
            "proxyhistograms" => proxy::histograms(self, out).await,
            "shardstats" => shard_stats::statistics(self, request, out).await,
            "tpstats" => thread_pools::statistics(self, request, out).await,
            "snapshot" => snapshots::snapshot(self, request, out).await,
            "listsnapshots" => snapshots::list(self, request, out).await,
            "clearsnapshot" => snapshots::clear(self, request, out).await,
            "getcompactionthroughput" => compaction::throughput(self, request, out),
            "setcompactionthroughput" => compaction::set_throughput(self, request).await,
            "enableautocompaction" => compaction::set_auto(self, request, true).await,
            "disableautocompaction" => compaction::set_auto(self, request, false).await,
            "compactionstats" => compaction::statistics(self, request, out).await,
            "compactionhistory" => history::history(self, request, out).await,
            "refresh" => imports::refresh(self, request, out).await,
            "import" => imports::import(self, request, out).await,
            "verify" => imports::verify(self, request).await,
            "getsstables" => imports::get_sstables(self, request, out).await,
            other => Err(Refused::Failed(format!("{other} is not supported"))),
        }
    }
}

/// What nodetool prints of a caller's mistake.
pub fn usage_text(text: &str) -> String {
    format!("nodetool: {text}\nSee 'nodetool help' or 'nodetool help <command>'.\n")
}

/// Reads to the end of a stream. `InvalidData` beyond `bytes_max`.
async fn read_all(stream: &Stream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = stream.recv().await? {
        if bytes.len() + piece.len() > bytes_max {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.extend_from_slice(&piece);
        // A request that is whole needs no end of the stream: a simulated peer cannot end one direction alone.
        if Request::decode(&bytes).is_ok() {
            break;
        }
    }
    Ok(bytes)
}

/// Asks a simulated node to run a command.
pub async fn ask(address: IpAddr, request: &Request) -> io::Result<Answer> {
    let stream = Stream::connect(SocketAddr::new(address, SIMULATED_PORT), None).await?;
    stream.write(|out| out.extend_from_slice(&request.encode()));
    let mut bytes = Vec::new();
    while let Some(piece) = stream.recv().await? {
        bytes.extend_from_slice(&piece);
    }
    Answer::decode(&bytes).map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))
}
