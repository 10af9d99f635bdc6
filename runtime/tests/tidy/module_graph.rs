//! The graph of a crate's top modules: which refers to which, and its cycles.
//!
//! 1. From the root file every `mod` declaration is followed to its file; what stands under `#[cfg(test)]` is left out.
//! 2. Every path of the rest is taken: the trees of `use`, and paths in code that begin with `crate`, `super`, `self`
//!    or a module of the file.
//! 3. A path is an arrow from the top module that it stands in to the top module that it names. A path through the
//!    crate root (`crate::Shard`) is followed through the root's `use` to the module of the item; an item that the root
//!    itself defines belongs to the module `lib`.
//! 4. Cycles are the strongly connected components of that graph.
//!
//! The root's re-exports are no arrows of `lib`, unless the root uses their names itself. Names that macros make are
//! not seen, nor are arrows by methods and trait implementations.

use super::tokens::{Token, split};
use std::collections::{BTreeMap, BTreeSet};

/// The module that items of the crate root belong to.
pub(crate) const ROOT: &str = "lib";

/// Reads a file of the crate by its path below `src`; `None` if there is none.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A reference from one top module to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Arrow {
    pub(crate) from: String,
    pub(crate) to: String,
    /// File below `src`, line, and the path as it stands there.
    pub(crate) site: String,
}

#[derive(Default, Debug)]
pub(crate) struct Graph {
    pub(crate) modules: BTreeSet<String>,
    /// One for each pair of modules, the first met.
    pub(crate) arrows: Vec<Arrow>,
    /// Paths through the root that could not be followed to a module.
    pub(crate) unresolved: Vec<String>,
}

/// A file of the crate, without what is compiled for tests only.
struct Source {
    file: String,
    module: Vec<String>,
    tokens: Vec<Token>,
}

/// A path as it stands in a module, its leading `crate`, `super` and `self` resolved.
#[derive(Clone, Debug)]
struct Reference {
    /// The module that it stands in, from the crate root.
    module: Vec<String>,
    /// From the crate root; the last may be `*`.
    path: Vec<String>,
    line: usize,
    /// By which name a `use` makes it known.
    alias: Option<String>,
    /// Whether it is a `pub use`.
    exported: bool,
}

impl Graph {
    /// The graph of the crate whose root is the file `root`.
    pub(crate) fn of(root: &str, read: Read) -> Graph {
        let sources = sources(root, read);
        let mut references = Vec::new();
        for source in &sources {
            for reference in references_of(source, &sources) {
                references.push((source.file.clone(), reference));
            }
        }
        let mut modules: BTreeSet<String> =
            sources.iter().filter_map(|source| source.module.first().cloned()).collect();
        if let Some(source) = sources.iter().find(|source| source.module.is_empty()) {
            walk(&source.tokens, |_, inline| modules.extend(inline.first().cloned()));
        }
        let root_names = RootNames::of(&sources, &references, &modules);
        let mut graph = Graph { modules, ..Graph::default() };
        graph.modules.insert(ROOT.to_string());
        let mut seen = BTreeSet::new();
        for (file, reference) in &references {
            let from = reference.module.first().map_or(ROOT, String::as_str);
            let site = format!("{file}:{} {}", reference.line, reference.path.join("::"));
            let reexport = from == ROOT
                && reference.exported
                && !reference.alias.as_ref().is_some_and(|alias| root_names.used.contains(alias));
            match root_names.resolve(&reference.path) {
                _ if reexport => {}
                Found::Module(to) if to != from => {
                    if seen.insert((from.to_string(), to.clone())) {
                        graph.arrows.push(Arrow { from: from.to_string(), to, site });
                    }
                }
                Found::Module(_) | Found::Foreign => {}
                Found::Nothing => graph.unresolved.push(site),
            }
        }
        graph.arrows.sort();
        graph
    }

    /// Sets of two or more modules that reach each other, the largest first.
    pub(crate) fn cycles(&self) -> Vec<BTreeSet<String>> {
        let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for module in &self.modules {
            let mut open = vec![module.as_str()];
            let mut found = BTreeSet::new();
            while let Some(at) = open.pop() {
                for arrow in self.arrows.iter().filter(|arrow| arrow.from == at) {
                    if found.insert(arrow.to.as_str()) {
                        open.push(&arrow.to);
                    }
                }
            }
            reached.insert(module, found);
        }
        let mut cycles: Vec<BTreeSet<String>> = Vec::new();
        for (module, to) in &reached {
            if cycles.iter().any(|cycle| cycle.contains(*module)) {
                continue;
            }
            let mut cycle: BTreeSet<String> =
                to.iter().filter(|other| reached[*other].contains(module)).map(|other| other.to_string()).collect();
            cycle.insert(module.to_string());
            if cycle.len() > 1 {
                cycles.push(cycle);
            }
        }
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }
}

