//! Half of a surrogate pair alone is no character: Go reads U+FFFD there, where serde refuses the document.

use std::borrow::Cow;

const REPLACEMENT: &[u8] = b"\\uFFFD";

/// The document with U+FFFD for every escaped half of a pair that has no other half.
pub(super) fn mended(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut mended = Cow::Borrowed(bytes);
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        match (unit(bytes, at), unit(bytes, at + 6)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => at += 12,
            (Some(0xD800..0xE000), _) => {
                mended.to_mut()[at..at + 6].copy_from_slice(REPLACEMENT);
                at += 6;
            }
            // Whatever is escaped begins no escape itself.
            (Some(_) | None, _) => at += 2,
        }
    }
    mended
}

/// The number of a `\u` escape at a place.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |number, byte| Some(number * 16 + char::from(*byte).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_alone_are_replaced() {
        for (text, expected) in [
            (r#""\ud800""#, r#""\uFFFD""#),
            (r#""\udc00x""#, r#""\uFFFDx""#),
            (r#""\ud83d\ude00\uD83D""#, r#""\ud83d\ude00\uFFFD""#),
            (r#""\ud800\ud83d\ude00""#, r#""\uFFFD\ud83d\ude00""#),
            (r#""\\ud800\u0041""#, r#""\\ud800\u0041""#),
            (r#""\ud8"#, r#""\ud8"#),
            ("\\", "\\"),
        ] {
            assert_eq!(mended(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
