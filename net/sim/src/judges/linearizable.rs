//! Checks linearizability: that conditional changes and SERIAL reads of a partition took effect one after another, each
//! between its request and its answer.
//!
//! 1. A partition is a few registers. An operation looks at some of them and, if all are as it expects, writes some.
//! 2. All orders in which the operations may have taken effect are followed at once, as a set of possibilities. A
//!    possibility holds the values of the registers and, for each operation that has taken effect and is not answered
//!    yet, the values that it saw.
//! 3. An answer keeps those possibilities in which its operation has taken effect, perhaps after others that are not
//!    answered yet, and saw what the answer says. If none is left, no order explains the answers.
//! 4. An operation that failed for certain has taken effect in no possibility. One with an unknown fate stays open
//!    until the node has restarted and answered about the partition: if it has not taken effect by then, it never will.
//!    It is closed as well once it has taken effect in every possibility, or once what it expects of a register is
//!    neither there in any possibility nor written by an open operation: then it changes nothing any more.
//! 5. What an operation with an unknown fate saw is not kept, because nobody is told. Of two possibilities that differ
//!    by such operations alone, the one in which fewer have taken effect allows whatever the other allows, and stands
//!    for both.
//!
//! Invariants: every write has a value of its own, so a register's value names its last write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many registers a partition has.
pub const REGISTERS: usize = 3;
/// How many possibilities are followed at most; a history with more fails.
const POSSIBILITIES_MAX: usize = 100_000;

/// A register of a partition: `0..REGISTERS`.
pub type Register = usize;
/// The registers' values.
pub type State = [Option<i64>; REGISTERS];
/// An operation's number within its partition.
pub type OperationId = u64;

/// What an operation expects of a register; it writes only if all its expectations hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// This value, or none.
    Value(Option<i64>),
    /// Any value, but not none.
    Some,
}

/// A conditional change; a read if it has no writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Operation {
    /// The registers that it looks at, and what it expects of each.
    pub expects: Vec<(Register, Expected)>,
    /// What it writes to registers if all expectations hold.
    pub writes: Vec<(Register, Option<i64>)>,
}

impl Operation {
    fn applies(&self, state: &State) -> bool {
        self.expects.iter().all(|(register, expected)| match expected {
            Expected::Value(value) => state[*register] == *value,
            Expected::Some => state[*register].is_some(),
        })
    }

    fn after(&self, mut state: State) -> State {
        if self.applies(&state) {
            self.writes.iter().for_each(|(register, value)| state[*register] = *value);
        }
        state
    }
}

/// What the answer to an operation said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Whether the operation was applied; a read always is.
    pub applied: bool,
    /// The registers that the answer showed.
    pub shown: Vec<(Register, Option<i64>)>,
}

impl Answer {
    /// Whether `operation`, taking effect on the registers `before`, would have been answered like this.
    fn suits(&self, operation: &Operation, before: &State) -> bool {
        operation.applies(before) == self.applied
            && self.shown.iter().all(|(register, value)| before[*register] == *value)
    }
}

/// How an operation ended for the client that sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It was answered.
    Answered(Answer),
    /// It failed for certain.
    Failed,
    /// It may have taken effect, or may do so later.
    Unknown,
}

/// The result of one order in which the operations may have taken effect.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Possibility {
    known: Known,
    /// The operations with unknown fates that have taken effect.
    spent: BTreeSet<OperationId>,
}

/// What matters of a possibility, but for the operations with unknown fates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Known {
    state: State,
    /// The operations that have taken effect and are going to be answered, with the registers that each of them saw.
    done: BTreeMap<OperationId, State>,
}

/// Possibilities of which none stands for another.
#[derive(Default)]
struct Possibilities {
    spent: BTreeMap<Known, Vec<BTreeSet<OperationId>>>,
    count: usize,
}

impl Possibilities {
    /// Adds one. Returns false if another one stands for it already.
    fn insert(&mut self, possibility: Possibility) -> bool {
        let of_equals = self.spent.entry(possibility.known).or_default();
        if of_equals.iter().any(|spent| spent.is_subset(&possibility.spent)) {
            return false;
        }
        let before = of_equals.len();
        of_equals.retain(|spent| !possibility.spent.is_subset(spent));
        of_equals.push(possibility.spent);
        self.count = self.count + of_equals.len() - before;
        true
    }

