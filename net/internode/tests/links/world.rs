//! Nodes of the simulator that have nothing but links, and a handler that a test chooses.

use internode::{Handler, Identity, Keys, Lane, Links, Options, PeerIdentity, Refusal, Replier, Versions, route};
use runtime::sim::{Sim, Stop};
use runtime::{Accepted, Instant, Listener, Mesh, NodeId, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::{ClientAuth, ClientContext, Encryption, Format, Material, Secret, ServerContext, Source};
use uuid::Uuid;

pub(crate) const ONE: NodeId = NodeId(1);
pub(crate) const TWO: NodeId = NodeId(2);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Answers with the body.
pub(crate) const ECHO: u8 = 1;
/// Keeps the replier until the test takes it.
pub(crate) const HOLD: u8 = 2;
/// Drops the replier.
pub(crate) const DROP: u8 = 3;
/// Answers after half a second.
pub(crate) const LATER: u8 = 4;
/// Refuses the message.
pub(crate) const REFUSE: u8 = 6;
/// Answers with a body that is too long.
pub(crate) const TOO_LONG: u8 = 5;

pub(crate) fn address(node: NodeId) -> SocketAddr {
    SocketAddr::new(Sim::address_of(node), 7000)
}

pub(crate) fn identity(node: NodeId, shard: ShardId, shards: usize) -> Identity {
    Identity {
        cluster_name: "Test Cluster".into(),
        cluster_id: Some(Uuid::from_u128(0xc1)),
        host_id: Uuid::from_u128(u128::from(node.0)),
        address: address(node),
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        shard,
        shards: shards as u16,
        ignore_msb: 12,
        versions: Versions { min: 1, max: 1 },
        features: 0,
    }
}

/// A message as a handler saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) from: ShardId,
    pub(crate) on: ShardId,
    pub(crate) lane: Lane,
    pub(crate) verb: u8,
    pub(crate) body: Vec<u8>,
}

/// A node with links, which outlives its runs.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) shards: usize,
    pub(crate) options: Options,
    /// How the node's port is encrypted, and whether it encrypts connections that it makes.
    pub(crate) encryption: Encryption,
    /// Changes what a core says of itself.
    pub(crate) introduce: Rc<dyn Fn(Identity) -> Identity>,
    pub(crate) refusal: Rc<RefCell<Option<Refusal>>>,
    pub(crate) seen: Rc<RefCell<Vec<Seen>>>,
    pub(crate) held: Rc<RefCell<Vec<Replier>>>,
    /// The links of each core that runs.
    pub(crate) links: Rc<RefCell<Vec<(ShardId, Links)>>>,
    /// What core 0 shall do next.
    pub(crate) tasks: Rc<RefCell<VecDeque<Task>>>,
    listening: Rc<Cell<bool>>,
}

type Task = Box<dyn FnOnce(&Links)>;

struct Service {
    node: Node,
    on: ShardId,
}

/// The keys of a node whose port is encrypted like this.
async fn keys(encryption: Encryption) -> Keys {
    if encryption == Encryption::Off {
        return Keys::default();
    }
    let inline = |text: &str| Some(Source::Inline(Secret(text.into())));
    let options = tls::Options {
        format: Format::Pem,
        keystore: inline(include_str!("../../../tls/tests/certificates/node.pem")),
        truststore: inline(include_str!("../../../tls/tests/certificates/ca.pem")),
        client_auth: ClientAuth::Required,
        verifies_endpoint: true,
        ..tls::Options::default()
    };
    let material = Material::read(&options).await.expect("inline");
    Keys {
        inbound: Some(ServerContext::new(&options, &material).expect("a context")),
        outbound: Some(ClientContext::new(&options, &material).expect("a context")),
    }
}

impl Handler for Service {
    fn encrypts_to(&self, _: SocketAddr) -> bool {
        self.node.encryption == Encryption::Required
    }

    fn accept_peer(&self, _: &PeerIdentity) -> Result<(), Refusal> {
        self.node.refusal.borrow().clone().map_or(Ok(()), Err)
    }

    fn serve(&self, from: &Rc<PeerIdentity>, lane: Lane, verb: u8, body: &[u8], reply: Replier) {
        let from = from.identity.shard;
        self.node.seen.borrow_mut().push(Seen { from, on: self.on, lane, verb, body: body.to_vec() });
        match verb {
            ECHO => reply.send(body),
            HOLD => self.node.held.borrow_mut().push(reply),
            LATER => {
                let body = body.to_vec();
                runtime::spawn(async move {
                    runtime::sleep(SECOND / 2).await;
                    reply.send(&body);
                });
            }
            TOO_LONG => {
                let bytes = self.node.options.message_bytes_max + 1;
                reply.send_with(|out| out.resize(out.len() + bytes, 0));
            }
            REFUSE => reply.refuse(),
            _ => drop(reply),
        }
    }
}

