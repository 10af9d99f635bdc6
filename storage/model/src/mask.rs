//! Masks of columns: the function whose result is shown in place of a column's values to those who may not see them.
//!
//! What the functions compute is in crate `cql`, and who is shown what in crate `shard`.

use crate::text::to_literal;
use crate::types::CqlType;
use std::fmt;

/// The mask of a column: a function of the keyspace `system`, and its arguments after the first, which is the masked
/// value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnMask {
    /// The function's name.
    pub function: String,
    /// The types and values of the other arguments; `None` is null.
    pub arguments: Vec<(CqlType, Option<Vec<u8>>)>,
}

/// As CREATE TABLE has it: `system.mask_inner(1, null)`.
impl fmt::Display for ColumnMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system.{}(", self.function)?;
        for (at, (cql_type, value)) in self.arguments.iter().enumerate() {
            let separator = if at > 0 { ", " } else { "" };
            match value {
                Some(bytes) => write!(f, "{separator}{}", to_literal(cql_type, bytes))?,
                None => write!(f, "{separator}null")?,
            }
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_in_cql() {
        let mask = |function: &str, arguments: &[(CqlType, Option<&[u8]>)]| ColumnMask {
            function: function.into(),
            arguments: arguments.iter().map(|(of, value)| (of.clone(), value.map(<[u8]>::to_vec))).collect(),
        };
        assert_eq!(mask("mask_null", &[]).to_string(), "system.mask_null()");
        let inner = mask("mask_inner", &[(CqlType::Int, Some(&[0, 0, 0, 1])), (CqlType::Int, None)]);
        assert_eq!(inner.to_string(), "system.mask_inner(1, null)");
        let replace = mask("mask_replace", &[(CqlType::Text, Some(b"it's"))]);
        assert_eq!(replace.to_string(), "system.mask_replace('it''s')");
    }
}
