//! Tables of counters: increments and decrements, right and wrong.

use crate::schema::Column;
use crate::script::Generator;
use crate::value::Bind;

/// By how much counters are incremented; sums overflow sometimes.
const STEPS: [i64; 7] = [1, 2, 10, 0, -3, i64::MAX, i64::MIN];

impl Generator {
    /// One assignment to a counter.
    pub(crate) fn counted(&mut self, column: &Column) -> String {
        let name = self.name(column);
        if self.dice.one_in(30) {
            return self.miscounted(&name, column);
        }
        let by = self.increment();
        match self.dice.below(6) {
            0 => format!("{name} -= {by}"),
            1 => format!("{name} = {name} - {by}"),
            2 => format!("{name} += {by}"),
            _ => format!("{name} = {name} + {by}"),
        }
    }

    fn increment(&mut self) -> String {
        if self.binds.is_some() && self.dice.one_in(12) {
            return if self.dice.one_in(2) {
                self.bind("null".into(), Bind::Null)
            } else {
                self.bind("unset".into(), Bind::Unset)
            };
        }
        let edge = self.dice.one_in(10);
        let by = if edge { *self.dice.pick(&STEPS) } else { 1 + self.dice.below(9) as i64 };
        self.number_term(by, 8)
    }

    fn miscounted(&mut self, name: &str, column: &Column) -> String {
        match self.dice.below(10) {
            0 => format!("{name} = 5"),
            1 => format!("{name} = {} + {name}", self.increment()),
            2 => format!("{name} = null"),
            3 => format!("{name} = {name} + null"),
            4 => format!("{name} = {name} + 1.5"),
            5 => format!("{name} = {name} + 'a'"),
            6 => format!("{name}[0] = 1"),
            7 => format!("{name}.f0 = 1"),
            8 => format!("{name} = nosuch + 1"),
            _ => format!("{name} = {}", self.value_term(&column.cql_type)),
        }
    }
}
