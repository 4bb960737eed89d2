//! The one scanner: finds the parts of a JSON document without building it.
//!
//! It is strict about structure (brackets, commas, string ends, depth) and lenient about what it only skips (numbers
//! and escapes are checked when somebody decodes them). What comes from a server that has checked it is only skimmed. It
//! never panics on any input.

use std::ops::{ControlFlow, Range};

use wide::u8x16;

/// Documents nest at most this deep: as many bits as [`Brackets`] has.
const MAX_DEPTH: u32 = 128;

/// The document is malformed at this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) usize);

type Scan<T> = Result<T, Malformed>;

/// How closely values are looked at that are passed over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Care {
    /// See [`Scanner::value`].
    Strict,
    /// See [`Scanner::skim`].
    Skimmed,
}

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

    /// Where it stands: behind what it skipped last.
    pub(crate) fn at(&self) -> usize {
        self.at
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

    /// Passes over one value and gives its range.
    pub(crate) fn pass(&mut self, care: Care) -> Scan<Range<usize>> {
        match care {
            Care::Strict => self.value(),
            Care::Skimmed => self.skim(),
        }
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

    /// Skips one value that is not looked at now, and gives its range: of an object or array only strings and the number
    /// of open brackets are minded, 64 bytes at a time. Whatever [`Scanner::value`] skips, it skips as far; what is wrong
    /// between the brackets is found by who decodes it.
    pub(crate) fn skim(&mut self) -> Scan<Range<usize>> {
        if !matches!(self.peek()?, b'{' | b'[') {
            return self.value();
        }
        let start = self.at;
        let mut skim = Skim::default();
        let (blocks, rest) = self.bytes[start..].as_chunks::<64>();
        for block in blocks {
            if let Some(end) = skim.pass(block) {
                self.at += end;
                return Ok(start..self.at);
            }
            self.at += 64;
        }
        // The last block is filled up with what means nothing.
        let mut block = [b' '; 64];
        block[..rest.len()].copy_from_slice(rest);
        let end = skim.pass(&block).ok_or(Malformed(self.bytes.len()))?;
        self.at += end;
        Ok(start..self.at)
    }

    /// Skips an object or array: an explicit stack of bits, no recursion.
    fn nested(&mut self) -> Scan<()> {
        let mut open = Brackets::default();
        loop {
            // A value begins here.
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                byte @ (b'{' | b'[') => {
                    if !open.push(byte == b'{') {
                        return Err(Malformed(self.at));
                    }
                    self.at += 1;
                    if self.peek()? != open.closer() {
                        self.member_key(open)?;
                        continue;
                    }
                    self.at += 1;
                    open.pop();
                }
                _ => self.scalar()?,
            }
            // It has ended, and with it perhaps what it stands in.
            while open.depth > 0 {
                let byte = self.peek()?;
                if byte != b',' && byte != open.closer() {
                    return Err(Malformed(self.at));
                }
                self.at += 1;
                if byte == b',' {
                    self.peek()?;
                    self.member_key(open)?;
                    break;
                }
                open.pop();
            }
            if open.depth == 0 {
                return Ok(());
            }
        }
    }

    /// Inside an object, skips `"key":`.
    fn member_key(&mut self, open: Brackets) -> Scan<()> {
        if open.closer() == b'}' {
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
            at += plain(self.bytes.get(at..).unwrap_or_default());
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
        // Nearly always there is none.
        while self.bytes.get(self.at).is_some_and(|byte| *byte <= b' ') {
            if !matches!(self.bytes[self.at], b' ' | b'\t' | b'\n' | b'\r') {
                return;
            }
            self.at += 1;
        }
    }
}

/// How far blocks of 64 bytes have been skimmed.
#[derive(Default)]
struct Skim {
    depth: u32,
    /// All ones within a string, else zero.
    in_string: u64,
    /// One if the next byte is escaped.
    escaped: u64,
}

impl Skim {
    /// Where in this block the value ends, if it does.
    fn pass(&mut self, block: &[u8; 64]) -> Option<usize> {
        // Brackets of both kinds differ from each other by one bit.
        const FOLD: u8 = b'{' ^ b'[';
        let words = Words::of(block);
        let mut quotes = words.places(b'"');
        if self.escaped != 0 || words.have(b'\\') {
            quotes &= !self.escapes(words.places(b'\\'));
        }
        // Each bit becomes the parity of the quotes up to it: one within a string.
        let strings = [1, 2, 4, 8, 16, 32].iter().fold(quotes, |parity, shift| parity ^ (parity << shift));
        let strings = strings ^ self.in_string;
        self.in_string = 0u64.wrapping_sub(strings >> 63);
        let folded = words.with(FOLD);
        let (opens, closes) = (folded.places(b'{') & !strings, folded.places(b'}') & !strings);
        if closes.count_ones() < self.depth {
            self.depth = self.depth + opens.count_ones() - closes.count_ones();
            return None;
        }
        let mut brackets = opens | closes;
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            self.depth = if opens >> at & 1 == 1 { self.depth + 1 } else { self.depth.saturating_sub(1) };
            if self.depth == 0 {
                return Some(at as usize + 1);
            }
            brackets &= brackets - 1;
        }
        None
    }

    /// Which bytes are escaped, given where the backslashes are: each one that is not escaped itself escapes the next byte.
    fn escapes(&mut self, mut slashes: u64) -> u64 {
        let mut escaped = std::mem::take(&mut self.escaped);
        slashes &= !escaped;
        while slashes != 0 {
            let next = (slashes & slashes.wrapping_neg()) << 1;
            escaped |= next;
            self.escaped = u64::from(next == 0);
            slashes &= slashes - 1;
            slashes &= !next;
        }
        escaped
    }
}