/// What names mean at the crate root.
struct RootNames {
    modules: BTreeSet<String>,
    /// Names that a `use` of the root makes known, with their path from the root; empty for items of other crates.
    aliases: BTreeMap<String, Vec<String>>,
    /// Modules of which the root takes all names.
    globs: Vec<Vec<String>>,
    /// Items by name, with the modules that define them.
    items: BTreeMap<String, BTreeSet<String>>,
    macros: BTreeMap<String, String>,
    /// Names that stand in the root's own code.
    used: BTreeSet<String>,
}

enum Found {
    Module(String),
    /// An item of another crate.
    Foreign,
    Nothing,
}

impl RootNames {
    fn of(sources: &[Source], references: &[(String, Reference)], modules: &BTreeSet<String>) -> RootNames {
        let mut names = RootNames {
            modules: modules.clone(),
            aliases: BTreeMap::new(),
            globs: Vec::new(),
            items: BTreeMap::new(),
            macros: BTreeMap::new(),
            used: BTreeSet::new(),
        };
        for (_, reference) in references.iter().filter(|(_, reference)| reference.module.is_empty()) {
            match &reference.alias {
                Some(alias) if alias == "*" => names.globs.push(reference.path.clone()),
                Some(alias) => {
                    names.aliases.insert(alias.clone(), reference.path.clone());
                }
                None => {}
            }
        }
        for source in sources {
            let top = source.module.first().map_or(ROOT, String::as_str);
            for (name, is_macro) in items(&source.tokens) {
                if is_macro {
                    names.macros.insert(name.to_string(), top.to_string());
                } else {
                    names.items.entry(name.to_string()).or_default().insert(top.to_string());
                }
            }
            if source.module.is_empty() {
                names.used = used_names(&source.tokens);
            }
        }
        names
    }

    fn resolve(&self, path: &[String]) -> Found {
        let Some(first) = path.first() else { return Found::Module(ROOT.to_string()) };
        if first == "::" {
            return Found::Foreign;
        }
        if self.modules.contains(first) {
            return Found::Module(first.clone());
        }
        if first == "*" {
            return Found::Module(ROOT.to_string());
        }
        if let Some(target) = self.aliases.get(first) {
            return if target.first() == Some(first) { Found::Foreign } else { self.resolve(target) };
        }
        if let Some(module) = self.macros.get(first) {
            return Found::Module(module.clone());
        }
        let defined = self.items.get(first);
        if defined.is_some_and(|modules| modules.contains(ROOT)) {
            return Found::Module(ROOT.to_string());
        }
        let through = self.globs.iter().filter_map(|glob| glob.first());
        match through.into_iter().find(|top| defined.is_some_and(|modules| modules.contains(*top))) {
            Some(top) => Found::Module(top.clone()),
            None => Found::Nothing,
        }
    }
}

