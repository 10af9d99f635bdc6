//! Checks linearizability: that conditional changes and SERIAL reads of a partition took effect one after another, each
//! between its request and its answer.
//!
//! 1. A partition is a few registers. An operation looks at some of them and, if all are as it expects, writes some.
//! 2. What happens is judged in its order, but not before it is known how each operation ended that had begun by then:
//!    an operation that is going to be answered takes effect only where it sees what its answer says.
//! 3. All orders in which the operations may have taken effect are followed at once, as a set of possibilities. A
//!    possibility holds the values of the registers and the operations that have taken effect and are not answered yet.
//! 4. An answer keeps those possibilities in which its operation has taken effect, perhaps after others that are not
//!    answered yet. If none is left, no order explains the answers.
//! 5. An operation that failed for certain takes effect nowhere. One with an unknown fate stays open until the node has
//!    restarted and answered about the partition: if it has not taken effect by then, it never will. It is closed as
//!    well once it has taken effect in every possibility, or once what it expects of a register is neither there in any
//!    possibility nor written by an open operation: then it changes nothing any more.
//! 6. Operations that change nothing take effect as soon as they see what their answers say: to wait gains nothing. Of
//!    two possibilities that differ by operations with unknown fates alone, the one in which fewer have taken effect
//!    allows whatever the other allows, and stands for both.
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
    /// The operations that have taken effect and are answered later.
    done: BTreeSet<OperationId>,
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

/// Something that happened.
#[derive(Debug)]
enum Event {
    Begun(OperationId),
    Ended(OperationId),
    Restarted,
}

/// An operation whose beginning is not judged yet.
#[derive(Debug)]
struct Begun {
    operation: Operation,
    /// How many restarts of the node had happened when it was sent.
    epoch: u64,
    ending: Option<Ending>,
}

/// An operation that may take effect.
#[derive(Debug)]
struct Open {
    operation: Operation,
    epoch: u64,
    /// What it is going to be answered; `None` if nobody knows whether it takes effect.
    answer: Option<Answer>,
    /// Whether its client has given it up.
    is_given_up: bool,
}

impl Open {
    /// Whether it takes effect without changing anything.
    fn is_idle(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.applied || self.operation.writes.is_empty())
    }
}

/// The operations on one partition, and the orders that the answers so far allow.
#[derive(Debug)]
pub struct Partition {
    /// What is not judged yet.
    events: VecDeque<Event>,
    begun: BTreeMap<OperationId, Begun>,
    restarts: u64,
    next: OperationId,
    /// The rest is as of the last event that was judged.
    possibilities: Vec<Possibility>,
    open: BTreeMap<OperationId, Open>,
    epoch: u64,
}

impl Default for Partition {
    fn default() -> Partition {
        Partition {
            events: VecDeque::new(),
            begun: BTreeMap::new(),
            restarts: 0,
            next: 0,
            possibilities: vec![Possibility::default()],
            open: BTreeMap::new(),
            epoch: 0,
        }
    }
}

impl Partition {
    /// Records that an operation is sent. Returns its number.
    pub fn begin(&mut self, operation: Operation) -> OperationId {
        let id = self.next;
        self.next += 1;
        self.begun.insert(id, Begun { operation, epoch: self.restarts, ending: None });
        self.events.push_back(Event::Begun(id));
        id
    }

    /// Records that the node serves again: earlier operations that have not taken effect never will.
    pub fn restarted(&mut self) {
        self.restarts += 1;
        self.events.push_back(Event::Restarted);
    }

    /// How many operations of unknown end may still take effect.
    pub fn undecided(&self) -> usize {
        let is_unknown = |begun: &&Begun| {
            begun.ending == Some(Ending::Unknown) && !begun.operation.writes.is_empty() && begun.epoch == self.restarts
        };
        let open = self.open.values().filter(|open| open.answer.is_none() && open.epoch == self.restarts);
        open.count() + self.begun.values().filter(is_unknown).count()
    }

