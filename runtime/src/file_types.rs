//! Plain types of calls on files, which all backends share.

/// How [`crate::File::open`] opens.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Open for writing too.
    pub write: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Fail if the file exists (with `create`).
    pub exclusive: bool,
}

/// Bytes under a directory, and bytes that its disk has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The lengths of all files below the directory together; a file of several names counts once for each.
    pub used: u64,
    /// Bytes that may still be written.
    pub free: u64,
}
