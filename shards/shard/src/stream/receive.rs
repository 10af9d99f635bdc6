//! The receiving side of one core: everything that a core of another node has of a table in some ranges.
//!
//! 1. A session begins; the names of SSTables that came completely by an earlier one are sent along, so that they need
//!    not come again if the sender still has them.
//! 2. What the sender offers is fetched, one SSTable after the other, with [`WINDOW`] pieces under way.
//! 3. The session ends. What earlier sessions brought and the sender does not have any more is removed: its contents
//!    came again, and what it held may have been purged meanwhile.
//!
//! A piece that does not come is asked for again; if the session is gone, another one begins. After `patience` without
//! any sign of life, or [`SESSIONS_MAX`] sessions that brought nothing, that is given up.
//!
//! Invariants: what is returned is, together, one view of the sender; nothing is returned that was not checked.

use super::source::CHUNK_BYTES_MAX;
use crate::coordinator::remote::received;
use crate::messages::streams::{Receive, ReceiveError, Received, StreamProgress};
use crate::peer::answer::{self, Refusal};
use crate::peer::head::Head;
use crate::peer::streams::{Begin, Chunk, OfferKind, Offers, SESSION, StreamRequest};
use crate::ports::{PeerCall, PeerLane};
use crate::schema::random_uuid;
use crate::shard_state::Shard;
use engine::streams::directories::{entries, remove_all};
use engine::streams::target::{self, StagedSstable};
use engine::{Component, Descriptor};
use model::{ErrorCode, Failure};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// Bytes of a piece.
const CHUNK_BYTES: u32 = 256 << 10;
const _: () = assert!(CHUNK_BYTES <= CHUNK_BYTES_MAX);
/// Pieces that are asked for at a time.
const WINDOW: usize = 12;
/// The longest `Helenus.db` that is received, bytes.
const SIDECAR_BYTES_MAX: u64 = 256 << 20;
/// Sessions in a row that bring no SSTable before that is given up.
const SESSIONS_MAX: usize = 8;
/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// The pause after the first failure; it doubles with each of a row.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_LAST: Duration = Duration::from_secs(5);

/// Why a session came to nothing.
enum Broken {
    /// Another one may do better.
    Lost(String),
    /// It cannot.
    Final(ReceiveError),
}

impl From<engine::Error> for Broken {
    fn from(error: engine::Error) -> Broken {
        match target::is_damage(&error) {
            true => Broken::Lost(error.to_string()),
            false => Broken::Final(ReceiveError::Failed(Failure::server(error.to_string()))),
        }
    }
}

/// Receives what a task names.
pub(crate) async fn receive(shard: &Shard, task: Receive) -> Result<Received, ReceiveError> {
    let progress = shard.streams().progress(task.plan, task.operation, task.source.host_id, true);
    let receiver =
        Receiver { shard, task: &task, progress, moved_at: Cell::new(runtime::now()), fetched: Cell::new(0) };
    let (mut pause, mut in_vain) = (PAUSE_FIRST, 0);
    loop {
        let (began, fetched) = (receiver.moved_at.get(), receiver.fetched.get());
        let failure = match receiver.session().await {
            Ok(received) => return Ok(received),
            Err(Broken::Final(error)) => return Err(error),
            Err(Broken::Lost(text)) => text,
        };
        receiver.progress.borrow_mut().current.clear();
        if shard.schema_ref().table_by_id(task.table.id).is_none() {
            return Err(ReceiveError::Dropped);
        }
        if shard.is_draining() {
            return Err(ReceiveError::Failed(Failure::overloaded("The node is stopping")));
        }
        if receiver.moved_at.get() > began {
            pause = PAUSE_FIRST;
        }
        in_vain = if receiver.fetched.get() > fetched { 0 } else { in_vain + 1 };
        let table = task.table.full_name();
        tracing::info!(source = %task.source.address, core = task.core, table, failure, "streaming begins again");
        if in_vain >= SESSIONS_MAX || runtime::now().since(receiver.moved_at.get()) + pause > task.patience {
            return Err(ReceiveError::Unreachable(failure));
        }
        runtime::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_LAST);
    }
}

struct Receiver<'t> {
    shard: &'t Shard,
    task: &'t Receive,
    progress: Rc<RefCell<StreamProgress>>,
    /// When something came last.
    moved_at: Cell<Instant>,
    /// SSTables that came completely.
    fetched: Cell<usize>,
}

