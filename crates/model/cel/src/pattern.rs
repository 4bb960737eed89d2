//! Patterns of strings: Go's regular expressions, run by the regex crate.

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
        let regex = RegexBuilder::new(&translate(text)).size_limit(SIZE_MAX).build();
        let regex = regex.map_err(|error| format!("error parsing regexp: {}", go_words(text, &error)))?;
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

/// The two mistakes that are common, in Go's words; others in the crate's.
fn go_words(text: &str, error: &regex::Error) -> String {
    let said = error.to_string();
    if said.contains("unclosed group") {
        return format!("missing closing ): `{text}`");
    }
    if said.contains("unopened group") {
        return format!("unexpected ): `{text}`");
    }
    if said.contains("unclosed character class") {
        let from = text.find('[').unwrap_or(0);
        return format!("missing closing ]: `{}`", &text[from..]);
    }
    if said.contains("look-around")
        && let Some(at) = ["(?=", "(?!", "(?<"].iter().filter_map(|look| text.find(look)).min()
    {
        let end = text[at..].char_indices().nth(3).map_or(text.len(), |(end, _)| at + end);
        return format!("invalid or unsupported Perl syntax: `{}`", &text[at..end]);
    }
    let last = said.lines().last().unwrap_or_default();
    format!("{}: `{text}`", last.strip_prefix("error: ").unwrap_or(last))
}

/// Go's classes `\d`, `\w`, `\s` and `\b` know ASCII only, a lone `{` is a literal, and classes do not nest.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut in_class = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        match first {
            '\\' => {
                let escaped = rest[1..].chars().next();
                taken += escaped.map_or(0, char::len_utf8);
                if escaped == Some('Q') {
                    let (literal, whole) = quoted(rest);
                    out.push_str(&regex::escape(literal));
                    taken = whole;
                } else {
                    out.push_str(&escape(&rest[..taken], in_class));
                }
            }
            '[' if !in_class => {
                in_class = true;
                taken = class_start(rest);
                out.push_str(&rest[..taken].replace("[]", "[\\]").replace("[^]", "[^\\]"));
            }
            '[' if rest.starts_with("[:") && rest.contains(":]") => {
                taken = rest.find(":]").map_or(1, |end| end + 2);
                out.push_str(&rest[..taken]);
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(first);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '{' if !in_class && !is_repetition(rest) => out.push_str("\\{"),
            other => out.push(other),
        }
        rest = &rest[taken..];
    }
    out
}

fn escape(escape: &str, in_class: bool) -> String {
    match escape {
        "\\d" => "[0-9]",
        "\\D" => "[^0-9]",
        "\\w" => "[0-9A-Za-z_]",
        "\\W" => "[^0-9A-Za-z_]",
        "\\s" => "[\\t\\n\\f\\r ]",
        "\\S" => "[^\\t\\n\\f\\r ]",
        "\\b" if !in_class => "(?-u:\\b)",
        other => other,
    }
    .to_owned()
}

/// The length of `[`, `[^`, `[]` or `[^]`: a bracket right at the start of a class is a literal.
fn class_start(rest: &str) -> usize {
    let negated = if rest.starts_with("[^") { 2 } else { 1 };
    negated + usize::from(rest[negated..].starts_with(']'))
}

/// The text between `\Q` and `\E` (or the end), and the length of it all.
fn quoted(rest: &str) -> (&str, usize) {
    match rest.find("\\E") {
        Some(end) => (&rest[2..end], end + 2),
        None => (&rest[2..], rest.len()),
    }
}

/// Whether `{` begins `{2}`, `{2,}` or `{2,5}`.
fn is_repetition(rest: &str) -> bool {
    let Some(end) = rest.find('}') else { return false };
    let (least, most) = rest[1..end].split_once(',').unwrap_or((&rest[1..end], ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
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
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn mistakes_are_told_in_go_words() {
        for (pattern, words) in [
            ("(", "error parsing regexp: missing closing ): `(`"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            ("x[a", "error parsing regexp: missing closing ]: `[a`"),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap_err(), words);
        }
        assert!(Pattern::parse("((a{100}){100}){100}").is_err());
    }

    proptest! {
        #[test]
        fn any_pattern_is_answered(text in "[\\[\\]\\\\{}()a-cQEdw,0-9^$&~:-]{0,12}") {
            let _ = Pattern::parse(&text);
        }
    }
}
