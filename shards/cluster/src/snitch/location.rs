//! Where a node is.

/// A data centre and a rack in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// The name of the data centre.
    pub data_center: String,
    /// The name of the rack.
    pub rack: String,
}
