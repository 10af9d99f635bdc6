//! The socket on which a node takes an operator's commands, and how a command is answered.

use crate::admin::commands;
use crate::admin::error::CommandError;
use crate::admin::protocol::{Answer, GOES_ON, REQUEST_BYTES_MAX, Request};
use crate::node_state::NodeState;
use runtime::gate::Semaphore;
use runtime::sync::{Either, Latch, race};
use runtime::{Listener, Stream};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Most commands that run at the same time.
pub const CONNECTIONS_MAX: u64 = 16;
/// How long a request may take to arrive.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read its answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The port at which a simulated node takes commands.
pub const SIMULATED_PORT: u16 = 7198;
/// Wait before accepting again after an accept failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The name of the directories that the sockets are in.
const DIRECTORY: &str = "helenus";

/// Paths at which the node that listens on `address` may take commands, the likeliest first.
pub fn paths(address: IpAddr) -> Vec<PathBuf> {
    let directories = runtime::local::directories(DIRECTORY);
    directories.into_iter().map(|directory| directory.join(format!("{address}.sock"))).collect()
}

/// Listens at the path where nodetool looks. If that fails, the log says so and the node serves without commands.
pub(crate) async fn listen(node: &NodeState) -> Option<Listener> {
    let address = node.shard.node_config().listen_address;
    if node.simulated {
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
pub(crate) async fn serve(node: Rc<NodeState>, listener: Listener, closing: Latch) {
    let permits = Semaphore::new(CONNECTIONS_MAX);
    loop {
        // Commands that take long must not keep the node from stopping.
        let accepted = async {
            let permit = permits.acquire(1).await;
            listener.accept().await.map(|accepted| (permit, accepted))
        };
        match race(closing.wait(), accepted).await {
            Either::Left(()) => return,
            Either::Right(Ok((permit, accepted))) => {
                let node = node.clone();
                runtime::spawn(async move {
                    let _permit = permit;
                    let answered = match accepted.attach() {
                        Ok(stream) => answer(&node, stream).await,
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

/// Reads the request of a connection and answers it.
async fn answer(node: &NodeState, stream: Stream) -> io::Result<()> {
    let read = runtime::timeout(REQUEST_TIMEOUT, read_all(&stream, REQUEST_BYTES_MAX)).await;
    let bytes = read.ok_or(io::ErrorKind::TimedOut)??;
    let answer = match Request::decode(&bytes) {
        Ok(request) if commands::ends_with_its_client(&request.command) => {
            match race(gone(&stream), run(node, &request)).await {
                Either::Left(()) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Either::Right(answer) => answer,
            }
        }
        Ok(request) => run(node, &request).await,
        Err(text) => Answer { exit: 2, out: String::new(), err: format!("error: {text}\n") },
    };
    stream.write(|out| out.extend_from_slice(&answer.encode()));
    runtime::timeout(ANSWER_TIMEOUT, stream.drained_to(0)).await.ok_or(io::ErrorKind::TimedOut)?
}

/// Waits until the client has closed its end.
async fn gone(stream: &Stream) {
    while let Ok(Some(_)) = stream.recv().await {}
}

/// Runs a command and turns its result into output and an exit code.
async fn run(node: &NodeState, request: &Request) -> Answer {
    let mut out = String::new();
    tracing::info!(command = %request.command, arguments = ?request.arguments, "nodetool");
    match Box::pin(commands::run(node, request, &mut out)).await {
        Ok(()) => Answer { exit: 0, out, err: String::new() },
        Err(CommandError::Usage(text)) => {
            out.push_str(&usage_text(&text));
            Answer { exit: 1, out, err: String::new() }
        }
        Err(CommandError::Failed(text)) => Answer { exit: 2, out, err: format!("error: {text}\n") },
        Err(CommandError::ToStderr(err)) => Answer { exit: 1, out, err },
        Err(CommandError::GoesOn(err)) => Answer { exit: GOES_ON, out, err },
        Err(CommandError::ToStdout(text)) => Answer { exit: 1, out: out + &text, err: String::new() },
    }
}

/// What nodetool prints when its caller made a mistake.
pub fn usage_text(text: &str) -> String {
    format!("nodetool: {text}\nSee 'nodetool help' or 'nodetool help <command>'.\n")
}

/// Reads until there is a whole request or the stream ends. Fails with `InvalidData` after more than `bytes_max` bytes.
async fn read_all(stream: &Stream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = stream.recv().await? {
        if bytes.len() + piece.len() > bytes_max {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.extend_from_slice(&piece);
        // Does not wait for the end of the stream: a simulated peer cannot end one direction alone.
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
