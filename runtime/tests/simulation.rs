//! Tests of the simulator: repeatable runs, faulty disks, cut networks, crashes between any two steps.

#[path = "simulation/disk.rs"]
mod disk;
#[path = "simulation/network.rs"]
mod network;
#[path = "simulation/nodes.rs"]
mod nodes;

use runtime::file::OpenOptions;
use runtime::mesh::{NodeId, ShardId};
use runtime::sim::Sim;
use runtime::{AlignedBuf, Listener, Stream};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) const ONE: NodeId = NodeId(1);
pub(crate) const TWO: NodeId = NodeId(2);
pub(crate) const WRITABLE: OpenOptions = OpenOptions { write: true, create: true, exclusive: false };
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) fn filled(byte: u8, pages: usize) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(pages * 4096);
    buffer.fill(byte);
    buffer
}

pub(crate) fn at(node: NodeId, port: u16) -> SocketAddr {
    SocketAddr::new(Sim::address_of(node), port)
}

/// Runs `main` on the only shard of node 1 until it returns.
pub(crate) fn run<Fut: Future<Output = ()> + 'static>(sim: &mut Sim, main: impl Fn(ShardId) -> Fut + 'static) {
    sim.start_node(ONE, 1, main);
    let stop = sim.run_until(LONG, || false);
    assert!(!sim.is_running(ONE), "seed {}: {stop:?}", sim.seed());
}

/// Runs a server that sends back what it receives, on every connection.
pub(crate) async fn echo(port: u16) {
    let listener = Listener::bind(at(runtime::current_node(), port)).await.expect("the port is free");
    loop {
        let accepted = listener.accept().await.expect("accept");
        let stream = accepted.attach().expect("attach");
        runtime::spawn(async move {
            while let Ok(Some(bytes)) = stream.recv().await {
                stream.write(|out| out.extend_from_slice(&bytes));
                if stream.drained_to(1 << 16).await.is_err() {
                    return;
                }
            }
        });
    }
}

pub(crate) async fn read_exact(stream: &Stream, len: usize) -> io::Result<Vec<u8>> {
    let mut got = Vec::new();
    while got.len() < len {
        match stream.recv().await? {
            Some(bytes) => got.extend_from_slice(&bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
    Ok(got)
}

pub(crate) async fn connect(address: SocketAddr) -> Stream {
    loop {
        match Stream::connect(address, None).await {
            Ok(stream) => return stream,
            Err(_) => runtime::sleep(Duration::from_millis(10)).await,
        }
    }
}
