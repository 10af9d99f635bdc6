//! Bodies of streaming. Each request begins with the core of the node that is asked, u16.
//!
//! ```text
//! measure: core u16, table [16], ranges
//!          answer: SSTables u64, bytes u64
//! begin:   core u16, session [16], plan [16], receiver [16] (a host id), operation u8, table [16], flags u8 (1: whole
//!          files may be sent), ranges, count u32 of names, names: SSTables of which the receiver has what it needs
//!          answer: the number of cores of the node that is asked, u16; empty if it has an earlier version. One without
//!          such a core begins nothing
//! offers:  core u16, session [16], from u32: the first item that the receiver does not know
//!          answer: flags u8 (1: the view is taken; 2: all items are listed), items u32, bytes u64,
//!                  count u32 of offers, offers, the first being item `from`
//!          offer:  kind u8 (0 nothing, 1 whole, 2 extracted, 3 the receiver has it), name of its SSTable,
//!                  and of 1 and 2: name of the files, count u8 of components, for each: name, length u64
//! chunk:   core u16, session [16], item u32, component, offset u64, length u32
//!          answer: the bytes
//! done:    core u16, session [16], item u32; 0xffffffff: the session
//!          answer: 1 u8 if what was sent is still valid, else 0
//!
//! ranges:  count u32, for each: position of its start, position of its end, as in reads
//! name, component: length u16, text
//! ```

use super::bytes::{Reader, push_count, push_short};
use super::reads::{position, push_position};
use crate::verbs::Verb;
use engine::{Component, Descriptor};
use model::{Partitioner, TableId, TokenRange};
use uuid::Uuid;

/// Most ranges of a request.
pub(crate) const RANGES_MAX: usize = 1 << 16;
/// Most names of SSTables in a request.
pub(crate) const NAMES_MAX: usize = 1 << 16;
/// Most offers of an answer.
pub(crate) const OFFERS_MAX: usize = 256;
/// The number of an item that stands for the whole session.
pub(crate) const SESSION: u32 = u32::MAX;

const WHOLE: u8 = 1;
const IS_OPEN: u8 = 1;
const IS_COMPLETE: u8 = 2;

/// What a node is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StreamRequest {
    /// How much is there?
    Measure { table: TableId, ranges: Vec<TokenRange> },
    /// Begin a session.
    Begin(Begin),
    /// What is ready to be sent?
    Offers { session: Uuid, from: u32 },
    /// A piece of a file.
    Chunk(Chunk),
    /// An item is not needed any more; [`SESSION`] stands for all of them.
    Done { session: Uuid, item: u32 },
}

/// The beginning of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Begin {
    pub(crate) session: Uuid,
    pub(crate) plan: Uuid,
    /// The host id of the node that asks.
    pub(crate) receiver: Uuid,
    /// A number of `StreamOperation`.
    pub(crate) operation: u8,
    pub(crate) table: TableId,
    /// Whether whole files may be sent.
    pub(crate) whole: bool,
    pub(crate) ranges: Vec<TokenRange>,
    /// SSTables of which the receiver has what it needs.
    pub(crate) have: Vec<String>,
}

/// A piece of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) session: Uuid,
    pub(crate) item: u32,
    pub(crate) component: Component,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// What a session has to send so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offers {
    /// Whether it is known what there is.
    pub(crate) is_open: bool,
    /// Whether all items are known after these offers.
    pub(crate) is_complete: bool,
    /// All items.
    pub(crate) items: u32,
    /// Bytes of all items, roughly.
    pub(crate) bytes: u64,
    pub(crate) offers: Vec<Offer>,
}

/// One SSTable of the sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    /// The name of the sender's SSTable.
    pub(crate) origin: String,
    pub(crate) kind: OfferKind,
}

