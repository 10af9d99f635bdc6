//! [`Failure`], the only error type that leaves a shard, and consistency levels.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// Native protocol error codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
#[expect(missing_docs, reason = "the protocol's names")]
pub enum ErrorCode {
    Server = 0x0000,
    Protocol = 0x000A,
    BadCredentials = 0x0100,
    Unavailable = 0x1000,
    Overloaded = 0x1001,
    IsBootstrapping = 0x1002,
    Truncate = 0x1003,
    WriteTimeout = 0x1100,
    ReadTimeout = 0x1200,
    ReadFailure = 0x1300,
    FunctionFailure = 0x1400,
    WriteFailure = 0x1500,
    CasWriteUnknown = 0x1700,
    Syntax = 0x2000,
    Unauthorized = 0x2100,
    Invalid = 0x2200,
    Config = 0x2300,
    AlreadyExists = 0x2400,
    Unprepared = 0x2500,
    /// ScyllaDB's, told only to clients that know it; to others it is [`ErrorCode::Config`].
    RateLimit = 0xF000,
}

/// A failed request: Cassandra's error code and text, and whether the request may have had an effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The protocol's error code.
    pub code: ErrorCode,
    /// Cassandra's error text.
    pub text: Cow<'static, str>,
    /// The fields that the error's body carries besides code and text.
    pub detail: Detail,
    /// Whether the request had an effect.
    pub outcome: Outcome,
}

/// Whether a failed request had an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It had none and never will.
    NotApplied,
    /// Its effect may be visible now or later.
    Unknown,
}

/// The additional fields of some error codes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Detail {
    /// No additional fields.
    None,
    /// [`ErrorCode::Unavailable`].
    Unavailable {
        /// The requested level.
        consistency: Consistency,
        /// Replicas that the level needs.
        required: i32,
        /// Replicas that are alive.
        alive: i32,
    },
    /// [`ErrorCode::WriteTimeout`].
    WriteTimeout {
        /// The requested level.
        consistency: Consistency,
        /// Acknowledgements so far.
        received: i32,
        /// Acknowledgements needed.
        block_for: i32,
        /// `SIMPLE`, `BATCH`, `UNLOGGED_BATCH`, ...
        write_type: &'static str,
    },
    /// [`ErrorCode::WriteTimeout`] of a conditional statement, before anything was proposed or after it was decided.
    CasWriteTimeout {
        /// The level of the decision, or of writing its outcome.
        consistency: Consistency,
        /// Replicas that answered.
        received: i32,
        /// Replicas needed.
        block_for: i32,
        /// `CAS`, or `SIMPLE` when the outcome was being written.
        write_type: &'static str,
        /// How often it had to start over because of another proposal.
        contentions: u16,
    },
    /// [`ErrorCode::CasWriteUnknown`].
    CasWriteUnknown {
        /// The requested level.
        consistency: Consistency,
        /// Replicas that accepted.
        received: i32,
        /// Replicas needed.
        block_for: i32,
    },
    /// [`ErrorCode::ReadTimeout`].
    ReadTimeout {
        /// The requested level.
        consistency: Consistency,
        /// Answers so far.
        received: i32,
        /// Answers needed.
        block_for: i32,
        /// Whether the data replica answered.
        data_present: bool,
    },
    /// [`ErrorCode::WriteFailure`].
    WriteFailure {
        /// The requested level.
        consistency: Consistency,
        /// Acknowledgements so far.
        received: i32,
        /// Acknowledgements needed.
        block_for: i32,
        /// The replicas that failed, and why.
        failures: Vec<(IpAddr, FailureReason)>,
        /// `SIMPLE`, `BATCH`, `UNLOGGED_BATCH`, ...
        write_type: &'static str,
    },
    /// [`ErrorCode::ReadFailure`].
    ReadFailure {
        /// The requested level.
        consistency: Consistency,
        /// Answers so far.
        received: i32,
        /// Answers needed.
        block_for: i32,
        /// The replicas that failed, and why.
        failures: Vec<(IpAddr, FailureReason)>,
        /// Whether the data replica answered.
        data_present: bool,
    },
    /// Why one replica failed: what it tells its coordinator, which makes of it the failure that the client gets.
    Replica {
        /// The reason.
        reason: FailureReason,
    },
    /// [`ErrorCode::AlreadyExists`]; the table's name is empty for a keyspace.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table, or empty.
        table: String,
    },
    /// [`ErrorCode::FunctionFailure`].
    Function {
        /// The keyspace of the function.
        keyspace: String,
        /// Its name.
        function: String,
        /// The CQL types of its arguments.
        arguments: Vec<String>,
    },
    /// [`ErrorCode::RateLimit`].
    RateLimit {
        /// Whether it was a write.
        is_write: bool,
        /// Whether the coordinator has refused it, and not a replica.
        by_coordinator: bool,
    },
    /// The request was refused because its table may not use more.
    Throttled {
        /// When it may be tried again.
        retry_after_millis: u32,
        /// The fields that go with the code.
        as_told: Box<Detail>,
    },
    /// [`ErrorCode::Unprepared`].
    Unprepared {
        /// The unknown id.
        id: Vec<u8>,
    },
}

