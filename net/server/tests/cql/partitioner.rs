//! The answers of nodes with other partitioners than Murmur3, where they differ from those in the case files: tokens,
//! and the order of partitions.
//!
//! `partitioners/NAME.answers` has a case `FILE: CASE` for each case with such answers, and for each of them `@at N`,
//! the number of the statement in its case, the statement and the answer. Answers whose words vary from run to run (the
//! order of columns in some errors) are taken out by hand.

use crate::case::{Answers, Case, CaseFile, Step};
use std::path::{Path, PathBuf};

/// The answers that differ under one partitioner.
pub(crate) struct OtherAnswers {
    cases: Vec<Case>,
}

fn path(partitioner: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cql/partitioners").join(format!("{partitioner}.answers"))
}

fn name(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl OtherAnswers {
    /// Reads the answers of a partitioner.
    pub(crate) fn load(partitioner: &str) -> OtherAnswers {
        let text = std::fs::read_to_string(path(partitioner)).expect("the answers of the partitioner");
        OtherAnswers { cases: CaseFile::parse(&text).cases }
    }

    /// No answers, to be recorded.
    pub(crate) fn none() -> OtherAnswers {
        OtherAnswers { cases: Vec::new() }
    }

    /// The file with the answers of this partitioner.
    pub(crate) fn applied_to(&self, mut file: CaseFile, at: &Path) -> CaseFile {
        for case in &mut file.cases {
            let named = format!("{}: {}", name(at), case.name);
            for other in self.cases.iter().filter(|other| other.name == named).flat_map(|other| &other.steps) {
                let step = other.directives.iter().find_map(|line| line.strip_prefix("at ")?.parse::<usize>().ok());
                let step = step.and_then(|number| case.steps.get_mut(number)).expect("a statement of the case");
                assert_eq!(step.statement, other.statement, "{named}");
                step.answer.clone_from(&other.answer);
                step.differs.clone_from(&other.differs);
            }
        }
        file
    }

    /// Adds the answers of Cassandra to a file where they differ from the recorded ones, but for those from which
    /// Helenus differs on purpose.
    pub(crate) fn record(&mut self, file: &CaseFile, at: &Path, answers: &Answers) {
        for (case, answers) in file.cases.iter().zip(answers) {
            let is_recorded = |step: &Step, answer: &Vec<String>| step.differs.is_empty() && step.answer != *answer;
            let steps = case.steps.iter().zip(answers).enumerate();
            let differing = steps.filter(|(_, (step, answer))| is_recorded(step, answer));
            let steps: Vec<Step> = differing
                .map(|(number, (step, answer))| Step {
                    directives: vec![format!("at {number}")],
                    statement: step.statement.clone(),
                    answer: answer.clone(),
                    differs: Vec::new(),
                })
                .collect();
            if !steps.is_empty() {
                self.cases.push(Case { name: format!("{}: {}", name(at), case.name), steps });
            }
        }
    }

    /// Writes the answers of a partitioner.
    pub(crate) fn save(self, partitioner: &str) {
        let text = CaseFile { cases: self.cases }.print();
        std::fs::write(path(partitioner), text).expect("writable");
    }
}
