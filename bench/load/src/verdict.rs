//! The verdict on a run: whether its measurements say something about the server.
//!
//! * `VALID`: they do.
//! * `CLIENT-BOUND`: the generator was the limit. One of its threads was running, or ready without a CPU, for more than
//!   [`BUSY_MAX`] of the time; or more than [`LATE_MAX`] of the sends were late although a request was free.
//! * `LATE`: the server did not keep up with the rate. More than [`LATE_MAX`] of the scheduled sends were late, or not
//!   made at all, because the most requests allowed were under way. Open loops only.
//! * `ERRORS`: a larger share of the operations failed than the plan allows, wrong data was read, or nothing succeeded.
//!
//! Wrong data always gives ERRORS. Otherwise the first that holds of CLIENT-BOUND, ERRORS and LATE is the verdict,
//! because if the generator was the limit, its errors and lateness say nothing about the server either.

use crate::errors::{Class, Counts};
use std::fmt;

/// Whether a run measured the server; the head of this module explains each verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "in the head")]
pub enum Verdict {
    Valid,
    ClientBound,
    Late,
    Errors,
}

/// Share of the time that a thread of the generator may run or wait for a CPU.
pub const BUSY_MAX: f64 = 0.90;
/// Share of the scheduled sends that may be late.
pub const LATE_MAX: f64 = 0.01;

/// The facts that a verdict is based on.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Whether the loop was open.
    pub open: bool,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed.
    pub errors: Counts,
    /// Share of failed operations that is allowed.
    pub errors_max: f64,
    /// Operations sent.
    pub sent: u64,
    /// Operations that were due and not sent.
    pub unsent: u64,
    /// Operations sent late because no request was free.
    pub late_blocked: u64,
    /// Operations sent late although a request was free.
    pub late_own: u64,
    /// Share of the time that the busiest thread was running or ready.
    pub busy: f64,
}

impl Figures {
    /// Whether the run would be valid if the generator had not been the limit.
    pub fn server_kept_up(&self) -> bool {
        Verdict::of(&Figures { busy: 0.0, late_own: 0, ..self.clone() }) == Verdict::Valid
    }
}

impl Verdict {
    /// The verdict on `figures`.
    pub fn of(figures: &Figures) -> Verdict {
        let failed: u64 = figures.errors.iter().sum();
        let scheduled = (figures.sent + figures.unsent) as f64;
        let most = scheduled * LATE_MAX;
        if figures.errors[Class::WrongData as usize] > 0 {
            Verdict::Errors
        } else if figures.busy > BUSY_MAX || figures.late_own as f64 > most {
            Verdict::ClientBound
        } else if figures.operations == 0 || failed as f64 > (figures.operations + failed) as f64 * figures.errors_max {
            Verdict::Errors
        } else if figures.open && (figures.late_blocked + figures.unsent) as f64 > most {
            Verdict::Late
        } else {
            Verdict::Valid
        }
    }

    /// The exit code of the process: 0 if valid.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Valid => 0,
            Verdict::ClientBound => 10,
            Verdict::Late => 11,
            Verdict::Errors => 12,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Valid => "VALID",
            Verdict::ClientBound => "CLIENT-BOUND",
            Verdict::Late => "LATE",
            Verdict::Errors => "ERRORS",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Figures {
        Figures { open: true, operations: 1000, errors_max: 0.001, sent: 1000, busy: 0.3, ..Figures::default() }
    }

    fn errors(class: Class, count: u64) -> Counts {
        let mut errors = Counts::default();
        errors[class as usize] = count;
        errors
    }

    #[test]
    fn each_verdict_has_its_cause() {
        assert_eq!(Verdict::of(&good()), Verdict::Valid);
        assert_eq!(Verdict::of(&Figures { late_blocked: 10, ..good() }), Verdict::Valid);
        assert_eq!(Verdict::of(&Figures { late_blocked: 11, ..good() }), Verdict::Late);
        assert_eq!(Verdict::of(&Figures { unsent: 20, ..good() }), Verdict::Late);
        assert_eq!(Verdict::of(&Figures { unsent: 20, open: false, ..good() }), Verdict::Valid);
        assert_eq!(Verdict::of(&Figures { late_own: 11, ..good() }), Verdict::ClientBound);
        let busy = Figures { busy: 0.91, ..good() };
        assert_eq!(Verdict::of(&busy), Verdict::ClientBound);
        assert!(busy.server_kept_up());
        assert!(!Figures { unsent: 11, ..busy.clone() }.server_kept_up());
        assert!(!Figures { errors: errors(Class::WrongData, 1), ..busy }.server_kept_up());
        assert_eq!(Verdict::of(&Figures { errors: errors(Class::Overloaded, 1), ..good() }), Verdict::Valid);
        assert_eq!(Verdict::of(&Figures { errors: errors(Class::Overloaded, 2), ..good() }), Verdict::Errors);
        assert_eq!(Verdict::of(&Figures { operations: 0, ..good() }), Verdict::Errors);
    }

    #[test]
    fn wrong_data_comes_first_and_the_client_before_lateness() {
        let wrong = Figures { errors: errors(Class::WrongData, 1), busy: 1.0, errors_max: 1.0, ..good() };
        assert_eq!(Verdict::of(&wrong), Verdict::Errors);
        assert_eq!(Verdict::of(&Figures { late_blocked: 500, busy: 1.0, ..good() }), Verdict::ClientBound);
    }
}
