//! Helenus.db: the shard that owns an SSTable, and checksums of its other components, most of which have none in
//! Cassandra's format.
//!
//! ```text
//! magic            "Helenus\0"
//! version u16      1
//! shard u16        the owner
//! shards u16       number of shards in the map from tokens to shards that made it the owner
//! rule u8          how many high bits of a token that map ignores, in the 6 low bits; the partitioner, in the others
//! components u8    then for each: name [u8 length, text], length in bytes u64, CRC-32 u32 of each page of 4096 bytes
//! CRC-32 u32       of all bytes before it
//! ```
//! Numbers are big-endian. Pages are those of the files: of a compressed Data.db, pages of compressed bytes.
//!
//! Invariants: a sidecar that was parsed matched its own checksum; a page passes only if it has the length and the
//! bytes that were written.

use crate::block::BlockId;
use crate::descriptor::{Component, Descriptor};
use crate::error::{Error, Fault, Problem};
use crate::input::Input;
use model::ShardMap;

/// Bytes of a page that has a checksum.
pub const PAGE_BYTES: usize = 4096;
const MAGIC: &[u8; 8] = b"Helenus\0";
const VERSION: u16 = 1;

/// The checksums of a component's pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageChecksums {
    /// The component.
    pub component: Component,
    /// The component's length, in bytes.
    pub len: u64,
    /// The CRC-32 of each page.
    pub crcs: Vec<u32>,
}

impl PageChecksums {
    /// Calculates the checksums of a whole component.
    pub fn of(component: Component, bytes: &[u8]) -> PageChecksums {
        let crcs = bytes.chunks(PAGE_BYTES).map(crc32fast::hash).collect();
        PageChecksums { component, len: bytes.len() as u64, crcs }
    }
}

/// The contents of a Helenus.db.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sidecar {
    /// The shard that owns the SSTable.
    pub shard: u16,
    /// The map from tokens to shards by which it does.
    pub map: ShardMap,
    /// The other components, once each.
    pub components: Vec<PageChecksums>,
}

impl Sidecar {
    /// Parses the bytes of a Helenus.db.
    ///
    /// # Errors
    /// The bytes have another version, do not match their checksum, or are malformed.
    pub fn open(descriptor: &Descriptor, bytes: &[u8]) -> Result<Sidecar, Error> {
        parse(bytes).map_err(|fault| fault.in_file(descriptor, Component::Helenus))
    }

