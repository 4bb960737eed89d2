//! `'%s is %d'.format([…])`.

use super::show;
use super::strings::quoted;
use crate::types::Type;
use crate::value::Value;

/// A piece of a format string.
enum Piece {
    Text(String),
    Clause { verb: char, precision: Option<usize> },
}

fn pieces(clauses: &str) -> Result<Vec<Piece>, String> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut rest = clauses.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        if rest.peek() == Some(&'%') {
            rest.next();
            text.push('%');
            continue;
        }
        found.push(Piece::Text(std::mem::take(&mut text)));
        if rest.peek().is_none() {
            return Err("unexpected end of string".to_owned());
        }
        let mut precision = None;
        if rest.peek() == Some(&'.') {
            rest.next();
            let mut digits = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            if rest.peek().is_none() {
                let why = "error while parsing precision: could not find end of precision specifier";
                return Err(format!("could not parse formatting clause: {why}"));
            }
            precision = Some(digits.parse().unwrap_or(0));
        }
        let verb = rest.next().unwrap_or(' ');
        if !"sdfeboxX".contains(verb) {
            return Err(format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\""));
        }
        found.push(Piece::Clause { verb, precision });
    }
    found.push(Piece::Text(text));
    Ok(found)
}

/// What is wrong with a format string that is known when the rule is written, given so many arguments.
pub(crate) fn check(clauses: &str, count: usize) -> Result<Vec<char>, String> {
    let verbs: Vec<char> = pieces(clauses)?
        .iter()
        .filter_map(|piece| match piece {
            Piece::Clause { verb, .. } => Some(*verb),
            Piece::Text(_) => None,
        })
        .collect();
    if verbs.len() > count {
        return Err(format!("index {count} out of range"));
    }
    if verbs.len() < count {
        let wanted = verbs.len();
        return Err(format!("too many arguments supplied to string.format (expected {wanted}, got {count})"));
    }
    Ok(verbs)
}

/// What a clause may be used on.
pub(crate) fn wanted(verb: char) -> &'static str {
    match verb {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    }
}

/// Whether a clause can be used on a type.
pub(crate) fn fits(verb: char, of: &Type) -> bool {
    match (verb, of) {
        (_, Type::Dyn | Type::Error) => true,
        ('s', Type::Object(_) | Type::Opaque(..)) => false,
        ('s', _)
        | ('d' | 'b' | 'o' | 'x' | 'X', Type::Int | Type::Uint)
        | ('f' | 'e', Type::Double)
        | ('e', Type::String) => true,
        ('b', Type::Bool) | ('x' | 'X', Type::String | Type::Bytes) => true,
        _ => false,
    }
}

/// Fills a format string in.
pub(crate) fn format(clauses: &str, values: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut next = 0;
    for piece in pieces(clauses)? {
        match piece {
            Piece::Text(text) => out.push_str(&text),
            Piece::Clause { verb, precision } => {
                let value = values.get(next).ok_or_else(|| format!("index {next} out of range"))?;
                next += 1;
                let text = filled(verb, precision.unwrap_or(6), value).ok_or_else(|| {
                    format!("error during formatting: {}, was given {}", wanted(verb), value.type_name())
                })?;
                out.push_str(&text);
            }
        }
    }
    Ok(out)
}

fn filled(verb: char, precision: usize, value: &Value<'_>) -> Option<String> {
    let integer = match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    let signed = |text: String| if integer < Some(0) { format!("-{text}") } else { text };
    let magnitude = integer.map(i128::unsigned_abs);
    match (verb, value) {
        ('s', _) => text(value, false),
        ('d', _) => integer.map(|number| number.to_string()),
        ('f', Value::Double(number)) => Some(fixed(*number, precision)),
        ('e', Value::Double(number)) => Some(scientific(*number, precision)),
        ('b', Value::Bool(flag)) => Some(u8::from(*flag).to_string()),
        ('b', _) => magnitude.map(|number| signed(format!("{number:b}"))),
        ('o', _) => magnitude.map(|number| signed(format!("{number:o}"))),
        ('x' | 'X', Value::String(text)) => Some(hex(text.as_bytes(), verb)),
        ('x' | 'X', Value::Bytes(bytes)) => Some(hex(bytes, verb)),
        ('x', _) => magnitude.map(|number| signed(format!("{number:x}"))),
        ('X', _) => magnitude.map(|number| signed(format!("{number:X}"))),
        _ => None,
    }
}

fn hex(bytes: &[u8], verb: char) -> String {
    bytes.iter().map(|byte| if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") }).collect()
}

fn fixed(number: f64, precision: usize) -> String {
    if number.is_finite() { format!("{number:.precision$}") } else { special(number) }
}

fn special(number: f64) -> String {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    }
    .to_owned()
}

/// `1.234500×10⁰³`.
fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return special(number);
    }
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let raised = format!("{:02}", power.abs());
    let raised: String = raised.chars().filter_map(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(c.to_digit(10)? as usize)).collect();
    format!("{digits}×10{}{raised}", if power < 0 { "⁻" } else { "" })
}

/// A value as text; inside of lists and maps texts are quoted.
fn text(value: &Value<'_>, inside: bool) -> Option<String> {
    Some(match value {
        Value::String(text) if inside => quoted(text),
        Value::Bytes(bytes) if inside => format!("b{}", quoted(&String::from_utf8_lossy(bytes))),
        Value::Duration(nanos) if inside => format!("duration({})", quoted(&show::seconds(*nanos))),
        Value::Timestamp(at) if inside => format!("timestamp({})", quoted(&at.to_string())),
        Value::Double(number) if inside => fixed(*number, 6),
        Value::Double(number) if !number.is_finite() => special(*number),
        Value::String(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Timestamp(_)
        | Value::Double(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Type(_) => show::plain(value),
        Value::List(list) => {
            let items: Option<Vec<String>> = list.values().ok()?.iter().map(|item| text(item, true)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => {
            let entry = |key: &Value<'_>| -> Option<String> {
                let value = map.get(key)?.ok()?;
                Some(format!("{}:{}", text(key, true)?, text(&value, true)?))
            };
            let mut entries: Vec<String> = map.keys().iter().map(entry).collect::<Option<_>>()?;
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        _ => return None,
    })
}