/// Follows the `mod` declarations from the file `root`.
fn sources(root: &str, read: Read) -> Vec<Source> {
    let mut found = Vec::new();
    // A file, its module, and the folder in which its modules are.
    let mut open = vec![(root.to_string(), Vec::new(), String::new())];
    while let Some((file, module, folder)) = open.pop() {
        let text = read(&file).unwrap_or_else(|| panic!("{file} is declared but not there"));
        let tokens = without_tests(split(&text).0);
        for (inside, token) in declared(&tokens) {
            let mut path: Vec<String> = module.clone();
            path.extend(inside.iter().cloned());
            path.push(token.to_string());
            let below: String = inside.iter().map(|part| format!("{part}/")).collect();
            let stem = format!("{folder}{below}{token}");
            let names = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
            let below = names.into_iter().find(|name| read(name).is_some());
            let below = below.unwrap_or_else(|| panic!("{file}: no file for mod {token}"));
            open.push((below, path, format!("{stem}/")));
        }
        found.push(Source { file, module, tokens });
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

/// Drops every item under `#[cfg(test)]` or `#[cfg(all(test, ...))]`; nothing is left of a file with `#![cfg(test)]`.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is_mark('#') {
            let inner = tokens.get(at + 1).is_some_and(|token| token.is_mark('!'));
            let open = at + 1 + usize::from(inner);
            if tokens.get(open).is_some_and(|token| token.is_mark('[')) {
                let end = group_end(&tokens, open);
                if is_test_condition(&tokens[open..end]) {
                    if inner {
                        return Vec::new();
                    }
                    at = item_end(&tokens, end);
                    continue;
                }
                // The attribute's words are no paths of the code.
                at = end;
                continue;
            }
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

/// Whether an attribute, from its opening bracket, is `[cfg(test)]` or `[cfg(all(test, ...))]`.
fn is_test_condition(tokens: &[Token]) -> bool {
    let words: Vec<&str> = tokens.iter().filter_map(Token::word).collect();
    words.starts_with(&["cfg", "test"]) || words.starts_with(&["cfg", "all", "test"])
}

/// The place after the bracket that closes the one at `open`.
fn group_end(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if "([{".chars().any(|mark| token.is_mark(mark)) {
            depth += 1;
        } else if ")]}".chars().any(|mark| token.is_mark(mark)) {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

/// The place after the item, statement or field that begins at `at`, after its first attribute.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|token| token.is_mark('#')) {
        at = group_end(tokens, at + 1);
    }
    let mut first = at;
    if tokens.get(first).is_some_and(|token| token.is_word("pub")) {
        first += 1;
        if tokens.get(first).is_some_and(|token| token.is_mark('(')) {
            first = group_end(tokens, first);
        }
    }
    let is_use = tokens.get(first).is_some_and(|token| token.is_word("use"));
    const KEYWORDS: &[&str] =
        &["fn", "mod", "use", "impl", "struct", "enum", "const", "static", "type", "trait", "unsafe", "async", "pub"];
    let is_item = tokens.get(at).and_then(Token::word).is_some_and(|word| KEYWORDS.contains(&word));
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is_mark(';') || (!is_item && token.is_mark(',')) {
            return at + 1;
        }
        if token.is_mark('}') {
            return at;
        }
        if token.is_mark('{') && !is_use {
            return group_end(tokens, at);
        }
        at = if "([{".chars().any(|mark| token.is_mark(mark)) { group_end(tokens, at) } else { at + 1 };
    }
    at
}

/// Calls `visit` for every token with the inline modules that it stands in.
fn walk<'a>(tokens: &'a [Token], mut visit: impl FnMut(usize, &[String])) {
    let mut modules: Vec<String> = Vec::new();
    // For each open brace whether it opened an inline module.
    let mut braces: Vec<bool> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.is_mark('{') {
            let name: Option<&'a str> = match at.checked_sub(2).map(|before| &tokens[before..at]) {
                Some([keyword, name]) if keyword.is_word("mod") => name.word(),
                _ => None,
            };
            modules.extend(name.map(str::to_string));
            braces.push(name.is_some());
        } else if token.is_mark('}') && braces.pop() == Some(true) {
            modules.pop();
        }
        visit(at, &modules);
    }
}

/// `mod name;` declarations with the inline modules that they stand in.
fn declared(tokens: &[Token]) -> Vec<(Vec<String>, &str)> {
    let mut found = Vec::new();
    walk(tokens, |at, modules| {
        if let [keyword, name, end, ..] = &tokens[at..]
            && keyword.is_word("mod")
            && end.is_mark(';')
            && let Some(name) = name.word()
        {
            found.push((modules.to_vec(), name));
        }
    });
    found
}

/// Names of items that stand anywhere in a file; true for macros.
fn items(tokens: &[Token]) -> impl Iterator<Item = (&str, bool)> {
    const KEYWORDS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
    let plain = tokens.windows(2).filter(|pair| pair[0].word().is_some_and(|word| KEYWORDS.contains(&word)));
    let macros = tokens.windows(3).filter(|three| three[0].is_word("macro_rules") && three[1].is_mark('!'));
    let plain = plain.filter_map(|pair| Some((pair[1].word()?, false)));
    plain.chain(macros.filter_map(|three| Some((three[2].word()?, true))))
}

/// Words of the root's own code, apart from its `use` and `mod`, fields, methods and names of functions.
fn used_names(tokens: &[Token]) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is_word("use") {
            while at < tokens.len() && !tokens[at].is_mark(';') {
                at += 1;
            }
        } else if let Some(word) = tokens[at].word() {
            let before = at.checked_sub(1).map(|before| &tokens[before]);
            let named = before.is_some_and(|token| {
                token.is_mark('.') || token.is_separator() || token.is_word("fn") || token.is_word("mod")
            });
            let field = tokens.get(at + 1).is_some_and(|token| token.is_mark(':'));
            if !named && !field {
                used.insert(word.to_string());
            }
        }
        at += 1;
    }
    used
}

