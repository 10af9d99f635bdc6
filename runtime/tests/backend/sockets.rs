//! Listeners and streams.

use crate::world::{Message, World};
use runtime::{Listener, ShardId, Stream, sleep, spawn, timeout};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Reads until the end of the stream.
async fn read_all(stream: &Stream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(piece) = stream.recv().await.unwrap() {
        all.extend_from_slice(&piece);
    }
    all
}

/// Reads exactly `n` bytes.
async fn read_exactly(stream: &Stream, n: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < n {
        let piece = stream.recv().await.unwrap().expect("more bytes before the end");
        all.extend_from_slice(&piece);
    }
    assert_eq!(all.len(), n);
    all
}

/// Starts a server that sends back what it receives, on every connection.
async fn echo_server(world: &World) -> SocketAddr {
    let listener = Listener::bind(world.address(0)).await.unwrap();
    let address = listener.local_address();
    spawn(async move {
        while let Ok(accepted) = listener.accept().await {
            let stream = accepted.attach().unwrap();
            spawn(async move {
                while let Ok(Some(piece)) = stream.recv().await {
                    stream.write(|out| out.extend_from_slice(&piece));
                    if stream.drained_to(1 << 20).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Both ends of one connection.
async fn pair(world: &World) -> (Stream, Stream) {
    let listener = Listener::bind(world.address(0)).await.unwrap();
    let address = listener.local_address();
    let connecting = spawn(async move { Stream::connect(address, None).await.unwrap() });
    let accepted = listener.accept().await.unwrap();
    let stream = accepted.attach().unwrap();
    (connecting.await, stream)
}

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251) as u8).collect()
}

pub(crate) async fn bytes_come_back(world: World) {
    let address = echo_server(&world).await;
    let stream = Stream::connect(address, None).await.unwrap();
    assert_eq!(stream.peer(), address);
    for size in [1, 60, 4095, 4096, 4097, 20_000] {
        let sent = pattern(size);
        stream.write(|out| out.extend_from_slice(&sent));
        assert_eq!(read_exactly(&stream, size).await, sent);
    }
}

pub(crate) async fn a_large_transfer_is_whole(world: World) {
    let (a, b) = pair(&world).await;
    let sent = pattern(8 << 20);
    let expected = sent.clone();
    let receiver = spawn(async move { read_all(&b).await == expected });
    for chunk in sent.chunks(300_000) {
        a.write(|out| out.extend_from_slice(chunk));
        a.drained_to(1 << 20).await.unwrap();
    }
    a.drained_to(0).await.unwrap();
    assert_eq!(a.queued(), 0);
    drop(a);
    assert!(receiver.await);
}

pub(crate) async fn many_connections_at_once(world: World) {
    let address = echo_server(&world).await;
    let clients: Vec<_> = (0..200usize)
        .map(|i| {
            spawn(async move {
                let stream = Stream::connect(address, None).await.unwrap();
                for round in 0..5 {
                    let sent = pattern(100 + i * 3 + round);
                    stream.write(|out| out.extend_from_slice(&sent));
                    assert_eq!(read_exactly(&stream, sent.len()).await, sent);
                }
            })
        })
        .collect();
    for client in clients {
        client.await;
    }
}

pub(crate) async fn a_connection_moves_to_another_shard(world: World) {
    let mesh = world.mesh.attach();
    if runtime::current_shard() == ShardId(0) {
        let listener = Listener::bind(world.address(0)).await.unwrap();
        world.put("port", listener.local_address().port() as u64);
        let accepted = listener.accept().await.unwrap();
        let port = accepted.peer().port() as u64;
        world.put("peer", port);
        mesh.send(ShardId(1), Message::Connection(accepted)).await;
        world.wait_for("done", 1).await;
    } else {
        let port = world.wait_for("port", 1).await as u16;
        let stream = Stream::connect(world.address(port), None).await.unwrap();
        stream.write(|out| out.extend_from_slice(b"before it moved"));
        let (from, Message::Connection(accepted)) = mesh.recv().await else { panic!("a connection") };
        assert_eq!(from, ShardId(0));
        assert_eq!(accepted.peer().port() as u64, world.wait_for("peer", 0).await);
        let moved = accepted.attach().unwrap();
        assert_eq!(read_exactly(&moved, 15).await, b"before it moved");
        moved.write(|out| out.push(42));
        assert_eq!(read_exactly(&stream, 1).await, [42]);
        world.put("done", 1);
    }
}

pub(crate) async fn what_was_queued_arrives_before_the_end(world: World) {
    let (a, b) = pair(&world).await;
    let sent = pattern(2 << 20);
    a.write(|out| out.extend_from_slice(&sent));
    drop(a);
    assert_eq!(read_all(&b).await, sent);
    assert!(b.recv().await.unwrap().is_none(), "the end stays the end");
}

pub(crate) async fn data_is_read_after_the_peer_left(world: World) {
    let (a, b) = pair(&world).await;
    a.write(|out| out.extend_from_slice(b"farewell"));
    drop(a);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(read_all(&b).await, b"farewell");
}

pub(crate) async fn a_pause_stops_the_sender(world: World) {
    let (a, b) = pair(&world).await;
    // Bytes that were under way before the pause may still arrive.
    b.pause();
    sleep(Duration::from_millis(10)).await;
    let total = 32 << 20;
    let sender = spawn(async move {
        for _ in 0..total / (1 << 20) {
            a.write(|out| out.resize(out.len() + (1 << 20), 1));
            a.drained_to(0).await.unwrap();
        }
    });
    let mut sender = sender;
    let stuck = timeout(Duration::from_millis(200), &mut sender).await.is_none();
    assert!(stuck, "32 MiB fit into no window");
    b.resume();
    let mut received = 0;
    while let Some(piece) = b.recv().await.unwrap() {
        received += piece.len();
        if received.is_multiple_of(1 << 20) {
            b.pause();
            b.resume();
        }
    }
    assert_eq!(received, total);
    sender.await;
}

pub(crate) async fn unread_data_does_not_stop_others(world: World) {
    // Connections whose tasks do not read receive more than a shard has buffers for.
    let mut lazy = Vec::new();
    for _ in 0..64 {
        let (a, b) = pair(&world).await;
        a.write(|out| out.resize(200_000, 1));
        lazy.push((a, b));
    }
    sleep(Duration::from_millis(20)).await;
    let address = echo_server(&world).await;
    let stream = Stream::connect(address, None).await.unwrap();
    let sent = pattern(100_000);
    stream.write(|out| out.extend_from_slice(&sent));
    assert_eq!(read_exactly(&stream, sent.len()).await, sent);
    for (a, b) in lazy {
        assert_eq!(read_exactly(&b, 200_000).await.len(), 200_000);
        drop(a);
    }
}

pub(crate) async fn connecting_to_nobody_is_refused(world: World) {
    let listener = Listener::bind(world.address(0)).await.unwrap();
    let address = listener.local_address();
    drop(listener);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(Stream::connect(address, None).await.err().unwrap().kind(), ErrorKind::ConnectionRefused);
}

pub(crate) async fn a_port_is_taken_once(world: World) {
    let listener = Listener::bind(world.address(0)).await.unwrap();
    let address = listener.local_address();
    assert_ne!(address.port(), 0);
    assert_eq!(Listener::bind(address).await.err().unwrap().kind(), ErrorKind::AddrInUse);
    drop(listener);
    Listener::bind(address).await.unwrap();
}

pub(crate) async fn a_source_port_is_kept(world: World) {
    let free = Listener::bind(world.address(0)).await.unwrap();
    let source = free.local_address();
    drop(free);
    let listener = Listener::bind(world.address(0)).await.unwrap();
    let address = listener.local_address();
    let connecting = spawn(async move { Stream::connect(address, Some(source)).await.unwrap() });
    let accepted = listener.accept().await.unwrap();
    assert_eq!(accepted.peer(), source);
    drop(connecting.await);
    let any = world.address(0);
    let connecting = spawn(async move { Stream::connect(address, Some(any)).await.unwrap() });
    assert_eq!(listener.accept().await.unwrap().peer().ip(), world.ip);
    connecting.await;
}

pub(crate) async fn shutdown_ends_both_directions(world: World) {
    let (a, b) = pair(&world).await;
    let a = Rc::new(a);
    let waiting = a.clone();
    let reader = spawn(async move { !matches!(waiting.recv().await, Ok(Some(_))) });
    sleep(Duration::from_millis(5)).await;
    a.shutdown();
    assert!(reader.await, "a waiting recv ends");
    assert!(!matches!(b.recv().await, Ok(Some(_))), "so does the peer's");
    a.write(|out| out.push(1));
    assert!(a.drained_to(0).await.is_err());
    assert_eq!(a.queued(), 0);
}

pub(crate) async fn sending_to_one_who_left_fails(world: World) {
    let (a, b) = pair(&world).await;
    drop(b);
    // The first sends may still be taken by the system.
    for _ in 0..1000 {
        a.write(|out| out.resize(out.len() + 1000, 1));
        if a.drained_to(0).await.is_err() {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("sends to a closed connection are taken for ever");
}

pub(crate) async fn writes_of_one_turn_are_gathered(world: World) {
    let (a, b) = pair(&world).await;
    for i in 0..100u8 {
        a.write(|out| out.push(i));
    }
    assert_eq!(a.queued(), 100);
    let expected: Vec<u8> = (0..100).collect();
    assert_eq!(read_exactly(&b, 100).await, expected);
    a.write(|out| {
        let at = out.len();
        out.extend_from_slice(&[0, 1, 2]);
        out[at] = 9;
    });
    assert_eq!(read_exactly(&b, 3).await, [9, 1, 2]);
}
