//! Reads, prints and compares case files.

use std::path::Path;

/// One statement, how it is sent, and the answer to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Step {
    /// `@` lines, without the `@`.
    pub(crate) directives: Vec<String>,
    /// The statement, without the final `;`.
    pub(crate) statement: String,
    /// Cassandra's answer, line by line.
    pub(crate) answer: Vec<String>,
    /// The answer of Helenus, if it differs on purpose.
    pub(crate) differs: Vec<String>,
}

/// Statements that share a keyspace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Case {
    /// The case's name.
    pub(crate) name: String,
    /// The statements.
    pub(crate) steps: Vec<Step>,
}

/// A file of cases.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CaseFile {
    /// The cases.
    pub(crate) cases: Vec<Case>,
}

/// The lines that a server answered, by case and step.
pub(crate) type Answers = Vec<Vec<Vec<String>>>;

const DIFFERS: &str = "differs: ";

impl CaseFile {
    /// Reads a file. Panics on a line that belongs to no case or statement.
    pub(crate) fn parse(text: &str) -> CaseFile {
        let mut file = CaseFile::default();
        let mut directives = Vec::new();
        let mut statement = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## ") {
                file.cases.push(Case { name: name.into(), steps: Vec::new() });
                continue;
            }
            let Some(case) = file.cases.last_mut() else { panic!("a line before the first case: {line}") };
            if let Some(answer) = line.strip_prefix("-> ") {
                let step = case.steps.last_mut().expect("an answer follows a statement");
                match answer.strip_prefix(DIFFERS) {
                    Some(ours) => step.differs.push(ours.into()),
                    None => step.answer.push(answer.into()),
                }
            } else if let Some(directive) = line.strip_prefix('@') {
                directives.push(directive.to_string());
            } else if !line.is_empty() {
                if !statement.is_empty() {
                    statement.push('\n');
                }
                statement.push_str(line);
                if let Some(whole) = statement.strip_suffix(';') {
                    case.steps.push(Step {
                        directives: std::mem::take(&mut directives),
                        statement: whole.to_string(),
                        ..Step::default()
                    });
                    statement.clear();
                }
            }
        }
        file
    }

    /// The file's text.
    pub(crate) fn print(&self) -> String {
        let mut out = String::new();
        for (index, case) in self.cases.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            out.push_str(&format!("## {}\n", case.name));
            for step in &case.steps {
                for directive in &step.directives {
                    out.push_str(&format!("@{directive}\n"));
                }
                out.push_str(&format!("{};\n", step.statement));
                for line in &step.answer {
                    out.push_str(&format!("-> {line}\n"));
                }
                for line in &step.differs {
                    out.push_str(&format!("-> {DIFFERS}{line}\n"));
                }
            }
        }
        out
    }

    /// Replaces the recorded answers.
    pub(crate) fn record(&mut self, answers: &Answers) {
        for (case, answers) in self.cases.iter_mut().zip(answers) {
            for (step, answer) in case.steps.iter_mut().zip(answers) {
                step.answer.clone_from(answer);
            }
        }
    }

    /// A readable text for every step whose answer differs from the recorded one. With `ours` the answer of Helenus is
    /// expected where that differs on purpose.
    pub(crate) fn differences(&self, answers: &Answers, path: &Path, ours: bool) -> Vec<String> {
        let mut out = Vec::new();
        for (case, answers) in self.cases.iter().zip(answers) {
            for (step, got) in case.steps.iter().zip(answers) {
                let want = if ours && !step.differs.is_empty() { &step.differs } else { &step.answer };
                if want != got {
                    let file = path.file_name().unwrap_or_default().to_string_lossy();
                    out.push(format!(
                        "{file}: {}: {} {:?}\n  want {}\n  got  {}",
                        case.name,
                        step.statement,
                        step.directives,
                        want.join("\n       "),
                        got.join("\n       ")
                    ));
                }
            }
        }
        out
    }
}

/// The case files in a folder, in the order of their names.
pub(crate) fn files_in(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the case folder");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "cql")).collect();
    files.sort();
    files
}
