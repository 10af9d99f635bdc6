//! What shard 0 does about each damaged SSTable of the node, as it was last told.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The state of a damaged SSTable of which nothing else was told yet.
const FOUND: &str = "its rows are to be fetched from the other replicas";

/// Texts by Data.db.
#[derive(Default)]
pub(crate) struct DamagedStates {
    texts: RefCell<BTreeMap<PathBuf, String>>,
}

impl DamagedStates {
    /// Forgets all but these.
    pub(crate) fn retain(&self, files: &BTreeSet<&PathBuf>) {
        self.texts.borrow_mut().retain(|file, _| files.contains(file));
    }

    /// Notes one that was found; false if it is known.
    pub(crate) fn found(&self, file: &Path) -> bool {
        let mut texts = self.texts.borrow_mut();
        let is_new = !texts.contains_key(file);
        if is_new {
            texts.insert(file.to_owned(), FOUND.into());
        }
        is_new
    }

    /// Whether one was noted.
    pub(crate) fn is_known(&self, file: &Path) -> bool {
        self.texts.borrow().contains_key(file)
    }

    /// Sets what is told of one; false if it is what was told before.
    pub(crate) fn tell(&self, file: &Path, text: &str) -> bool {
        let before = self.texts.borrow_mut().insert(file.to_owned(), text.into());
        before.is_none_or(|before| before != text)
    }

    /// What is told of each.
    pub(crate) fn texts(&self) -> Ref<'_, BTreeMap<PathBuf, String>> {
        self.texts.borrow()
    }
}