/// What is sent of an SSTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OfferKind {
    /// It has nothing in the ranges.
    Nothing,
    /// Its files.
    Files {
        /// Whether they are the sender's own.
        is_whole: bool,
        name: Descriptor,
        /// Each with its length in bytes, `Helenus.db` first.
        components: Vec<(Component, u64)>,
    },
    /// The receiver has what it needs.
    Kept,
}

impl StreamRequest {
    /// Its verb.
    pub(crate) fn verb(&self) -> Verb {
        match self {
            StreamRequest::Measure { .. } => Verb::StreamMeasure,
            StreamRequest::Begin(_) => Verb::StreamBegin,
            StreamRequest::Offers { .. } => Verb::StreamOffers,
            StreamRequest::Chunk(_) => Verb::StreamChunk,
            StreamRequest::Done { .. } => Verb::StreamDone,
        }
    }

    /// Writes it, for a core of the node that is asked.
    pub(crate) fn push(&self, out: &mut Vec<u8>, core: u16) {
        out.extend_from_slice(&core.to_le_bytes());
        match self {
            StreamRequest::Measure { table, ranges } => {
                out.extend_from_slice(&table.0);
                push_ranges(out, ranges);
            }
            StreamRequest::Begin(begin) => {
                for id in [begin.session, begin.plan, begin.receiver] {
                    out.extend_from_slice(id.as_bytes());
                }
                out.push(begin.operation);
                out.extend_from_slice(&begin.table.0);
                out.push(if begin.whole { WHOLE } else { 0 });
                push_ranges(out, &begin.ranges);
                push_count(out, begin.have.len());
                begin.have.iter().for_each(|name| push_short(out, name.as_bytes()));
            }
            StreamRequest::Offers { session, from } => {
                out.extend_from_slice(session.as_bytes());
                out.extend_from_slice(&from.to_le_bytes());
            }
            StreamRequest::Chunk(chunk) => {
                out.extend_from_slice(chunk.session.as_bytes());
                out.extend_from_slice(&chunk.item.to_le_bytes());
                push_short(out, chunk.component.name().as_bytes());
                out.extend_from_slice(&chunk.offset.to_le_bytes());
                out.extend_from_slice(&chunk.bytes.to_le_bytes());
            }
            StreamRequest::Done { session, item } => {
                out.extend_from_slice(session.as_bytes());
                out.extend_from_slice(&item.to_le_bytes());
            }
        }
    }

    /// The core that is asked, and for what; `None` if the bytes are no such request.
    pub(crate) fn decode(partitioner: Partitioner, verb: Verb, bytes: &[u8]) -> Option<(u16, StreamRequest)> {
        let mut reader = Reader::new(bytes);
        let core = reader.u16()?;
        let request = match verb {
            Verb::StreamMeasure => {
                StreamRequest::Measure { table: TableId(reader.chunk()?), ranges: ranges(&mut reader, partitioner)? }
            }
            Verb::StreamBegin => {
                let (session, plan, receiver) = (uuid(&mut reader)?, uuid(&mut reader)?, uuid(&mut reader)?);
                let (operation, table) = (reader.u8()?, TableId(reader.chunk()?));
                let whole = match reader.u8()? {
                    0 => false,
                    WHOLE => true,
                    _ => return None,
                };
                let ranges = ranges(&mut reader, partitioner)?;
                let names = reader.count(2).filter(|names| *names <= NAMES_MAX)?;
                let have = (0..names).map(|_| text(&mut reader)).collect::<Option<_>>()?;
                StreamRequest::Begin(Begin { session, plan, receiver, operation, table, whole, ranges, have })
            }
            Verb::StreamOffers => StreamRequest::Offers { session: uuid(&mut reader)?, from: reader.u32()? },
            Verb::StreamChunk => StreamRequest::Chunk(Chunk {
                session: uuid(&mut reader)?,
                item: reader.u32()?,
                component: Component::parse(&text(&mut reader)?)?,
                offset: reader.u64()?,
                bytes: reader.u32()?,
            }),
            Verb::StreamDone => StreamRequest::Done { session: uuid(&mut reader)?, item: reader.u32()? },
            _ => return None,
        };
        reader.is_empty().then_some((core, request))
    }
}