    /// Records how an operation ended. Fails if no order explains what is known by now: perhaps because of an earlier
    /// answer, which could not be judged before.
    pub fn finish(&mut self, id: OperationId, ending: Ending) -> Result<(), String> {
        let Some(begun) = self.begun.get_mut(&id).filter(|begun| begun.ending.is_none()) else {
            return Err(format!("operation {id} ended twice"));
        };
        begun.ending = Some(ending);
        self.events.push_back(Event::Ended(id));
        self.judge()
    }

    /// Judges everything that has happened: what has not ended by now has an unknown fate.
    pub fn settle(&mut self) -> Result<(), String> {
        for begun in self.begun.values_mut() {
            begun.ending.get_or_insert(Ending::Unknown);
        }
        self.judge()
    }

    /// Judges what happened before the first operation that has not ended.
    fn judge(&mut self) -> Result<(), String> {
        while let Some(event) = self.events.front() {
            match *event {
                Event::Restarted => self.epoch += 1,
                Event::Begun(id) => {
                    let Some(begun) = self.begun.get(&id) else { break };
                    let answer = match &begun.ending {
                        None => break,
                        Some(Ending::Answered(answer)) => Some(Some(answer.clone())),
                        // A read without an answer tells nothing.
                        Some(Ending::Unknown) if !begun.operation.writes.is_empty() => Some(None),
                        Some(Ending::Unknown | Ending::Failed) => None,
                    };
                    if let Some((answer, begun)) = answer.zip(self.begun.remove(&id)) {
                        self.open.insert(
                            id,
                            Open { operation: begun.operation, epoch: begun.epoch, answer, is_given_up: false },
                        );
                    }
                }
                Event::Ended(id) => {
                    self.begun.remove(&id);
                    match self.open.get_mut(&id) {
                        Some(open) if open.answer.is_none() => open.is_given_up = true,
                        Some(_) => self.answered(id)?,
                        None => {}
                    }
                }
            }
            self.events.pop_front();
        }
        Ok(())
    }

    /// Lets all operations take effect that are going to be answered, change nothing, and see what they are told.
    fn with_idle(&self, mut possibility: Possibility) -> Possibility {
        let Known { state, done } = &mut possibility.known;
        for (id, open) in self.open.iter().filter(|(_, open)| open.is_idle()) {
            if open.answer.as_ref().is_some_and(|answer| answer.suits(&open.operation, state)) {
                done.insert(*id);
            }
        }
        possibility
    }

