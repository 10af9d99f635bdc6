//! Writes whose clients were answered and that wait for further replicas.
//!
//! Invariants: they are at most [`WRITES_BEHIND_MAX`] with [`BYTES_BEHIND_MAX`] bytes.

use std::cell::Cell;
use std::rc::Rc;

/// Most writes of a core that wait for replicas after their clients were answered.
pub(crate) const WRITES_BEHIND_MAX: usize = 16384;
/// Most bytes of their mutations.
pub(crate) const BYTES_BEHIND_MAX: usize = 32 << 20;

/// Counts the writes of a core that wait in the background. Clones share the counts.
#[derive(Clone, Default)]
pub(crate) struct WritesBehind(Rc<Counts>);

#[derive(Default)]
struct Counts {
    writes: Cell<usize>,
    bytes: Cell<usize>,
}

/// One write that waits, until dropped.
pub(crate) struct WriteBehind {
    counts: Rc<Counts>,
    bytes: usize,
}

impl WritesBehind {
    /// Counts a write of `bytes` bytes; `None` if too many wait.
    pub(crate) fn enter(&self, bytes: usize) -> Option<WriteBehind> {
        let counts = &self.0;
        let (writes, all) = (counts.writes.get() + 1, counts.bytes.get() + bytes);
        if writes > WRITES_BEHIND_MAX || all > BYTES_BEHIND_MAX {
            return None;
        }
        counts.writes.set(writes);
        counts.bytes.set(all);
        Some(WriteBehind { counts: counts.clone(), bytes })
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.counts.writes.set(self.counts.writes.get() - 1);
        self.counts.bytes.set(self.counts.bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_bytes_are_limited() {
        let behind = WritesBehind::default();
        let mut all: Vec<_> = (0..WRITES_BEHIND_MAX).map(|_| behind.enter(1).expect("room")).collect();
        assert!(behind.enter(1).is_none(), "one write too many");
        all.pop();
        all.push(behind.enter(1).expect("room again"));
        all.clear();
        let whole = behind.enter(BYTES_BEHIND_MAX).expect("room");
        assert!(behind.enter(1).is_none(), "a byte too many");
        drop(whole);
        assert!(behind.enter(BYTES_BEHIND_MAX + 1).is_none());
    }
}
