//! Statements as written.

/// A statement as written.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {}
