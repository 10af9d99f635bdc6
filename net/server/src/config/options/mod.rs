//! The table of all options of `cassandra.yaml` 5.0: name, older names, kind of value, default, and what each one does
//! in this node.
//!
//! 1. The rows are in one file per theme: `node`, `clients`, `security`, `storage`, `repair`, `guardrails`.
//! 2. A group of options has a row, and each option in the group has another one with a dotted name.
//! 3. Reading a configuration checks every given value against its row; `docs/configuration.md` is generated from the
//!    rows.
//!
//! Invariants: a row says `Read` if and only if the configuration reads the option (a test compares them); no row
//! claims protection that the node does not give.

mod clients;
mod document;
mod guardrails;
pub(super) mod kind;
mod node;
pub(super) mod older;
mod repair;
mod security;
mod storage;
#[cfg(test)]
mod tests;

use super::{ConfigError, error};
pub use document::document;
use kind::{Kind, Meaning, last_word};
use older::Older;
use serde_norway::Value;

/// A row of the table: one option of `cassandra.yaml`.
#[derive(Debug)]
pub(super) struct Key {
    /// The option's name; in a group it is `group.option`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The default in Cassandra's class `Config`: empty for null, `''` for an empty text.
    default: &'static str,
    /// The value that Cassandra replaces this default with at start, if it does.
    applied: Option<&'static str>,
    /// Whether null may be given although the default is not null.
    nullable: bool,
    pub(super) effect: Effect,
    /// Older names, each with the way its value is written.
    pub(super) older: &'static [(&'static str, Older)],
    /// Whether the option is this node's own and unknown to Cassandra.
    own: bool,
}

/// What an option does here.
#[derive(Debug)]
pub(super) enum Effect {
    /// It does what it does in Cassandra, except for what the note says.
    Read { note: &'static str },
    /// It is read if `guardrails_apply_to_anonymous` is set. Otherwise it does nothing, because ordinary users are not
    /// told from superusers here.
    Guardrail,
    /// The node does not start, unless the value is the default or one of `taken`.
    Refused { taken: &'static [&'static str], reason: &'static str },
    /// It is shown in `system_views.settings` and has no other effect.
    Unused { reason: &'static str },
    /// A group: each of its options has an effect of its own.
    Group,
}

/// An option that was given and has no effect; the log warns about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unused {
    /// The option's name.
    pub option: String,
    /// Why the value means nothing here.
    pub reason: &'static str,
}

const CACHE: &str = "blocks of SSTables have one cache, a part of `--memory`";
const FUNCTIONS: &str = "there are no user functions";
const JVM: &str = "there is no JVM";
const MEMORY: &str = "`--memory` is one budget for everything";
const PAXOS: &str = "conditional changes of a key have one order while its replicas stay the same; repairs finish what rounds have left";
const SAI: &str = "storage-attached indexes are not there";
const THREADS: &str = "a core serves its requests without further threads";
const ANONYMOUS: &str = "`guardrails_apply_to_anonymous` is not set, with which guardrails hold everybody";

/// How many system keyspaces `keyspace_count_warn_threshold` counts and `keyspaces_warn_threshold` does not.
const SYSTEM_KEYSPACES: i64 = 5;
/// How many system tables `table_count_warn_threshold` counts and `tables_warn_threshold` does not.
const SYSTEM_TABLES: i64 = 48;

const fn row(name: &'static str, kind: Kind, default: &'static str, effect: Effect) -> Key {
    Key { name, kind, default, applied: None, nullable: false, effect, older: &[], own: false }
}

const fn read(name: &'static str, kind: Kind, default: &'static str, note: &'static str) -> Key {
    row(name, kind, default, Effect::Read { note })
}

const fn guardrail(name: &'static str, kind: Kind, default: &'static str) -> Key {
    row(name, kind, default, Effect::Guardrail)
}

const fn refused(name: &'static str, kind: Kind, default: &'static str, reason: &'static str) -> Key {
    row(name, kind, default, Effect::Refused { taken: &[], reason })
}

const fn unused(name: &'static str, kind: Kind, default: &'static str, reason: &'static str) -> Key {
    row(name, kind, default, Effect::Unused { reason })
}

const fn group(name: &'static str, default: &'static str) -> Key {
    row(name, kind::GROUP, default, Effect::Group)
}

impl Key {
    /// Adds values, besides the default, that a refused option may have.
    const fn takes(mut self, values: &'static [&'static str]) -> Key {
        if let Effect::Refused { reason, .. } = self.effect {
            self.effect = Effect::Refused { taken: values, reason };
        }
        self
    }

