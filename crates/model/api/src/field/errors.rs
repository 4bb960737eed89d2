//! Field errors, as many as anybody reads.

use std::ops::{Deref, DerefMut};

use serde_json::Value;

use super::{Fault, FieldError};

/// Bytes of paths, values and words that a list may have. One body can have a million faults, and each can have a
/// path as long as the body.
const ROOM: usize = 1 << 20;
/// What every error has beside those.
const FRAME: usize = 64;

/// A list of field errors. It has an end: what comes behind a mebibyte of them is not told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
    bytes: usize,
}

impl FieldErrors {
    /// No errors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error, if there is room.
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.bytes += weight(&error);
            self.errors.push(error);
        }
    }

    /// Whether further errors are not taken: there is no need to look for them.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= ROOM
    }

    /// Takes the last error out.
    pub fn pop(&mut self) -> Option<FieldError> {
        self.errors.pop()
    }

    /// Drops the errors that do not fit.
    pub fn retain(&mut self, fits: impl FnMut(&FieldError) -> bool) {
        self.errors.retain(fits);
    }
}

fn weight(error: &FieldError) -> usize {
    let value = match &error.fault {
        Fault::Invalid(value)
        | Fault::TypeInvalid(value)
        | Fault::NotSupported(value, _)
        | Fault::Duplicate(value)
        | Fault::NotFound(value) => size(value),
        Fault::InvalidShown(text) | Fault::DuplicateShown(text) => text.as_ref().map_or(0, String::len),
        Fault::NotSupportedShown(text, _) => text.len(),
        Fault::Required | Fault::Forbidden | Fault::TooLong | Fault::TooMany(_) => 0,
    };
    FRAME + error.field.len() + error.detail.len() + value
}

/// About as many bytes as a value has in JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len(),
        Value::Array(items) => 2 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 2 + members.iter().map(|(name, member)| name.len() + size(member)).sum::<usize>(),
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.errors
    }
}

impl DerefMut for FieldErrors {
    fn deref_mut(&mut self) -> &mut [FieldError] {
        &mut self.errors
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        for error in errors {
            if self.is_full() {
                return;
            }
            self.push(error);
        }
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(errors: T) -> Self {
        let mut all = Self::new();
        all.extend(errors);
        all
    }
}

impl<const N: usize> From<[FieldError; N]> for FieldErrors {
    fn from(errors: [FieldError; N]) -> Self {
        errors.into_iter().collect()
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

impl<const N: usize> PartialEq<[FieldError; N]> for FieldErrors {
    fn eq(&self, other: &[FieldError; N]) -> bool {
        self.errors == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_errors_and_long_ones_have_an_end() {
        let many: FieldErrors = (0..1_000_000).map(|at| FieldError::required(format!("spec.list[{at}]"), "")).collect();
        assert!(many.is_full());
        assert!((10_000..20_000).contains(&many.len()), "{}", many.len());

        let path = "n".repeat(ROOM / 2);
        let long: FieldErrors = (0..1000).map(|_| FieldError::required(path.as_str(), "")).collect();
        assert_eq!(long.len(), 2);

        let value = Value::from(vec!["x"; ROOM]);
        let mut large = FieldErrors::new();
        large.push(FieldError::invalid("a", value, ""));
        large.push(FieldError::required("b", ""));
        assert_eq!(large.len(), 1, "the first is told, however large it is");
    }
}