    fn into_vec(self) -> Vec<Possibility> {
        let of_equals = |(known, spent): (Known, Vec<BTreeSet<OperationId>>)| {
            spent.into_iter().map(move |spent| Possibility { known: known.clone(), spent })
        };
        self.spent.into_iter().flat_map(of_equals).collect()
    }
}

impl FromIterator<Possibility> for Possibilities {
    fn from_iter<I: IntoIterator<Item = Possibility>>(all: I) -> Possibilities {
        let mut possibilities = Possibilities::default();
        for possibility in all {
            possibilities.insert(possibility);
        }
        possibilities
    }
}

#[derive(Debug)]
struct Open {
    operation: Operation,
    /// How many restarts of the node had happened when it was sent.
    epoch: u64,
    unknown: bool,
}

/// The operations on one partition that are not answered yet, and the orders that the answers so far allow.
#[derive(Debug)]
pub struct Partition {
    possibilities: Vec<Possibility>,
    open: BTreeMap<OperationId, Open>,
    next: OperationId,
    epoch: u64,
}

impl Default for Partition {
    fn default() -> Partition {
        Partition { possibilities: vec![Possibility::default()], open: BTreeMap::new(), next: 0, epoch: 0 }
    }
}

impl Partition {
    /// Records that an operation is sent. Returns its number.
    pub fn begin(&mut self, operation: Operation) -> OperationId {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, Open { operation, epoch: self.epoch, unknown: false });
        id
    }

    /// Records that the node serves again: earlier operations that have not taken effect never will.
    pub fn restarted(&mut self) {
        self.epoch += 1;
    }

    /// How many operations of unknown end may still take effect.
    pub fn undecided(&self) -> usize {
        self.open.values().filter(|open| open.unknown && open.epoch == self.epoch).count()
    }

    /// Records how an operation ended. Fails if no order explains that.
    pub fn finish(&mut self, id: OperationId, ending: Ending) -> Result<(), String> {
        match ending {
            Ending::Failed => {
                self.open.remove(&id);
                self.possibilities.retain(|possibility| !possibility.known.done.contains_key(&id));
            }
            Ending::Unknown => match self.open.get_mut(&id) {
                // A read without an answer tells nothing.
                Some(open) if open.operation.writes.is_empty() => {
                    self.open.remove(&id);
                    self.change_each(|possibility| {
                        possibility.known.done.remove(&id);
                    });
                }
                Some(open) => {
                    open.unknown = true;
                    self.change_each(|possibility| {
                        if possibility.known.done.remove(&id).is_some() {
                            possibility.spent.insert(id);
                        }
                    });
                }
                None => {}
            },
            Ending::Answered(answer) => return self.answered(id, &answer),
        }
        match self.possibilities.is_empty() {
            true => Err(format!("operation {id} failed for certain and was seen")),
            false => Ok(()),
        }
    }

    fn answered(&mut self, id: OperationId, answer: &Answer) -> Result<(), String> {
        let Some(own) = self.open.remove(&id) else { return Err(format!("operation {id} ended twice")) };
        let before = std::mem::take(&mut self.possibilities);
        let (mut kept, mut seen) = (Possibilities::default(), Possibilities::default());
        // Those in which fewer operations have taken effect come first: they stand for many others.
        let mut queue: VecDeque<Possibility> = before.iter().cloned().collect();
        while let Some(possibility) = queue.pop_front() {
            if !seen.insert(possibility.clone()) {
                continue;
            }
            if seen.count > POSSIBILITIES_MAX {
                return Err(format!("more than {POSSIBILITIES_MAX} orders are possible"));
            }
            let Possibility { known: Known { state, done }, spent } = &possibility;
            if let Some(saw) = done.get(&id) {
                if answer.suits(&own.operation, saw) {
                    let mut next = possibility.clone();
                    next.known.done.remove(&id);
                    kept.insert(next);
                }
                continue;
            }
            if answer.suits(&own.operation, state) {
                let mut next = possibility.clone();
                next.known.state = own.operation.after(*state);
                kept.insert(next);
            }
            for (other, open) in &self.open {
                let after = open.operation.after(*state);
                // Whether an unknown operation that changes nothing took effect makes no difference.
                if done.contains_key(other) || spent.contains(other) || open.unknown && after == *state {
                    continue;
                }
                let mut next = possibility.clone();
                next.known.state = after;
                if open.unknown {
                    next.spent.insert(*other);
                } else {
                    next.known.done.insert(*other, *state);
                }
                queue.push_back(next);
            }
        }
        self.possibilities = kept.into_vec();
        if self.possibilities.is_empty() {
            let states: BTreeSet<State> = before.iter().map(|possibility| possibility.known.state).collect();
            return Err(format!(
                "{:?} answered {answer:?}, which no order allows; before it {states:?}, open {:?}",
                own.operation, self.open
            ));
        }
        if own.epoch == self.epoch {
            self.forget_lost();
        }
        while self.forget_idle() {}
        Ok(())
    }

    fn change_each(&mut self, change: impl Fn(&mut Possibility)) {
        let mut all = std::mem::take(&mut self.possibilities);
        all.iter_mut().for_each(change);
        self.possibilities = Possibilities::from_iter(all).into_vec();
    }

    /// Closes unknown operations from before the last restart: they have taken effect by now or never will.
    fn forget_lost(&mut self) {
        let epoch = self.epoch;
        self.forget(|_, open| open.epoch < epoch);
    }

    /// Closes unknown operations that have taken effect in every possibility, and those that expect what no register
    /// will ever hold again. Returns whether there were any: what they would have written cannot be expected any more
    /// either.
    fn forget_idle(&mut self) -> bool {
        if !self.open.values().any(|open| open.unknown) {
            return false;
        }
        let mut reachable: [BTreeSet<Option<i64>>; REGISTERS] = Default::default();
        for possibility in &self.possibilities {
            for (values, value) in reachable.iter_mut().zip(possibility.known.state) {
                values.insert(value);
            }
        }
        for (register, value) in self.open.values().flat_map(|open| &open.operation.writes) {
            reachable[*register].insert(*value);
        }
        let Some((first, others)) = self.possibilities.split_first() else { return false };
        let in_all = |id: &&OperationId| others.iter().all(|other| other.spent.contains(id));
        let settled: BTreeSet<OperationId> = first.spent.iter().filter(in_all).copied().collect();
        self.forget(|id, open| {
            let is_idle = open.operation.expects.iter().any(|(register, expected)| match expected {
                Expected::Value(value) => !reachable[*register].contains(value),
                Expected::Some => reachable[*register].iter().all(Option::is_none),
            });
            is_idle || settled.contains(id)
        })
    }

    /// Closes the unknown operations that `is_over` selects. Returns whether there are any.
    fn forget(&mut self, is_over: impl Fn(&OperationId, &Open) -> bool) -> bool {
        let over: BTreeSet<OperationId> =
            self.open.iter().filter(|(id, open)| open.unknown && is_over(id, open)).map(|(id, _)| *id).collect();
        if over.is_empty() {
            return false;
        }
        self.open.retain(|id, _| !over.contains(id));
        self.change_each(|possibility| possibility.spent.retain(|id| !over.contains(id)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cas(register: Register, from: Option<i64>, to: i64) -> Operation {
        Operation { expects: vec![(register, Expected::Value(from))], writes: vec![(register, Some(to))] }
    }

    fn answer(applied: bool, shown: &[(Register, Option<i64>)]) -> Ending {
        Ending::Answered(Answer { applied, shown: shown.to_vec() })
    }

    fn read(partition: &mut Partition, value: Option<i64>) -> Result<(), String> {
        let id = partition.begin(Operation::default());
        partition.finish(id, answer(true, &[(0, value)]))
    }

    #[test]
    fn one_after_another() {
        let mut partition = Partition::default();
        let first = partition.begin(cas(0, None, 1));
        assert_eq!(partition.finish(first, answer(true, &[])), Ok(()));
        let second = partition.begin(cas(0, None, 2));
        assert_eq!(partition.finish(second, answer(false, &[(0, Some(1))])), Ok(()));
        assert_eq!(read(&mut partition, Some(1)), Ok(()));
        assert!(read(&mut partition, None).is_err());
    }

    #[test]
    fn two_at_the_same_time_cannot_both_win() {
        let begin = || {
            let mut partition = Partition::default();
            let ids = [partition.begin(cas(0, None, 1)), partition.begin(cas(0, None, 2))];
            (partition, ids)
        };
        let (mut partition, [first, second]) = begin();
        assert_eq!(partition.finish(second, answer(false, &[(0, Some(1))])), Ok(()));
        assert_eq!(partition.finish(first, answer(true, &[])), Ok(()));
        let (mut partition, [first, second]) = begin();
        assert_eq!(partition.finish(first, answer(true, &[])), Ok(()));
        assert!(partition.finish(second, answer(true, &[])).is_err());
    }

    #[test]
    fn what_is_unknown_stays_open_until_the_node_has_answered_after_a_start() {
        let begin = || {
            let mut partition = Partition::default();
            let id = partition.begin(cas(0, None, 1));
            partition.finish(id, Ending::Unknown).expect("possible");
            partition
        };
        let mut partition = begin();
        assert_eq!(read(&mut partition, None), Ok(()));
        assert_eq!(read(&mut partition, Some(1)), Ok(()), "it came late");
        assert!(read(&mut partition, None).is_err(), "and stays");
        let mut partition = begin();
        partition.restarted();
        assert_eq!(read(&mut partition, None), Ok(()));
        assert!(read(&mut partition, Some(1)).is_err(), "it was not there after the start");
        let mut partition = begin();
        partition.restarted();
        assert_eq!(read(&mut partition, Some(1)), Ok(()));
    }

    #[test]
    fn many_operations_with_unknown_fates_leave_few_possibilities() {
        let mut partition = Partition::default();
        let first = partition.begin(cas(0, None, 100));
        partition.finish(first, answer(true, &[])).expect("possible");
        for value in 0..12 {
            let alter = Operation { expects: vec![(0, Expected::Some)], writes: vec![(0, Some(value))] };
            let id = partition.begin(alter);
            partition.finish(id, Ending::Unknown).expect("possible");
        }
        for value in [3, 7, 0] {
            assert_eq!(read(&mut partition, Some(value)), Ok(()));
        }
        assert_eq!(partition.possibilities.len(), 1, "{:?}", partition.possibilities);
        assert!(read(&mut partition, Some(3)).is_err(), "it has taken effect once");
    }

    #[test]
    fn what_expects_a_value_that_never_comes_again_is_closed() {
        let mut partition = Partition::default();
        let first = partition.begin(cas(0, None, 1));
        partition.finish(first, answer(true, &[])).expect("possible");
        // The second and the third could follow each other; the last one waits for a deletion.
        let deletes = Operation { expects: vec![(0, Expected::Some)], writes: vec![(0, None)] };
        for operation in [cas(0, Some(1), 2), cas(0, Some(2), 3), cas(0, None, 5), deletes] {
            let id = partition.begin(operation);
            partition.finish(id, Ending::Unknown).expect("possible");
        }
        assert_eq!(partition.undecided(), 4);
        let other = partition.begin(cas(0, Some(1), 4));
        assert_eq!(partition.finish(other, answer(true, &[])), Ok(()));
        assert_eq!(partition.undecided(), 2);
        assert_eq!(read(&mut partition, Some(5)), Ok(()), "after the deletion");
        assert_eq!(partition.undecided(), 0, "both have taken effect");
        assert!(read(&mut partition, Some(3)).is_err());
    }

    #[test]
    fn what_failed_for_certain_is_never_seen() {
        let mut partition = Partition::default();
        let id = partition.begin(cas(0, None, 1));
        assert_eq!(partition.finish(id, Ending::Failed), Ok(()));
        assert!(read(&mut partition, Some(1)).is_err());
        let mut partition = Partition::default();
        let id = partition.begin(cas(0, None, 1));
        assert_eq!(read(&mut partition, Some(1)), Ok(()));
        assert!(partition.finish(id, Ending::Failed).is_err());
    }

    #[test]
    fn several_registers_change_together() {
        let mut partition = Partition::default();
        let both = Operation {
            expects: vec![(0, Expected::Value(None)), (1, Expected::Value(None))],
            writes: vec![(0, Some(1)), (1, Some(1))],
        };
        let id = partition.begin(both);
        let other = partition.begin(Operation::default());
        assert!(partition.finish(other, answer(true, &[(0, Some(1)), (1, None)])).is_err());
        let _ = id;
    }
}