impl Receiver<'_> {
    /// One session, from its beginning to its end.
    async fn session(&self) -> Result<Received, Broken> {
        let (task, session) = (self.task, random_uuid());
        let mut have = BTreeMap::new();
        for directory in entries(&task.directory).await? {
            let Some(origin) = directory.file_name().and_then(|name| name.to_str()).map(str::to_owned) else {
                continue;
            };
            match target::complete(&directory).await? {
                Some(name) => _ = have.insert(origin, (directory, name)),
                None => remove_all(&directory).await?,
            }
        }
        let begin = StreamRequest::Begin(Begin {
            session,
            plan: task.plan,
            receiver: self.shard.host_id(),
            operation: task.operation,
            table: task.table.id,
            whole: true,
            ranges: task.ranges.to_vec(),
            have: have.keys().cloned().collect(),
        });
        let cores = self.ask(&begin).await?;
        let cores = cores.first_chunk().map(|cores| u16::from_le_bytes(*cores));
        if let Some(cores) = cores.filter(|cores| *cores != task.source.shards.shards) {
            // What this plan would fetch is not all that it has.
            let text = format!("it has {cores} cores, not {}", task.source.shards.shards);
            return Err(Broken::Final(ReceiveError::Unreachable(text)));
        }
        let result = self.items(session, &mut have).await;
        if let Err(error) = result {
            // The sender need not hold anything any longer; it finds that out by itself if this is lost.
            drop(self.send(&StreamRequest::Done { session, item: SESSION }));
            return Err(error);
        }
        let valid = self.ask(&StreamRequest::Done { session, item: SESSION }).await?;
        if valid != [1] {
            return Err(Broken::Final(ReceiveError::Truncated));
        }
        // Of earlier sessions, and not in the sender's view any more.
        for (directory, _) in have.into_values() {
            remove_all(&directory).await?;
        }
        result
    }

    /// Fetches all items of a session. Takes those out of `have` that the sender has too.
    async fn items(
        &self,
        session: Uuid,
        have: &mut BTreeMap<String, (PathBuf, Descriptor)>,
    ) -> Result<Received, Broken> {
        let mut received = Received::default();
        let (mut from, mut is_counted) = (0, false);
        loop {
            let answer = self.ask(&StreamRequest::Offers { session, from }).await?;
            let offers = Offers::decode(&answer).ok_or_else(|| lost("offers that cannot be read"))?;
            // The sender works.
            self.moved_at.set(runtime::now());
            if !offers.is_open {
                continue;
            }
            if !std::mem::replace(&mut is_counted, true) {
                let mut progress = self.progress.borrow_mut();
                progress.files += u64::from(offers.items);
                progress.bytes += offers.bytes;
            }
            for offer in offers.offers {
                match offer.kind {
                    OfferKind::Nothing => self.note(|progress| progress.files = progress.files.saturating_sub(1)),
                    OfferKind::Kept => {
                        let Some((directory, name)) = have.remove(&offer.origin) else {
                            return Err(lost("the sender takes something for known that did not come"));
                        };
                        let (files, bytes) = target::size(&directory, &name).await?;
                        received.add(directory, files, bytes);
                        self.note(|progress| {
                            progress.files_done += 1;
                            progress.bytes_done += bytes;
                        });
                    }
                    OfferKind::Files { name, components, .. } => {
                        let directory = task_directory(self.task, &offer.origin);
                        let bytes = components.iter().map(|(_, len)| len).sum();
                        self.fetch(session, from, &directory, name, &components).await?;
                        received.add(directory, components.len() as u64, bytes);
                        self.note(|progress| progress.files_done += 1);
                        self.ask(&StreamRequest::Done { session, item: from }).await?;
                    }
                }
                from += 1;
            }
            if offers.is_complete {
                return Ok(received);
            }
        }
    }

    /// Fetches the files of one item.
    async fn fetch(
        &self,
        session: Uuid,
        item: u32,
        directory: &Path,
        name: Descriptor,
        components: &[(Component, u64)],
    ) -> Result<(), Broken> {
        remove_all(directory).await?;
        let total: u64 = components.iter().map(|(_, len)| len).sum();
        let shown = directory.join(name.file_name(Component::Data)).display().to_string();
        self.note(|progress| progress.current.push((shown.clone(), 0, total)));
        let sidecar_len =
            components.iter().find(|(component, _)| *component == Component::Helenus).map(|(_, len)| *len);
        let sidecar_len = sidecar_len.filter(|len| *len <= SIDECAR_BYTES_MAX);
        let Some(sidecar_len) = sidecar_len else {
            return Err(lost("an SSTable without a Helenus.db of usual length"));
        };
        let piece = |component, offset, len: u64| Chunk {
            session,
            item,
            component,
            offset,
            bytes: len.saturating_sub(offset).min(CHUNK_BYTES.into()) as u32,
        };
        let mut sidecar = Vec::new();
        while (sidecar.len() as u64) < sidecar_len {
            let chunk = piece(Component::Helenus, sidecar.len() as u64, sidecar_len);
            let wanted = chunk.bytes as usize;
            let answer = self.ask(&StreamRequest::Chunk(chunk)).await?;
            if answer.len() != wanted {
                return Err(lost("a piece of another length"));
            }
            sidecar.extend_from_slice(&answer);
        }
        self.came(&shown, sidecar.len() as u64);
        let staged = StagedSstable::begin(directory, name, sidecar, components).await?;
        let others = components.iter().filter(|(component, _)| *component != Component::Helenus);
        let mut pieces = others.flat_map(|(component, len)| {
            let offsets = (0..*len).step_by(CHUNK_BYTES as usize);
            offsets.map(move |offset| piece(*component, offset, *len))
        });
        let mut asked: VecDeque<(Chunk, PeerCall)> = VecDeque::new();
        loop {
            while asked.len() < WINDOW
                && let Some(chunk) = pieces.next()
            {
                let call = self.send(&StreamRequest::Chunk(chunk.clone()));
                asked.push_back((chunk, call));
            }
            let Some((chunk, call)) = asked.pop_front() else { break };
            let request = StreamRequest::Chunk(chunk.clone());
            let answer = match received(request.verb(), call.await) {
                Ok(answer) => answer,
                Err(refusal) if is_transient(&refusal) => self.ask_whole(&request).await?,
                Err(refusal) => return Err(self.broken(refusal)),
            };
            let Some(Ok(bytes)) = answer::decode(&answer) else { return Err(lost("an answer that cannot be read")) };
            if bytes.len() != chunk.bytes as usize {
                return Err(lost("a piece of another length"));
            }
            staged.write(chunk.component, chunk.offset, bytes).await?;
            self.came(&shown, bytes.len() as u64);
            runtime::yield_if_needed().await;
        }
        staged.finish().await?;
        self.fetched.set(self.fetched.get() + 1);
        self.note(|progress| progress.current.retain(|(name, ..)| *name != shown));
        Ok(())
    }

    /// Notes bytes that have come.
    fn came(&self, file: &str, bytes: u64) {
        self.moved_at.set(runtime::now());
        self.shard.streams().received_bytes.add(bytes);
        self.note(|progress| {
            progress.bytes_done += bytes;
            if let Some((_, done, _)) = progress.current.iter_mut().find(|(name, ..)| name == file) {
                *done += bytes;
            }
        });
    }

    fn note(&self, change: impl FnOnce(&mut StreamProgress)) {
        let mut progress = self.progress.borrow_mut();
        change(&mut progress);
        progress.changed_at = runtime::wall_micros().div_euclid(1000);
    }

    fn send(&self, request: &StreamRequest) -> PeerCall {
        let mut body = Head { epoch: self.shard.epoch() }.body(64);
        request.push(&mut body, self.task.core);
        let deadline = runtime::now().after(ANSWER_WAIT);
        self.shard.peers().call(&self.task.source, PeerLane::Bulk, request.verb(), &body, deadline)
    }

    /// Asks until there is an answer, and returns its result.
    async fn ask(&self, request: &StreamRequest) -> Result<Vec<u8>, Broken> {
        let answer = self.ask_whole(request).await?;
        match answer::decode(&answer) {
            Some(Ok(result)) => Ok(result.to_vec()),
            _ => Err(lost("an answer that cannot be read")),
        }
    }

    /// Asks until there is an answer, and returns all of it.
    async fn ask_whole(&self, request: &StreamRequest) -> Result<Vec<u8>, Broken> {
        let mut pause = PAUSE_FIRST;
        loop {
            let refusal = match received(request.verb(), self.send(request).await) {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            if matches!(&refusal, Refusal::Failed(failure) if failure.code == ErrorCode::Overloaded) {
                // It lives, and sends as fast as it may.
                self.moved_at.set(runtime::now());
            }
            let is_over = runtime::now().since(self.moved_at.get()) + pause > self.task.patience;
            if !is_transient(&refusal) || is_over || self.shard.is_draining() {
                return Err(self.broken(refusal));
            }
            runtime::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    /// What follows from a refusal.
    fn broken(&self, refusal: Refusal) -> Broken {
        match refusal {
            Refusal::Failed(failure) if failure.text == super::source::VOID => Broken::Final(ReceiveError::Truncated),
            Refusal::Failed(failure) => Broken::Lost(failure.text.to_string()),
            Refusal::UnknownTable(table) => Broken::Lost(format!("it does not know table {table}")),
            Refusal::Moved(epoch) | Refusal::Behind(epoch) => Broken::Lost(format!("it is in epoch {epoch}")),
        }
    }
}

impl Received {
    fn add(&mut self, directory: PathBuf, files: u64, bytes: u64) {
        self.directories.push(directory);
        self.files += files;
        self.bytes += bytes;
    }
}

fn task_directory(task: &Receive, origin: &str) -> PathBuf {
    task.directory.join(origin)
}

fn lost(text: &str) -> Broken {
    Broken::Lost(text.into())
}

/// Whether the same request may succeed when it is sent once more.
fn is_transient(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Failed(failure) => {
            matches!(failure.detail, model::failure::Detail::Replica { .. }) || failure.code == ErrorCode::Overloaded
        }
        Refusal::Behind(_) => true,
        Refusal::Moved(_) | Refusal::UnknownTable(_) => false,
    }
}
