//! Patterns of strings: Go's regular expressions, run by the regex crate.

mod go;

use regex::{Regex, RegexBuilder};

/// A compiled pattern may take this much.
const SIZE_MAX: usize = 1 << 20;

/// The longest pattern.
const LONGEST: usize = 64 << 10;

/// A compiled pattern and its text.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As written.
    pub text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it, in Go's words; also one that is too long or too large once compiled.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("error parsing regexp: the pattern is longer than {LONGEST} bytes"));
        }
        let regex = go::translate(text).and_then(|translated| {
            let builder = RegexBuilder::new(&translated).size_limit(SIZE_MAX).build();
            builder.map_err(|error| crate_words(text, &error))
        });
        let regex = regex.map_err(|why| format!("error parsing regexp: {why}"))?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// Whether it occurs in a text.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }

    /// Where it occurs in a text, from left to right.
    pub fn find<'t>(&self, value: &'t str) -> impl Iterator<Item = &'t str> {
        self.regex.find_iter(value).map(|found| found.as_str())
    }
}

/// What the regex crate says of a pattern that Go would take: one that is too large, or nested too deeply.
fn crate_words(text: &str, error: &regex::Error) -> String {
    let said = error.to_string();
    let last = said.lines().last().unwrap_or_default();
    format!("{}: `{text}`", last.strip_prefix("error: ").unwrap_or(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, expected) in [
            (r"^\d+$", "٣", false),
            (r"^\d+$", "12", true),
            (r"^[\w.]+$", "a.b_1", true),
            (r"^a{$", "a{", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^[[a]$", "[", true),
            (r"^[a&&b]$", "&", true),
            (r"^[]a]$", "]", true),
            (r"^[^]a]$", "]", false),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\Qab\E*$", "abbb", true),
            (r"^a*\Q\E{2}$", "aaa", true),
            (r"^a(?i)*B$", "aab", true),
            (r"(?P<n>a)(?P<n>b)", "ab", true),
            (r"^(?i-i:a)$", "A", false),
            (r"^\p{Greek}+$", "αβ", true),
            (r"^\p{^lower case-letter}$", "a", false),
            (r"^[\p{Cs}a]$", "a", true),
            (r"^\P{Cs}$", "a", true),
            (r"^\123\x{10FFFF}\x41$", "S\u{10FFFF}A", true),
            (r"^[\x{D000}-\x{E000}]$", "\u{D001}", true),
            (r"^[\x{D800}-\x{DFFF}]$", "a", false),
            (r"\x{D800}|b", "b", true),
            (r"^\Bé\B$", "é", true),
            (r"^((a{1000}){0}b){1000}$", "b", false),
            (r"^a{01}$", "a{01}", true),
            (r"^a\z", "ab", false),
            (r"^\<$", "<", true),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn mistakes_are_told_in_go_words() {
        for (pattern, words) in [
            ("(", "missing closing ): `(`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("(?P<x y>a)", "invalid named capture: `(?P<x y>`"),
            ("(?x)a b", "invalid or unsupported Perl syntax: `(?x`"),
            ("(?--i:a)", "invalid or unsupported Perl syntax: `(?--`"),
            ("(?-:a)", "invalid or unsupported Perl syntax: `(?-:`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a", "missing closing ]: `[a`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("((a{100}){0,}){11}", "invalid repeat count: `{11}`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*??", "invalid nested repetition operator: `*??`"),
            ("(|*)", "missing argument to repetition operator: `*`"),
            ("[a--b]", "invalid character class range: `a--`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\p{Latn}", r"invalid character class range: `\p{Latn}`"),
            (r"\u0041", r"invalid escape sequence: `\u`"),
            (r"[\b]", r"invalid escape sequence: `\b`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
            (r"\18", r"invalid escape sequence: `\1`"),
            ("\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap_err(), format!("error parsing regexp: {words}"));
        }
        let large = Pattern::parse(r"(\pL{100}){10}").unwrap_err();
        assert!(large.contains("exceeds size limit"), "{large}");
    }

    #[test]
    fn a_pattern_has_64_kibibytes_and_one_mebibyte_once_compiled() {
        let long = |bytes: usize| format!("[{}]", "a".repeat(bytes - 2));
        assert!(Pattern::parse(&long(64 << 10)).is_ok());
        let refused = Pattern::parse(&long((64 << 10) + 1)).unwrap_err();
        assert_eq!(refused, "error parsing regexp: the pattern is longer than 65536 bytes");
        // How much a repetition takes is the crate's business; that one step more is too much is ours.
        let repeated = |times: usize| Pattern::parse(&"a{1000}".repeat(times));
        let most = (1..1000).take_while(|times| repeated(*times).is_ok()).last().unwrap();
        let refused = repeated(most + 1).unwrap_err();
        assert!(refused.contains("exceeds size limit of 1048576 bytes"), "{refused}");
        assert!(most > 10, "{most}");
    }

    proptest! {
        #[test]
        fn any_pattern_is_answered(text in "[\\[\\]\\\\{}()a-cQEdwpPxbBé?*+|<>,0-9^$&~:-]{0,12}") {
            let _ = Pattern::parse(&text);
        }
    }
}
