//! The text of an expression, and what is wrong with it where.

use std::fmt::Write as _;

/// Most mistakes that are told one by one.
const MOST_ISSUES: usize = 100;
/// A longer line is not shown.
const LONGEST_LINE: usize = 16_384;

/// A mistake at a place.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    /// In characters from the start; `None` where no place is known.
    pub(crate) at: Option<usize>,
    pub(crate) text: String,
}

impl Issue {
    pub(crate) fn new(at: usize, text: impl Into<String>) -> Self {
        Self { at: Some(at), text: text.into() }
    }
}

/// All issues as one text, in the shape of cel-go, ordered by place.
pub(crate) fn show(source: &[char], issues: &[Issue]) -> String {
    let mut placed: Vec<((i64, i64), &Issue)> =
        issues.iter().take(MOST_ISSUES).map(|issue| (place(source, issue.at), issue)).collect();
    placed.sort_by_key(|(place, _)| *place);
    let mut texts: Vec<String> = placed.iter().map(|(place, issue)| display(source, *place, &issue.text)).collect();
    if issues.len() > MOST_ISSUES {
        texts.push(format!("{} more errors were truncated", issues.len() - MOST_ISSUES));
    }
    texts.join("\n")
}

/// Line (from 1) and column (from 0).
fn place(source: &[char], at: Option<usize>) -> (i64, i64) {
    let Some(at) = at else { return (-1, -1) };
    let before = &source[..at.min(source.len())];
    let line = before.iter().filter(|c| **c == '\n').count();
    let start = before.iter().rposition(|c| *c == '\n').map_or(0, |newline| newline + 1);
    (i64::try_from(line + 1).unwrap_or(i64::MAX), i64::try_from(before.len() - start).unwrap_or(i64::MAX))
}

fn display(source: &[char], (line, column): (i64, i64), text: &str) -> String {
    let mut shown = format!("ERROR: <input>:{line}:{}: {text}", column + 1);
    let Some(index) = usize::try_from(line - 1).ok() else { return shown };
    let Some(snippet) = source.split(|c| *c == '\n').nth(index) else { return shown };
    let snippet: String = snippet.iter().map(|c| if *c == '\t' { ' ' } else { *c }).collect();
    if snippet.len() > LONGEST_LINE {
        return shown;
    }
    let column = usize::try_from(column).unwrap_or(0);
    let mut under: String = snippet.chars().take(column).map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }).collect();
    under.push(if snippet.chars().nth(column).is_some_and(|c| !c.is_ascii()) { '\u{ff3e}' } else { '^' });
    let _ = write!(shown, "\n | {snippet}\n | {under}");
    shown
}
