//! The states of a session of incremental repair on one of its participants, by Cassandra's names and numbers.
//!
//! 1. PREPARING: the participant sets data apart. PREPARED: it has. REPAIRING: hashes are compared.
//! 2. FINALIZE_PROMISED: all that it lacked is durable, and it will do what the coordinator decides.
//! 3. FINALIZED: what was set apart is repaired. FAILED: it is unrepaired again.
//!
//! The coordinator decides by becoming FINALIZED itself, durably, once all participants have promised. A participant
//! that does not hear of it asks the others ([`decision`]).
//!
//! Invariants: FINALIZED and FAILED are never left; nobody is FINALIZED before all have promised; a participant that
//! has lost what it was brought (by a restart before its promise) never promises. To fail is always safe: no row is
//! lost, only compared again.

/// A state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SessionState {
    /// Data is being set apart.
    Preparing = 0,
    /// It is.
    Prepared = 1,
    /// Replicas are being compared.
    Repairing = 2,
    /// The end was promised.
    FinalizePromised = 3,
    /// The end.
    Finalized = 4,
    /// The other end.
    Failed = 5,
}

/// What a participant is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionStep {
    /// Data is set apart.
    Prepared,
    /// To promise.
    Promise,
    /// To end well.
    Commit,
    /// To give up.
    Fail,
}

impl SessionState {
    /// All states by their numbers.
    pub const ALL: [SessionState; 6] = [
        SessionState::Preparing,
        SessionState::Prepared,
        SessionState::Repairing,
        SessionState::FinalizePromised,
        SessionState::Finalized,
        SessionState::Failed,
    ];

    /// The state with a number.
    pub fn of(number: i32) -> Option<SessionState> {
        SessionState::ALL.into_iter().find(|state| *state as i32 == number)
    }

    /// Cassandra's name.
    pub fn name(self) -> &'static str {
        match self {
            SessionState::Preparing => "PREPARING",
            SessionState::Prepared => "PREPARED",
            SessionState::Repairing => "REPAIRING",
            SessionState::FinalizePromised => "FINALIZE_PROMISED",
            SessionState::Finalized => "FINALIZED",
            SessionState::Failed => "FAILED",
        }
    }

    /// Whether it is an end.
    pub fn is_over(self) -> bool {
        matches!(self, SessionState::Finalized | SessionState::Failed)
    }

    /// The state behind a step; `None` if the step cannot be taken any more, or not yet.
    pub fn after(self, step: SessionStep) -> Option<SessionState> {
        use SessionState::{Failed, FinalizePromised, Finalized, Prepared, Preparing, Repairing};
        match (self, step) {
            (Preparing, SessionStep::Prepared) => Some(Prepared),
            (Prepared | Repairing | FinalizePromised, SessionStep::Promise) => Some(FinalizePromised),
            (FinalizePromised | Finalized, SessionStep::Commit) => Some(Finalized),
            (Finalized, SessionStep::Fail) => None,
            (_, SessionStep::Fail) => Some(Failed),
            _ => None,
        }
    }

    /// The state behind a restart of the node.
    pub fn restarted(self, is_coordinator: bool) -> SessionState {
        match self {
            SessionState::FinalizePromised if !is_coordinator => self,
            over if over.is_over() => over,
            _ => SessionState::Failed,
        }
    }
}

/// What follows for a participant that waits, of the coordinator's answer, which is `Some(None)` if it has forgotten
/// the session, and those of others; `None` if nothing does.
pub fn decision(
    coordinator: Option<Option<SessionState>>,
    others: impl IntoIterator<Item = SessionState>,
) -> Option<SessionStep> {
    let mut heard: Vec<SessionState> = others.into_iter().collect();
    match coordinator {
        Some(None) => return Some(SessionStep::Fail),
        Some(Some(state)) => heard.push(state),
        None => {}
    }
    match () {
        () if heard.contains(&SessionState::Finalized) => Some(SessionStep::Commit),
        () if heard.contains(&SessionState::Failed) => Some(SessionStep::Fail),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of its own: the crate is pure.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    #[test]
    fn numbers_and_names_are_cassandras() {
        for (number, state) in SessionState::ALL.into_iter().enumerate() {
            assert_eq!(SessionState::of(number as i32), Some(state));
        }
        assert!(SessionState::of(6).is_none() && SessionState::of(-1).is_none());
        assert_eq!(SessionState::of(4).map(SessionState::name), Some("FINALIZED"));
    }

    #[test]
    fn ends_are_never_left() {
        for end in [SessionState::Finalized, SessionState::Failed] {
            for step in [SessionStep::Prepared, SessionStep::Promise, SessionStep::Commit, SessionStep::Fail] {
                assert!(end.after(step).is_none_or(|state| state == end), "{end:?} {step:?}");
            }
            assert!(end.restarted(true) == end && end.restarted(false) == end);
        }
    }

    #[test]
    fn one_that_waits_does_what_others_have_done() {
        use SessionState::{Failed, FinalizePromised, Finalized, Repairing};
        assert_eq!(decision(Some(Some(FinalizePromised)), [FinalizePromised]), None);
        assert_eq!(decision(None, [FinalizePromised, Finalized]), Some(SessionStep::Commit));
        assert_eq!(decision(Some(Some(Failed)), [Repairing]), Some(SessionStep::Fail));
        assert_eq!(decision(Some(None), [FinalizePromised]), Some(SessionStep::Fail));
        assert_eq!(decision(None, []), None);
    }

    /// Three participants, of which the first leads; messages are lost, and nodes restart at any moment. The first ends
    /// well only if all have promised, and when the faults end all agree.
    #[test]
    fn all_agree_when_faults_end() {
        let (mut ended_well, mut failed) = (0, 0);
        for seed in 0..4000u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut states = [SessionState::Preparing; 3];
            let faults = random.below(12);
            let deliver = |states: &mut [SessionState; 3], to: usize, step: SessionStep, random: &mut Random| {
                if random.below(100) < faults {
                    let at = random.below(3) as usize;
                    states[at] = states[at].restarted(at == 0);
                }
                if random.below(100) < faults {
                    return false;
                }
                match states[to].after(step) {
                    Some(next) => states[to] = next,
                    None => return false,
                }
                random.below(100) >= faults
            };
            let mut all = true;
            for step in [SessionStep::Prepared, SessionStep::Promise] {
                for to in 0..3 {
                    all &= deliver(&mut states, to, step, &mut random);
                }
            }
            let outcome = if all { SessionStep::Commit } else { SessionStep::Fail };
            // The coordinator first: its state is the decision.
            let promised = states.iter().all(|state| *state >= SessionState::FinalizePromised);
            match states[0].after(outcome) {
                Some(next) => states[0] = next,
                None => states[0] = SessionState::Failed,
            }
            let outcome = if states[0] == SessionState::Finalized { SessionStep::Commit } else { SessionStep::Fail };
            if states[0] == SessionState::Finalized {
                assert!(promised, "seed {seed}");
            }
            for to in 1..3 {
                deliver(&mut states, to, outcome, &mut random);
            }
            for at in 1..3 {
                if !states[at].is_over() {
                    let step = decision(Some(Some(states[0])), [states[3 - at]]).expect("the coordinator has decided");
                    states[at] = states[at].after(step).expect("it waits");
                }
            }
            assert!(states.iter().all(|state| *state == states[0]), "seed {seed}: {states:?}");
            match states[0] {
                SessionState::Finalized => ended_well += 1,
                _ => failed += 1,
            }
        }
        assert!(ended_well > 500 && failed > 500, "{ended_well} and {failed}");
    }
}