impl Offers {
    /// Writes the result of an answer.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        out.push(flag(self.is_open, IS_OPEN) | flag(self.is_complete, IS_COMPLETE));
        out.extend_from_slice(&self.items.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        push_count(out, self.offers.len());
        for offer in &self.offers {
            out.push(match offer.kind {
                OfferKind::Nothing => 0,
                OfferKind::Files { is_whole: true, .. } => 1,
                OfferKind::Files { is_whole: false, .. } => 2,
                OfferKind::Kept => 3,
            });
            push_short(out, offer.origin.as_bytes());
            if let OfferKind::Files { name, components, .. } = &offer.kind {
                push_short(out, name.to_string().as_bytes());
                out.push(components.len() as u8);
                for (component, len) in components {
                    push_short(out, component.name().as_bytes());
                    out.extend_from_slice(&len.to_le_bytes());
                }
            }
        }
    }

    /// Reads the result of an answer; `None` if the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Offers> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u8().filter(|flags| flags & !(IS_OPEN | IS_COMPLETE) == 0)?;
        let (items, bytes) = (reader.u32()?, reader.u64()?);
        let count = reader.count(3).filter(|offers| *offers <= OFFERS_MAX)?;
        let offers = (0..count).map(|_| offer(&mut reader)).collect::<Option<_>>()?;
        let (is_open, is_complete) = (flags & IS_OPEN != 0, flags & IS_COMPLETE != 0);
        reader.is_empty().then_some(Offers { is_open, is_complete, items, bytes, offers })
    }
}

/// Reads how many SSTables there are, and their bytes; `None` if the bytes say something else.
pub(crate) fn decode_measure(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut reader = Reader::new(bytes);
    let measured = (reader.u64()?, reader.u64()?);
    reader.is_empty().then_some(measured)
}

fn offer(reader: &mut Reader<'_>) -> Option<Offer> {
    let (kind, origin) = (reader.u8()?, text(reader)?);
    let kind = match kind {
        0 => OfferKind::Nothing,
        3 => OfferKind::Kept,
        1 | 2 => {
            let (name, _) = Descriptor::parse(&format!("{}-Data.db", text(reader)?))?;
            let mut components: Vec<(Component, u64)> = Vec::new();
            for _ in 0..reader.u8()? {
                let component = Component::parse(&text(reader)?)?;
                if components.iter().any(|(known, _)| *known == component) {
                    return None;
                }
                components.push((component, reader.u64()?));
            }
            OfferKind::Files { is_whole: kind == 1, name, components }
        }
        _ => return None,
    };
    // It names a directory of the receiver.
    Descriptor::parse(&format!("{origin}-Data.db"))?;
    Some(Offer { origin, kind })
}

fn uuid(reader: &mut Reader<'_>) -> Option<Uuid> {
    reader.chunk().map(Uuid::from_bytes)
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    std::str::from_utf8(reader.short_bytes()?).ok().map(str::to_owned)
}

pub(crate) fn push_ranges(out: &mut Vec<u8>, ranges: &[TokenRange]) {
    push_count(out, ranges.len());
    for range in ranges {
        push_position(out, range.start.as_ref());
        push_position(out, range.end.as_ref());
    }
}

fn ranges(reader: &mut Reader<'_>, partitioner: Partitioner) -> Option<Vec<TokenRange>> {
    let count = reader.count(2).filter(|ranges| *ranges <= RANGES_MAX)?;
    let range = |reader: &mut Reader<'_>| {
        let (start, end) = (position(reader, partitioner)?, position(reader, partitioner)?);
        Some(TokenRange { start, end })
    };
    (0..count).map(|_| range(reader)).collect()
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
