//! Tokens to a statement, by recursive descent: what every statement shares. SELECT to BATCH are in `dml`, the rest in
//! `ddl`.
//!
//! 1. One token is current; the few places that must look further copy the lexer, which is two words.
//! 2. Names fold to lower case unless quoted; a reserved word is no name.
//! 3. Markers get their numbers here, in the order of the text.
//!
//! Invariants: the stack is bounded by [`DEPTH_MAX`]; a real mistake is 0x2000 at the offending token; what is good CQL
//! but not in Helenus yet is 0x2200 and named.

use crate::ast::{Body, Composite, Constant, Statement, TableName, Term, TypeKind, TypeName};
use crate::lexer::{Kind, Lexer, Token, syntax};
use crate::{DEPTH_MAX, MARKERS_MAX, STATEMENT_BYTES_MAX};
use model::{CqlType, ErrorCode, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// Parses one statement; see [`crate::parse`].
pub(crate) fn parse(text: &str) -> Result<Statement> {
    if text.len() > STATEMENT_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "The statement has {} bytes, more than the maximum of {STATEMENT_BYTES_MAX}",
            text.len()
        )));
    }
    let mut parser = Parser::new(text)?;
    let body = parser.statement()?;
    while parser.accept(Kind::Semicolon)? {}
    if parser.token.kind != Kind::End {
        return Err(parser.mismatched("EOF"));
    }
    Ok(Statement { body, markers: parser.markers })
}

/// 0x2200: `Helenus does not support ... yet`.
pub(crate) fn unsupported(feature: &str) -> Failure {
    Failure::invalid(format!("Helenus does not support {feature} yet"))
}

/// 0x2100, for every statement about roles: nobody can be logged in.
pub(crate) fn anonymous() -> Failure {
    Failure::new(ErrorCode::Unauthorized, "You have to be logged in and not anonymous to perform this request")
}

