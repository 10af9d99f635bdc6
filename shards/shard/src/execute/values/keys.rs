//! The partition keys that a statement names.

use super::binding::Values;
use crate::shard_state::Shard;
use cql::plan::Choice;
use model::key::{KEY_BYTES_MAX, push_composite};
use model::{Failure, Table};
use std::borrow::Cow;

/// Serialised partition keys.
pub(crate) enum Keys<'a> {
    /// One key, borrowed if it has one column.
    One(Cow<'a, [u8]>),
    /// Several keys, in the order of their values.
    Many(Vec<Vec<u8>>),
}

impl<'a> Keys<'a> {
    /// The keys that `choices` (one per partition key column) name. Fails if one is empty or too long.
    pub(crate) fn of(
        shard: &Shard,
        table: &Table,
        choices: &'a [Choice],
        values: &'a Values<'_>,
    ) -> Result<Keys<'a>, Failure> {
        let keys = Keys::unchecked(shard, table, choices, values)?;
        keys.iter().try_for_each(|key| check_key(table, key))?;
        Ok(keys)
    }

    /// The keys that `choices` name, without checking them: a SELECT that names no rows does not look at its keys.
    pub(crate) fn unchecked(
        shard: &Shard,
        table: &Table,
        choices: &'a [Choice],
        values: &'a Values<'_>,
    ) -> Result<Keys<'a>, Failure> {
        if let [Choice::One(term)] = choices
            && let [column] = table.partition_key()
        {
            return Ok(Keys::One(values.restriction(shard, term, column)?));
        }
        let mut keys = Vec::new();
        for combination in values.prefixes(shard, table.partition_key(), choices)?.iter() {
            let key = match combination {
                [key] => key.to_vec(),
                several => {
                    let len: usize = several.iter().map(|component| component.len() + 3).sum();
                    check_len(len)?;
                    let mut key = Vec::with_capacity(len);
                    push_composite(several.iter().map(|component| &**component), &mut key);
                    key
                }
            };
            keys.push(key);
        }
        Ok(match keys.len() {
            1 => Keys::One(Cow::Owned(keys.swap_remove(0))),
            _ => Keys::Many(keys),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match self {
            Keys::One(key) => (Some(&**key), [].as_slice()),
            Keys::Many(keys) => (None, keys.as_slice()),
        };
        one.into_iter().chain(many.iter().map(Vec::as_slice))
    }
}

/// Refuses a partition key of `table` that is empty or too long.
pub(in crate::execute) fn check_key(table: &Table, key: &[u8]) -> Result<(), Failure> {
    if key.is_empty() {
        return Err(Failure::invalid("Key may not be empty"));
    }
    check_len(key.len())?;
    match table.is_key_too_long(key) {
        false => Ok(()),
        true => Err(Failure::invalid(format!(
            "Key length of {} leaves no room for the number of its sub-partition: the maximum is {KEY_BYTES_MAX}",
            key.len()
        ))),
    }
}

fn check_len(len: usize) -> Result<(), Failure> {
    if len > KEY_BYTES_MAX {
        return Err(Failure::invalid(format!("Key length of {len} is longer than maximum of {KEY_BYTES_MAX}")));
    }
    Ok(())
}
