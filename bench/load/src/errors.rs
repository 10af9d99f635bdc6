//! Classes of failed operations.
//!
//! Errors are in one class if the reader of a report would do the same about them. The server's error codes are those
//! of section 9 of the native protocol's specification.

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Class {
    /// No answer within the client's own limit.
    Timeout,
    /// The coordinator gave up on the replicas of a read.
    ReadTimeout,
    /// The coordinator gave up on the replicas of a write.
    WriteTimeout,
    /// Too few replicas are up.
    Unavailable,
    /// The server sheds load.
    Overloaded,
    /// A replica failed at a read or a write.
    ReplicaFailure,
    /// The answer does not hold the data that follows from the key.
    WrongData,
    /// A row that must exist was not there.
    Missing,
    /// The connection broke or could not be made while the operation was under way.
    Connection,
    /// The server refused the request itself: syntax, permissions, types, an unknown statement.
    Refused,
    /// Any other error of the server.
    Server,
}

/// How many classes there are.
pub const CLASSES: usize = 11;

/// Failed operations by class.
pub type Counts = [u64; CLASSES];

impl Class {
    /// All classes, in the order of [`Counts`].
    pub const ALL: [Class; CLASSES] = [
        Class::Timeout,
        Class::ReadTimeout,
        Class::WriteTimeout,
        Class::Unavailable,
        Class::Overloaded,
        Class::ReplicaFailure,
        Class::WrongData,
        Class::Missing,
        Class::Connection,
        Class::Refused,
        Class::Server,
    ];

    /// The class of an error code of the protocol.
    pub fn of_code(code: i32) -> Class {
        match code {
            0x1000 => Class::Unavailable,
            0x1001 => Class::Overloaded,
            0x1100 | 0x1700 => Class::WriteTimeout,
            0x1200 => Class::ReadTimeout,
            0x1300..=0x1600 => Class::ReplicaFailure,
            0x000A | 0x0100 | 0x2000..=0x2500 => Class::Refused,
            _ => Class::Server,
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Timeout => "timeout",
            Class::ReadTimeout => "read timeout",
            Class::WriteTimeout => "write timeout",
            Class::Unavailable => "unavailable",
            Class::Overloaded => "overloaded",
            Class::ReplicaFailure => "replica failure",
            Class::WrongData => "wrong data",
            Class::Missing => "missing row",
            Class::Connection => "connection",
            Class::Refused => "refused",
            Class::Server => "server error",
        }
    }
}

/// The classes that occurred, with their counts.
pub fn occurred(counts: &Counts) -> impl Iterator<Item = (Class, u64)> + '_ {
    Class::ALL.into_iter().zip(counts.iter().copied()).filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_count_themselves() {
        for (at, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, at);
        }
        assert_eq!(Class::of_code(0x1001), Class::Overloaded);
        assert_eq!(Class::of_code(0x2500), Class::Refused);
        assert_eq!(Class::of_code(0), Class::Server);
    }
}
