//! Plans of QUERY texts, so that a text sent repeatedly is not parsed each time.
//!
//! 1. A text is kept when it is planned for the second time within a while: a table of hashes remembers the first.
//!    Texts with different literals each time never get in.
//! 2. There are two generations. An entry that is used moves to the young one; when that is full it becomes the old
//!    one, and the previous old one is dropped.
//!
//! Invariants: both generations together hold at most `bytes_max` bytes; a schema change empties the cache.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Longest text that is kept, bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 8 << 10;
/// The share of a shard's memory for plans of texts is one part in this many.
pub(crate) const TEXTS_SHARE: usize = 512;
/// How many texts are remembered as planned once; a power of two.
const SEEN_MAX: usize = 1024;

type TextMap<V> = HashMap<Arc<str>, V, BuildHasherDefault<TextHasher>>;

/// The hasher of texts. A text is hashed in one piece, which takes a third of the instructions of a hasher that can go
/// on.
#[derive(Default, Debug)]
struct TextHasher {
    hash: u64,
}

impl Hasher for TextHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.hash = runtime::hash64(bytes);
    }

    /// The byte behind a text, which keeps texts apart that are hashed one after the other.
    #[inline]
    fn write_u8(&mut self, _: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

/// Plans by text, limited in bytes. `P` is a plan, cheap to clone.
pub(crate) struct TextCache<P> {
    seen: Box<[u64]>,
    young: TextMap<Entry<P>>,
    young_bytes: usize,
    old: TextMap<Entry<P>>,
    bytes_max: usize,
}

struct Entry<P> {
    plan: P,
    bytes: usize,
}

impl<P: Clone> TextCache<P> {
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> TextCache<P> {
        TextCache {
            seen: vec![0; SEEN_MAX].into(),
            young: TextMap::default(),
            young_bytes: 0,
            old: TextMap::default(),
            bytes_max,
        }
    }

    /// The plan of a text, if it passes `fits`.
    pub(crate) fn get(&mut self, text: &str, fits: impl Fn(&P) -> bool) -> Option<P> {
        if let Some(entry) = self.young.get(text) {
            return Some(entry.plan.clone()).filter(fits);
        }
        let (text, entry) = self.old.remove_entry(text)?;
        let plan = entry.plan.clone();
        self.insert(text, entry);
        Some(plan).filter(fits)
    }

    /// Keeps a plan of `bytes` bytes if its text was offered once before; the first offer is only remembered.
    pub(crate) fn offer(&mut self, text: &str, plan: &P, bytes: usize) {
        if text.len() > TEXT_BYTES_MAX || bytes > self.bytes_max / 2 {
            return;
        }
        // Never 0, which marks an empty slot.
        let hash = runtime::hash64(text.as_bytes()) | 1;
        let place = &mut self.seen[(hash >> 1) as usize % SEEN_MAX];
        if *place != hash {
            *place = hash;
            return;
        }
        self.insert(text.into(), Entry { plan: plan.clone(), bytes });
    }

    fn insert(&mut self, text: Arc<str>, entry: Entry<P>) {
        self.old.remove(&text);
        if self.young_bytes + entry.bytes > self.bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += entry.bytes;
        if let Some(before) = self.young.insert(text, entry) {
            self.young_bytes -= before.bytes;
        }
    }

    /// Forgets every plan.
    pub(crate) fn clear(&mut self) {
        self.young = TextMap::default();
        self.young_bytes = 0;
        self.old = TextMap::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(cache: &TextCache<u32>) -> usize {
        cache.young.len() + cache.old.len()
    }

    fn keep(cache: &mut TextCache<u32>, n: u32, bytes: usize) {
        let text = format!("text {n}");
        cache.offer(&text, &n, bytes);
        cache.offer(&text, &n, bytes);
    }

    #[test]
    fn a_text_is_kept_from_its_second_time_on() {
        let mut cache = TextCache::new(10_000);
        cache.offer("a", &1, 100);
        assert_eq!(cache.get("a", |_| true), None);
        cache.offer("a", &1, 100);
        assert_eq!(cache.get("a", |_| true), Some(1));
        assert_eq!(cache.get("a", |plan| *plan != 1), None, "of another keyspace");
        cache.offer("a", &2, 50);
        assert_eq!((cache.get("a", |_| true), cache.young_bytes), (Some(2), 50), "the newer one stays");
        cache.clear();
        assert_eq!((cache.get("a", |_| true), cache.young_bytes), (None, 0));
    }

    #[test]
    fn bytes_are_bounded_and_what_is_used_stays() {
        let mut cache = TextCache::new(1000);
        keep(&mut cache, 0, 100);
        for n in 1..200 {
            keep(&mut cache, n, 100);
            assert_eq!(cache.get("text 0", |_| true), Some(0), "after {n}");
            assert!(texts(&cache) <= 10 && cache.young_bytes <= 500);
            let held: usize = cache.young.values().chain(cache.old.values()).map(|entry| entry.bytes).sum();
            assert!(held <= 1000);
        }
        assert_eq!(cache.get("text 1", |_| true), None);
        keep(&mut cache, 1000, 500);
        assert_eq!(cache.get("text 1000", |_| true), Some(1000), "half of the cache");
        keep(&mut cache, 1001, 501);
        assert_eq!(cache.get("text 1001", |_| true), None);
    }

    #[test]
    fn long_texts_are_not_kept() {
        let mut cache = TextCache::new(1 << 20);
        for (len, kept) in [(TEXT_BYTES_MAX, true), (TEXT_BYTES_MAX + 1, false)] {
            let text = "x".repeat(len);
            cache.offer(&text, &1, len);
            cache.offer(&text, &1, len);
            assert_eq!(cache.get(&text, |_| true).is_some(), kept);
        }
    }

    #[test]
    fn texts_have_the_hashes_of_their_bytes() {
        use std::hash::BuildHasher;
        let hasher = BuildHasherDefault::<TextHasher>::default();
        for text in ["", "SELECT v FROM k.t WHERE k = 1", "SELECT v FROM k.t WHERE k = 2"] {
            assert_eq!(hasher.hash_one(text), runtime::hash64(text.as_bytes()));
            assert_eq!(hasher.hash_one(Arc::<str>::from(text)), runtime::hash64(text.as_bytes()));
        }
    }

    #[test]
    fn texts_that_never_come_again_take_no_room() {
        let mut cache = TextCache::new(1 << 20);
        for n in 0..10_000 {
            cache.offer(&format!("INSERT {n}"), &n, 100);
        }
        assert_eq!(texts(&cache), 0);
    }
}