/// All paths of a file that may lead to other modules.
fn references_of(source: &Source, sources: &[Source]) -> Vec<Reference> {
    let tokens = &source.tokens;
    let children: BTreeSet<&[String]> = sources.iter().map(|other| other.module.as_slice()).collect();
    let mut inline: BTreeSet<Vec<String>> = BTreeSet::new();
    walk(tokens, |_, modules| {
        let path = [source.module.as_slice(), modules].concat();
        if !inline.contains(&path) {
            inline.insert(path);
        }
    });
    let is_module = |path: &[String]| children.contains(path) || inline.contains(path);
    let mut found = Vec::new();
    let mut end_of_use = 0;
    walk(tokens, |at, modules| {
        if at < end_of_use {
            return;
        }
        let module = [source.module.as_slice(), modules].concat();
        let token = &tokens[at];
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        if token.is_word("use") && !tokens.get(at + 1).is_some_and(|token| token.is_mark('<')) {
            // `pub use` or `pub(...) use`.
            let exported = before.is_some_and(|token| token.is_word("pub") || token.is_mark(')'));
            let mut leaves = Vec::new();
            end_of_use = use_tree(tokens, at + 1, &[], &mut leaves);
            for (path, alias) in leaves {
                let path = absolute(&path, &module, &is_module).unwrap_or_else(|| vec!["::".to_string()]);
                let (module, line) = (module.clone(), token.line);
                found.push(Reference { module, path, line, alias: Some(alias), exported });
            }
            return;
        }
        let begins = token.word().is_some()
            && tokens.get(at + 1).is_some_and(Token::is_separator)
            && !before.is_some_and(|token| token.is_separator() || token.is_mark('.'));
        if begins {
            let mut path = Vec::new();
            let mut next = at;
            while let Some(word) = tokens.get(next).and_then(Token::word) {
                path.push(word.to_string());
                if !tokens.get(next + 1).is_some_and(Token::is_separator) {
                    break;
                }
                next += 2;
            }
            if let Some(path) = absolute(&path, &module, &is_module) {
                let line = token.line;
                found.push(Reference { module, path, line, alias: None, exported: false });
            }
        }
    });
    found
}

/// Takes a tree of `use` from `at`; gives the place after it.
fn use_tree(tokens: &[Token], mut at: usize, prefix: &[String], leaves: &mut Vec<(Vec<String>, String)>) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        if token.is_separator() {
            if path.is_empty() {
                path.push("::".to_string());
            }
            at += 1;
        } else if token.is_mark('{') {
            at += 1;
            while let Some(token) = tokens.get(at) {
                if token.is_mark('}') {
                    return at + 1;
                }
                at = if token.is_mark(',') { at + 1 } else { use_tree(tokens, at, &path, leaves) };
            }
        } else if token.is_mark('*') {
            leaves.push((path, "*".to_string()));
            return at + 1;
        } else if let Some(word) = token.word() {
            if word == "as" {
                let alias = tokens.get(at + 1).and_then(Token::word).unwrap_or_default();
                leaves.push((path, alias.to_string()));
                return at + 2;
            }
            if word != "self" || path.is_empty() {
                path.push(word.to_string());
            }
            at += 1;
            let goes_on = tokens.get(at).is_some_and(|token| token.is_separator() || token.is_word("as"));
            if !goes_on {
                let alias = path.last().cloned().unwrap_or_default();
                leaves.push((path, alias));
                return at;
            }
        } else {
            return at;
        }
    }
    at
}

