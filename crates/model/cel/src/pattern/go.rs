//! Go's syntax of regular expressions, put into the regex crate's.
//!
//! Go is stricter (`a**`, `a{1001}`, `(?x)`), laxer (`\123`, `\Q…\E`, two groups of one name) and different (`\d` is
//! ASCII, classes do not nest). So a pattern is read from left to right as Go reads it, and written anew: groups
//! capture nothing, and every character that could mean something is written as its number.

mod class;
mod escape;

use std::fmt::Write as _;

/// How often something may be repeated, all counts inside one another multiplied.
const REPEATED_MAX: u32 = 1000;

/// The letters of flags.
const FLAGS: [char; 4] = ['i', 'm', 's', 'U'];

/// Writes a pattern of Go for the regex crate.
///
/// # Errors
/// What is wrong with it, in Go's words.
pub(super) fn translate(text: &str) -> Result<String, String> {
    let mut translator = Translator { whole: text, rest: text, out: String::new(), groups: vec![Group::default()] };
    translator.all()?;
    Ok(translator.out)
}

/// What a pattern is read with: what is left of it, and what has been written.
struct Translator<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    /// From the whole pattern to the innermost group that is open.
    groups: Vec<Group>,
}

/// A group that is open.
#[derive(Default)]
struct Group {
    /// Where it begins in what has been written.
    start: usize,
    /// The most that anything in it is repeated, but for the last piece.
    weight: u32,
    /// What a repetition would repeat.
    atom: Option<Atom>,
}

impl Group {
    /// The last piece will not be repeated any more.
    fn settle(&mut self) {
        if let Some(atom) = self.atom.take() {
            self.weight = self.weight.max(atom.weight);
        }
    }
}

/// A piece of what has been written.
struct Atom {
    start: usize,
    end: usize,
    weight: u32,
    is_repeated: bool,
}

/// A mistake and the text that it is in.
fn mistake<T>(what: &str, text: &str) -> Result<T, String> {
    Err(format!("{what}: `{text}`"))
}

impl<'p> Translator<'p> {
    fn all(&mut self) -> Result<(), String> {
        // Where the repetition began that ends here, if one does.
        let mut before: Option<&str> = None;
        while let Some(first) = self.rest.chars().next() {
            let here = self.rest;
            let mut repetition = None;
            match first {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.group().settle();
                    self.copy(1);
                }
                '[' => self.atom(Self::class)?,
                '*' | '+' | '?' => {
                    self.rest = &here[1..];
                    self.repeat(here, &here[..1], None, before)?;
                    repetition = Some(here);
                }
                '{' => match Count::parse(here) {
                    Some((count, length)) => {
                        self.rest = &here[length..];
                        count.check(&here[..length])?;
                        self.repeat(here, &count.to_string(), Some(&count), before)?;
                        repetition = Some(here);
                    }
                    None => self.literal(),
                },
                '^' | '$' | '.' => self.atom(|this| {
                    this.copy(1);
                    Ok(())
                })?,
                '\\' if here.starts_with("\\Q") => self.quotation(),
                '\\' => self.atom(Self::escape)?,
                _ => self.literal(),
            }
            before = repetition;
        }
        if self.groups.len() > 1 {
            return mistake("missing closing )", self.whole);
        }
        Ok(())
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the whole pattern is never closed")
    }

    /// Copies that many bytes as they are.
    fn copy(&mut self, length: usize) {
        let (head, tail) = self.rest.split_at(length);
        self.out.push_str(head);
        self.rest = tail;
    }

    /// Has something written that a repetition may repeat.
    fn atom(&mut self, write: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        let start = self.out.len();
        write(self)?;
        self.finish(start, 1);
        Ok(())
    }

    /// What was written from `start` on is one piece.
    fn finish(&mut self, start: usize, weight: u32) {
        let end = self.out.len();
        let group = self.group();
        group.settle();
        group.atom = Some(Atom { start, end, weight, is_repeated: false });
    }

    fn literal(&mut self) {
        let start = self.out.len();
        let mut rest = self.rest.chars();
        if let Some(one) = rest.next() {
            self.character(u32::from(one));
        }
        self.rest = rest.as_str();
        self.finish(start, 1);
    }

    /// `\Q…\E`: literals, up to the end if need be.
    fn quotation(&mut self) {
        let quoted = &self.rest[2..];
        let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        self.rest = literal;
        while !self.rest.is_empty() {
            self.literal();
        }
        self.rest = rest;
    }

    /// Writes a character; half a surrogate pair matches nothing.
    fn character(&mut self, number: u32) {
        match char::from_u32(number) {
            Some(one) if one.is_ascii_alphanumeric() || !one.is_ascii() => self.out.push(one),
            Some(_) => self.number(number),
            None => self.out.push_str(class::NOTHING),
        }
    }

    /// Writes a character as its number.
    fn number(&mut self, number: u32) {
        let _ = write!(self.out, "\\x{{{number:X}}}");
    }

    fn open(&mut self) -> Result<(), String> {
        let start = self.out.len();
        if !self.rest.starts_with("(?") {
            self.rest = &self.rest[1..];
            self.out.push_str("(?:");
        } else if !self.name()? && !self.flags()? {
            return Ok(());
        }
        self.groups.push(Group { start, ..Group::default() });
        Ok(())
    }

    /// `(?P<name>` or `(?<name>`: whether there is one.
    fn name(&mut self) -> Result<bool, String> {
        let here = self.rest;
        let is_named = (here.len() > 4 && here.starts_with("(?P<")) || (here.len() > 3 && here.starts_with("(?<"));
        if !is_named {
            return Ok(false);
        }
        let Some((head, rest)) = here.split_once('>') else {
            return mistake("invalid named capture", here);
        };
        let name = head.trim_start_matches("(?").trim_start_matches('P').trim_start_matches('<');
        if name.is_empty() || !name.chars().all(|one| one == '_' || one.is_ascii_alphanumeric()) {
            return mistake("invalid named capture", &here[..=head.len()]);
        }
        self.rest = rest;
        self.out.push_str("(?:");
        Ok(true)
    }

    /// `(?i)`, `(?i-s:`: whether a group begins.
    fn flags(&mut self) -> Result<bool, String> {
        let here = self.rest;
        let mut states = [None; FLAGS.len()];
        let (mut on, mut saw_flag) = (true, true);
        for (at, one) in here.char_indices().skip(2) {
            match one {
                ':' | ')' if saw_flag => {
                    self.rest = &here[at + 1..];
                    self.write_flags(&states, one);
                    return Ok(one == ':');
                }
                '-' if on => (on, saw_flag) = (false, false),
                _ => match FLAGS.iter().position(|flag| *flag == one) {
                    Some(index) => {
                        states[index] = Some(on);
                        saw_flag = true;
                    }
                    None => return mistake("invalid or unsupported Perl syntax", &here[..at + one.len_utf8()]),
                },
            }
        }
        mistake("invalid or unsupported Perl syntax", here)
    }

    fn write_flags(&mut self, states: &[Option<bool>], end: char) {
        let those = |wanted: bool| -> String {
            let set = FLAGS.iter().zip(states).filter(|(_, state)| **state == Some(wanted));
            set.map(|(flag, _)| *flag).collect()
        };
        let (on, off) = (those(true), those(false));
        if end == ')' && on.is_empty() && off.is_empty() {
            return;
        }
        let minus = if off.is_empty() { "" } else { "-" };
        let _ = write!(self.out, "(?{on}{minus}{off}{end}");
    }

    fn close(&mut self) -> Result<(), String> {
        if self.groups.len() == 1 {
            return mistake("unexpected )", self.whole);
        }
        let Some(mut group) = self.groups.pop() else { return Ok(()) };
        group.settle();
        self.copy(1);
        self.finish(group.start, group.weight);
        Ok(())
    }

    /// Repeats the last piece. `here` is the text from the repetition on, `before` that from the one right before it.
    fn repeat(&mut self, here: &str, written: &str, count: Option<&Count>, before: Option<&str>) -> Result<(), String> {
        let mut written = written.to_owned();
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            written.push('?');
        }
        if let Some(before) = before {
            return mistake("invalid nested repetition operator", &before[..before.len() - self.rest.len()]);
        }
        let said = &here[..here.len() - self.rest.len()];
        let group = self.groups.last_mut().expect("the whole pattern is never closed");
        let Some(atom) = group.atom.as_mut() else {
            return mistake("missing argument to repetition operator", said);
        };
        if let Some(count) = count {
            atom.weight = count.weight(atom.weight);
            if count.is_many() && atom.weight > REPEATED_MAX {
                return mistake("invalid repeat count", said);
            }
        }
        if atom.is_repeated {
            self.out.insert(atom.end, ')');
            self.out.insert_str(atom.start, "(?:");
            atom.end += 4;
        }
        // Flags may stand between the two.
        self.out.insert_str(atom.end, &written);
        atom.end += written.len();
        atom.is_repeated = true;
        Ok(())
    }
}

