//! Classes of tasks, which share the CPU of a core.

/// Share of the CPU that a task gets against tasks of other classes when the core is busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Class {
    /// Client requests and everything they wait for: 1000 shares.
    #[default]
    Foreground,
    /// Commit log: 500 shares.
    Log,
    /// Flush: 500 shares, more when memory runs out.
    Flush,
    /// Streaming: 200 shares.
    Streaming,
    /// Compaction and other maintenance: 100 shares, more when it lags behind.
    Background,
}

impl Class {
    /// Every class, in order.
    pub const ALL: [Class; CLASSES] =
        [Class::Foreground, Class::Log, Class::Flush, Class::Streaming, Class::Background];
}

/// How many classes there are.
pub(crate) const CLASSES: usize = 5;
