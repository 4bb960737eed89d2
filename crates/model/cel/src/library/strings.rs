//! Text: search, replace, split, patterns.

use super::{MOST_BYTES, format, pattern};
use crate::value::{Fault, Result, Text, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    use Value::{Int, String};
    let flag = |flag: bool| Some(Ok(Value::Bool(flag)));
    let text = |text: std::string::String| Some(Ok(Value::text(text)));
    match (function, args) {
        ("contains", [String(all), String(part)]) => flag(all.contains(&**part)),
        ("startsWith", [String(all), String(part)]) => flag(all.starts_with(&**part)),
        ("endsWith", [String(all), String(part)]) => flag(all.ends_with(&**part)),
        ("matches", [String(all), String(regex)]) => {
            Some(pattern::compile(regex).map(|regex| Value::Bool(regex.matches(all))).map_err(Fault::new))
        }
        ("find", [String(all), String(regex)]) => Some(
            pattern::compile(regex)
                .map(|regex| Value::text(regex.find(all).next().unwrap_or_default()))
                .map_err(Fault::new),
        ),
        ("findAll", [String(all), String(regex)]) => Some(find_all(all, regex, -1)),
        ("findAll", [String(all), String(regex), Int(most)]) => Some(find_all(all, regex, *most)),
        ("charAt", [String(all), Int(at)]) => Some(char_at(all, *at)),
        ("indexOf", [String(all), String(part)]) => Some(index_of(all, part, 0)),
        ("indexOf", [String(all), String(part), Int(from)]) => Some(index_of(all, part, *from)),
        ("lastIndexOf", [String(all), String(part)]) => Some(last_index_of(all, part, None)),
        ("lastIndexOf", [String(all), String(part), Int(from)]) => Some(last_index_of(all, part, Some(*from))),
        ("lowerAscii", [String(all)]) => text(all.to_ascii_lowercase()),
        ("upperAscii", [String(all)]) => text(all.to_ascii_uppercase()),
        ("replace", [String(all), String(old), String(new)]) => Some(replaced(all, old, new, -1)),
        ("replace", [String(all), String(old), String(new), Int(most)]) => Some(replaced(all, old, new, *most)),
        ("split", [String(all), String(by)]) => Some(Ok(split(all, by, -1))),
        ("split", [String(all), String(by), Int(most)]) => Some(Ok(split(all, by, *most))),
        ("substring", [String(all), Int(from)]) => Some(substring(all, *from, None)),
        ("substring", [String(all), Int(from), Int(to)]) => Some(substring(all, *from, Some(*to))),
        ("trim", [String(all)]) => text(all.trim().to_owned()),
        ("strings.quote", [String(all)]) => text(quoted(all)),
        ("format", [String(clauses), Value::List(values)]) => Some(
            values.values().and_then(|values| format::format(clauses, &values).map_err(Fault::new)).map(Value::text),
        ),
        ("join", [Value::List(_)]) => Some(join(&args[0], "")),
        ("join", [Value::List(_), String(by)]) => Some(join(&args[0], by)),
        _ => None,
    }
}

fn texts<'a>(parts: impl Iterator<Item = std::string::String>) -> Value<'a> {
    Value::list(parts.map(Value::text).collect())
}

fn find_all<'a>(all: &str, regex: &str, most: i64) -> Result<Value<'a>> {
    let regex = pattern::compile(regex).map_err(Fault::new)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Ok(texts(regex.find(all).take(most).map(str::to_owned)))
}

fn replaced<'a>(all: &str, old: &str, new: &str, most: i64) -> Result<Value<'a>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = all.matches(old).take(most).count();
    if all.len().saturating_add(count.saturating_mul(new.len())) > MOST_BYTES {
        return Err(Fault::Spent);
    }
    Ok(Value::text(all.replacen(old, new, most)))
}

fn out_of_range(at: i64) -> Fault {
    Fault::new(format!("index out of range: {at}"))
}

/// A place in a text, in characters.
fn place(at: i64, most: usize) -> Result<usize> {
    usize::try_from(at).ok().filter(|at| *at <= most).ok_or_else(|| out_of_range(at))
}

fn char_at<'a>(all: &str, at: i64) -> Result<Value<'a>> {
    let at = place(at, all.chars().count())?;
    Ok(Value::text(all.chars().skip(at).take(1).collect::<String>()))
}

fn number<'a>(at: usize) -> Value<'a> {
    Value::Int(i64::try_from(at).unwrap_or(i64::MAX))
}

fn index_of<'a>(all: &str, part: &str, from: i64) -> Result<Value<'a>> {
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let count = all.chars().count();
    if part.is_empty() {
        return Ok(number(start.min(count)));
    }
    let Some((skipped, _)) = all.char_indices().nth(start) else { return Ok(Value::Int(-1)) };
    Ok(match all[skipped..].find(part) {
        Some(found) => number(start + all[skipped..skipped + found].chars().count()),
        None => Value::Int(-1),
    })
}

fn last_index_of<'a>(all: &str, part: &str, from: Option<i64>) -> Result<Value<'a>> {
    let count = all.chars().count();
    let start = match from {
        Some(from) => usize::try_from(from).map_err(|_| out_of_range(from))?,
        None if part.is_empty() => return Ok(number(count)),
        None => count.saturating_sub(1),
    };
    if part.is_empty() {
        return Ok(number(start.min(count)));
    }
    if start >= count {
        return Ok(Value::Int(-1));
    }
    // What begins at `start` at the latest ends so many characters later.
    let end = all.char_indices().nth(start.saturating_add(part.chars().count())).map_or(all.len(), |(end, _)| end);
    Ok(all[..end].rfind(part).map_or(Value::Int(-1), |found| number(all[..found].chars().count())))
}

fn split<'a>(all: &str, by: &str, most: i64) -> Value<'a> {
    let most = match most {
        0 => return Value::list(Vec::new()),
        1 => return Value::list(vec![Value::text(all)]),
        most => usize::try_from(most).unwrap_or(usize::MAX),
    };
    if by.is_empty() {
        let mut parts: Vec<String> = all.chars().take(most.saturating_sub(1)).map(String::from).collect();
        let rest: String = all.chars().skip(parts.len()).collect();
        parts.extend((!rest.is_empty()).then_some(rest));
        return texts(parts.into_iter());
    }
    texts(all.splitn(most, by).map(str::to_owned))
}

fn substring<'a>(all: &str, from: i64, to: Option<i64>) -> Result<Value<'a>> {
    let count = all.chars().count();
    if let Some(to) = to
        && from > to
    {
        return Err(Fault::new(format!("invalid substring range. start: {from}, end: {to}")));
    }
    let from = place(from, count)?;
    let to = to.map_or(Ok(count), |to| place(to, count))?;
    Ok(Value::text(all.chars().skip(from).take(to - from).collect::<String>()))
}

fn join<'a>(list: &Value<'a>, by: &str) -> Result<Value<'a>> {
    let Value::List(list) = list else { return Err(Fault::no_overload()) };
    let mut parts: Vec<Text<'a>> = Vec::with_capacity(list.len());
    for value in list.values()? {
        match value {
            Value::String(text) => parts.push(text),
            other => return Err(Fault::new(format!("join: invalid input: {}", super::show::plain(&other)))),
        }
    }
    let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
    let length: usize = parts.iter().map(|part| part.len() + by.len()).sum();
    if length > MOST_BYTES {
        return Err(Fault::Spent);
    }
    Ok(Value::text(parts.join(by)))
}

/// In double quotes, with escapes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
