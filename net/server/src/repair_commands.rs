//! The repair commands of this node: what they have said so far, and whether they are to end.
//!
//! Invariants: at most [`COMMANDS_MAX`] commands are known, and the oldest that have ended are forgotten first; a
//! command has at most [`LINES_MAX`] lines, of which the last are left out.

use runtime::sync::Condition;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most commands that are known.
pub(crate) const COMMANDS_MAX: usize = 64;
/// Most lines that a command may have.
pub(crate) const LINES_MAX: usize = 1 << 17;

/// The commands by their numbers.
#[derive(Default)]
pub(crate) struct RepairCommands {
    last: Cell<u64>,
    last_key: Cell<u64>,
    commands: RefCell<BTreeMap<u64, Rc<RepairCommand>>>,
}

/// A command under way, or ended.
#[derive(Default)]
pub(crate) struct RepairCommand {
    lines: RefCell<Vec<String>>,
    /// How it ended: the error, if there was one.
    ended: RefCell<Option<Result<(), String>>>,
    changed: Condition,
}

/// What a command has said behind some line.
pub(crate) struct Said {
    /// The lines.
    pub(crate) lines: Vec<String>,
    /// How it ended, if it has.
    pub(crate) ended: Option<Result<(), String>>,
}

impl RepairCommands {
    /// A number for a new command.
    pub(crate) fn number(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Keeps a command under a key of its own; `None` if too many are under way.
    pub(crate) fn begin(&self) -> Option<(u64, Rc<RepairCommand>)> {
        let mut commands = self.commands.borrow_mut();
        while commands.len() >= COMMANDS_MAX {
            let ended = commands.iter().find(|(_, command)| command.ended.borrow().is_some()).map(|(key, _)| *key)?;
            commands.remove(&ended);
        }
        // A key that was used is never used again, even if its command is forgotten.
        let key = self.last_key.get() + 1;
        self.last_key.set(key);
        let command = Rc::new(RepairCommand::default());
        commands.insert(key, command.clone());
        Some((key, command))
    }

    /// The command with this key.
    pub(crate) fn get(&self, key: u64) -> Option<Rc<RepairCommand>> {
        self.commands.borrow().get(&key).cloned()
    }
}

impl RepairCommand {
    /// Notes a line.
    pub(crate) fn say(&self, line: String) {
        let mut lines = self.lines.borrow_mut();
        if lines.len() < LINES_MAX {
            lines.push(line);
        }
        drop(lines);
        self.changed.notify();
    }

    /// Notes the end.
    pub(crate) fn end(&self, how: Result<(), String>) {
        *self.ended.borrow_mut() = Some(how);
        self.changed.notify();
    }

    /// Waits until there is something behind the first `known` lines, or the end.
    pub(crate) async fn said(&self, known: usize) -> Said {
        self.changed
            .wait(|| {
                let (lines, ended) = (self.lines.borrow(), self.ended.borrow());
                let is_news = lines.len() > known || ended.is_some();
                is_news.then(|| Said { lines: lines.iter().skip(known).cloned().collect(), ended: ended.clone() })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_commands_give_way_to_new_ones() {
        let commands = RepairCommands::default();
        let all: Vec<_> = (0..COMMANDS_MAX).map(|_| commands.begin().expect("room")).collect();
        assert!(commands.begin().is_none(), "all are under way");
        all[3].1.end(Ok(()));
        let (key, _) = commands.begin().expect("one has ended");
        assert_eq!(key, COMMANDS_MAX as u64 + 1);
        assert!(commands.get(all[3].0).is_none() && commands.get(all[2].0).is_some() && commands.get(key).is_some());
        assert_eq!((commands.number(), commands.number()), (1, 2));
        let newest = commands.get(key).expect("known");
        newest.end(Ok(()));
        let (next, _) = commands.begin().expect("one has ended");
        assert_eq!(next, key + 1, "the key of a command that is forgotten is not used again");
    }

    #[test]
    fn lines_are_bounded() {
        let command = RepairCommand::default();
        (0..=LINES_MAX).for_each(|line| command.say(line.to_string()));
        assert_eq!(command.lines.borrow().len(), LINES_MAX);
        assert_eq!(command.lines.borrow().last().map(String::as_str), Some((LINES_MAX - 1).to_string().as_str()));
    }
}