pub(crate) struct Parser<'a> {
    pub(crate) lexer: Lexer<'a>,
    /// The current token.
    pub(crate) token: Token<'a>,
    markers: Vec<Option<String>>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Parser { lexer, token, markers: Vec::new(), depth: 0 })
    }

    fn statement(&mut self) -> Result<Body> {
        let first = self.token;
        if first.is("select") {
            self.select()
        } else if first.is("insert") || first.is("update") || first.is("delete") {
            Ok(Body::Modify(self.modify()?))
        } else if first.is("begin") {
            self.batch()
        } else {
            self.definition()
        }
    }

    // Tokens.

    /// Makes the next token current and returns the one that was.
    pub(crate) fn advance(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// The token after the current one.
    pub(crate) fn peek(&self) -> Result<Token<'a>> {
        let mut lexer = self.lexer;
        lexer.next()
    }

    /// Whether the current token is of a kind; steps over it if so.
    pub(crate) fn accept(&mut self, kind: Kind) -> Result<bool> {
        let there = self.token.kind == kind;
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    /// The same for a keyword, given in lower case.
    pub(crate) fn accept_word(&mut self, keyword: &str) -> Result<bool> {
        let there = self.token.is(keyword);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub(crate) fn expect(&mut self, kind: Kind, shown: &str) -> Result<()> {
        if self.accept(kind)? { Ok(()) } else { Err(self.mismatched(shown)) }
    }

    pub(crate) fn expect_word(&mut self, keyword: &str) -> Result<()> {
        if self.accept_word(keyword)? {
            return Ok(());
        }
        Err(self.mismatched(&format!("K_{}", keyword.to_ascii_uppercase())))
    }

    /// Steps over `IF NOT EXISTS`.
    pub(crate) fn if_not_exists(&mut self) -> Result<bool> {
        let there = self.accept_word("if")?;
        if there {
            self.expect_word("not")?;
            self.expect_word("exists")?;
        }
        Ok(there)
    }

    /// Steps over `IF EXISTS`.
    pub(crate) fn if_exists(&mut self) -> Result<bool> {
        let there = self.accept_word("if")?;
        if there {
            self.expect_word("exists")?;
        }
        Ok(there)
    }

    // Errors at the current token.

    pub(crate) fn no_viable(&self) -> Failure {
        self.error_at(self.token, "no viable alternative at input", "")
    }

    pub(crate) fn mismatched(&self, expected: &str) -> Failure {
        self.error_at(self.token, "mismatched input", &format!(" expecting {expected}"))
    }

    fn error_at(&self, token: Token<'_>, what: &str, tail: &str) -> Failure {
        // Cassandra gives the end of the text this place.
        if token.kind == Kind::End {
            return syntax(format!("line 0:-1 {what} '<EOF>'{tail}"));
        }
        syntax(format!("{} {what} '{}'{tail}", self.lexer.position(token.start), token.text))
    }

    /// Runs `inner` one level deeper, unless that is too deep.
    pub(crate) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(Failure::invalid(format!("Expressions and types nest at most {DEPTH_MAX} levels deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    // Names.

    /// A name: a word that is not reserved, in lower case, or a quoted name.
    pub(crate) fn name(&mut self) -> Result<String> {
        let name = match self.token.kind {
            Kind::Word if !is_reserved(self.token.text) => self.token.text.to_ascii_lowercase(),
            Kind::QuotedName => unquote(self.token.text, "\"\"", "\""),
            _ => return Err(self.no_viable()),
        };
        self.advance()?;
        Ok(name)
    }

    /// Whether the current token is a name.
    pub(crate) fn at_name(&self) -> bool {
        match self.token.kind {
            Kind::Word => !is_reserved(self.token.text),
            Kind::QuotedName => true,
            _ => false,
        }
    }

    pub(crate) fn table_name(&mut self) -> Result<TableName> {
        let first = self.name()?;
        if self.accept(Kind::Dot)? {
            return Ok(TableName { keyspace: Some(first), name: self.name()? });
        }
        Ok(TableName { keyspace: None, name: first })
    }

    /// `item, item, ...`: at least one.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(Kind::Comma)? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    // Terms.

    /// `?` or `:name`, if one is there.
    pub(crate) fn marker(&mut self) -> Result<Option<u16>> {
        let name = match self.token.kind {
            Kind::QuestionMark => {
                self.advance()?;
                None
            }
            Kind::Colon => {
                self.advance()?;
                Some(self.name()?)
            }
            _ => return Ok(None),
        };
        let number = self.markers.len();
        if number == MARKERS_MAX {
            return Err(Failure::invalid(format!("A statement takes at most {MARKERS_MAX} bind markers")));
        }
        self.markers.push(name);
        Ok(Some(number as u16))
    }

    /// A constant, if one is there: strings, numbers, booleans, `NaN`, `-Infinity`, blobs, uuids, durations.
    pub(crate) fn constant(&mut self) -> Result<Option<(Constant, String)>> {
        let token = self.token;
        let constant = match token.kind {
            Kind::String => (Constant::String, unquote(token.text, "''", "'")),
            Kind::DollarString => (Constant::String, token.text.to_owned()),
            Kind::Integer => (Constant::Integer, token.text.to_owned()),
            Kind::Float => (Constant::Float, token.text.to_owned()),
            Kind::Hex => (Constant::Hex, token.text.to_owned()),
            Kind::Uuid => (Constant::Uuid, token.text.to_owned()),
            Kind::Duration => (Constant::Duration, token.text.to_owned()),
            Kind::Word if token.is("true") || token.is("false") => (Constant::Boolean, token.text.to_owned()),
            Kind::Word if token.is("nan") => (Constant::Float, "NaN".to_owned()),
            Kind::Word if token.is("infinity") => (Constant::Float, "Infinity".to_owned()),
            Kind::Minus => {
                let next = self.peek()?;
                let constant = match next.kind {
                    Kind::Word if next.is("nan") => (Constant::Float, "-NaN".to_owned()),
                    Kind::Word if next.is("infinity") => (Constant::Float, "-Infinity".to_owned()),
                    Kind::Integer if !next.text.starts_with('-') => (Constant::Integer, format!("-{}", next.text)),
                    Kind::Float if !next.text.starts_with('-') => (Constant::Float, format!("-{}", next.text)),
                    _ => return Ok(None),
                };
                self.advance()?;
                constant
            }
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(constant))
    }

    /// A value.
    pub(crate) fn term(&mut self) -> Result<Term> {
        let term = self.simple_term()?;
        self.refuse_arithmetic()?;
        Ok(term)
    }

    /// Fails if an arithmetic operator follows.
    pub(crate) fn refuse_arithmetic(&self) -> Result<()> {
        let operator = match self.token.kind {
            Kind::Plus | Kind::Minus | Kind::Star | Kind::Slash | Kind::Percent => true,
            Kind::Integer | Kind::Float | Kind::Duration => self.token.text.starts_with('-'),
            _ => false,
        };
        if operator { Err(unsupported("arithmetic operations")) } else { Ok(()) }
    }

    /// A value that is no arithmetic expression.
    pub(crate) fn simple_term(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if let Some((family, text)) = self.constant()? {
            return Ok(Term::Constant(family, text));
        }
        match self.token.kind {
            Kind::Word if self.token.is("null") => {
                self.advance()?;
                Ok(Term::Null)
            }
            Kind::Word | Kind::QuotedName => self.function_term(),
            Kind::Minus => {
                self.advance()?;
                self.nested(Self::simple_term)?;
                Err(unsupported("arithmetic operations"))
            }
            Kind::ParenOpen if self.at_type_hint()? => {
                let type_name = self.type_hint()?;
                let term = self.nested(Self::simple_term)?;
                Ok(Term::Cast(type_name, Box::new(term)))
            }
            Kind::ParenOpen => {
                self.advance()?;
                let mut terms = self.nested(|parser| parser.list(Self::term))?;
                self.expect(Kind::ParenClose, "')'")?;
                // One term in parentheses is that term.
                match (terms.pop(), terms.is_empty()) {
                    (Some(term), true) => Ok(term),
                    _ => Ok(Term::Composite(Composite::Tuple)),
                }
            }
            Kind::BracketOpen => {
                self.advance()?;
                if self.token.kind != Kind::BracketClose {
                    self.nested(|parser| parser.list(Self::term))?;
                }
                self.expect(Kind::BracketClose, "']'")?;
                Ok(Term::Composite(Composite::List))
            }
            Kind::BraceOpen => {
                self.advance()?;
                let composite = self.nested(Self::braces)?;
                self.expect(Kind::BraceClose, "'}'")?;
                Ok(Term::Composite(composite))
            }
            _ => Err(self.no_viable()),
        }
    }

    /// What stands in `{...}`: a set, a map, or a user type's fields.
    fn braces(&mut self) -> Result<Composite> {
        if self.token.kind == Kind::BraceClose {
            return Ok(Composite::Set);
        }
        if self.at_name() && self.peek()?.kind == Kind::Colon {
            self.list(|parser| {
                parser.name()?;
                parser.expect(Kind::Colon, "':'")?;
                parser.term()
            })?;
            return Ok(Composite::UserType);
        }
        self.term()?;
        let composite = if self.token.kind == Kind::Colon { Composite::Map } else { Composite::Set };
        loop {
            if composite == Composite::Map {
                self.expect(Kind::Colon, "':'")?;
                self.term()?;
            }
            if !self.accept(Kind::Comma)? {
                return Ok(composite);
            }
            self.term()?;
        }
    }

    fn function_term(&mut self) -> Result<Term> {
        let (keyspace, name) = self.function_name()?;
        if self.token.kind != Kind::ParenOpen {
            return Err(self.no_viable());
        }
        self.advance()?;
        let arguments = match self.token.kind {
            Kind::ParenClose => Vec::new(),
            _ => self.nested(|parser| parser.list(Self::term))?,
        };
        self.expect(Kind::ParenClose, "')'")?;
        Ok(Term::Function { keyspace, name, arguments })
    }

    /// `name` or `keyspace.name`; `token` is a function although the word is reserved.
    pub(crate) fn function_name(&mut self) -> Result<(Option<String>, String)> {
        if self.accept_word("token")? {
            return Ok((None, "token".to_owned()));
        }
        let first = self.name()?;
        if !self.accept(Kind::Dot)? {
            return Ok((None, first));
        }
        if self.accept_word("token")? {
            return Ok((Some(first), "token".to_owned()));
        }
        Ok((Some(first), self.name()?))
    }

    /// Whether `(type)` begins here: a parenthesis, a type's name, and then what only a type has.
    pub(crate) fn at_type_hint(&self) -> Result<bool> {
        let mut lexer = self.lexer;
        let mut word = lexer.next()?;
        if !matches!(word.kind, Kind::Word | Kind::QuotedName) {
            return Ok(false);
        }
        let mut after = lexer.next()?;
        if after.kind == Kind::Dot {
            word = lexer.next()?;
            after = lexer.next()?;
        }
        let constant = ["null", "true", "false", "nan", "infinity"].iter().any(|constant| word.is(constant));
        Ok(!constant && matches!(after.kind, Kind::ParenClose | Kind::Less))
    }

    pub(crate) fn type_hint(&mut self) -> Result<TypeName> {
        self.expect(Kind::ParenOpen, "'('")?;
        let type_name = self.type_name()?;
        self.expect(Kind::ParenClose, "')'")?;
        Ok(type_name)
    }

    /// `INTEGER` or a marker: what LIMIT, TIMESTAMP and TTL take.
    pub(crate) fn integer_or_marker(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.token.kind != Kind::Integer {
            return Err(self.no_viable());
        }
        Ok(Term::Constant(Constant::Integer, self.advance()?.text.to_owned()))
    }

    /// A duration or a marker: what TIMEOUT takes.
    pub(crate) fn duration_or_marker(&mut self) -> Result<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.token.kind != Kind::Duration {
            return Err(self.no_viable());
        }
        Ok(Term::Constant(Constant::Duration, self.advance()?.text.to_owned()))
    }

    // Types.

    pub(crate) fn type_name(&mut self) -> Result<TypeName> {
        if self.token.kind == Kind::String {
            let text = unquote(self.advance()?.text, "''", "'");
            return Ok(TypeName { kind: TypeKind::Custom, text });
        }
        let quoted = self.token.kind == Kind::QuotedName;
        // `set` is reserved, and a type all the same.
        let name = if self.accept_word("set")? { "set".to_owned() } else { self.name()? };
        if quoted {
            return self.user_type(name);
        }
        let generic = self.token.kind == Kind::Less;
        match name.as_str() {
            "list" | "set" if generic => {
                let inner = self.parameters(1)?;
                Ok(TypeName { kind: TypeKind::Collection { frozen: false }, text: format!("{name}<{inner}>") })
            }
            "map" if generic => {
                let inner = self.parameters(2)?;
                Ok(TypeName { kind: TypeKind::Collection { frozen: false }, text: format!("map<{inner}>") })
            }
            "tuple" if generic => {
                let inner = self.parameters(usize::MAX)?;
                Ok(TypeName { kind: TypeKind::Tuple, text: format!("tuple<{inner}>") })
            }
            "vector" if generic => {
                self.advance()?;
                let inner = self.nested(Self::type_name)?;
                self.expect(Kind::Comma, "','")?;
                if self.token.kind != Kind::Integer {
                    return Err(self.mismatched("INTEGER"));
                }
                let dimension = self.advance()?.text;
                self.expect(Kind::Greater, "'>'")?;
                Ok(TypeName { kind: TypeKind::Vector, text: format!("vector<{inner}, {dimension}>") })
            }
            "frozen" if generic => self.frozen(),
            _ => match native(&name) {
                Some(cql_type) => Ok(TypeName { kind: TypeKind::Native(cql_type), text: name }),
                None => self.user_type(name),
            },
        }
    }

    fn frozen(&mut self) -> Result<TypeName> {
        self.advance()?;
        let inner = self.nested(Self::type_name)?;
        self.expect(Kind::Greater, "'>'")?;
        let text = format!("frozen<{inner}>");
        match inner.kind {
            TypeKind::Collection { .. } => Ok(TypeName { kind: TypeKind::Collection { frozen: true }, text }),
            TypeKind::Tuple | TypeKind::User { .. } => Ok(TypeName { kind: inner.kind, text }),
            TypeKind::Native(_) | TypeKind::Vector | TypeKind::Custom => Err(syntax(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
            ))),
        }
    }

    /// `<type, type>` as text: `count` types, or any number if it is `usize::MAX`.
    fn parameters(&mut self, count: usize) -> Result<String> {
        self.expect(Kind::Less, "'<'")?;
        let mut text = String::new();
        let mut seen = 0;
        loop {
            let inner = self.nested(Self::type_name)?;
            if seen > 0 {
                text.push_str(", ");
            }
            text.push_str(&inner.text);
            seen += 1;
            if seen == count || (count == usize::MAX && self.token.kind != Kind::Comma) {
                break;
            }
            self.expect(Kind::Comma, "','")?;
        }
        self.expect(Kind::Greater, "'>'")?;
        Ok(text)
    }

    fn user_type(&mut self, first: String) -> Result<TypeName> {
        if self.accept(Kind::Dot)? {
            let name = self.name()?;
            let text = format!("{first}.{name}");
            return Ok(TypeName { kind: TypeKind::User { keyspace: Some(first), name }, text });
        }
        Ok(TypeName { text: first.clone(), kind: TypeKind::User { keyspace: None, name: first } })
    }
}

/// The text of a quoted token with its doubled quotes undone.
fn unquote(text: &str, doubled: &str, single: &str) -> String {
    if text.contains(doubled) { text.replace(doubled, single) } else { text.to_owned() }
}

/// The native type of a name in lower case.
pub(crate) fn native(name: &str) -> Option<CqlType> {
    Some(match name {
        "ascii" => CqlType::Ascii,
        "bigint" => CqlType::Bigint,
        "blob" => CqlType::Blob,
        "boolean" => CqlType::Boolean,
        "counter" => CqlType::Counter,
        "date" => CqlType::Date,
        "decimal" => CqlType::Decimal,
        "double" => CqlType::Double,
        "duration" => CqlType::Duration,
        "float" => CqlType::Float,
        "inet" => CqlType::Inet,
        "int" => CqlType::Int,
        "smallint" => CqlType::Smallint,
        "text" | "varchar" => CqlType::Text,
        "time" => CqlType::Time,
        "timestamp" => CqlType::Timestamp,
        "timeuuid" => CqlType::Timeuuid,
        "tinyint" => CqlType::Tinyint,
        "uuid" => CqlType::Uuid,
        "varint" => CqlType::Varint,
        _ => return None,
    })
}

/// Longest reserved word, bytes.
const RESERVED_BYTES_MAX: usize = 12;

/// Whether a word (in any case) is one of Cassandra's reserved keywords, which are no names.
pub(crate) fn is_reserved(word: &str) -> bool {
    if word.len() > RESERVED_BYTES_MAX {
        return false;
    }
    let mut buffer = [0; RESERVED_BYTES_MAX];
    let lower = &mut buffer[..word.len()];
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    matches!(
        &*lower,
        b"add"
            | b"allow"
            | b"alter"
            | b"and"
            | b"apply"
            | b"asc"
            | b"authorize"
            | b"batch"
            | b"begin"
            | b"by"
            | b"columnfamily"
            | b"create"
            | b"delete"
            | b"desc"
            | b"describe"
            | b"drop"
            | b"entries"
            | b"execute"
            | b"false"
            | b"from"
            | b"full"
            | b"grant"
            | b"if"
            | b"in"
            | b"index"
            | b"infinity"
            | b"insert"
            | b"into"
            | b"is"
            | b"keyspace"
            | b"limit"
            | b"materialized"
            | b"modify"
            | b"nan"
            | b"norecursive"
            | b"not"
            | b"null"
            | b"of"
            | b"on"
            | b"or"
            | b"order"
            | b"primary"
            | b"rename"
            | b"revoke"
            | b"schema"
            | b"select"
            | b"set"
            | b"table"
            | b"to"
            | b"token"
            | b"true"
            | b"truncate"
            | b"unlogged"
            | b"update"
            | b"use"
            | b"using"
            | b"view"
            | b"where"
            | b"with"
    )
}
