//! What follows a backslash.

use super::{Translator, class, mistake};

impl Translator<'_> {
    /// An escape outside of brackets.
    pub(super) fn escape(&mut self) -> Result<(), String> {
        let escaped = self.rest[1..].chars().next();
        let written = match escaped {
            Some('A') => "\\A".to_owned(),
            Some('z') => "\\z".to_owned(),
            Some('b') => "(?-u:\\b)".to_owned(),
            Some('B') => "(?-u:\\B)".to_owned(),
            Some(other) => match class::perl(other) {
                Some(class) => format!("[{class}]"),
                None => return self.other_escape(),
            },
            None => return self.other_escape(),
        };
        self.out.push_str(&written);
        self.rest = &self.rest[2..];
        Ok(())
    }

    fn other_escape(&mut self) -> Result<(), String> {
        if !self.unicode()? {
            let number = self.escaped()?;
            self.character(number);
        }
        Ok(())
    }

    /// The number of an escaped character.
    pub(super) fn escaped(&mut self) -> Result<u32, String> {
        let here = self.rest;
        let mut rest = here[1..].chars();
        let Some(first) = rest.next() else { return mistake("trailing backslash at end of expression", "") };
        let number = match first {
            '0'..='7' => octal(first, &mut rest),
            'x' => hexadecimal(&mut rest),
            'a' => Some(0x07),
            'f' => Some(0x0C),
            'n' => Some(0x0A),
            'r' => Some(0x0D),
            't' => Some(0x09),
            'v' => Some(0x0B),
            other => (other.is_ascii() && !other.is_ascii_alphanumeric()).then_some(u32::from(other)),
        };
        self.rest = rest.as_str();
        match number {
            Some(number) => Ok(number),
            None => mistake("invalid escape sequence", &here[..here.len() - self.rest.len()]),
        }
    }
}

/// Up to three octal digits; one alone that is not zero would refer back to a group.
fn octal(first: char, rest: &mut std::str::Chars<'_>) -> Option<u32> {
    let mut number = first.to_digit(8)?;
    let mut length = 1;
    while length < 3
        && let Some(digit) = rest.clone().next().and_then(|one| one.to_digit(8))
    {
        number = number * 8 + digit;
        length += 1;
        rest.next();
    }
    (length > 1 || first == '0').then_some(number)
}

/// Two digits, or any number of them in braces.
fn hexadecimal(rest: &mut std::str::Chars<'_>) -> Option<u32> {
    let first = rest.next()?;
    if first != '{' {
        let second = rest.next();
        return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
    }
    let mut number = None;
    loop {
        match rest.next()? {
            '}' => return number,
            digit => {
                let sum = number.unwrap_or(0) * 16 + digit.to_digit(16)?;
                number = Some(sum).filter(|sum| *sum <= u32::from(char::MAX));
                number?;
            }
        }
    }
}
