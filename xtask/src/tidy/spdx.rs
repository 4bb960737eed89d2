//! SPDX licence expressions: `OR` binds weaker than `AND`, `AND` weaker than `WITH`.

/// Whether a user may pick licences from `expression` that are all accepted. `accepts` is asked about one licence
/// and the exception that goes with it. The `/` of old manifests means `OR`.
pub(super) fn satisfied(expression: &str, accepts: &dyn Fn(&str, Option<&str>) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { tokens: spaced.split_whitespace().collect(), at: 0, accepts };
    let result = parser.any_of()?;
    match parser.peek() {
        None => Ok(result),
        Some(token) => Err(format!("unexpected `{token}`")),
    }
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    accepts: &'a dyn Fn(&str, Option<&str>) -> bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    /// Takes the next token if it is `token`.
    fn take(&mut self, token: &str) -> bool {
        let is_next = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(token));
        self.at += usize::from(is_next);
        is_next
    }

    fn any_of(&mut self) -> Result<bool, String> {
        let mut result = self.all_of()?;
        while self.take("OR") {
            result |= self.all_of()?;
        }
        Ok(result)
    }

    fn all_of(&mut self) -> Result<bool, String> {
        let mut result = self.one()?;
        while self.take("AND") {
            result &= self.one()?;
        }
        Ok(result)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let result = self.any_of()?;
            return if self.take(")") { Ok(result) } else { Err("a `)` is missing".to_owned()) };
        }
        let licence = self.name("a licence")?;
        let exception = if self.take("WITH") { Some(self.name("an exception")?) } else { None };
        Ok((self.accepts)(licence, exception))
    }

    fn name(&mut self, what: &str) -> Result<&'a str, String> {
        const RESERVED: &[&str] = &["AND", "OR", "WITH", "(", ")"];
        let next = self.peek().ok_or_else(|| format!("{what} is missing at the end"))?;
        if RESERVED.iter().any(|word| word.eq_ignore_ascii_case(next)) {
            return Err(format!("{what} is missing before `{next}`"));
        }
        self.at += 1;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str) -> Result<bool, String> {
        satisfied(expression, &|id, exception| {
            matches!((id, exception), ("MIT" | "ISC", None) | ("Apache-2.0", None | Some("LLVM-exception")))
        })
    }

    #[test]
    fn one_licence() {
        assert_eq!(check("MIT"), Ok(true));
        assert_eq!(check("MPL-2.0"), Ok(false));
    }

    #[test]
    fn and_binds_tighter_than_or() {
        assert_eq!(check("MPL-2.0 AND MIT OR ISC"), Ok(true));
        assert_eq!(check("MPL-2.0 AND (MIT OR ISC)"), Ok(false));
        assert_eq!(check("ISC OR MPL-2.0 AND MIT"), Ok(true));
        assert_eq!(check("(MIT OR MPL-2.0) AND ISC"), Ok(true));
    }

    #[test]
    fn exceptions_belong_to_their_licence() {
        assert_eq!(check("Apache-2.0 WITH LLVM-exception"), Ok(true));
        assert_eq!(check("Apache-2.0 WITH Classpath-exception-2.0"), Ok(false));
        assert_eq!(check("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"), Ok(true));
    }

    #[test]
    fn old_manifests_separate_with_a_slash() {
        assert_eq!(check("MIT/MPL-2.0"), Ok(true));
        assert_eq!(check("GPL-2.0 / MPL-2.0"), Ok(false));
    }

    #[test]
    fn nonsense_is_an_error_that_says_where() {
        assert_eq!(check(""), Err("a licence is missing at the end".to_owned()));
        assert_eq!(check("MIT AND"), Err("a licence is missing at the end".to_owned()));
        assert_eq!(check("OR MIT"), Err("a licence is missing before `OR`".to_owned()));
        assert_eq!(check("(MIT"), Err("a `)` is missing".to_owned()));
        assert_eq!(check("MIT ISC"), Err("unexpected `ISC`".to_owned()));
    }
}
