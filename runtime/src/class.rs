//! Classes of tasks.

/// The class of a task decides how much of a busy core's time it gets, see `shares.rs`. The shares named here are those
/// of a new shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Class {
    /// Client requests and everything they wait for: 1000 shares.
    #[default]
    Foreground,
    /// Commit log: 500 shares.
    Log,
    /// Flush: 500 shares; the engine gives it more when memory runs out.
    Flush,
    /// Streaming: 200 shares.
    Streaming,
    /// Compaction and other maintenance: 100 shares; the engine gives it more when it lags behind.
    Background,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Class; CLASSES] =
        [Class::Foreground, Class::Log, Class::Flush, Class::Streaming, Class::Background];
}

/// The number of classes.
pub(crate) const CLASSES: usize = 5;
