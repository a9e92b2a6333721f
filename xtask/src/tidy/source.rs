//! Reads Rust just far enough to find the modules that a file names.
//!
//! Comments, strings and test modules are left out; everything else becomes tokens with their lines, and the paths
//! that start at the crate's root are found among them. This is not a full parser: the result for a file that does
//! not compile is undefined, but the compiler has reported it then.

/// A word or a symbol, and its line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

/// A path in code, from the crate's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Module names down to the item: `crate::data::Key` is `[data, Key]`.
    pub(super) path: Vec<String>,
    /// The name under which a `use` brings it in.
    pub(super) name: String,
    pub(super) line: usize,
}

/// The modules that a file refers to.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) references: Vec<Reference>,
    /// Modules that it declares for tests alone, whose text is in another file.
    pub(super) test_modules: Vec<Vec<String>>,
}

/// The module of a file, by its path from the folder of `lib.rs`: `a/b.rs` and `a/b/mod.rs` are `[a, b]`, and
/// `lib.rs` is the root.
pub(super) fn module_of(path: &str) -> Vec<String> {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let mut module: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

/// Splits source text into tokens, without comments and without the contents of strings.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let rest = &source[at..];
        let (length, keep) = next(rest);
        if keep {
            tokens.push(Token { text: &rest[..length], line });
        }
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

/// The length of the next lexical element, and whether it is a token.
fn next(rest: &str) -> (usize, bool) {
    let first = rest.chars().next().expect("called at a character");
    if let Some(length) = comment(rest).or_else(|| string(rest)).or_else(|| character(rest)) {
        return (length, false);
    }
    if is_word(first) {
        return (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), true);
    }
    if rest.starts_with("::") {
        return (2, true);
    }
    (first.len_utf8(), !first.is_whitespace())
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    // Block comments nest.
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest.get(at..at + 2) {
            Some("/*") => (depth, at) = (depth + 1, at + 2),
            Some("*/") if depth == 1 => return Some(at + 2),
            Some("*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += rest[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    Some(rest.len())
}

fn string(rest: &str) -> Option<usize> {
    let prefix = rest.find(|c: char| !"bcr".contains(c)).filter(|&length| length <= 2)?;
    let raw = rest[..prefix].contains('r');
    let body = &rest[prefix..];
    if raw {
        let hashes = body.find(|c| c != '#')?;
        let inside = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", &body[..hashes]);
        let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
        return Some(prefix + hashes + 1 + length);
    }
    let inside = body.strip_prefix('"')?;
    let length = quoted(inside, '"').unwrap_or(inside.len());
    Some(prefix + 1 + length)
}

/// A character literal, as opposed to a lifetime or a label, which begin in the same way.
fn character(rest: &str) -> Option<usize> {
    let prefix = usize::from(rest.starts_with("b'"));
    let inside = rest[prefix..].strip_prefix('\'')?;
    let mut chars = inside.chars();
    let closed = match chars.next()? {
        '\\' => true,
        _ => chars.next() == Some('\''),
    };
    if closed {
        return Some(prefix + 1 + quoted(inside, '\'')?);
    }
    // A lifetime is skipped as a whole, so that its name is not taken for a word of the program.
    Some(1 + inside.find(|c| !is_word(c)).unwrap_or(inside.len()))
}

/// The length up to and including the closing quote.
fn quoted(inside: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// The references in the file of `module`.
pub(super) fn names(source: &str, module: &[String]) -> Names {
    let tokens = tokens(source);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        depth: 0,
        module: module.to_vec(),
        opened: Vec::new(),
        names: Names::default(),
    };
    reader.read();
    reader.names
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// The number of open braces around `at`.
    depth: usize,
    /// The module that contains `at`.
    module: Vec<String>,
    /// The depths at which the inline modules around `at` were opened.
    opened: Vec<usize>,
    names: Names,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn back(&self, behind: usize) -> &'a str {
        self.at.checked_sub(behind).map_or("", |at| self.tokens[at].text)
    }

    fn read(&mut self) {
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "#" if self.peek(1) == "[" => {
                    if self.skip_attribute() {
                        self.skip_item();
                    }
                }
                "#" if self.peek(1) == "!" && self.peek(2) == "[" => {
                    self.at += 1;
                    if self.skip_attribute() && self.depth == 0 {
                        return;
                    }
                }
                "mod" if self.peek(2) == "{" => {
                    self.module.push(self.peek(1).to_owned());
                    self.opened.push(self.depth);
                    self.depth += 1;
                    self.at += 3;
                }
                "{" => {
                    self.depth += 1;
                    self.at += 1;
                }
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.opened.last() == Some(&self.depth) {
                        self.opened.pop();
                        self.module.pop();
                    }
                    self.at += 1;
                }
                _ => {
                    if let Some(base) = self.base() {
                        self.tree(base);
                    } else {
                        self.at += 1;
                    }
                }
            }
        }
    }

    /// Skips an attribute, and returns whether it restricts its item to tests: `cfg(test)`, `cfg(doctest)` or
    /// `cfg(all(test, …))`.
    fn skip_attribute(&mut self) -> bool {
        let test = match self.peek(2) {
            "cfg" if self.peek(4) == "all" => self.peek(6) == "test",
            "cfg" => ["test", "doctest"].contains(&self.peek(4)),
            _ => false,
        };
        self.at += 1;
        self.skip_brackets();
        test
    }

    /// Skips the contents of the bracket at `at`.
    fn skip_brackets(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips the item, statement or field after an attribute.
    fn skip_item(&mut self) {
        while self.peek(0) == "#" && self.peek(1) == "[" {
            self.skip_attribute();
        }
        let start = self.at + usize::from(self.peek(0) == "pub");
        let visibility = if start > self.at && self.peek(1) == "(" { 3 } else { 0 };
        let keyword = self.tokens.get(start + visibility).map_or("", |token| token.text);
        if keyword == "mod"
            && self.tokens.get(start + visibility + 2).is_some_and(|t| t.text == ";")
        {
            let name = self.tokens[start + visibility + 1].text;
            let path = self.module.iter().cloned().chain([name.to_owned()]);
            self.names.test_modules.push(path.collect());
        }
        // A comma ends a field or a variant; in the head of an item it separates parameters.
        let item = [
            "async",
            "const",
            "enum",
            "extern",
            "fn",
            "impl",
            "let",
            "macro_rules",
            "mod",
            "static",
            "struct",
            "trait",
            "type",
            "unsafe",
            "use",
        ]
        .contains(&keyword);
        while self.at < self.tokens.len() {
            match self.peek(0) {
                ";" => {
                    self.at += 1;
                    return;
                }
                "," if !item => {
                    self.at += 1;
                    return;
                }
                "}" => return,
                "{" => {
                    self.skip_brackets();
                    return;
                }
                "(" | "[" => self.skip_brackets(),
                _ => self.at += 1,
            }
        }
    }

    /// If a path within this crate starts at `at`, returns the module that it starts from, and moves `at` behind
    /// that.
    fn base(&mut self) -> Option<Vec<String>> {
        if self.back(1) == "::" || self.peek(1) != "::" {
            return None;
        }
        // In `lib.rs`, the names of modules need no prefix. Elsewhere such a name is an inner module, or another
        // crate, and neither can be in a layer above.
        let bare = self.module.is_empty() && self.back(1) == "use";
        match self.peek(0) {
            // `pub(in crate::a)` restricts visibility, and uses nothing.
            "crate" if self.back(1) == "in" && self.back(2) == "(" => None,
            // The engine refers to itself by its name in the output of a derive macro.
            "crate" | "thalweg" => {
                self.at += 2;
                Some(Vec::new())
            }
            "super" => {
                let mut base = self.module.clone();
                while self.peek(0) == "super" && self.peek(1) == "::" {
                    base.pop();
                    self.at += 2;
                }
                Some(base)
            }
            "self" if self.module.is_empty() => {
                self.at += 2;
                Some(Vec::new())
            }
            name if bare && !["alloc", "core", "std"].contains(&name) => Some(Vec::new()),
            _ => None,
        }
    }

    /// Parses the rest of a path, or a tree of them.
    fn tree(&mut self, mut path: Vec<String>) {
        loop {
            let token = self.tokens.get(self.at).copied();
            let Some(Token { text, line }) = token else { return };
            match text {
                "{" => {
                    self.at += 1;
                    while !["}", ""].contains(&self.peek(0)) {
                        let before = self.at;
                        self.tree(path.clone());
                        self.at += usize::from(self.peek(0) == "," || self.at == before);
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    return self.found(path, line);
                }
                // In braces, `self` is the module that the braces belong to.
                "self" => {
                    self.at += 1;
                    return self.found(path, line);
                }
                word if word.starts_with(is_word) => {
                    path.push(word.to_owned());
                    self.at += 1;
                    if self.peek(0) != "::" || self.peek(1) == "<" {
                        return self.found(path, line);
                    }
                    self.at += 1;
                }
                _ => return,
            }
        }
    }

    /// Records a path, under its name after `as`.
    fn found(&mut self, path: Vec<String>, line: usize) {
        let mut name = path.last().cloned().unwrap_or_default();
        if self.peek(0) == "as" && self.peek(1).starts_with(is_word) {
            name = self.peek(1).to_owned();
            self.at += 2;
        }
        self.names.references.push(Reference { path, name, line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Vec<String> {
        path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// The paths that `source` names as the module `a::b`.
    fn paths(source: &str) -> Vec<String> {
        let found = names(source, &module("a::b")).references;
        found.into_iter().map(|reference| reference.path.join("::")).collect()
    }

    #[test]
    fn files_are_modules() {
        assert_eq!(module_of("lib.rs"), module(""));
        assert_eq!(module_of("error.rs"), module("error"));
        assert_eq!(module_of("data/mod.rs"), module("data"));
        assert_eq!(module_of("data/lib.rs"), module("data::lib"));
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        assert_eq!(paths("use crate::x::Y;"), ["x::Y"]);
        assert_eq!(paths("fn f(y: &crate::x::Y) -> super::Z { y }"), ["x::Y", "a::Z"]);
        assert_eq!(paths("let v = crate::x::f::<u8>(crate::y::g());"), ["x::f", "y::g"]);
        assert_eq!(paths("let v = crate::x::S { at: super::super::y::C };"), ["x::S", "y::C"]);
        assert_eq!(paths("macro_rules! m { () => { $crate::x::f() } }"), ["x::f"]);
        assert_eq!(paths("thalweg::x::f();"), ["x::f"]);
    }

    #[test]
    fn trees_of_uses_are_taken_apart() {
        let tree = "use crate::{\n  x::{self, Y, z::*},\n  w as v,\n};\nuse super::c::D;";
        assert_eq!(paths(tree), ["x", "x::Y", "x::z", "w", "a::c::D"]);
        let found = names(tree, &module("a::b")).references;
        let lines: Vec<_> = found.iter().map(|reference| reference.line).collect();
        assert_eq!(lines, [2, 2, 2, 3, 5]);
        assert_eq!(found[3].name, "v");
    }

    #[test]
    fn what_is_no_use_is_left_out() {
        assert_eq!(paths("// crate::x\n/* crate::y /* */ crate::z */ /// [`crate::w`]"), [""; 0]);
        assert_eq!(paths(r##"("crate::x \" crate::y", r#"" crate::z"#, b"crate::w")"##), [""; 0]);
        assert_eq!(paths("pub(in crate::x) fn f() {} other::crate::y; my_crate::z;"), [""; 0]);
    }

    #[test]
    fn characters_and_lifetimes_do_not_confuse() {
        let source = r"fn f<'a>(c: char) -> &'a str { if c == '\'' || c == '{' { crate::x::f() } }";
        assert_eq!(paths(source), ["x::f"]);
        assert_eq!(paths("'outer: loop { b'\"'; crate::y::g(); '\"'; }"), ["y::g"]);
    }

    #[test]
    fn inline_modules_move_super() {
        let source =
            "mod c { use super::X; mod d { use super::super::Y; } use super::Z; } super::W;";
        assert_eq!(paths(source), ["a::b::X", "a::b::Y", "a::b::Z", "a::W"]);
        assert_eq!(paths("mod c { fn f() {} } fn g() { super::w::h() }"), ["a::w::h"]);
    }

    #[test]
    fn tests_may_use_anything() {
        let source = "
            #[cfg(test)] mod tests { use crate::x::Y; mod more { fn f() {} } }
            #[cfg(all(test, not(loom)))] #[allow(dead_code)] pub(crate) fn g<A, B>(a: [u8; 2]) { crate::x::h() }
            #[cfg(test)] use crate::{x, y};
            struct S { #[cfg(test)] pub probe: crate::x::Probe<A>, real: crate::z::Real }
            #[cfg(not(test))] use crate::w::V;";
        assert_eq!(paths(source), ["z::Real", "w::V"]);
        assert_eq!(paths("#![cfg(test)]\nuse crate::x::Y;"), [""; 0]);
    }

    #[test]
    fn test_modules_in_other_files_are_known() {
        let found =
            names("#[cfg(test)]\nmod tests;\n#[cfg(test)] pub(crate) mod tools;", &module("a"));
        assert_eq!(found.test_modules, [module("a::tests"), module("a::tools")]);
    }
}
