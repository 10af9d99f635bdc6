//! Parses arguments as the tools of Cassandra do, which use Apache Commons CLI.
//!
//! `-td` is `-t -d`, and `-kvalue` is `-k value`, in tools of the POSIX style. A long option may be given as
//! `--name=value`, and by a unique beginning of its name. Arguments after `--` are not options. An option takes all
//! values that follow it, up to its limit, unless they are options themselves.

/// An option that a tool knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The short name, of one or more letters; empty if there is only a long one.
    pub(crate) short: &'static str,
    /// The long name; empty if there is none.
    pub(crate) long: &'static str,
    /// Most values of one occurrence.
    pub(crate) values_max: usize,
}

/// Returns an option without values.
pub(crate) const fn flag(short: &'static str, long: &'static str) -> Known {
    Known { short, long, values_max: 0 }
}

/// How options of one letter may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// Several letters may be combined: `-td` is `-t -d`.
    Posix,
    /// Letters may not be combined.
    Gnu,
}

/// The parsed command line.
#[derive(Default, Debug)]
pub(crate) struct Given {
    found: Vec<(Known, Vec<String>)>,
    /// The arguments that are not options.
    pub(crate) rest: Vec<String>,
}

impl Given {
    fn named<'g>(&'g self, name: &'g str) -> impl Iterator<Item = &'g [String]> {
        let is = move |known: &Known| known.short == name || known.long == name;
        self.found.iter().filter(move |(known, _)| is(known)).map(|(_, values)| &values[..])
    }

    /// Returns whether an option was given. `name` is its short or long name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.named(name).next().is_some()
    }

    /// Returns the first value of an option, if there is one.
    pub(crate) fn value<'g>(&'g self, name: &'g str) -> Option<&'g str> {
        self.values(name).next()
    }

    /// Returns all values of an option.
    pub(crate) fn values<'g>(&'g self, name: &'g str) -> impl Iterator<Item = &'g str> {
        self.named(name).flatten().map(String::as_str)
    }
}

/// The kind of an argument.
enum Token {
    Option(Known, Option<String>),
    Unknown(String),
    Rest,
    Text,
}

fn long_option(known: &[Known], name: &str, full: &str) -> Result<Token, String> {
    let (name, value) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (name, None),
    };
    if let Some(exact) = known.iter().find(|option| !option.long.is_empty() && option.long == name) {
        return Ok(Token::Option(*exact, value));
    }
    let matching: Vec<&Known> = known.iter().filter(|option| option.long.starts_with(name)).collect();
    match matching[..] {
        [one] if !name.is_empty() => Ok(Token::Option(*one, value)),
        [] => Ok(Token::Unknown(full.to_owned())),
        _ => {
            let names: Vec<String> = matching.iter().map(|option| format!("'{}'", option.long)).collect();
            Err(format!("Ambiguous option: '--{name}'  (could be: {})", names.join(", ")))
        }
    }
}

fn token(known: &[Known], style: Style, argument: &str, pending: &mut Vec<String>) -> Result<Token, String> {
    if argument == "--" {
        return Ok(Token::Rest);
    }
    if let Some(name) = argument.strip_prefix("--") {
        return long_option(known, name, argument);
    }
    let Some(letters) = argument.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
        return Ok(Token::Text);
    };
    let find = |name: &str| known.iter().find(|option| option.short == name && !name.is_empty()).copied();
    if let Some(option) = find(letters) {
        return Ok(Token::Option(option, None));
    }
    if style == Style::Gnu {
        return Ok(Token::Unknown(argument.to_owned()));
    }
    let mut chars = letters.chars();
    let Some(option) = chars.next().and_then(|first| find(first.encode_utf8(&mut [0; 4]))) else {
        return Ok(Token::Unknown(argument.to_owned()));
    };
    let rest = chars.as_str();
    if option.values_max > 0 {
        return Ok(Token::Option(option, Some(rest.to_owned())));
    }
    let next = rest.chars().next().and_then(|next| find(next.encode_utf8(&mut [0; 4])));
    if next.is_none() {
        return Ok(Token::Unknown(argument.to_owned()));
    }
    pending.push(format!("-{rest}"));
    Ok(Token::Option(option, None))
}

/// Parses arguments.
///
/// # Errors
/// An option is unknown or lacks its value; the text is that of Commons CLI.
pub(crate) fn parse(known: &[Known], style: Style, arguments: &[String]) -> Result<Given, String> {
    let mut given = Given::default();
    // The arguments that are left, the next one last.
    let mut pending: Vec<String> = arguments.iter().rev().cloned().collect();
    while let Some(argument) = pending.pop() {
        let mut more = Vec::new();
        let found = token(known, style, &argument, &mut more)?;
        pending.extend(more);
        match found {
            Token::Text => given.rest.push(argument),
            Token::Rest => {
                given.rest.extend(pending.drain(..).rev());
            }
            Token::Unknown(name) => return Err(format!("Unrecognized option: {name}")),
            Token::Option(option, attached) => {
                let mut values: Vec<String> = attached.into_iter().collect();
                if option.values_max == 0 {
                    values.clear();
                }
                while values.len() < option.values_max {
                    let Some(next) = pending.last() else { break };
                    let is_option =
                        !matches!(token(known, style, next, &mut Vec::new()), Ok(Token::Text | Token::Unknown(_)));
                    if is_option {
                        break;
                    }
                    values.extend(pending.pop());
                }
                if option.values_max > 0 && values.is_empty() {
                    let name = if option.short.is_empty() { option.long } else { option.short };
                    return Err(format!("Missing argument for option: {name}"));
                }
                given.found.push((option, values));
            }
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] =
        &[flag("t", ""), flag("d", "debug"), Known { short: "k", long: "key", values_max: 2 }, flag("", "deep")];

    fn read(arguments: &[&str]) -> Result<Given, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        parse(KNOWN, Style::Posix, &arguments)
    }

    #[test]
    fn letters_stand_together_and_values_follow() {
        let given = read(&["-td", "file", "-k", "1", "2", "3", "-k4"]).expect("parses");
        assert!(given.has("t") && given.has("debug") && !given.has("deep"));
        assert_eq!(given.values("k").collect::<Vec<_>>(), ["1", "2", "4"]);
        assert_eq!(given.rest, ["file", "3"]);
        assert_eq!(read(&["--key=a", "--", "-t"]).expect("parses").rest, ["-t"]);
        assert!(read(&["--deb"]).expect("parses").has("d"));
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (arguments, text) in [
            (&["-z"][..], "Unrecognized option: -z"),
            (&["-tz"], "Unrecognized option: -tz"),
            (&["--zip"], "Unrecognized option: --zip"),
            (&["-k"], "Missing argument for option: k"),
            (&["-k", "-t"], "Missing argument for option: k"),
            (&["--de"], "Ambiguous option: '--de'  (could be: 'debug', 'deep')"),
        ] {
            assert_eq!(read(arguments).expect_err("refused"), text);
        }
    }
}
