//! The client: connections with one request of fixed length under way each.

use runtime::{Stream, uring};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

const CONNECTIONS: u64 = 8;
const WARMUP: Duration = Duration::from_secs(1);

/// The client's arguments, see `main.rs`.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) seconds: u64,
    pub(crate) pid: u32,
    pub(crate) preface: Vec<u8>,
    pub(crate) request: Vec<u8>,
    pub(crate) answer: usize,
    pub(crate) keys: u64,
}

/// The CPU time of a process, in seconds.
fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| format!("process {pid}: {error}"))?;
    let nanoseconds = threads.filter_map(|thread| {
        let times = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    });
    Ok(nanoseconds.sum::<u64>() as f64 / 1e9)
}

/// Waits for `len` bytes, or for any number if `len` is 0.
async fn receive(stream: &Stream, len: usize) -> Result<(), String> {
    let mut missing = len.max(1);
    while missing > 0 {
        let piece = stream.recv().await.map_err(|error| error.to_string())?.ok_or("the server closed")?;
        missing = match len {
            0 => 0,
            _ => missing.checked_sub(piece.len()).ok_or("an answer that is too long")?,
        };
    }
    Ok(())
}

/// Runs one connection until `ended`.
async fn connection(load: Load, first: u64, answered: Rc<Cell<u64>>, ended: Rc<Cell<bool>>) -> Result<(), String> {
    let stream = Stream::connect(load.address, None).await.map_err(|error| error.to_string())?;
    if !load.preface.is_empty() {
        stream.write(|out| out.extend_from_slice(&load.preface));
        receive(&stream, 0).await?;
    }
    let mut request = load.request;
    let last = request.len() - size_of::<u64>();
    let mut number = first;
    while !ended.get() {
        // A step that is coprime with the usual numbers of keys, so that neighbouring keys are not requested in turn.
        number = (number + 7_919) % load.keys;
        request[last..].copy_from_slice(&number.to_be_bytes());
        stream.write(|out| out.extend_from_slice(&request));
        receive(&stream, load.answer).await?;
        answered.set(answered.get() + 1);
    }
    Ok(())
}

async fn measure(load: Load) -> Result<(f64, f64), String> {
    let (answered, ended): (Rc<Cell<u64>>, Rc<Cell<bool>>) = Default::default();
    let connections = (0..CONNECTIONS).map(|number| {
        let first = number * load.keys / CONNECTIONS;
        runtime::spawn(connection(load.clone(), first, answered.clone(), ended.clone()))
    });
    let connections: Vec<_> = connections.collect();
    runtime::sleep(WARMUP).await;
    let (began, cpu, before) = (Instant::now(), cpu_seconds(load.pid)?, answered.get());
    runtime::sleep(Duration::from_secs(load.seconds)).await;
    let (took, cpu, requests) = (began.elapsed(), cpu_seconds(load.pid)? - cpu, answered.get() - before);
    ended.set(true);
    for connection in connections {
        connection.await?;
    }
    Ok((requests as f64 / took.as_secs_f64(), requests as f64 / cpu))
}

/// Runs the client and prints requests per second, and per second of the server's CPU time.
pub(crate) fn ask(load: Load) -> Result<(), String> {
    let ran =
        uring::run(uring::Options::default(), move |_| measure(load.clone())).map_err(|error| error.to_string())?;
    for result in ran {
        let (per_second, per_cpu_second) = result?;
        println!("{per_second:.0} {per_cpu_second:.0}");
    }
    Ok(())
}