impl Node {
    pub(crate) fn new(id: NodeId, shards: usize) -> Node {
        Node {
            id,
            shards,
            options: Options::default(),
            encryption: Encryption::Off,
            introduce: Rc::new(|identity| identity),
            refusal: Rc::default(),
            seen: Rc::default(),
            held: Rc::default(),
            links: Rc::default(),
            tasks: Rc::default(),
            listening: Rc::default(),
        }
    }

    /// Starts the node; each core listens as long as `script` runs there.
    pub(crate) fn start<Fut>(&self, sim: &mut Sim, script: impl Fn(ShardId, Links) -> Fut + 'static)
    where
        Fut: Future<Output = ()> + 'static,
    {
        let mesh: Mesh<Accepted> = Mesh::simulated(self.shards, 64);
        let (node, script) = (self.clone(), Rc::new(script));
        node.links.borrow_mut().clear();
        node.listening.set(false);
        sim.start_node(self.id, self.shards, move |shard| {
            let (node, mesh, script) = (node.clone(), mesh.clone(), script.clone());
            async move {
                let identity = (node.introduce)(identity(node.id, shard, node.shards));
                let handler = Rc::new(Service { node: node.clone(), on: shard });
                let links = Links::new(node.options.clone(), identity, handler);
                node.links.borrow_mut().push((shard, links.clone()));
                links.set_keys(keys(node.encryption).await);
                let (endpoint, encryption) = (mesh.attach(), node.encryption);
                if shard == ShardId(0) {
                    let listener = Listener::bind(address(node.id)).await.expect("the port is free");
                    node.listening.set(true);
                    runtime::spawn(act(node.tasks.clone(), links.clone()));
                    runtime::spawn(accept(listener, endpoint, links.clone(), encryption));
                } else {
                    let links = links.clone();
                    runtime::spawn(async move {
                        loop {
                            links.attach(endpoint.recv().await.1, encryption);
                        }
                    });
                }
                script(shard, links).await;
            }
        });
    }

    /// Starts the node, which does nothing by itself, and waits until it listens.
    pub(crate) fn listen(&self, sim: &mut Sim) {
        self.start(sim, |_, _| std::future::pending());
        let is_ready = || self.listening.get() && self.links.borrow().len() == self.shards;
        assert_eq!(sim.run_until(SECOND, is_ready), Stop::Condition);
    }

    pub(crate) fn link(&self, shard: u16) -> Links {
        let links = self.links.borrow();
        links.iter().find(|(of, _)| *of == ShardId(shard)).expect("the core runs").1.clone()
    }
}

/// Does what tests ask of core 0.
async fn act(tasks: Rc<RefCell<VecDeque<Task>>>, links: Links) {
    loop {
        let task = tasks.borrow_mut().pop_front();
        match task {
            Some(task) => task(&links),
            None => runtime::sleep(SECOND / 1000).await,
        }
    }
}

async fn accept(listener: Listener, endpoint: runtime::Endpoint<Accepted>, links: Links, encryption: Encryption) {
    while let Ok(accepted) = listener.accept().await {
        match route(accepted.peer(), runtime::shard_count()) {
            ShardId(0) => links.attach(accepted, encryption),
            shard => endpoint.send(shard, accepted).await,
        }
    }
}

pub(crate) fn within(time: Duration) -> Instant {
    runtime::now().after(time)
}

/// Runs `script` on core 0 of `node` until it returns, for at most ten minutes.
pub(crate) fn run<Fut>(sim: &mut Sim, node: &Node, script: impl Fn(Links) -> Fut + 'static)
where
    Fut: Future<Output = ()> + 'static,
{
    let done = Rc::new(Cell::new(false));
    let (is_done, script) = (done.clone(), Rc::new(script));
    node.start(sim, move |shard, links| {
        let (done, script) = (done.clone(), script.clone());
        async move {
            if shard == ShardId(0) {
                script(links).await;
                done.set(true);
            }
            std::future::pending().await
        }
    });
    assert_eq!(sim.run_until(600 * SECOND, || is_done.get()), Stop::Condition, "seed {}", sim.seed());
}

/// Runs `act` once in a task of core 0.
pub(crate) fn run_on(sim: &mut Sim, node: &Node, act: impl FnOnce(&Links) + 'static) {
    let done = Rc::new(Cell::new(false));
    let is_done = done.clone();
    node.tasks.borrow_mut().push_back(Box::new(move |links| {
        act(links);
        done.set(true);
    }));
    assert_eq!(sim.run_until(SECOND, || is_done.get()), Stop::Condition);
}
