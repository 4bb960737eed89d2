//! The lines that the driver and the processes it started exchange.
//!
//! The driver sends a line of words; the process carries it out and answers with one line: `ok name=number …`, or `error`
//! and why. A process says `ok` once by itself, when it has started, and ends when its input ends.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};

/// The words of a line, one after the other.
#[derive(Debug)]
pub struct Words<'a> {
    line: &'a str,
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    /// The words of `line`.
    #[must_use]
    pub fn of(line: &'a str) -> Self {
        Self { line, words: line.split_whitespace() }
    }

    /// The next word.
    ///
    /// # Errors
    /// There is none.
    pub fn text(&mut self) -> Result<&'a str> {
        self.words.next().ok_or_else(|| anyhow!("a word is missing at the end of \"{}\"", self.line))
    }

    /// The next word as a number.
    ///
    /// # Errors
    /// There is none, or it is no number.
    pub fn number<N: FromStr>(&mut self) -> Result<N> {
        let word = self.text()?;
        word.parse().map_err(|_| anyhow!("\"{word}\" in \"{}\" is not a number that fits", self.line))
    }
}

/// What a process answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply(BTreeMap<String, u64>);

impl Reply {
    /// With a further number.
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// The number of this name.
    ///
    /// # Errors
    /// The process did not say it.
    pub fn get(&self, name: &str) -> Result<u64> {
        self.0.get(name).copied().with_context(|| format!("\"{name}\" is missing in \"{self}\""))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The process reported an error, or the line is not an answer.
    pub fn read(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ok") => {}
            Some("error") => bail!("{}", line.trim_start_matches("error").trim()),
            _ => bail!("\"{line}\" is no answer"),
        }
        let pair = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        words
            .map(|word| pair(word).with_context(|| format!("\"{word}\" is not name=number")))
            .collect::<Result<_>>()
            .map(Self)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ok")?;
        self.0.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// An answer to a line that was carried out, or was not.
#[must_use]
pub fn line_of(result: Result<Reply>) -> String {
    match result {
        Ok(reply) => reply.to_string(),
        Err(error) => format!("error {}", format!("{error:#}").replace('\n', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let reply = Reply::default().with("objects", 20_000).with("p99", 7);
        assert_eq!(Reply::read(&line_of(Ok(reply.clone()))).unwrap(), reply);
        assert_eq!(reply.get("p99").unwrap(), 7);
        assert!(reply.get("p50").unwrap_err().to_string().contains("p50"));
        assert_eq!(Reply::read(&line_of(Err(anyhow!("no\nserver")))).unwrap_err().to_string(), "no server");
        assert!(Reply::read("what").is_err() && Reply::read("ok x").is_err());
    }

    #[test]
    fn words_that_are_missing_or_wrong_are_named() {
        let mut words = Words::of("pods ten");
        assert_eq!(words.text().unwrap(), "pods");
        assert!(words.number::<u32>().unwrap_err().to_string().contains("\"ten\""));
        assert!(words.text().unwrap_err().to_string().contains("pods ten"));
    }
}