/// `{2}`, `{2,}` or `{2,5}`.
struct Count {
    /// `None`: more than anybody counts.
    least: Option<u32>,
    most: Most,
}

enum Most {
    /// `None`: more than anybody counts.
    Times(Option<u32>),
    Endless,
}

impl Count {
    /// Reads it from the start of a text, with its length; what is not one is a literal brace.
    fn parse(text: &str) -> Option<(Self, usize)> {
        let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
        let (least, most) = match inside.split_once(',') {
            None => (inside, Most::Times(number(inside)?)),
            Some((least, "")) => (least, Most::Endless),
            Some((least, most)) => (least, Most::Times(number(most)?)),
        };
        Some((Self { least: number(least)?, most }, inside.len() + 2))
    }

    fn check(&self, said: &str) -> Result<(), String> {
        let fits = |times: Option<u32>| times.is_some_and(|times| times <= REPEATED_MAX);
        let most_fits = match self.most {
            Most::Endless => true,
            Most::Times(most) => fits(most) && self.least <= most,
        };
        if fits(self.least) && most_fits { Ok(()) } else { mistake("invalid repeat count", said) }
    }

    /// Whether it is more than once.
    fn is_many(&self) -> bool {
        self.least >= Some(2) || matches!(self.most, Most::Times(most) if most >= Some(2))
    }

    /// How often something of that weight is repeated in all.
    fn weight(&self, inner: u32) -> u32 {
        match self.most {
            Most::Times(most) => inner.saturating_mul(most.unwrap_or(u32::MAX)),
            Most::Endless => inner.saturating_mul(self.least.unwrap_or(u32::MAX).max(1)),
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let least = self.least.unwrap_or_default();
        match self.most {
            Most::Times(most) => write!(f, "{{{least},{}}}", most.unwrap_or_default()),
            Most::Endless => write!(f, "{{{least},}}"),
        }
    }
}

/// Digits without leading zeros; of eight and more the inner `None`.
fn number(text: &str) -> Option<Option<u32>> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    (digits && !leading_zero).then(|| if text.len() > 8 { None } else { text.parse().ok() })
}
