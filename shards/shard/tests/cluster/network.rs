//! A network in memory between the nodes of a test.

use cluster::topology::Node;
use runtime::Instant;
use shard::{PeerCall, PeerFailure, PeerLane, Peers, Presence, PresenceCheck, Shard, Verb};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// How often nodes look for messages.
pub(crate) const PAUSE: Duration = Duration::from_micros(200);

type Answer = Rc<RefCell<Option<Result<Vec<u8>, PeerFailure>>>>;

/// A request on its way.
pub(crate) struct Envelope {
    verb: Verb,
    body: Vec<u8>,
    answer: Answer,
}

impl Envelope {
    /// Serves the request on `shard`.
    pub(crate) async fn serve(self, shard: Shard) {
        let answer = shard.serve_peer(Uuid::nil(), self.verb as u8, self.body).await;
        *self.answer.borrow_mut() = Some(answer.map_err(|_| PeerFailure::Refused));
    }
}

/// What becomes of a request instead of being served.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It reaches nobody, and nobody says so.
    Lost,
    /// The node says that it cannot serve it.
    Refused,
}

/// All links. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Network {
    /// Messages by the address of the node, one queue for each of its cores.
    inboxes: Rc<RefCell<BTreeMap<IpAddr, Vec<VecDeque<Envelope>>>>>,
    /// Nodes that no message reaches.
    silent: Rc<RefCell<BTreeSet<IpAddr>>>,
    /// Requests that reach nobody, by verb.
    pub(crate) lost: Rc<RefCell<BTreeSet<Verb>>>,
    /// What becomes of requests to some nodes, by verb.
    pub(crate) faults: Rc<RefCell<BTreeMap<(IpAddr, Verb), Fault>>>,
    /// How long the answers of some nodes take.
    pub(crate) slow: Rc<RefCell<BTreeMap<IpAddr, Duration>>>,
    /// Requests so far, by verb.
    pub(crate) sent: Rc<RefCell<BTreeMap<Verb, u64>>>,
    /// Requests so far, by the address of the node and by verb.
    pub(crate) sent_to: Rc<RefCell<BTreeMap<(IpAddr, Verb), u64>>>,
    /// How many of the next answers are lost.
    pub(crate) answers_lost: Rc<Cell<u64>>,
}

impl Network {
    /// Connects a node of `cores` cores.
    pub(crate) fn connect(&self, address: IpAddr, cores: usize) {
        self.inboxes.borrow_mut().insert(address, (0..cores).map(|_| VecDeque::new()).collect());
    }

    /// Closes the connections of a node: nothing can be sent to it.
    pub(crate) fn disconnect(&self, address: IpAddr) {
        self.inboxes.borrow_mut().remove(&address);
    }

    /// Lets messages to a node vanish, or arrive again.
    pub(crate) fn set_silent(&self, address: IpAddr, is_silent: bool) {
        let mut silent = self.silent.borrow_mut();
        if is_silent {
            silent.insert(address)
        } else {
            silent.remove(&address)
        };
    }

    /// The next message for a core of a node.
    pub(crate) fn take(&self, address: IpAddr, core: u16) -> Option<Envelope> {
        self.inboxes.borrow_mut().get_mut(&address)?.get_mut(usize::from(core))?.pop_front()
    }

    /// The requests of a verb so far.
    pub(crate) fn sent(&self, verb: Verb) -> u64 {
        self.sent.borrow().get(&verb).copied().unwrap_or(0)
    }
}

impl Peers for Network {
    fn call(&self, to: &Node, _: PeerLane, verb: Verb, body: &[u8], deadline: Instant) -> PeerCall {
        *self.sent.borrow_mut().entry(verb).or_default() += 1;
        let answer = Answer::default();
        let address = to.address.ip();
        *self.sent_to.borrow_mut().entry((address, verb)).or_default() += 1;
        let fault = self.faults.borrow().get(&(address, verb)).copied();
        let slow = self.slow.borrow().get(&address).copied();
        if fault == Some(Fault::Refused) {
            return Box::pin(async move {
                if let Some(slow) = slow {
                    runtime::sleep(slow).await;
                }
                Err(PeerFailure::Refused)
            });
        }
        let is_lost = fault.is_some() || self.lost.borrow().contains(&verb);
        if !self.silent.borrow().contains(&address) && !is_lost {
            let mut inboxes = self.inboxes.borrow_mut();
            let Some(cores) = inboxes.get_mut(&address) else {
                return Box::pin(std::future::ready(Err(PeerFailure::NotSent)));
            };
            let core = usize::from(runtime::current_shard().0) % cores.len();
            cores[core].push_back(Envelope { verb, body: body.to_vec(), answer: answer.clone() });
        }
        let lost = self.answers_lost.clone();
        Box::pin(async move {
            if let Some(slow) = slow {
                runtime::sleep(slow).await;
            }
            loop {
                if let Some(told) = answer.borrow_mut().take() {
                    match lost.get() {
                        0 => return told,
                        more => lost.set(more - 1),
                    }
                }
                if runtime::now() >= deadline {
                    return Err(PeerFailure::NoAnswer);
                }
                runtime::sleep(PAUSE).await;
            }
        })
    }

    fn post(&self, to: &Node, lane: PeerLane, verb: Verb, body: Vec<u8>) {
        drop(self.call(to, lane, verb, &body, runtime::now()));
    }

    fn presence(&self, to: &Node) -> PresenceCheck {
        let is_there = self.inboxes.borrow().contains_key(&to.address.ip());
        Box::pin(std::future::ready(if is_there { Presence::Listening } else { Presence::Gone }))
    }
}
