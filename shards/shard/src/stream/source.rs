//! The sending side: what a core answers to other nodes that ask for its SSTables.
//!
//! 1. A session takes a view of a table's SSTables in a task of its own, which then makes the items ready one after
//!    the other, only so far ahead of what the receiver has taken ([`has_turn`]): files that are open and what is
//!    extracted are bounded, and the disk must have room for what is extracted.
//! 2. The receiver asks what is ready, reads it piece by piece, and says when it has an item.
//! 3. It ends the session. A session that is not heard of ends by itself.
//!
//! Invariants: a session of a table that is truncated or dropped sends nothing any more, and says so; every answer is
//! bounded; a request for a session that is not there fails, and changes nothing.

use crate::messages::streams::StreamProgress;
use crate::peer::answer::{self, Refusal};
use crate::peer::streams::{Begin, Chunk, OFFERS_MAX, Offer, OfferKind, Offers, SESSION, StreamRequest};
use crate::shard_state::Shard;
use crate::shard_state::streams::{Item, SessionState, SourceSession, has_turn};
use crate::verbs::Verb;
use cluster::topology::NodeIndex;
use engine::streams::directories;
use engine::streams::source::StreamView;
use model::Failure;
use runtime::Class;
use runtime::buffer::ALIGNMENT;
use runtime::file::create_dir_all;
use runtime::sync::{Either, race};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// How long a request for offers waits for the next one.
const OFFERS_WAIT: Duration = Duration::from_secs(2);
/// How often a session looks whether it is still in use.
const LEASE_CHECK: Duration = Duration::from_secs(5);
/// How long a piece waits until the limits allow it; then the receiver asks again.
const THROTTLED_MAX: Duration = Duration::from_secs(3);
/// Most bytes of one piece.
pub(crate) const CHUNK_BYTES_MAX: u32 = 1 << 20;

/// What a receiver is told of a session whose table was truncated; part of the protocol.
pub(super) const VOID: &str = "the table of the streaming session was truncated";

