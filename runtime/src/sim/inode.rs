//! The content of a simulated file: what readers see, and what a crash may leave of it.
//!
//! 1. Files are written in pages of 4096 bytes. A page that is not durable keeps its older versions from the durable
//!    one on.
//! 2. A sync makes durable what was written before it was called, and forgets the versions before.
//! 3. A crash picks one version for each sector of 512 bytes of each page that is not durable, and one of the lengths
//!    that the file has had since it was durable.
//!
//! Invariants: a page without older versions is durable; pages lie below the length.

use crate::generator::Rng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) const PAGE: usize = 4096;
/// The bytes that a disk writes whole or not at all.
pub(crate) const SECTOR: usize = 512;

/// The most versions kept besides the visible one; the durable one and the latest are kept.
const VERSIONS_MAX: usize = 16;

pub(crate) type Page = Rc<[u8; PAGE]>;

/// What a crash does to data that is not durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// It is lost.
    All,
    /// It is kept.
    None,
    /// Each piece is lost or kept at random.
    Some,
}

impl Loss {
    pub(crate) fn pick(rng: &mut Rng) -> Loss {
        match rng.below(4) {
            0 => Loss::All,
            1 => Loss::None,
            _ => Loss::Some,
        }
    }

    /// Whether a piece is kept.
    pub(crate) fn keeps(self, rng: &mut Rng) -> bool {
        match self {
            Loss::All => false,
            Loss::None => true,
            Loss::Some => rng.below(2) == 0,
        }
    }

    /// Picks one of `versions`, which are numbered from the oldest.
    fn version(self, versions: usize, rng: &mut Rng) -> usize {
        match self {
            Loss::All => 0,
            Loss::None => versions - 1,
            Loss::Some => rng.below(versions as u64) as usize,
        }
    }
}

/// The versions before the visible one, the durable one first, each with the number of its write.
struct Older<T> {
    versions: Vec<(u64, T)>,
    /// The number of the write that made the visible version.
    latest: u64,
}

impl<T> Older<T> {
    /// Notes that write number `written` has replaced the version `old`.
    fn replaced(&mut self, old: T, written: u64) {
        self.versions.push((self.latest, old));
        self.latest = written;
        if self.versions.len() > VERSIONS_MAX {
            self.versions.remove(1);
        }
    }

    /// Forgets the versions that a sync of all writes up to `written` rules out; true if none is left.
    fn synced(&mut self, written: u64) -> bool {
        if self.latest <= written {
            return true;
        }
        if let Some(durable) = self.versions.iter().rposition(|(number, _)| *number <= written) {
            self.versions.drain(..durable);
        }
        false
    }
}

/// The content of a file.
pub(crate) struct Inode {
    pages: BTreeMap<u64, Page>,
    len: u64,
    older_pages: BTreeMap<u64, Older<Option<Page>>>,
    older_lens: Option<Older<u64>>,
    written: u64,
    /// The bytes used on the disk, shared by its files.
    used: Rc<Cell<u64>>,
}

