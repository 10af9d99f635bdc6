//! Table options that are checked, kept and shown but change nothing here, and the warning about them.
//!
//! SSTables are always checked and indexed as a whole, and blocks of SSTables have one cache: there is nothing that
//! these options could choose.

use crate::ast::Property;
use model::schema::TableOptions;

/// Returns the warning about a statement that sets options without effect to other values than their defaults;
/// `options` are the table's after the statement. A schema as DESCRIBE prints it, which names every option, is
/// therefore created without warnings.
pub(super) fn warning(properties: &[Property], options: &TableOptions) -> Option<String> {
    let default = TableOptions::default();
    let is_changed = [
        ("caching", options.caching != default.caching),
        ("crc_check_chance", options.crc_check_chance != default.crc_check_chance),
        ("max_index_interval", options.max_index_interval != default.max_index_interval),
        ("min_index_interval", options.min_index_interval != default.min_index_interval),
    ];
    let is_set = |name: &str| properties.iter().any(|property| property.name == name);
    let named: Vec<&str> =
        is_changed.iter().filter(|(name, changed)| *changed && is_set(name)).map(|(name, _)| *name).collect();
    match named.as_slice() {
        [] => None,
        [name] => Some(format!("The table option {name} is kept and shown but has no effect")),
        several => Some(format!("The table options {} are kept and shown but have no effect", several.join(", "))),
    }
}