    const fn older(mut self, names: &'static [(&'static str, Older)]) -> Key {
        self.older = names;
        self
    }

    const fn applied(mut self, value: &'static str) -> Key {
        self.applied = Some(value);
        self
    }

    const fn nullable(mut self) -> Key {
        self.nullable = true;
        self
    }

    const fn own(mut self) -> Key {
        self.own = true;
        self
    }

    /// The default as `system_views.settings` shows it; `None` for null.
    pub(super) fn default_text(&self) -> Option<&'static str> {
        match self.applied.unwrap_or(self.default) {
            "" => None,
            "''" => Some(""),
            text => Some(text),
        }
    }

    /// Checks a value that was given. If the option has no effect it is added to `unused`.
    ///
    /// # Errors
    /// If the value has the wrong kind, is null where a value is needed, or is refused.
    pub(super) fn check(
        &self,
        value: &Value,
        guardrails_hold: bool,
        unused: &mut Vec<Unused>,
    ) -> Result<(), ConfigError> {
        let meaning = self.kind.meaning(self.name, value)?;
        if meaning == Meaning::Null && !self.default.is_empty() && !self.nullable {
            return error(format!("{}: a value is needed", self.name));
        }
        if self.is_default(&meaning) {
            return Ok(());
        }
        match self.effect {
            Effect::Read { .. } | Effect::Group => {}
            Effect::Unused { reason } => unused.push(Unused { option: self.name.into(), reason }),
            Effect::Guardrail if guardrails_hold => {}
            Effect::Guardrail => unused.push(Unused { option: self.name.into(), reason: ANONYMOUS }),
            Effect::Refused { taken, reason } => {
                let is_taken = |word: &str| match &meaning {
                    Meaning::Text(text) => last_word(text) == word,
                    meaning => self.meaning_of(word).as_ref() == Some(meaning),
                };
                if !taken.iter().any(|word| is_taken(word)) {
                    return error(self.refusal(value, taken, reason));
                }
            }
        }
        Ok(())
    }

    fn refusal(&self, value: &Value, taken: &[&str], reason: &str) -> String {
        let value = match kind::class_name(value).or_else(|| kind::scalar(value)) {
            Some(text) => text,
            None => "this value".into(),
        };
        let default = self.default_text().filter(|text| !text.is_empty() && *text != "{}");
        let only = default.into_iter().chain(taken.iter().copied()).collect::<Vec<_>>().join(" or ");
        match only.as_str() {
            "" => format!("{}: {value} is not supported yet: {reason}", self.name),
            only => format!("{}: {value} is not supported yet, only {only}: {reason}", self.name),
        }
    }

    fn is_default(&self, meaning: &Meaning) -> bool {
        let is = |default: &str| match default {
            "" => matches!(meaning, Meaning::Null | Meaning::Entries(false)),
            default => self.meaning_of(default).as_ref() == Some(meaning),
        };
        *meaning == Meaning::Null || is(self.default) || self.applied.is_some_and(is)
    }

    fn meaning_of(&self, text: &str) -> Option<Meaning> {
        let text = if text == "''" { "" } else { text };
        self.kind.meaning(self.name, &Value::String(text.into())).ok()
    }
}

/// All rows.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    [node::KEYS, clients::KEYS, security::KEYS, storage::KEYS, repair::KEYS, guardrails::KEYS].into_iter().flatten()
}

/// The row of the option `name`. If `name` is an older name, also how its value is written.
pub(super) fn find(name: &str) -> Option<(&'static Key, Option<Older>)> {
    all().find_map(|key| match key.name == name {
        true => Some((key, None)),
        false => key.older.iter().find(|(older, _)| *older == name).map(|(_, older)| (key, Some(*older))),
    })
}

/// An error that names the option nearest to the unknown `name`.
pub(super) fn unknown<T>(name: &str) -> Result<T, ConfigError> {
    let names = all().flat_map(|key| std::iter::once(key.name).chain(key.older.iter().map(|(older, _)| *older)));
    let nearest = names.min_by_key(|known| distance(known, name)).unwrap_or_default();
    error(format!("{name}: unknown option; did you mean {nearest}?"))
}

/// The Levenshtein distance: how many letters to insert, remove or replace to turn one name into the other.
fn distance(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row = (0..=b.len()).collect::<Vec<usize>>();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