    /// Keeps the possibilities in which an operation has taken effect by now.
    fn answered(&mut self, id: OperationId) -> Result<(), String> {
        let before = std::mem::take(&mut self.possibilities);
        let (mut kept, mut seen) = (Possibilities::default(), Possibilities::default());
        // Those in which fewer operations have taken effect come first: they stand for many others.
        let mut queue: VecDeque<Possibility> = before.iter().cloned().collect();
        while let Some(possibility) = queue.pop_front() {
            let mut possibility = self.with_idle(possibility);
            if !seen.insert(possibility.clone()) {
                continue;
            }
            if seen.count > POSSIBILITIES_MAX {
                return Err(format!("more than {POSSIBILITIES_MAX} orders are possible"));
            }
            if possibility.known.done.remove(&id) {
                kept.insert(possibility);
                continue;
            }
            let Possibility { known: Known { state, done }, spent } = &possibility;
            for (other, open) in &self.open {
                if open.is_idle() || done.contains(other) || spent.contains(other) {
                    continue;
                }
                let after = open.operation.after(*state);
                let takes_effect = match &open.answer {
                    Some(answer) => answer.suits(&open.operation, state),
                    // Whether an unknown operation that changes nothing took effect makes no difference.
                    None => after != *state,
                };
                if !takes_effect {
                    continue;
                }
                let mut next = possibility.clone();
                next.known.state = after;
                match open.answer {
                    Some(_) => next.known.done.insert(*other),
                    None => next.spent.insert(*other),
                };
                queue.push_back(next);
            }
        }
        self.possibilities = kept.into_vec();
        let Some(own) = self.open.remove(&id) else { return Err(format!("operation {id} ended twice")) };
        if self.possibilities.is_empty() {
            let states: BTreeSet<State> = before.iter().map(|possibility| possibility.known.state).collect();
            return Err(format!(
                "{:?} answered {:?}, which no order allows; before it {states:?}, open {:?}",
                own.operation, own.answer, self.open
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
        if !self.open.values().any(|open| open.is_given_up) {
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

    /// Closes the operations that `is_over` selects, of those with unknown fates that their clients have given up: one
    /// that a client still waits for may be tried again. Returns whether there are any.
    fn forget(&mut self, is_over: impl Fn(&OperationId, &Open) -> bool) -> bool {
        let over: BTreeSet<OperationId> =
            self.open.iter().filter(|(id, open)| open.is_given_up && is_over(id, open)).map(|(id, _)| *id).collect();
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
    fn what_is_still_waited_for_after_a_start_may_take_effect() {
        let mut partition = Partition::default();
        let id = partition.begin(cas(0, None, 1));
        partition.restarted();
        assert_eq!(read(&mut partition, None), Ok(()));
        assert_eq!(read(&mut partition, Some(1)), Ok(()));
        assert_eq!(partition.finish(id, Ending::Unknown), Ok(()), "it was under way until now");
        assert_eq!(read(&mut partition, Some(1)), Ok(()));
    }

    #[test]
    fn what_is_still_waited_for_may_take_effect_after_a_deletion() {
        let mut partition = Partition::default();
        let first = partition.begin(cas(0, None, 1));
        partition.finish(first, answer(true, &[])).expect("possible");
        let waiting = partition.begin(cas(0, None, 2));
        assert_eq!(read(&mut partition, Some(1)), Ok(()));
        let deletes = Operation { expects: vec![(0, Expected::Some)], writes: vec![(0, None)] };
        let deletion = partition.begin(deletes);
        assert_eq!(partition.finish(deletion, answer(true, &[])), Ok(()));
        assert_eq!(read(&mut partition, Some(2)), Ok(()));
        assert_eq!(partition.finish(waiting, Ending::Unknown), Ok(()));
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
        partition.begin(both);
        let other = partition.begin(Operation::default());
        assert_eq!(
            partition.finish(other, answer(true, &[(0, Some(1)), (1, None)])),
            Ok(()),
            "the other has not ended"
        );
        assert!(partition.settle().is_err());
    }

    #[test]
    fn many_operations_at_once_leave_few_possibilities() {
        let mut partition = Partition::default();
        let first = partition.begin(Operation { expects: vec![], writes: vec![(0, Some(100)), (1, Some(100))] });
        partition.finish(first, answer(true, &[])).expect("possible");
        let alter = |value: i64, register| Operation {
            expects: vec![(register, Expected::Some)],
            writes: vec![(register, Some(value)), (2, Some(value))],
        };
        let changes: Vec<OperationId> = (0..8).map(|value| partition.begin(alter(value, value as usize % 2))).collect();
        let reads: Vec<OperationId> = (0..8).map(|_| partition.begin(Operation::default())).collect();
        for (at, id) in reads.into_iter().enumerate() {
            let at = at as i64;
            let (even, odd) = (at - at % 2, if at == 0 { 100 } else { (at - 1) / 2 * 2 + 1 });
            let shown = [(0, Some(even)), (1, Some(odd)), (2, Some(at))];
            assert_eq!(partition.finish(id, answer(true, &shown)), Ok(()));
        }
        for (at, id) in changes.into_iter().enumerate() {
            let ending = if at < 6 { answer(true, &[]) } else { Ending::Unknown };
            assert_eq!(partition.finish(id, ending), Ok(()));
        }
        assert_eq!(partition.possibilities.len(), 1, "{:?}", partition.possibilities);
        assert!(read(&mut partition, Some(0)).is_err());
    }

    #[test]
    fn an_operation_is_judged_when_those_before_it_have_ended() {
        let mut partition = Partition::default();
        let open = partition.begin(cas(0, None, 1));
        assert_eq!(read(&mut partition, Some(2)), Ok(()), "nobody knows yet");
        assert_eq!(partition.undecided(), 0);
        assert!(partition.finish(open, Ending::Unknown).is_err());
    }
}
