//! The path that a rule's error is reported at: fields and map keys that the schema has.

use crate::schema::{Additional, Schema};

/// A path as messages write it (`a.b[c]`); `None` if it leads nowhere.
pub(super) fn normalized(path: &str, schema: &Schema) -> Option<String> {
    let mut at = schema;
    let mut out = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name = if let Some(tail) = rest.strip_prefix('[') {
            let (quoted, tail) = quoted(tail)?;
            rest = tail.strip_prefix(']')?;
            unescaped(quoted)?
        } else {
            let tail = rest.strip_prefix('.')?;
            let end = token_end(tail);
            rest = &tail[end..];
            (end > 0).then(|| tail[..end].to_owned())?
        };
        let node = at.node();
        at = if !node.properties.is_empty() {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
            node.properties.get(&name)?
        } else if let Additional::Schema(values) = &node.additional {
            out.push_str(&format!("[{name}]"));
            values
        } else {
            return None;
        };
    }
    Some(out)
}

/// Where a name ends; one that begins with a quote ends after the next quote.
fn token_end(text: &str) -> usize {
    if text.starts_with('\'') {
        return quoted(text).map_or(text.len(), |(inside, _)| inside.len() + 2);
    }
    // A lone delimiter is a token too.
    match text.find(['.', '[', ']']) {
        Some(0) => 1,
        Some(end) => end,
        None => text.len(),
    }
}

/// The inside of a text in single quotes, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('\'')?;
    let bytes = inside.as_bytes();
    let end = (0..bytes.len()).find(|at| bytes[*at] == b'\'' && (*at == 0 || bytes[*at - 1] != b'\\'))?;
    Some((&inside[..end], &inside[end + 1..]))
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                same @ ('\'' | '\\') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}
