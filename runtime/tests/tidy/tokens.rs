//! Splits Rust source into tokens and comments: enough to find paths and items, not a parser of expressions.
//!
//! String, character and number literals all become [`Kind::Literal`], so that no text inside them looks like code.

/// One token with the line that it starts on, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// An identifier or keyword; a raw identifier without its `r#`.
    Word(String),
    /// `::`.
    PathSeparator,
    /// Any other punctuation, one character each.
    Mark(char),
    Lifetime,
    Literal,
}

/// A line or block comment, delimiters included, with the line that it starts on, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Comment {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    pub(crate) fn is_separator(&self) -> bool {
        self.kind == Kind::PathSeparator
    }
}

/// The tokens and the comments of a source file, in order.
pub(crate) fn split(source: &str) -> (Vec<Token>, Vec<Comment>) {
    let mut lexer = Lexer { text: source.chars().collect(), at: 0, line: 1, tokens: Vec::new(), comments: Vec::new() };
    while lexer.at < lexer.text.len() {
        lexer.next();
    }
    (lexer.tokens, lexer.comments)
}

struct Lexer {
    text: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.text.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn advance(&mut self) {
        if self.peek(0) == '\n' {
            self.line += 1;
        }
        self.at += 1;
    }

    fn push(&mut self, line: usize, kind: Kind) {
        self.tokens.push(Token { line, kind });
    }

    fn next(&mut self) {
        let line = self.line;
        match (self.peek(0), self.peek(1)) {
            (space, _) if space.is_whitespace() => self.advance(),
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(line),
            ('\'', next) if next != '\\' && self.peek(2) != '\'' => {
                self.advance();
                self.take_word();
                self.push(line, Kind::Lifetime);
            }
            ('\'', _) => self.character(line),
            (first, _) if first.is_alphabetic() || first == '_' => self.word(line),
            (first, _) if first.is_ascii_digit() => {
                self.take_word();
                if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
                    self.advance();
                    self.take_word();
                }
                self.push(line, Kind::Literal);
            }
            (':', ':') => {
                self.at += 2;
                self.push(line, Kind::PathSeparator);
            }
            (mark, _) => {
                self.advance();
                self.push(line, Kind::Mark(mark));
            }
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.at < self.text.len() && self.peek(0) != '\n' {
            self.at += 1;
        }
        let text = self.text[start..self.at].iter().collect();
        self.comments.push(Comment { line: self.line, text });
    }

    fn block_comment(&mut self) {
        let (start, line) = (self.at, self.line);
        let mut depth = 0;
        while self.at < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => (depth, self.at) = (depth + 1, self.at + 2),
                ('*', '/') => (depth, self.at) = (depth - 1, self.at + 2),
                _ => self.advance(),
            }
            if depth == 0 {
                break;
            }
        }
        let text = self.text[start..self.at.min(self.text.len())].iter().collect();
        self.comments.push(Comment { line, text });
    }

    /// A string from its opening quotation mark, with escapes.
    fn string(&mut self, line: usize) {
        self.advance();
        while self.at < self.text.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.advance();
            }
            self.advance();
        }
        self.advance();
        self.push(line, Kind::Literal);
    }

    /// A character literal from its opening quotation mark.
    fn character(&mut self, line: usize) {
        self.advance();
        if self.peek(0) == '\\' {
            self.advance();
        }
        self.advance();
        while self.at < self.text.len() && self.peek(0) != '\'' {
            self.advance();
        }
        self.advance();
        self.push(line, Kind::Literal);
    }

    /// A raw string from its first `#` or quotation mark.
    fn raw_string(&mut self, line: usize) {
        let mut hashes = 0;
        while self.peek(0) == '#' {
            hashes += 1;
            self.advance();
        }
        self.advance();
        while self.at < self.text.len() {
            if self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#') {
                self.at += 1 + hashes;
                break;
            }
            self.advance();
        }
        self.push(line, Kind::Literal);
    }

    fn take_word(&mut self) -> String {
        let start = self.at;
        while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    fn word(&mut self, line: usize) {
        let word = self.take_word();
        match (word.as_str(), self.peek(0)) {
            ("b" | "c", '"') => self.string(line),
            ("b", '\'') => self.character(line),
            ("r" | "br" | "cr", '"') => self.raw_string(line),
            ("r" | "br" | "cr", '#') if self.peek(1) == '#' || self.peek(1) == '"' => self.raw_string(line),
            ("r", '#') => {
                self.advance();
                let word = self.take_word();
                self.push(line, Kind::Word(word));
            }
            _ => self.push(line, Kind::Word(word)),
        }
    }
}

#[test]
fn literals_hide_what_looks_like_code() {
    let source =
        "let a = \"crate::x \\\" // no\"; let b = r#\"crate::y \" /*\"#; let c = b'\\''; let d = '\"'; // crate::z";
    let (tokens, comments) = split(source);
    assert!(tokens.iter().all(|token| !token.is_separator() && !token.is_word("crate")), "{tokens:?}");
    assert_eq!(comments, [Comment { line: 1, text: "// crate::z".to_string() }]);
    assert_eq!(tokens.iter().filter(|token| token.kind == Kind::Literal).count(), 4);
}

#[test]
fn lifetimes_are_not_characters() {
    let (tokens, _) = split("fn f<'a>(x: &'a str) -> crate::A<'a> { 'x' }");
    assert_eq!(tokens.iter().filter(|token| token.kind == Kind::Lifetime).count(), 3);
    assert_eq!(tokens.iter().filter(|token| token.kind == Kind::Literal).count(), 1);
    assert!(tokens.iter().any(Token::is_separator));
}

#[test]
fn lines_are_counted_across_strings_and_comments() {
    let (tokens, comments) = split("/* a /* nested */\n */\n\"b\nc\"\nlast // end");
    assert_eq!(tokens.last(), Some(&Token { line: 5, kind: Kind::Word("last".to_string()) }));
    assert_eq!(comments.iter().map(|comment| comment.line).collect::<Vec<_>>(), [1, 5]);
}

#[test]
fn ranges_of_numbers_keep_their_dots() {
    let (tokens, _) = split("0..10 1.5 x.0.y r#type");
    let marks = tokens.iter().filter(|token| token.is_mark('.')).count();
    assert_eq!(marks, 3 + 1, "{tokens:?}");
    assert!(tokens.last().is_some_and(|token| token.is_word("type")));
}
