//! Constants: numbers, and strings with their escapes.

use crate::ast::Literal;
use crate::lexer::{Kind, Token};

/// What a token of a constant means.
pub(super) fn literal(token: &Token, negative: bool) -> Result<Literal, String> {
    let text = token.text.as_str();
    match token.kind {
        Kind::Int => integer(text, negative).map(Literal::Int).ok_or("invalid int literal".into()),
        Kind::Uint => {
            let digits = &text[..text.len() - 1];
            let number = match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => digits.parse(),
            };
            number.map(Literal::Uint).map_err(|_| "invalid uint literal".into())
        }
        Kind::Float => {
            let number: f64 = text.parse().unwrap_or(f64::INFINITY);
            let number = if negative { -number } else { number };
            if number.is_finite() { Ok(Literal::Double(number)) } else { Err("invalid double literal".into()) }
        }
        Kind::Bytes => unescape(&text[1..], true).map(|bytes| Literal::Bytes(bytes.into())),
        _ => {
            let bytes = unescape(text, false)?;
            Ok(Literal::String(String::from_utf8_lossy(&bytes).as_ref().into()))
        }
    }
}

fn integer(text: &str, negative: bool) -> Option<i64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    i64::from_str_radix(&signed, radix).ok()
}

/// The content of a quoted text.
fn unescape(text: &str, bytes: bool) -> Result<Vec<u8>, String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, text) = match text.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let quotes = if text.len() >= 6 && (text.starts_with("'''") || text.starts_with("\"\"\"")) { 3 } else { 1 };
    let content = &text[quotes..text.len() - quotes];
    if raw || !content.contains('\\') {
        return Ok(content.as_bytes().to_vec());
    }
    let mut out = Vec::new();
    let mut rest = content.chars();
    while let Some(c) = rest.next() {
        if c == '\\' {
            escape(&mut rest, bytes, &mut out)?;
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(out)
}

fn escape(rest: &mut std::str::Chars<'_>, bytes: bool, out: &mut Vec<u8>) -> Result<(), String> {
    let wrong = || "unable to unescape string".to_owned();
    let c = match rest.next().ok_or_else(wrong)? {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        c @ ('\\' | '\'' | '"' | '`' | '?') => u32::from(c),
        'u' | 'U' if bytes => return Err(wrong()),
        c @ ('x' | 'X' | 'u' | 'U') => {
            let digits = if c == 'u' {
                4
            } else if c == 'U' {
                8
            } else {
                2
            };
            let mut sum: u32 = 0;
            for _ in 0..digits {
                let digit = rest.next().and_then(|c| c.to_digit(16)).ok_or_else(wrong)?;
                sum = sum.wrapping_mul(16).wrapping_add(digit);
            }
            sum
        }
        c @ '0'..='3' => {
            let mut sum = c.to_digit(8).unwrap_or(0);
            for _ in 0..2 {
                sum = sum * 8 + rest.next().and_then(|c| c.to_digit(8)).ok_or_else(wrong)?;
            }
            sum
        }
        _ => return Err(wrong()),
    };
    if bytes {
        out.push(u8::try_from(c).map_err(|_| wrong())?);
    } else {
        let c = char::from_u32(c).ok_or("invalid unicode code point")?;
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(())
}