/// A path from the crate root; `None` if it begins with a name that is no module here: another crate, or a local name.
fn absolute(path: &[String], module: &[String], is_module: &dyn Fn(&[String]) -> bool) -> Option<Vec<String>> {
    let mut base = module.to_vec();
    let mut rest = path;
    let mut anchored = false;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop();
            }
            _ => break,
        }
        anchored = true;
        rest = after;
    }
    let first = rest.first();
    if !anchored {
        base.push(first?.clone());
        if !is_module(&base) {
            return None;
        }
        base.pop();
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::{Graph, ROOT};

    fn graph(files: &[(&str, &str)]) -> Graph {
        let read = |name: &str| files.iter().find(|(file, _)| *file == name).map(|(_, text)| text.to_string());
        Graph::of("lib.rs", &read)
    }

    fn arrows(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let graph = graph(files);
        assert!(graph.unresolved.is_empty(), "{:?}", graph.unresolved);
        graph.arrows.into_iter().map(|arrow| (arrow.from, arrow.to)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect()
    }

    #[test]
    fn use_trees_are_taken_with_braces_and_nesting() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::{b::{self, X as Y}, c::{inner::{P, Q}, *}}; pub(crate) use crate::d::Z;"),
            ("b.rs", ""),
            ("c.rs", "mod inner;"),
            ("c/inner.rs", "use std::{fmt, io::{self, Read}};"),
            ("d.rs", ""),
            ("e.rs", ""),
        ]);
        assert_eq!(found, pairs(&[("a", "b"), ("a", "c"), ("a", "d")]));
    }

    #[test]
    fn paths_in_code_and_chains_of_super_are_taken() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a/mod.rs", "mod deep; fn f() -> crate::b::T { crate::c::g::<u8>(\"crate::d::no\") }"),
            ("a/deep.rs", "mod deeper; use super::super::d::X; fn f() { super::g(); self::deeper::h() }"),
            ("a/deep/deeper.rs", "use super::super::other;"),
            ("b.rs", "// crate::a::comment\nuse super::c;"),
            ("c.rs", "mod inner { use super::super::d::X; use super::Y; }"),
            ("d.rs", ""),
        ]);
        assert_eq!(found, pairs(&[("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("c", "d")]));
    }

    #[test]
    fn paths_through_the_root_lead_to_the_module_of_the_item() {
        let found = arrows(&[
            (
                "lib.rs",
                "mod a; mod b; mod c; pub use b::Item; use c::inner as renamed; pub use other::Item2; struct Own;",
            ),
            ("a.rs", "use crate::Item; use crate::{renamed::X, Own, Item2};"),
            ("b.rs", "pub struct Item;"),
            ("c.rs", ""),
        ]);
        assert_eq!(found, pairs(&[("a", "b"), ("a", "c"), ("a", ROOT), (ROOT, "c")]));
    }

    #[test]
    fn a_reexport_is_an_arrow_of_the_root_only_if_the_root_uses_it() {
        let files = |root: &'static str| arrows(&[("lib.rs", root), ("a.rs", ""), ("b.rs", "pub struct Item;")]);
        assert_eq!(files("mod a; mod b; pub use b::Item;"), pairs(&[]));
        assert_eq!(files("mod a; mod b; pub use b::Item; struct Own(Item);"), pairs(&[(ROOT, "b")]));
        assert_eq!(files("mod a; mod b; fn f() { a::g(b::Item) }"), pairs(&[(ROOT, "a"), (ROOT, "b")]));
    }

    #[test]
    fn code_of_tests_is_left_out() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; #[cfg(test)] mod described;"),
            (
                "a.rs",
                "#[cfg(test)] use crate::b::{X, Y}; use crate::c::Z; #[cfg(test)] mod tests { use crate::b::X; } \
                 struct S { #[cfg(test)] x: crate::b::X, y: crate::d::Y } #[cfg(test)] #[inline] fn f(a: A) -> B { \
                 crate::b::g() }",
            ),
            ("b.rs", ""),
            ("c.rs", "#![allow(x)] #[cfg(feature = \"test\")] use crate::d::X;"),
            ("d.rs", ""),
        ]);
        assert_eq!(found, pairs(&[("a", "c"), ("a", "d"), ("c", "d")]));
    }

    #[test]
    fn a_glob_of_the_root_finds_its_module() {
        let found = arrows(&[
            ("lib.rs", "mod a; mod b; mod c; pub use c::*; pub use b::*;"),
            ("a.rs", "use crate::Item;"),
            ("b.rs", "pub enum Item {}"),
            ("c.rs", ""),
        ]);
        assert_eq!(found, pairs(&[("a", "b")]));
    }

    #[test]
    fn inline_modules_of_the_root_are_modules() {
        let found = arrows(&[("lib.rs", "mod a; pub mod flags { use super::a; }"), ("a.rs", "use crate::flags::X;")]);
        assert_eq!(found, pairs(&[("a", "flags"), ("flags", "a")]));
    }

    #[test]
    fn an_unknown_name_of_the_root_is_told() {
        let graph = graph(&[("lib.rs", "mod a;"), ("a.rs", "use crate::Missing;")]);
        assert_eq!(graph.unresolved, ["a.rs:1 Missing"]);
    }

    #[test]
    fn cycles_are_components_of_two_or_more() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;"),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c; use crate::d;"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::e;"),
            ("e.rs", "use crate::d;"),
            ("f.rs", "use crate::a; use self::inner::X; mod inner { pub struct X; }"),
        ]);
        let cycles: Vec<Vec<String>> = graph.cycles().into_iter().map(|cycle| cycle.into_iter().collect()).collect();
        assert_eq!(cycles, [vec!["a", "b", "c"], vec!["d", "e"]]);
    }
}
