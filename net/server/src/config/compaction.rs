//! `default_compaction`: the compaction strategy of tables that are created without the option `compaction`.

use super::options::kind::{class_name, scalar};
use super::{ConfigError, Given, error};
use serde_norway::{Mapping, Value};
use std::collections::BTreeMap;

const NAME: &str = "default_compaction";

impl Given {
    /// `default_compaction` in the form of the table option `compaction`, as the schema stores it.
    pub(super) fn default_compaction(&self) -> Result<Option<BTreeMap<String, String>>, ConfigError> {
        let Some(value) = self.take(NAME) else { return Ok(None) };
        let Some(class) = class_name(value) else { return error(format!("{NAME}: a class_name is needed")) };
        let mut options = vec![("class".to_owned(), class)];
        match value.get("parameters") {
            None | Some(Value::Null) => {}
            Some(Value::Mapping(parameters)) => add(parameters, &mut options)?,
            Some(Value::Sequence(list)) => {
                for parameters in list {
                    let Value::Mapping(parameters) = parameters else {
                        return error(format!("{NAME}: parameters are names and values"));
                    };
                    add(parameters, &mut options)?;
                }
            }
            Some(_) => return error(format!("{NAME}: parameters are names and values")),
        }
        match shard::compaction_options::check(&options) {
            Ok(checked) => Ok(Some(checked)),
            Err(failure) => error(format!("{NAME}: {}", failure.text)),
        }
    }
}

fn add(parameters: &Mapping, options: &mut Vec<(String, String)>) -> Result<(), ConfigError> {
    for (name, value) in parameters {
        let (Some(name), Some(value)) = (scalar(name), scalar(value)) else {
            return error(format!("{NAME}: parameters are names and values"));
        };
        options.push((name, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn read(file: &str) -> Result<Option<String>, String> {
        let config = Config::read(file, &[]).map_err(|error| error.0)?;
        Ok(config.node.default_compaction.map(|options| format!("{options:?}").replace("org.apache.cassandra.db.", "")))
    }

    #[test]
    fn a_class_with_parameters_is_stored_as_in_a_table() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(
            read("default_compaction: LeveledCompactionStrategy"),
            Ok(Some(
                r#"{"class": "compaction.LeveledCompactionStrategy", "max_threshold": "32", "min_threshold": "4"}"#
                    .into()
            ))
        );
        let text = "{class_name: UnifiedCompactionStrategy, parameters: {scaling_parameters: T4, sstable_growth: 0.5}}";
        let stored =
            r#"{"class": "compaction.UnifiedCompactionStrategy", "scaling_parameters": "T4", "sstable_growth": "0.5"}"#;
        assert_eq!(read(&format!("default_compaction: {text}")), Ok(Some(stored.into())));
        for (wrong, what) in [
            ("Other", "Other"),
            ("{class_name: SizeTieredCompactionStrategy, parameters: {a: b}}", "a"),
            ("{class_name: UnifiedCompactionStrategy, parameters: [x]}", "parameters are names and values"),
        ] {
            let text = read(&format!("default_compaction: {wrong}")).expect_err(wrong);
            assert!(text.starts_with("default_compaction: ") && text.contains(what), "{text}");
        }
    }
}