impl Inode {
    pub(crate) fn new(used: Rc<Cell<u64>>) -> Inode {
        Inode { pages: BTreeMap::new(), len: 0, older_pages: BTreeMap::new(), older_lens: None, written: 0, used }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The number of the latest write, for [`Inode::sync`].
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether the file has `page`, so that writing it takes no space.
    pub(crate) fn has(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Fills `out` from `offset` and returns the number of bytes read.
    pub(crate) fn read(&self, out: &mut [u8], offset: u64) -> usize {
        let len = self.len.saturating_sub(offset).min(out.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let n = (PAGE - within).min(len - done);
            match self.pages.get(&(at / PAGE as u64)) {
                Some(page) => out[done..done + n].copy_from_slice(&page[within..within + n]),
                None => out[done..done + n].fill(0),
            }
            done += n;
        }
        len
    }

    /// All bytes.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let mut out = vec![0; self.len as usize];
        self.read(&mut out, 0);
        out
    }

    /// Writes `pages` from page `first` up to byte `end`, visible at once.
    pub(crate) fn write(&mut self, first: u64, pages: &[Page], end: u64, durable: bool) {
        self.written += 1;
        for (page, content) in (first..).zip(pages) {
            let old = self.pages.insert(page, content.clone());
            if old.is_none() {
                self.used.set(self.used.get() + PAGE as u64);
            }
            if durable {
                self.older_pages.remove(&page);
            } else {
                let older = self.older_pages.entry(page).or_insert(Older { versions: Vec::new(), latest: 0 });
                older.replaced(old, self.written);
            }
        }
        if durable {
            // A crash cannot leave a shorter length.
            if let Some(lens) = &mut self.older_lens {
                lens.versions.iter_mut().for_each(|(_, len)| *len = (*len).max(end));
            }
        }
        if end > self.len {
            if durable {
                self.older_lens = None;
            } else {
                let lens = self.older_lens.get_or_insert(Older { versions: Vec::new(), latest: 0 });
                lens.replaced(self.len, self.written);
            }
            self.len = end;
        }
    }

    /// Shortens the file within its last page; until a sync a crash may restore a longer length.
    pub(crate) fn trim(&mut self, len: u64) {
        self.written += 1;
        let lens = self.older_lens.get_or_insert(Older { versions: Vec::new(), latest: 0 });
        lens.replaced(self.len, self.written);
        self.len = len;
    }

    /// Makes the writes up to number `written` durable.
    pub(crate) fn sync(&mut self, written: u64) {
        self.older_pages.retain(|_, older| !older.synced(written));
        if self.older_lens.as_mut().is_some_and(|older| older.synced(written)) {
            self.older_lens = None;
        }
    }

    /// Loses data that is not durable, by `loss` and the seed; what is left is durable.
    pub(crate) fn lose(&mut self, loss: Loss, rng: &mut Rng) {
        for (number, older) in std::mem::take(&mut self.older_pages) {
            let visible = self.pages.remove(&number);
            let had = visible.is_some();
            let mut versions: Vec<Option<Page>> = older.versions.into_iter().map(|(_, page)| page).collect();
            versions.push(visible);
            let kept = if loss == Loss::Some {
                torn(&versions, rng)
            } else {
                versions[loss.version(versions.len(), rng)].clone()
            };
            match (had, kept.is_some()) {
                (true, false) => self.used.set(self.used.get() - PAGE as u64),
                (false, true) => self.used.set(self.used.get() + PAGE as u64),
                _ => {}
            }
            if let Some(page) = kept {
                self.pages.insert(number, page);
            }
        }
        if let Some(older) = self.older_lens.take() {
            let mut lens: Vec<u64> = older.versions.into_iter().map(|(_, len)| len).collect();
            lens.push(self.len);
            self.truncate(lens[loss.version(lens.len(), rng)]);
        }
    }

    /// Replaces the whole content, durably.
    pub(crate) fn replace(&mut self, contents: &[u8]) {
        self.older_pages.clear();
        self.older_lens = None;
        self.truncate(0);
        self.write(0, &pages_of(contents), contents.len() as u64, true);
    }

    fn truncate(&mut self, len: u64) {
        let gone = self.pages.split_off(&len.div_ceil(PAGE as u64));
        self.used.set(self.used.get() - (gone.len() * PAGE) as u64);
        self.len = len;
        let within = (len % PAGE as u64) as usize;
        if within > 0
            && let Some(page) = self.pages.get_mut(&(len / PAGE as u64))
        {
            Rc::make_mut(page)[within..].fill(0);
        }
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.used.set(self.used.get() - (self.pages.len() * PAGE) as u64);
    }
}

/// A page whose sectors come from random versions.
fn torn(versions: &[Option<Page>], rng: &mut Rng) -> Option<Page> {
    let mut page = Rc::new([0; PAGE]);
    let bytes = Rc::make_mut(&mut page);
    let mut any = false;
    for sector in bytes.chunks_exact_mut(SECTOR).enumerate() {
        let (number, sector) = sector;
        if let Some(version) = &versions[rng.below(versions.len() as u64) as usize] {
            sector.copy_from_slice(&version[number * SECTOR..(number + 1) * SECTOR]);
            any = true;
        }
    }
    any.then_some(page)
}

/// Splits `bytes` into pages, the last one padded with zeros.
pub(crate) fn pages_of(bytes: &[u8]) -> Vec<Page> {
    let page = |chunk: &[u8]| {
        if let Ok(page) = Rc::<[u8]>::from(chunk).try_into() {
            return page;
        }
        let mut page = Rc::new([0; PAGE]);
        Rc::make_mut(&mut page)[..chunk.len()].copy_from_slice(chunk);
        page
    };
    bytes.chunks(PAGE).map(page).collect()
}
