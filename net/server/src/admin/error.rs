//! How commands fail: which text goes to which output, and the exit code, as with Cassandra's nodetool.

/// Why a command failed, and what nodetool prints and returns for it.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The caller's mistake: usage text on standard output, exit code 1.
    Usage(String),
    /// The command failed: `error:` and this text on standard error, exit code 2.
    Failed(String),
    /// This text on standard output, exit code 1.
    ToStdout(String),
    /// This text on standard error, exit code 1.
    ToStderr(String),
    /// The command goes on; nodetool asks for the rest with these arguments of `follow`.
    GoesOn(String),
}

/// Fails with [`CommandError::Usage`].
pub(crate) fn usage<T>(text: impl Into<String>) -> Result<T, CommandError> {
    Err(CommandError::Usage(text.into()))
}

impl From<model::Failure> for CommandError {
    fn from(failure: model::Failure) -> CommandError {
        CommandError::Failed(failure.text.to_string())
    }
}
