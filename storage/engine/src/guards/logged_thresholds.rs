//! Thresholds of the guardrails that only log: they concern what flushes and compactions write, and refuse nothing.
//! Names and texts are Cassandra's.

/// A threshold: a value above `warn` logs a warning, a value above `fail` an error. `None` means no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "told above")]
pub struct LoggedThreshold {
    pub warn: Option<u64>,
    pub fail: Option<u64>,
}

/// A line for the log: whether its level is error, and its text.
pub(crate) type Warning = (bool, String);

impl LoggedThreshold {
    /// The line for a value above the threshold of the guardrail `name`, which begins with the text of `what`; `None`
    /// within the threshold.
    pub(crate) fn told(self, name: &str, figure: u64, what: impl FnOnce() -> String) -> Option<Warning> {
        let beyond = |limit: &u64| figure > *limit;
        let failed = self.fail.filter(beyond).map(|limit| (true, "failure", limit));
        let (is_error, kind, limit) =
            failed.or_else(|| self.warn.filter(beyond).map(|limit| (false, "warning", limit)))?;
        let what = what();
        Some((is_error, format!("Guardrail {name} violated: {what}, this exceeds the {kind} threshold of {limit}.")))
    }
}

/// The logged thresholds, each named like its options: `partition_size_warn_threshold` and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoggedThresholds {
    /// Bytes of a partition in Data.db before compression.
    pub partition_size: LoggedThreshold,
    /// Tombstones in a partition.
    pub partition_tombstones: LoggedThreshold,
    /// Bytes of a collection that is not frozen.
    pub collection_size: LoggedThreshold,
    /// Elements of a collection that is not frozen.
    pub items_per_collection: LoggedThreshold,
}

/// Writes a line to the log.
pub(crate) fn log((is_error, text): Warning) {
    if is_error {
        tracing::error!("{text}");
    } else {
        tracing::warn!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_the_most_that_is_fine() {
        let threshold = LoggedThreshold { warn: Some(2), fail: Some(5) };
        let told = |figure| threshold.told("g", figure, || format!("{figure} there"));
        assert_eq!(told(2), None);
        let text = |figure, limit| format!("Guardrail g violated: {figure} there, this exceeds the {limit}.");
        assert_eq!(told(3), Some((false, text(3, "warning threshold of 2"))));
        assert_eq!(told(5), Some((false, text(5, "warning threshold of 2"))));
        assert_eq!(told(6), Some((true, text(6, "failure threshold of 5"))));
        assert_eq!(LoggedThreshold::default().told("g", u64::MAX, String::new), None);
    }
}
