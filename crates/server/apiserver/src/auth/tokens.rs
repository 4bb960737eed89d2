//! Static tokens from a file: `token,user,uid[,"group1,group2"]`, one user per line, as the real server reads it.

use std::path::{Path, PathBuf};

use super::{Token, User};

/// More is not a file of tokens.
const FILE_LIMIT: u64 = 1 << 20;

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("cannot read the token file \"{}\": {source}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line does not say what it must.
    #[error("cannot use the token file \"{}\", line {line}: {why}; write token,user,uid or token,user,uid,\"group1,group2\"", .path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// What is wrong; never the token itself.
        why: &'static str,
    },
}

/// The users of a token file.
#[derive(Clone, Debug, Default)]
pub struct TokenFile(Vec<(Token, User)>);

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let failed = |source| TokenFileError::File { path: path.to_owned(), source };
        let size = std::fs::metadata(path).map_err(failed)?.len();
        if size > FILE_LIMIT {
            return Err(failed(std::io::Error::other(format!("it has {size} bytes, more than {FILE_LIMIT}"))));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(&text).map_err(|(line, why)| TokenFileError::Line { path: path.to_owned(), line, why })
    }

    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let mut found: Vec<(Token, User)> = Vec::new();
        for (place, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |why| (place + 1, why);
            let fields = fields(line).ok_or(wrong("a quotation mark does not end"))?;
            let [token, name, uid, groups @ ..] = fields.as_slice() else {
                return Err(wrong("it has fewer than three fields"));
            };
            if token.is_empty() {
                return Err(wrong("the token is empty"));
            }
            if found.iter().any(|(other, _)| other.is(token)) {
                return Err(wrong("the token is on an earlier line, too"));
            }
            let groups = groups.first().map(String::as_str).unwrap_or_default();
            let groups =
                groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned).collect();
            let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
            found.push((Token::new(token.as_str()), user.authenticated()));
        }
        Ok(Self(found))
    }

    /// The user who has this token.
    pub(crate) fn user(&self, sent: &str) -> Option<&User> {
        // Every token is compared, so that the time does not tell which one was nearly right.
        self.0.iter().fold(None, |found, (token, user)| if token.is(sent) { Some(user) } else { found })
    }
}

/// The fields of a line; a field in quotation marks may have commas, and `""` for a quotation mark.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let field = rest.trim_start();
        let after = if let Some(mut quoted) = field.strip_prefix('"') {
            let mut text = String::new();
            loop {
                let (part, after) = quoted.split_once('"')?;
                text.push_str(part);
                match after.strip_prefix('"') {
                    Some(more) => {
                        text.push('"');
                        quoted = more;
                    }
                    None => {
                        fields.push(text);
                        break after;
                    }
                }
            }
        } else {
            let end = field.find(',').unwrap_or(field.len());
            fields.push(field[..end].trim_end().to_owned());
            &field[end..]
        };
        match after.trim_start().strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some(fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_real_server_reads_them() {
        let file = TokenFile::parse("t1,jane,1,\"dev,ops\"\n\nt2,bob,2\nt3,\"a \"\"b\"\"\",3,dev\n").unwrap();
        assert_eq!(file.user("t1").unwrap(), &User { uid: "1".into(), ..User::new("jane", &["dev", "ops"]) });
        assert_eq!(file.user("t2").unwrap().groups, ["system:authenticated"]);
        assert_eq!(file.user("t3").unwrap().name, "a \"b\"");
        for unknown in ["", "t", "t11", "jane"] {
            assert!(file.user(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn wrong_lines_are_named_without_their_token() {
        for (text, line, why) in [
            ("secret,jane", 1, "fewer than three"),
            ("a,b,c\n,jane,1", 2, "empty"),
            ("a,b,c\na,d,e", 2, "earlier"),
            ("a,b,c,\"d", 1, "quotation"),
        ] {
            let (at, what) = TokenFile::parse(text).unwrap_err();
            assert!(at == line && what.contains(why), "{text}: {at} {what}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.csv");
        assert!(TokenFile::read(&path).unwrap_err().to_string().contains("cannot read the token file"));
        std::fs::write(&path, "topsecret").unwrap();
        let message = TokenFile::read(&path).unwrap_err().to_string();
        assert!(message.contains("line 1") && !message.contains("topsecret"), "{message}");
    }
}
