//! Running seeds one after the other: what the report of a run has in common with those of other kinds of runs.

use std::fmt::Debug;
use std::ops::Range;

/// What happened in a run, or in several.
pub trait SeedReport: Debug + Default {
    /// The first broken rule, if any, and what else is to be told of the run then.
    fn violation(&self) -> Option<String>;

    /// Adds the counts of another run.
    fn add(&mut self, other: &Self);

    /// The counts as text.
    fn totals(&self) -> String;
}

/// Runs the seeds, tells `each` of every one, and returns the sum of all with the number of those that broke a rule.
pub fn run_seeds<R: SeedReport>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> R,
    mut each: impl FnMut(u64, &R),
) -> (R, usize) {
    let (mut all, mut broken) = (R::default(), 0);
    for seed in seeds {
        let report = run(seed);
        each(seed, &report);
        broken += usize::from(report.violation().is_some());
        all.add(&report);
    }
    (all, broken)
}
