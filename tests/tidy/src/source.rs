//! Rust source with everything that is not code blanked out, so that a word in a comment or a
//! string is no use of it.

use crate::tree::File;

/// One Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Relative to the root of the repository.
    pub path: String,
    /// The text as written.
    pub text: String,
    /// The same lines with comments, strings and characters replaced by spaces.
    pub code: String,
}

impl Source {
    /// Reads a Rust text.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: blank(text),
        }
    }

    /// The Rust files among `files`.
    #[must_use]
    pub fn of(files: &[File]) -> Vec<Self> {
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        rust.map(|file| Self::new(&file.path, &file.text)).collect()
    }

    /// Whether the whole file is a test or a tool of tests.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "benches" | "tests.rs" | "testing.rs"))
    }

    /// The number of lines before the tests at its end.
    #[must_use]
    pub fn lines_before_tests(&self) -> usize {
        if self.is_test() {
            return self.code.lines().count();
        }
        let lines: Vec<&str> = self.code.lines().map(str::trim).collect();
        let tests = lines
            .windows(2)
            .position(|pair| pair[0].starts_with("#[cfg(test)]") && pair[1].starts_with("mod "));
        tests.unwrap_or(lines.len())
    }

    /// Words of the code outside tests, each with its line. A word is an identifier.
    pub fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..)
            .zip(self.code.lines().take(self.lines_before_tests()))
            .flat_map(|(line, text)| {
                text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .filter(|word| !word.is_empty())
                    .map(move |word| (line, word))
            })
    }
}

/// Blanks comments, strings and characters; keeps line breaks.
fn blank(text: &str) -> String {
    let mut rest = text;
    let mut code = String::with_capacity(text.len());
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let in_word = before.is_alphanumeric() || before == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            quoted(rest)
        } else if let Some(length) = (!in_word).then(|| raw_string(rest)).flatten() {
            length
        } else if let Some(length) = (first == '\'').then(|| character(rest)).flatten() {
            length
        } else {
            code.push(first);
            before = first;
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (hidden, after) = rest.split_at(length);
        code.extend(hidden.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        (rest, before) = (after, ' ');
    }
    code
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Length of a string that begins with a quotation mark.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\\' => escaped = !escaped,
            '"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Length of `r"..."`, `r#"..."#` and their byte and C forms.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"]
        .into_iter()
        .find(|prefix| text.starts_with(prefix))?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inner = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inner.find(&end).map_or(inner.len(), |at| at + end.len());
    Some(prefix.len() + hashes + 1 + length)
}

/// Length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        // The escaped character itself may be a quotation mark.
        chars.next()?;
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    chars
        .next()
        .filter(|(_, c)| *c == '\'')
        .map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_and_strings_are_no_code() {
        let text = "a /* Mutex /* x */ Mutex */ b // Mutex\nc \"Mutex \\\" Mutex\" 'M' d<'e> r#\"\" Mutex\"# f b'\\'' g";
        let source = Source::new("core/src/a.rs", text);
        let words: Vec<_> = source.words().collect();
        let expected = [
            (1, "a"),
            (1, "b"),
            (2, "c"),
            (2, "d"),
            (2, "e"),
            (2, "f"),
            (2, "b"),
            (2, "g"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn tests_at_the_end_are_not_counted() {
        let source = Source::new("core/src/a.rs", "a\n#[cfg(test)]\nmod tests {\nMutex\n}\n");
        assert_eq!(source.lines_before_tests(), 1);
        assert_eq!(source.words().collect::<Vec<_>>(), [(1, "a")]);
        assert!(Source::new("broker/tests/a.rs", "").is_test());
    }
}