    /// Returns the bytes of a Helenus.db.
    pub fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.shard.to_be_bytes());
        out.extend_from_slice(&self.map.shards.to_be_bytes());
        out.push(self.map.rule());
        out.push(self.components.len() as u8);
        for pages in &self.components {
            let name = pages.component.name();
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&pages.len.to_be_bytes());
            pages.crcs.iter().for_each(|crc| out.extend_from_slice(&crc.to_be_bytes()));
        }
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// Returns the length of a component, in bytes; `None` if it is not listed.
    pub fn len(&self, component: Component) -> Option<u64> {
        self.pages(component).map(|pages| pages.len)
    }

    /// Returns whether no component is listed.
    pub fn is_empty(&self) -> bool {
        self.components.is_empty()
    }

    fn pages(&self, component: Component) -> Option<&PageChecksums> {
        self.components.iter().find(|pages| pages.component == component)
    }

    /// Checks bytes of a component that begin at the offset in `block`, the start of a page, and end at the end of a
    /// page or of the component. Of Data.db too the offset is that in the file.
    ///
    /// # Errors
    /// A page differs from what was written (the error has its offset), or the component is not listed.
    pub fn check(&self, descriptor: &Descriptor, block: BlockId, bytes: &[u8]) -> Result<(), Error> {
        let fault = |offset, problem| Fault { offset, problem }.in_file(descriptor, block.component);
        let Some(pages) = self.pages(block.component) else {
            return Err(fault(block.offset, Problem::Invalid("a component that its Helenus.db lists")));
        };
        let mut offset = block.offset;
        let page_bytes = PAGE_BYTES as u64;
        for page in bytes.chunks(PAGE_BYTES) {
            let whole = pages.len.saturating_sub(offset).min(page_bytes);
            let crc = usize::try_from(offset / page_bytes).ok().and_then(|index| pages.crcs.get(index));
            let good = offset.is_multiple_of(page_bytes) && page.len() as u64 == whole;
            if !good || crc != Some(&crc32fast::hash(page)) {
                return Err(fault(offset, Problem::Checksum));
            }
            offset += page_bytes;
        }
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Result<Sidecar, Fault> {
    let mut input = Input::new(bytes, 0);
    if input.bytes(MAGIC.len())? != MAGIC {
        return input.invalid("a Helenus.db");
    }
    if input.u16()? != VERSION {
        return input.fail(Problem::Unsupported("this version"));
    }
    let Some((body, crc)) = bytes.split_last_chunk() else { return input.fail(Problem::Truncated) };
    if crc32fast::hash(body) != u32::from_be_bytes(*crc) {
        return Err(Fault { offset: body.len() as u64, problem: Problem::Checksum });
    }
    let start = input.offset() as usize;
    let mut input = Input::new(body.get(start..).unwrap_or_default(), start as u64);
    let shard = input.u16()?;
    let map = ShardMap::of_rule(input.u16()?, input.u8()?);
    if shard >= map.shards {
        return input.invalid("a shard of its map");
    }
    let mut components: Vec<PageChecksums> = Vec::new();
    for _ in 0..input.u8()? {
        let len = input.u8()?;
        let name = std::str::from_utf8(input.bytes(len.into())?).ok().and_then(Component::parse);
        let Some(component) = name.filter(|name| components.iter().all(|known| known.component != *name)) else {
            return input.invalid("the name of a component");
        };
        let len = input.u64()?;
        let count = input.count(len.div_ceil(PAGE_BYTES as u64), 4)?;
        let crcs = (0..count).map(|_| input.u32()).collect::<Result<_, Fault>>()?;
        components.push(PageChecksums { component, len, crcs });
    }
    if !input.is_empty() {
        return input.invalid("the end");
    }
    Ok(Sidecar { shard, map, components })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;
    use model::Partitioner;

    fn descriptor() -> Descriptor {
        Descriptor { version: Version::Da, id: "1".into() }
    }

    fn sample(data: &[u8]) -> Sidecar {
        let components = vec![PageChecksums::of(Component::Data, data), PageChecksums::of(Component::Rows, &[])];
        Sidecar { shard: 3, map: ShardMap::new(Partitioner::Murmur3, 8), components }
    }

    #[test]
    fn every_flip_and_cut_is_found() {
        let sidecar = sample(&[7; 10000]);
        let bytes = sidecar.write();
        assert_eq!(Sidecar::open(&descriptor(), &bytes), Ok(sidecar));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Sidecar::open(&descriptor(), &damaged).is_err(), "{at}");
            assert!(Sidecar::open(&descriptor(), &bytes[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn pages_are_checked() {
        let mut data: Vec<u8> = (0..10000u32).map(|i| (i % 251) as u8).collect();
        let sidecar = sample(&data);
        let check = |offset: usize, bytes: &[u8]| {
            let block = BlockId { component: Component::Data, offset: offset as u64 };
            sidecar.check(&descriptor(), block, bytes).map_err(|error| error.offset)
        };
        assert_eq!(check(0, &data), Ok(()));
        assert_eq!(check(8192, &data[8192..]), Ok(()));
        assert_eq!(check(8192, &data[8192..9999]), Err(8192));
        assert_eq!(check(4096, &data[4096..8000]), Err(4096));
        assert_eq!(check(1, &data[1..4097]), Err(1));
        data[5000] ^= 1;
        assert_eq!(check(0, &data), Err(4096));
        let filter = BlockId { component: Component::Filter, offset: 0 };
        assert!(sidecar.check(&descriptor(), filter, &[1]).is_err());
        assert_eq!(sidecar.len(Component::Data), Some(10000));
        assert!(!sidecar.is_empty());
    }
}
