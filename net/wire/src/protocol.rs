//! The protocol's own constants: versions, opcodes, header flags.

/// A protocol version that the codecs speak.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "named by its number")]
pub enum Version {
    V3 = 3,
    V4 = 4,
    V5 = 5,
    /// Version 5 for clients that accept a beta version, with [`flags::USE_BETA`] in every envelope.
    V6 = 6,
}

impl Version {
    /// The highest version that is not beta, in which requests of unknown versions are answered.
    pub const HIGHEST: Version = Version::V5;

    /// The version with this number, which is a header's first byte without its direction bit.
    pub fn from_number(number: u8) -> Option<Version> {
        match number {
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            5 => Some(Version::V5),
            6 => Some(Version::V6),
            _ => None,
        }
    }

    /// The version's number in headers.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The header flag that every envelope of this version has: [`flags::USE_BETA`] in a beta version, else none.
    pub fn beta_flag(self) -> u8 {
        if self == Version::V6 { flags::USE_BETA } else { 0 }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let beta = if self.beta_flag() == 0 { "" } else { "-beta" };
        write!(f, "{0}/v{0}{beta}", self.number())
    }
}

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum Opcode {
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Credentials = 0x04,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0A,
    Register = 0x0B,
    Event = 0x0C,
    Batch = 0x0D,
    AuthChallenge = 0x0E,
    AuthResponse = 0x0F,
    AuthSuccess = 0x10,
}

impl Opcode {
    /// The opcode with this number in a header; `None` for unknown ones.
    pub fn from_byte(byte: u8) -> Option<Opcode> {
        use Opcode::*;
        const ALL: [Opcode; 17] = [
            Error,
            Startup,
            Ready,
            Authenticate,
            Credentials,
            Options,
            Supported,
            Query,
            Result,
            Prepare,
            Execute,
            Register,
            Event,
            Batch,
            AuthChallenge,
            AuthResponse,
            AuthSuccess,
        ];
        ALL.get(byte as usize).copied()
    }

    /// Whether clients send this message rather than servers.
    pub fn is_request(self) -> bool {
        use Opcode::*;
        matches!(self, Startup | Credentials | Options | Query | Prepare | Execute | Register | Batch | AuthResponse)
    }

    /// The name in error texts, for instance `AUTH_RESPONSE`.
    pub fn name(self) -> &'static str {
        use Opcode::*;
        match self {
            Error => "ERROR",
            Startup => "STARTUP",
            Ready => "READY",
            Authenticate => "AUTHENTICATE",
            Credentials => "CREDENTIALS",
            Options => "OPTIONS",
            Supported => "SUPPORTED",
            Query => "QUERY",
            Result => "RESULT",
            Prepare => "PREPARE",
            Execute => "EXECUTE",
            Register => "REGISTER",
            Event => "EVENT",
            Batch => "BATCH",
            AuthChallenge => "AUTH_CHALLENGE",
            AuthResponse => "AUTH_RESPONSE",
            AuthSuccess => "AUTH_SUCCESS",
        }
    }
}

/// Flags of an envelope's header.
pub mod flags {
    /// The body is compressed (v3, v4); ignored unless STARTUP has agreed on an algorithm.
    pub const COMPRESSION: u8 = 0x01;
    /// The client asks for tracing; in a response the body begins with a trace id.
    pub const TRACING: u8 = 0x02;
    /// The body begins with a bytes map (v4 and later).
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// The response's body begins with a list of warnings (v4 and later).
    pub const WARNINGS: u8 = 0x08;
    /// The version is in beta, and the client accepts that.
    pub const USE_BETA: u8 = 0x10;
}