/// A block as the processor compares it.
struct Words([u8x16; 4]);

impl Words {
    #[inline]
    fn of(block: &[u8; 64]) -> Self {
        let mut words = [u8x16::splat(0); 4];
        words.iter_mut().zip(block.as_chunks::<16>().0).for_each(|(word, bytes)| *word = u8x16::new(*bytes));
        Self(words)
    }

    /// Every byte with these bits set.
    #[inline]
    fn with(&self, bits: u8) -> Self {
        Self(self.0.map(|word| word | u8x16::splat(bits)))
    }

    /// Where this byte is: a bit for each place.
    #[inline]
    fn places(&self, byte: u8) -> u64 {
        let [a, b, c, d] = self.0.map(|word| u64::from(word.simd_eq(u8x16::splat(byte)).to_bitmask()));
        a | b << 16 | c << 32 | d << 48
    }

    /// Whether this byte is anywhere; less work than where it is.
    #[inline]
    fn have(&self, byte: u8) -> bool {
        let [a, b, c, d] = self.0.map(|word| word.simd_eq(u8x16::splat(byte)));
        ((a | b) | (c | d)).to_bitmask() != 0
    }
}

/// The brackets that are open, the innermost last: a bit for each, set for objects.
#[derive(Clone, Copy, Default)]
struct Brackets {
    objects: u128,
    depth: u32,
}

impl Brackets {
    /// `false` if there are too many.
    fn push(&mut self, object: bool) -> bool {
        self.objects = (self.objects << 1) | u128::from(object);
        self.depth += 1;
        self.depth <= MAX_DEPTH
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    /// What closes the innermost.
    fn closer(self) -> u8 {
        if self.objects & 1 == 1 { b'}' } else { b']' }
    }
}

/// How many bytes come before the first quote, backslash or control character. Sixteen at a time: strings are most of
/// every document, and most of them are shorter.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<16>();
    for (at, word) in words.iter().enumerate() {
        let word = u8x16::new(*word);
        let special = word.simd_eq(u8x16::splat(b'"'))
            | word.simd_eq(u8x16::splat(b'\\'))
            | word.min(u8x16::splat(0x1f)).simd_eq(word);
        let special = special.to_bitmask();
        if special != 0 {
            return at * 16 + special.trailing_zeros() as usize;
        }
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    bytes.len() - rest.len() + rest.iter().position(special).unwrap_or(rest.len())
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
        fn what_is_skimmed_ends_where_it_ends(values in prop::collection::vec(json(), 1..9), behind in ".{0,90}", pretty in any::<bool>()) {
            let value = serde_json::Value::from(values);
            let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
            let (document, whole) = (format!("{text}{behind}"), 0..text.len());
            prop_assert_eq!(Scanner::new(document.as_bytes(), 0).skim(), Ok(whole));
        }

        #[test]
        fn escapes_are_counted_across_blocks(before in 0..70usize, slashes in 0..140usize) {
            let text = format!("[\"{}{}{}\"]", "x".repeat(before), "\\\\".repeat(slashes), "\\\"]");
            let document = format!("{text}, {{}}");
            prop_assert_eq!(Scanner::new(document.as_bytes(), 0).skim(), Ok(0..text.len()));
        }

        #[test]
        fn what_is_cut_is_not_skimmed(value in json(), cut in any::<prop::sample::Index>()) {
            let text = serde_json::json!([value]).to_string();
            let cut = cut.index(text.len());
            prop_assert!(Scanner::new(&text.as_bytes()[..cut], 0).skim().is_err());
        }

        #[test]
        fn any_bytes_are_skimmed_or_refused(bytes in prop::collection::vec(prop_oneof![prop::sample::select(&b"{}[]\"\\,:1"[..]), any::<u8>()], 0..300)) {
            let mut skimmed = Scanner::new(&bytes, 0);
            if let Ok(whole) = Scanner::new(&bytes, 0).value() {
                prop_assert_eq!(skimmed.skim(), Ok(whole));
            } else {
                let _ = skimmed.skim();
            }
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
