//! Shortens a script that ends with a difference, and writes it as a case.

use crate::script::{Consistency, Step};
use crate::value::Bind;

/// The most runs that are spent on one script.
const TRIES_MAX: usize = 36;

/// The shortest script found that has the same last step and for which `differs` still says that this step is answered
/// differently.
pub(crate) fn minimise(steps: &[Step], mut differs: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let Some((last, before)) = steps.split_last() else { return Vec::new() };
    let mut kept = before.to_vec();
    let mut tries = 0;
    let mut attempt = |kept: &[Step]| {
        tries += 1;
        let mut whole = kept.to_vec();
        whole.push(last.clone());
        tries <= TRIES_MAX && differs(&whole)
    };
    // First everything that cannot matter, then ever smaller pieces, from the end.
    let no_reads: Vec<Step> = kept.iter().filter(|step| !step.text.starts_with("SELECT")).cloned().collect();
    if attempt(&no_reads) {
        kept = no_reads;
    }
    let schema: Vec<Step> = kept.iter().filter(|step| step.text.starts_with("CREATE")).cloned().collect();
    if attempt(&schema) {
        kept = schema;
    }
    let mut size = kept.len().div_ceil(2);
    while size > 0 && !kept.is_empty() {
        let mut end = kept.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut fewer = kept.clone();
            fewer.drain(start..end);
            if attempt(&fewer) {
                kept = fewer;
            }
            end = start.min(kept.len());
        }
        size /= 2;
    }
    kept.push(last.clone());
    kept
}

/// The script as a case of `tests/cql`, without answers.
pub(crate) fn as_case(name: &str, steps: &[Step]) -> String {
    let mut out = format!("## {name}\n");
    for step in steps {
        if !step.values.is_empty() {
            let values: Vec<&str> = step
                .values
                .iter()
                .map(|(literal, bind)| match bind {
                    Bind::Null => "null",
                    Bind::Unset => "unset",
                    Bind::Bytes(_) => literal.as_str(),
                })
                .collect();
            out.push_str(&format!("@bind {}\n", values.join(", ")));
        }
        if let Some(rows) = step.page_size {
            out.push_str(&format!("@page {rows}\n"));
        }
        if let Some(timestamp) = step.timestamp {
            out.push_str(&format!("@timestamp {timestamp}\n"));
        }
        let level = |level: Consistency| format!("{level:?}").to_uppercase().replace("LOCAL", "LOCAL_");
        if step.consistency != Consistency::One {
            out.push_str(&format!("@consistency {}\n", level(step.consistency)));
        }
        if let Some(serial) = step.serial {
            out.push_str(&format!("@serial {}\n", level(serial)));
        }
        out.push_str(&format!("{};\n", step.text));
    }
    out
}
