//! Encrypted connections between nodes of the simulator.

use runtime::sim::{Options as World, Sim};
use runtime::{Listener, NodeId};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::{ClientAuth, ClientContext, Format, Material, Options, Secret, ServerContext, Source, Stream};

const SECOND: Duration = Duration::from_secs(1);
const SERVER: NodeId = NodeId(1);
const CLIENT: NodeId = NodeId(2);
const NODE: &str = include_str!("certificates/node.pem");
const ELSEWHERE: &str = include_str!("certificates/elsewhere.pem");
const CA: &str = include_str!("certificates/ca.pem");

fn options(keystore: &str) -> Options {
    let inline = |text: &str| Some(Source::Inline(Secret(text.into())));
    Options {
        format: Format::Pem,
        keystore: inline(keystore),
        truststore: inline(CA),
        client_auth: ClientAuth::Required,
        ..Options::default()
    }
}

fn address() -> SocketAddr {
    SocketAddr::new(Sim::address_of(SERVER), 9000)
}

/// A node that echoes what it gets on encrypted connections, and on plain ones too if they are `optional`.
fn serve(sim: &mut Sim, options: Options, optional: bool, refused: Rc<Cell<u32>>) {
    sim.start_node(SERVER, 1, move |_| {
        let (options, refused) = (options.clone(), refused.clone());
        async move {
            let material = Material::read(&options).await.expect("inline");
            let context = ServerContext::new(&options, &material).expect("a context");
            let listener = Listener::bind(address()).await.expect("free");
            while let Ok(accepted) = listener.accept().await {
                let socket = accepted.attach().expect("attached");
                let accepted = match optional {
                    true => Stream::accept_either(socket, &context).await,
                    false => Stream::accept(socket, &context).await,
                };
                let Ok(stream) = accepted else {
                    refused.set(refused.get() + 1);
                    continue;
                };
                while let Ok(Some(bytes)) = stream.recv().await {
                    stream.write(|out| out.extend_from_slice(&bytes));
                }
            }
        }
    });
}

async fn socket() -> runtime::Stream {
    loop {
        match runtime::Stream::connect(address(), None).await {
            Ok(stream) => return stream,
            Err(_) => runtime::sleep(SECOND / 100).await,
        }
    }
}

async fn echoed(stream: &Stream, bytes: usize) -> bool {
    let said: Vec<u8> = (0..bytes).map(|n| (n / 7) as u8).collect();
    stream.write(|out| out.extend_from_slice(&said));
    let mut heard = Vec::new();
    while heard.len() < bytes {
        match stream.recv().await {
            Ok(Some(piece)) => heard.extend_from_slice(&piece),
            Ok(None) | Err(_) => return false,
        }
    }
    heard == said
}

#[test]
fn streams_carry_bytes_both_ways_and_the_same_seed_makes_the_same_run() {
    let run = |seed| {
        let mut sim = Sim::new(seed, World::default());
        serve(&mut sim, options(NODE), false, Rc::default());
        sim.run_node(CLIENT, 60 * SECOND, || async {
            let own = options(NODE);
            let context = ClientContext::new(&own, &Material::read(&own).await.expect("inline")).expect("a context");
            let stream = Stream::connect(socket().await, &context).await.expect("trusted");
            assert!(stream.is_encrypted());
            for bytes in [1, 16 << 10, (16 << 10) + 1, 300_000] {
                assert!(echoed(&stream, bytes).await, "{bytes} bytes");
            }
            stream.drained_to(0).await.expect("taken");
            runtime::now()
        })
    };
    assert_eq!(run(5), run(5));
}

#[test]
fn one_port_takes_both_and_the_first_byte_decides() {
    let mut sim = Sim::new(6, World::default());
    serve(&mut sim, options(NODE), true, Rc::default());
    sim.run_node(CLIENT, 60 * SECOND, || async {
        let plain = Stream::from(socket().await);
        assert!(echoed(&plain, 1000).await && !plain.is_encrypted());
        drop(plain);
        let own = options(NODE);
        let context = ClientContext::new(&own, &Material::read(&own).await.expect("inline")).expect("a context");
        let stream = Stream::connect(socket().await, &context).await.expect("trusted");
        assert!(echoed(&stream, 1000).await);
    });
}

#[test]
fn a_port_for_tls_closes_others_and_checks_addresses_if_asked() {
    let mut sim = Sim::new(7, World::default());
    let refused = Rc::new(Cell::new(0));
    let strict = Options { verifies_endpoint: true, ..options(NODE) };
    serve(&mut sim, strict, false, refused.clone());
    sim.run_node(CLIENT, 60 * SECOND, || async {
        let plain = Stream::from(socket().await);
        assert!(!echoed(&plain, 1000).await, "not TLS");
        drop(plain);
        // The address of the client is not in this certificate.
        let own = options(ELSEWHERE);
        let context = ClientContext::new(&own, &Material::read(&own).await.expect("inline")).expect("a context");
        if let Ok(stream) = Stream::connect(socket().await, &context).await {
            assert!(!echoed(&stream, 1000).await, "another address");
        }
        let own = options(NODE);
        let context = ClientContext::new(&own, &Material::read(&own).await.expect("inline")).expect("a context");
        let stream = Stream::connect(socket().await, &context).await.expect("trusted");
        assert!(echoed(&stream, 1000).await);
    });
    assert_eq!(refused.get(), 2);
}
