//! Every relative link in our documents leads somewhere.

use crate::Fault;
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// Every link of a Markdown file that names no file or folder of the repository, or no heading of
/// the document it leads to.
#[must_use]
pub fn check(files: &[File]) -> Vec<Fault> {
    let documents = files.iter().filter(|file| is_markdown(&file.path));
    let headings: BTreeMap<&str, BTreeSet<String>> = documents
        .clone()
        .map(|file| (file.path.as_str(), anchors(&file.text)))
        .collect();
    let mut faults = Vec::new();
    for file in documents {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (to, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let Some(path) = resolve(&file.path, to) else {
                faults.push(Fault::new(
                    &file.path,
                    line,
                    format!("{target} leaves the repository"),
                ));
                continue;
            };
            let folder = if path.is_empty() {
                String::new()
            } else {
                format!("{path}/")
            };
            let exists = files
                .iter()
                .any(|other| other.path == path || other.path.starts_with(&folder));
            if !exists {
                faults.push(Fault::new(
                    &file.path,
                    line,
                    format!("{target} leads nowhere"),
                ));
            } else if !anchor.is_empty()
                && headings
                    .get(path.as_str())
                    .is_some_and(|known| !known.contains(anchor))
            {
                let what = format!("{target} names no heading of {path}");
                faults.push(Fault::new(&file.path, line, what));
            }
        }
    }
    faults
}

fn is_markdown(path: &str) -> bool {
    path.ends_with(".md")
}

/// Lines outside fenced code, from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of inline links and reference definitions, each with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Code in backticks is shown, not followed.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            found.push((number, rest[..end].to_owned()));
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            let target = target.split(' ').next().unwrap_or(target);
            found.push((number, target.to_owned()));
        }
    }
    found
}

/// The anchors that headings get: lower case, spaces as hyphens, other marks dropped.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let kept = line.trim_start_matches('#').trim().to_lowercase();
            let kept = kept
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The path that `to` means when it stands in the file `from`; `None` above the root.
fn resolve(from: &str, to: &str) -> Option<String> {
    if to.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if to.starts_with('/') {
        parts.clear();
    }
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_caught() {
        let target = file(
            "docs/a.md",
            "# One thing, *here*\n[up](../README.md) [self](#one-thing-here)",
        );
        for (text, faults) in [
            (
                "[a](docs/a.md) [b](docs/) [c](https://example.com/x) [d](docs/a.md#one-thing-here)",
                0,
            ),
            ("[a](docs/missing.md)", 1),
            ("[a](docs/a.md#another)", 1),
            ("[a](../outside.md)", 1),
            ("[a]: docs/missing.md", 1),
            ("`[a](docs/missing.md)`\n```\n[a](docs/missing.md)\n```", 0),
        ] {
            let found = check(&[target.clone(), file("README.md", text)]);
            assert_eq!(found.len(), faults, "{text}: {found:?}");
        }
    }
}
