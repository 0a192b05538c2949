//! A function fits on a screen; when it does not, its straight parts want to be helpers.

use crate::Fault;
use crate::source::Source;

/// Lines of a function, from its name to its closing brace.
pub const LINES_MAX: usize = 70;

/// Every function over the cap; `longer` lists those that may be longer for now (file, function,
/// lines), and how long.
#[must_use]
pub fn check(sources: &[Source], longer: &[(&str, &str, usize)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut found = Vec::new();
    for source in sources {
        for function in functions(&source.text) {
            let listed = longer
                .iter()
                .find(|(path, name, _)| *path == source.path && *name == function.name);
            let Function { name, line, lines } = function;
            match listed {
                None if lines > LINES_MAX => faults.push(Fault::new(
                    &source.path,
                    line,
                    format!(
                        "`{name}` has {lines} lines; at most {LINES_MAX}: move straight work out"
                    ),
                )),
                Some((_, _, cap)) if lines > *cap => faults.push(Fault::new(
                    &source.path,
                    line,
                    format!(
                        "`{name}` has {lines} lines; it was listed with {cap} and may only shrink"
                    ),
                )),
                Some(entry) if lines > LINES_MAX => found.push(*entry),
                None | Some(_) => {}
            }
        }
    }
    for entry in longer.iter().filter(|entry| !found.contains(entry)) {
        let (path, name, _) = entry;
        if faults
            .iter()
            .all(|fault| !fault.to_string().contains(*name))
        {
            faults.push(Fault::new(
                path,
                0,
                format!(
                    "`{name}` is listed as a long function and is none; remove it from the list"
                ),
            ));
        }
    }
    faults
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions of a formatted file: each ends at the brace that stands as far in as it begins.
fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (at, first) in lines.iter().enumerate() {
        let Some((indent, name)) = begins(first) else {
            continue;
        };
        let body = lines.iter().skip(at);
        let declared = body
            .clone()
            .position(|line| line.ends_with('{') || line.ends_with(';'));
        if first.ends_with('}') || declared.is_none_or(|end| lines[at + end].ends_with(';')) {
            // On one line, or without a body.
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        if let Some(end) = body.clone().position(|line| **line == close) {
            functions.push(Function {
                name: name.to_owned(),
                line: at + 1,
                lines: end + 1,
            });
        }
    }
    functions
}

/// How far in a function begins on this line, and its name.
fn begins(line: &str) -> Option<(usize, &str)> {
    let code = line.trim_start();
    let (before, after) = code.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        word.starts_with("pub") || matches!(word, "const" | "async" | "unsafe" | "in" | "extern")
    };
    if !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    let end = after.find(['(', '<'])?;
    Some((line.len() - code.len(), after.get(..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(lines: usize) -> Source {
        let body = "        x();\n".repeat(lines - 2);
        let text = format!(
            "trait T {{\n    fn declared(&self)\n    -> u8;\n}}\nimpl A {{\n    pub(crate) async fn \
             long<T>(&self) {{\n{body}    }}\n}}\nfn short() {{}}\n"
        );
        Source::new("core/src/a.rs", &text)
    }

    #[test]
    fn a_function_over_the_cap_is_caught_with_its_name_and_line() {
        assert!(check(&[source(70)], &[]).is_empty());
        let faults = check(&[source(71)], &[]);
        assert_eq!(faults.len(), 1);
        let told = faults[0].to_string();
        assert!(told.contains("`long` has 71 lines"), "{told}");
        assert!(told.contains(":6"), "{told}");
    }

    #[test]
    fn the_list_of_long_functions_only_shrinks() {
        let listed = [("core/src/a.rs", "long", 80)];
        assert!(check(&[source(80)], &listed).is_empty());
        assert_eq!(check(&[source(81)], &listed).len(), 1, "it grew");
        assert_eq!(check(&[source(20)], &listed).len(), 1, "it fits by now");
        assert_eq!(check(&[], &listed).len(), 1, "it is gone");
    }
}
