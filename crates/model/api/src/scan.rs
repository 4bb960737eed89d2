//! The one scanner: finds the parts of a JSON document without building it.
//!
//! It is strict about structure (brackets, commas, string ends, depth) and lenient about what it only skips (numbers
//! and escapes are checked when somebody decodes them). It never panics on any input.

use std::ops::{ControlFlow, Range};

/// Documents nest at most this deep.
const MAX_DEPTH: usize = 128;

/// The document is malformed at this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) usize);

type Scan<T> = Result<T, Malformed>;

/// A position in a document.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Visits the members of the object at the position: raw key (between its quotes) and the value's range.
    pub(crate) fn members(&mut self, mut visit: impl FnMut(&'a [u8], Range<usize>) -> Scan<()>) -> Scan<()> {
        self.each_member(|scanner, key| {
            let value = scanner.value()?;
            visit(key, value)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Visits the members of the object at the position, each before its value has been looked at: `visit` skips it, or
    /// breaks off.
    pub(crate) fn each_member(
        &mut self,
        mut visit: impl FnMut(&mut Self, &'a [u8]) -> Scan<ControlFlow<()>>,
    ) -> Scan<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.peek()?;
            let key = self.string()?;
            self.expect(b':')?;
            if visit(self, &self.bytes[key.start + 1..key.end - 1])?.is_break() {
                return Ok(());
            }
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Malformed(self.at)),
            }
        }
    }

    /// Where the next value begins.
    pub(crate) fn position(&mut self) -> Scan<usize> {
        self.peek()?;
        Ok(self.at)
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Scan<()> {
        self.white();
        if self.at == self.bytes.len() { Ok(()) } else { Err(Malformed(self.at)) }
    }

    /// Skips one value and gives its range.
    pub(crate) fn value(&mut self) -> Scan<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => return self.string(),
            b'{' | b'[' => self.nested()?,
            _ => self.scalar()?,
        }
        Ok(start..self.at)
    }

    /// Skips an object or array: an explicit stack of bits, no recursion.
    fn nested(&mut self) -> Scan<()> {
        let mut closers: Vec<u8> = Vec::with_capacity(16);
        // What may come next: a value, or (after one) a comma or the closer.
        let mut after_value = false;
        loop {
            let byte = self.peek()?;
            match byte {
                b'{' | b'[' if !after_value => {
                    if closers.len() == MAX_DEPTH {
                        return Err(Malformed(self.at));
                    }
                    self.at += 1;
                    closers.push(if byte == b'{' { b'}' } else { b']' });
                    if self.peek()? == *closers.last().unwrap_or(&0) {
                        self.at += 1;
                        closers.pop();
                        after_value = true;
                    } else {
                        self.member_key(&closers)?;
                    }
                }
                b'}' | b']' if after_value && closers.last() == Some(&byte) => {
                    self.at += 1;
                    closers.pop();
                }
                b',' if after_value => {
                    self.at += 1;
                    self.peek()?;
                    self.member_key(&closers)?;
                    after_value = false;
                }
                b'"' if !after_value => {
                    self.string()?;
                    after_value = true;
                }
                _ if !after_value => {
                    self.scalar()?;
                    after_value = true;
                }
                _ => return Err(Malformed(self.at)),
            }
            if closers.is_empty() {
                return Ok(());
            }
        }
    }

    /// Inside an object, skips `"key":`.
    fn member_key(&mut self, closers: &[u8]) -> Scan<()> {
        if closers.last() == Some(&b'}') {
            self.string()?;
            self.expect(b':')?;
        }
        Ok(())
    }

    fn string(&mut self) -> Scan<Range<usize>> {
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            return Err(Malformed(start));
        }
        let mut at = start + 1;
        loop {
            at += plain(&self.bytes[at.min(self.bytes.len())..]);
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                _ => return Err(Malformed(at.min(self.bytes.len()))),
            }
        }
        self.at = at + 1;
        Ok(start..self.at)
    }

    fn scalar(&mut self) -> Scan<()> {
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.'))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let plausible = match word.first() {
            Some(b'-' | b'0'..=b'9') => true,
            Some(_) => matches!(word, b"true" | b"false" | b"null"),
            None => false,
        };
        if !plausible {
            return Err(Malformed(self.at));
        }
        self.at += length;
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.peek()? != byte {
            return Err(Malformed(self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&mut self) -> Scan<u8> {
        self.white();
        self.bytes.get(self.at).copied().ok_or(Malformed(self.bytes.len()))
    }

    fn white(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}

/// How many bytes come before the first quote, backslash or control character. Eight at a time: strings are most of
/// every document.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, _) = bytes.as_chunks::<8>();
    let mut at = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        // Bytes below 0x20 borrow when 0x20 is taken from them; those above 0x7f are let through by `!word`.
        let special = has_zero(word ^ (ONES * u64::from(b'"')))
            | has_zero(word ^ (ONES * u64::from(b'\\')))
            | (word.wrapping_sub(ONES * 0x20) & !word & HIGHS);
        if special != 0 {
            // A borrow may mark a byte too much, but never one before the first that is special.
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    at + bytes[at..].iter().position(special).unwrap_or(bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepts(text: &[u8]) -> bool {
        let mut scanner = Scanner::new(text, 0);
        scanner.value().and_then(|_| scanner.end()).is_ok()
    }

    #[test]
    fn structure_is_checked() {
        for good in ["{}", "[]", "[1,{\"a\":[]},\"\\\"\"]", " {\"a\" : {\"b\":null} } ", "-1.5e3"] {
            assert!(accepts(good.as_bytes()), "{good}");
        }
        for bad in ["", "{", "}", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1 2]", "\"", "\"\\", "tru", "{]", "[}"]
        {
            assert!(!accepts(bad.as_bytes()), "{bad}");
        }
        assert!(!accepts("[".repeat(1_000_000).as_bytes()));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".{0,8}".prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::btree_map(".{0,5}", inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_document_is_accepted(value in json()) {
            prop_assert!(accepts(value.to_string().as_bytes()));
            prop_assert!(accepts(serde_json::to_string_pretty(&value).unwrap().as_bytes()));
        }

        #[test]
        fn words_are_read_as_bytes_are(bytes in prop::collection::vec(prop_oneof![0x18..0x24u8, 0x5a..0x5eu8, any::<u8>()], 0..40)) {
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            prop_assert_eq!(plain(&bytes), bytes.iter().position(special).unwrap_or(bytes.len()));
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            accepts(&bytes);
        }

        #[test]
        fn a_cut_document_is_refused(value in json(), cut in any::<prop::sample::Index>()) {
            let text = serde_json::json!([value]).to_string();
            let cut = cut.index(text.len());
            prop_assert!(!accepts(&text.as_bytes()[..cut]));
        }
    }
}
