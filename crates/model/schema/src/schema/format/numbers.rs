//! Formats that are numbers with a sum to check, or groups of digits.

/// An ISBN of ten or thirteen digits with the right last one; spaces and hyphens are not looked at.
pub(super) fn is_isbn(text: &str, length: Option<usize>) -> bool {
    let digits: String = text.chars().filter(|one| *one != '-' && !one.is_whitespace()).collect();
    let fits = |wanted: usize| digits.len() == wanted && length.is_none_or(|length| length == wanted);
    if fits(10) {
        let (head, last) = digits.split_at(9);
        let last = if last == "X" { Some(10) } else { last.parse().ok() };
        return weighted(head, |at| at + 1)
            .zip(last)
            .is_some_and(|(sum, last): (u32, u32)| (sum + 10 * last) % 11 == 0);
    }
    fits(13) && weighted(&digits, |at| if at % 2 == 0 { 1 } else { 3 }).is_some_and(|sum| sum % 10 == 0)
}

/// The sum of the digits times their weights; `None` if there is anything but digits.
fn weighted(digits: &str, weight: impl Fn(u32) -> u32) -> Option<u32> {
    digits.chars().zip(0..).try_fold(0, |sum, (digit, at)| Some(sum + digit.to_digit(10)? * weight(at)))
}

/// A number that an issuer of cards could have given out, with the right sum; all but digits is not looked at.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|one| one.to_digit(10)).collect();
    let prefix = |length: usize| digits.iter().take(length).fold(0, |number, digit| number * 10 + digit);
    let issued = match digits.len() {
        13 => prefix(1) == 4,
        14 => matches!(prefix(3), 300..=305) || matches!(prefix(2), 36 | 38),
        15 => matches!(prefix(2), 34 | 37) || matches!(prefix(4), 2131 | 1800),
        16 => {
            prefix(1) == 4
                || matches!(prefix(2), 51..=55 | 62 | 65 | 67 | 35)
                || matches!(prefix(4), 2221..=2720 | 6011)
        }
        _ => false,
    };
    let doubled = |(at, digit): (usize, &u32)| match (at % 2, digit * 2) {
        (0, _) => *digit,
        (_, twice) => twice / 10 + twice % 10,
    };
    issued && digits.iter().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

/// `123-45-6789`, or with spaces.
pub(super) fn is_ssn(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(at, byte)| match at {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

/// `rgb(1, 2, 3)`.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(parts) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let part = |part: &str| {
        let digits = part.trim();
        digits.parse::<u8>().is_ok_and(|number| number.to_string() == digits)
    };
    parts.split(',').count() == 3 && parts.split(',').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_sums() {
        for (text, length, fits) in [
            ("0-306-40615-2", None, true),
            ("0-306-40615-3", None, false),
            ("080442957X", Some(10), true),
            ("080442957X", Some(13), false),
            ("978-0-306-40615-7", Some(13), true),
            ("978-0-306-40615-8", None, false),
            ("97803064061x7", None, false),
            ("x", None, false),
            ("", None, false),
        ] {
            assert_eq!(is_isbn(text, length), fits, "{text}");
        }
        for (text, fits) in [("4111 1111 1111 1111", true), ("4111111111111112", false), ("9111111111111111", false)] {
            assert_eq!(is_credit_card(text), fits, "{text}");
        }
        for (text, fits) in [("123-45-6789", true), ("123 45 6789", true), ("123456789", false), ("", false)] {
            assert_eq!(is_ssn(text), fits, "{text}");
        }
        for (text, fits) in [("rgb(0, 10,255)", true), ("rgb(0,10,256)", false), ("rgb(0,1)", false), ("#fff", false)] {
            assert_eq!(is_rgb_color(text), fits, "{text}");
        }
    }
}
