//! What is kept of inputs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// An input, and what it is called.
pub struct Kept {
    /// The name of its file, or the line in which it stands.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// All that is kept for a target: what somebody wrote, then what was found.
///
/// # Errors
/// A file cannot be read.
pub fn kept(target: &str) -> Result<Vec<Kept>> {
    let mut all = written(target)?;
    all.extend(found(target)?);
    Ok(all)
}

/// What somebody wrote, by name.
///
/// # Errors
/// A file cannot be read.
pub fn written(target: &str) -> Result<Vec<Kept>> {
    let folder = root().join(target);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
        all.push(Kept { name, bytes });
    }
    all.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(all)
}

fn found(target: &str) -> Result<Vec<Kept>> {
    let file = found_file(target);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let read = |(number, line): (usize, &str)| {
        let name = format!("{target}.found:{}", number + 1);
        let bytes = unescaped(line).with_context(|| format!("cannot read {name}"))?;
        Ok(Kept { name, bytes })
    };
    text.lines().enumerate().map(read).collect()
}

/// Writes all that is kept for a target into files of their own, as libFuzzer wants them.
///
/// # Errors
/// A file cannot be read or written.
pub fn unpack(target: &str, directory: &Path) -> Result<usize> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let kept = kept(target)?;
    for Kept { name, bytes } in &kept {
        let file = directory.join(name.replace(':', "-"));
        std::fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(kept.len())
}

/// Keeps the inputs that are files of a directory, and nothing else but what somebody wrote.
///
/// # Errors
/// A file cannot be read or written.
pub fn pack(target: &str, directory: &Path) -> Result<usize> {
    let written: Vec<Vec<u8>> = written(target)?.into_iter().map(|kept| kept.bytes).collect();
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let file = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if !bytes.is_empty() && !written.contains(&bytes) {
            found.push(bytes);
        }
    }
    found.sort_by(|left, right| left.len().cmp(&right.len()).then_with(|| left.cmp(right)));
    found.dedup();
    let lines: String = found.iter().map(|bytes| format!("{}\n", escaped(bytes))).collect();
    let file = found_file(target);
    std::fs::write(&file, lines).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(found.len())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn found_file(target: &str) -> PathBuf {
    root().join(format!("{target}.found"))
}

/// Bytes in one line of text. Quotes, of which documents are full, stay what they are.
fn escaped(bytes: &[u8]) -> String {
    let mut line = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'"' | b'\'' => line.push(char::from(*byte)),
            _ => line.extend(byte.escape_ascii().map(char::from)),
        }
    }
    line
}

fn unescaped(line: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut letters = line.bytes();
    while let Some(letter) = letters.next() {
        bytes.push(match letter {
            b'\\' => match letters.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'\\') => b'\\',
                Some(b'x') => {
                    let mut digit = || letters.next().and_then(|digit| char::from(digit).to_digit(16));
                    let (Some(high), Some(low)) = (digit(), digit()) else { anyhow::bail!("\\x wants two digits") };
                    u8::try_from(16 * high + low).context("two digits are a byte")?
                }
                other => anyhow::bail!("\\ stands before {other:?}"),
            },
            letter => {
                ensure!(letter.is_ascii(), "a line has letters beyond ASCII");
                letter
            }
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_one_line_and_come_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let line = escaped(&bytes);
        assert!(line.is_ascii() && !line.contains('\n'));
        assert_eq!(unescaped(&line).unwrap(), bytes);
        assert_eq!(escaped(b"0\n{\"a\": 'b\\n'}"), r#"0\n{"a": 'b\\n'}"#);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for line in [r"\", r"\x1", r"\xzz", r"\q", "ä"] {
            assert!(unescaped(line).is_err(), "{line}");
        }
    }
}