/// Why a replica failed, as protocol version 5 reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
#[expect(missing_docs, reason = "Cassandra's names")]
pub enum FailureReason {
    Unknown = 0,
    ReadTooManyTombstones = 1,
    Timeout = 2,
    IncompatibleSchema = 3,
    ReadSize = 4,
    NodeDown = 5,
    IndexNotAvailable = 6,
}

impl FailureReason {
    /// Its name in error texts.
    pub fn name(self) -> &'static str {
        match self {
            FailureReason::Unknown => "UNKNOWN",
            FailureReason::ReadTooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
            FailureReason::Timeout => "TIMEOUT",
            FailureReason::IncompatibleSchema => "INCOMPATIBLE_SCHEMA",
            FailureReason::ReadSize => "READ_SIZE",
            FailureReason::NodeDown => "NODE_DOWN",
            FailureReason::IndexNotAvailable => "INDEX_NOT_AVAILABLE",
        }
    }
}

impl Failure {
    /// A failure of a request that had no effect.
    pub fn new(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure { code, text: text.into(), detail: Detail::None, outcome: Outcome::NotApplied }
    }

    /// A failure with code 0x2200 (invalid).
    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(ErrorCode::Invalid, text)
    }

    /// A failure with code 0x000A (protocol error).
    pub fn protocol(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(ErrorCode::Protocol, text)
    }

    /// A failure with code 0x0000 (server error).
    pub fn server(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(ErrorCode::Server, text)
    }

    /// A failure with code 0x2300 (configuration error).
    pub fn config(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(ErrorCode::Config, text)
    }

    /// A failure with code 0x1001 (overloaded).
    pub fn overloaded(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(ErrorCode::Overloaded, text)
    }

    /// This failure with `detail`.
    pub fn with(mut self, detail: Detail) -> Failure {
        self.detail = detail;
        self
    }

    /// This failure, but of a request that may have had an effect.
    pub fn unknown(mut self) -> Failure {
        self.outcome = Outcome::Unknown;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({:#06x}): {}", self.code, self.code as u16, self.text)
    }
}

impl std::error::Error for Failure {}

/// Consistency levels with their protocol codes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
#[expect(missing_docs, reason = "the protocol's names")]
pub enum Consistency {
    Any = 0,
    One = 1,
    Two = 2,
    Three = 3,
    Quorum = 4,
    All = 5,
    LocalQuorum = 6,
    EachQuorum = 7,
    Serial = 8,
    LocalSerial = 9,
    LocalOne = 10,
    NodeLocal = 11,
}

impl Consistency {
    /// The level with this protocol code.
    pub fn from_code(code: u16) -> Option<Consistency> {
        use Consistency::*;
        const ALL: [Consistency; 12] =
            [Any, One, Two, Three, Quorum, All, LocalQuorum, EachQuorum, Serial, LocalSerial, LocalOne, NodeLocal];
        ALL.get(code as usize).copied()
    }

    /// Whether this is one of the two levels for the decision of conditional statements.
    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }

    /// Its name in error texts: `LOCAL_QUORUM`.
    pub fn name(self) -> &'static str {
        use Consistency::*;
        match self {
            Any => "ANY",
            One => "ONE",
            Two => "TWO",
            Three => "THREE",
            Quorum => "QUORUM",
            All => "ALL",
            LocalQuorum => "LOCAL_QUORUM",
            EachQuorum => "EACH_QUORUM",
            Serial => "SERIAL",
            LocalSerial => "LOCAL_SERIAL",
            LocalOne => "LOCAL_ONE",
            NodeLocal => "NODE_LOCAL",
        }
    }
}