/// Answers a request of another node; `None` if it does not decode.
pub(crate) async fn serve(shard: &Shard, verb: Verb, body: &[u8]) -> Option<Vec<u8>> {
    let (_, request) = StreamRequest::decode(shard.partitioner(), verb, body)?;
    let answered = match request {
        StreamRequest::Measure { table, ranges } => match shard.store().measure_stream(table, &ranges) {
            Ok((sstables, bytes)) => Ok(answer::result(|out| {
                out.extend_from_slice(&sstables.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
            })),
            Err(engine::Error::UnknownTable(table)) => Err(Refusal::UnknownTable(table)),
            Err(error) => Err(Failure::server(error.to_string()).into()),
        },
        StreamRequest::Begin(begin) => begin_session(shard, begin).map(|()| begun()),
        StreamRequest::Offers { session, from } => match shard.streams().session(session) {
            Some(session) => offers(&session, from).await.map(|offers| answer::result(|out| offers.push(out))),
            None => Err(no_session().into()),
        },
        StreamRequest::Chunk(chunk) => read(shard, chunk).await,
        StreamRequest::Done { session, item } => done(shard, session, item).await,
    };
    Some(answered.unwrap_or_else(|refusal| answer::refusal(&refusal)))
}

/// Answers a request for a core that this node does not have, or not any more.
pub(crate) fn no_such_core(verb: Verb) -> Vec<u8> {
    match verb {
        Verb::StreamBegin => begun(),
        _ => answer::refusal(&no_session().into()),
    }
}

/// The answer to a request to begin a session: how many cores a receiver has to ask.
fn begun() -> Vec<u8> {
    answer::result(|out| out.extend_from_slice(&(runtime::shard_count() as u16).to_le_bytes()))
}

fn no_session() -> Failure {
    Failure::server("no such streaming session")
}

fn void() -> Failure {
    Failure::server(VOID)
}

fn begin_session(shard: &Shard, begin: Begin) -> Result<(), Refusal> {
    if shard.schema_ref().table_by_id(begin.table).is_none() {
        return Err(Refusal::UnknownTable(begin.table));
    }
    // A request that was sent twice.
    if shard.streams().session(begin.session).is_some() {
        return Ok(());
    }
    let topology = shard.topology();
    let at = topology.nodes().iter().position(|node| node.host_id == begin.receiver);
    let center = |at: NodeIndex| &topology.node(at).data_center;
    let is_far = at.is_some_and(|at| center(NodeIndex(at as u16)) != center(topology.here()));
    let progress = shard.streams().progress(begin.plan, begin.operation, begin.receiver, false);
    let session = Rc::new(SourceSession::new(begin.session, begin.table, is_far, progress));
    shard.streams().add(session.clone())?;
    let shard = shard.clone();
    runtime::spawn_in(Class::Streaming, async move {
        let working = send(&shard, &session, &begin);
        let leased = async {
            while !session.is_stale(shard.streams().lease) && !shard.store().is_closing() {
                runtime::sleep(LEASE_CHECK).await;
            }
        };
        if let Either::Left(Err(error)) = race(working, leased).await {
            tracing::warn!(%error, table = %begin.table, "a streaming session failed");
            session.end(SessionState::Failed(Failure::server(error.to_string())));
        }
        // The receiver is to learn how it ended.
        while !matches!(*session.state.borrow(), SessionState::Ended) && !session.is_stale(shard.streams().lease) {
            if shard.store().is_closing() {
                break;
            }
            let ended = session.changed.wait(|| matches!(*session.state.borrow(), SessionState::Ended).then_some(()));
            race(ended, runtime::sleep(LEASE_CHECK)).await;
        }
        session.end(SessionState::Ended);
        shard.streams().remove(session.id);
        if !shard.streams().sends(&session.progress) {
            note(&session.progress, |progress| (progress.is_done, progress.current) = (true, Vec::new()));
        }
        if let Err(error) = directories::remove_all(&directory(&shard, &session)).await {
            tracing::warn!(%error, "files of a streaming session stay until the next start");
        }
    });
    Ok(())
}

/// Where a session puts what it extracts.
fn directory(shard: &Shard, session: &SourceSession) -> PathBuf {
    directories::outgoing(&shard.config().directories, shard.id().0, &session.id.to_string())
}

/// Makes the items of a session ready, until all are or it ends.
async fn send(shard: &Shard, session: &Rc<SourceSession>, begin: &Begin) -> Result<(), engine::Error> {
    let whole = begin.whole && shard.config().streams.whole_sstables;
    let opened = shard.store().open_stream(begin.table, &begin.ranges, whole).await;
    let view = match opened {
        // It was dropped, which ends the session.
        Err(engine::Error::UnknownTable(_)) => {
            session.end(SessionState::Void);
            return Ok(());
        }
        opened => Rc::new(opened?),
    };
    let known = view.items();
    {
        let mut state = session.state.borrow_mut();
        if !matches!(*state, SessionState::Opening) {
            return Ok(());
        }
        *state = SessionState::Open { view: view.clone(), items: Vec::new() };
        let mut progress = session.progress.borrow_mut();
        progress.files += known.len() as u64;
        progress.bytes += known.iter().map(|item| item.bytes).sum::<u64>();
    }
    session.changed.notify();
    let directory = directory(shard, session);
    for (number, item) in known.iter().enumerate() {
        let found = match begin.have.contains(&item.origin.to_string()) {
            true => Item::Kept,
            false => {
                if !wait_for_turn(session, item.is_whole).await {
                    return Ok(());
                }
                let directory = directory.join(number.to_string());
                if !item.is_whole {
                    check_room(&directory, item.bytes).await?;
                }
                let ready = ready(session, &view, number, &directory).await?;
                match ready {
                    Some(item) => item,
                    None => return Ok(()),
                }
            }
        };
        if matches!(found, Item::Kept | Item::Nothing) {
            let mut progress = session.progress.borrow_mut();
            progress.files = progress.files.saturating_sub(1);
            progress.bytes = progress.bytes.saturating_sub(item.bytes);
            view.release(number);
        } else if let Item::Ready(files) = &found {
            let mut progress = session.progress.borrow_mut();
            progress.bytes = progress.bytes.saturating_sub(item.bytes) + files.bytes();
        }
        match &mut *session.state.borrow_mut() {
            SessionState::Open { items, .. } => items.push(found),
            _ => return Ok(()),
        }
        session.changed.notify();
    }
    Ok(())
}

/// Makes an item ready; `None` if the session has ended meanwhile.
async fn ready(
    session: &SourceSession,
    view: &StreamView,
    number: usize,
    directory: &std::path::Path,
) -> Result<Option<Item>, engine::Error> {
    let ended = session.changed.wait(|| (!matches!(*session.state.borrow(), SessionState::Open { .. })).then_some(()));
    match race(ended, view.ready(number, directory)).await {
        Either::Left(()) => Ok(None),
        Either::Right(ready) => Ok(Some(match ready? {
            Some(files) => Item::Ready(Rc::new(files)),
            None => Item::Nothing,
        })),
    }
}

/// Fails if the disk has no room for what is about to be extracted.
async fn check_room(directory: &std::path::Path, bytes: u64) -> Result<(), engine::Error> {
    create_dir_all(directory).await.map_err(engine::Error::Io)?;
    let free = runtime::file::space(directory).await.map_err(engine::Error::Io)?.free;
    if bytes <= free {
        return Ok(());
    }
    let text = format!("Not enough space: {bytes} bytes are to be extracted, and {free} are free");
    Err(engine::Error::Io(io::Error::new(io::ErrorKind::StorageFull, text)))
}

/// Waits until another item may be made ready; `false` if the session has ended.
async fn wait_for_turn(session: &SourceSession, is_whole: bool) -> bool {
    let turn = || match &*session.state.borrow() {
        SessionState::Open { items, .. } => {
            let ready = items.iter().filter_map(|item| match item {
                Item::Ready(files) => Some(!files.is_extracted()),
                _ => None,
            });
            has_turn(ready, is_whole).then_some(true)
        }
        _ => Some(false),
    };
    session.changed.wait(turn).await
}

/// What a session has from an item on, once there is any.
async fn offers(session: &SourceSession, from: u32) -> Result<Offers, Refusal> {
    let from = from as usize;
    let found = || match &*session.state.borrow() {
        SessionState::Opening => None,
        SessionState::Open { view, items } => {
            let known = view.items();
            let is_complete = items.len() == known.len() && items.len().saturating_sub(from) <= OFFERS_MAX;
            if items.len() <= from && !is_complete {
                return None;
            }
            let offers = known.iter().zip(items).skip(from).take(OFFERS_MAX);
            let offers = offers.map(|(of, item)| Offer {
                origin: of.origin.to_string(),
                kind: match item {
                    Item::Nothing | Item::Done => OfferKind::Nothing,
                    Item::Kept => OfferKind::Kept,
                    Item::Ready(files) => OfferKind::Files {
                        is_whole: of.is_whole,
                        name: files.descriptor().clone(),
                        components: files.components(),
                    },
                },
            });
            Some(Ok(Offers {
                is_open: true,
                is_complete,
                items: known.len() as u32,
                bytes: known.iter().map(|item| item.bytes).sum(),
                offers: offers.collect(),
            }))
        }
        SessionState::Failed(failure) => Some(Err(failure.clone())),
        SessionState::Void => Some(Err(void())),
        SessionState::Ended => Some(Err(no_session())),
    };
    match runtime::timeout(OFFERS_WAIT, session.changed.wait(found)).await {
        Some(offers) => offers.map_err(Refusal::from),
        None => {
            let is_open = matches!(*session.state.borrow(), SessionState::Open { .. });
            Ok(Offers { is_open, ..Offers::default() })
        }
    }
}

/// Reads a piece of a file.
async fn read(shard: &Shard, chunk: Chunk) -> Result<Vec<u8>, Refusal> {
    let session = shard.streams().session(chunk.session).ok_or_else(no_session)?;
    let (files, is_whole) = match &*session.state.borrow() {
        SessionState::Open { items, .. } => match items.get(chunk.item as usize) {
            Some(Item::Ready(files)) => (files.clone(), !files.is_extracted()),
            _ => return Err(Failure::server("no such item of the streaming session").into()),
        },
        SessionState::Void => return Err(void().into()),
        _ => return Err(no_session().into()),
    };
    if chunk.bytes > CHUNK_BYTES_MAX || !chunk.offset.is_multiple_of(ALIGNMENT as u64) {
        return Err(Failure::server("a piece that cannot be read").into());
    }
    // What waits is not charged yet, so that a receiver that gives up takes nothing of any rate.
    for throttle in shard.streams().throttles(is_whole, session.is_far) {
        if runtime::timeout(THROTTLED_MAX, throttle.read(0, shard.gate())).await.is_none() {
            return Err(Failure::overloaded("the limit of streaming is reached").into());
        }
    }
    shard.streams().throttles(is_whole, session.is_far).for_each(|throttle| throttle.charge(chunk.bytes.into()));
    let read = files.read(chunk.component, chunk.offset, chunk.bytes as usize).await;
    let read = read.map_err(|error| Failure::server(error.to_string()))?;
    let bytes = read.ok_or_else(|| Failure::server("no such file of the streaming session"))?;
    let (shown, total) = (files.data_path(), files.bytes());
    note(&session.progress, |progress| {
        progress.bytes_done += bytes.len() as u64;
        match progress.current.iter_mut().find(|(name, ..)| *name == shown) {
            Some((_, done, _)) => *done = total.min(*done + bytes.len() as u64),
            None => progress.current.push((shown, bytes.len() as u64, total)),
        }
    });
    shard.streams().sent_bytes.add(bytes.len() as u64);
    Ok(answer::result(|out| {
        out.reserve_exact(bytes.len());
        out.extend_from_slice(&bytes);
    }))
}

/// Lets an item go, or ends the session.
async fn done(shard: &Shard, id: Uuid, number: u32) -> Result<Vec<u8>, Refusal> {
    let session = shard.streams().session(id).ok_or_else(no_session)?;
    let mut is_valid = true;
    let mut gone = None;
    match &mut *session.state.borrow_mut() {
        SessionState::Open { view, items } if number != SESSION => {
            if let Some(item) = items.get_mut(number as usize) {
                if let Item::Ready(files) = std::mem::replace(item, Item::Done) {
                    gone = Some(files);
                }
                view.release(number as usize);
            }
        }
        SessionState::Open { .. } => {}
        SessionState::Failed(failure) => return Err(failure.clone().into()),
        _ => is_valid = false,
    }
    if let Some(files) = gone {
        note(&session.progress, |progress| {
            progress.files_done += 1;
            progress.current.retain(|(name, ..)| *name != files.data_path());
        });
        session.changed.notify();
        if let Some(files) = Rc::into_inner(files)
            && let Err(error) = files.finish().await
        {
            tracing::warn!(%error, "files that were sent stay until the session ends");
        }
    }
    if number == SESSION {
        session.end(SessionState::Ended);
    }
    Ok(answer::result(|out| out.push(is_valid.into())))
}

fn note(progress: &std::cell::RefCell<StreamProgress>, change: impl FnOnce(&mut StreamProgress)) {
    let mut progress = progress.borrow_mut();
    change(&mut progress);
    progress.changed_at = runtime::wall_micros().div_euclid(1000);
}
