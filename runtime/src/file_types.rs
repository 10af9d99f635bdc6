//! Arguments and results of calls on files, which all backends share.

/// How [`crate::File::open`] opens a file; always for reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Open the file for writing as well.
    pub write: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// With `create`: fail with `AlreadyExists` if the file exists.
    pub exclusive: bool,
}

/// Space that a directory takes, and space that is left on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The sum of the lengths of all files below the directory; a file counts once for each of its names.
    pub used: u64,
    /// Bytes that can still be written to the disk.
    pub free: u64,
    /// The number of the disk, by which the system tells it from others.
    pub disk: u64,
}
