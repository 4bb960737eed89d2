//! What of an object comes first.

use std::ops::{ControlFlow, Range};

use super::{ParseError, plain_text};
use crate::ObjectKey;
use crate::scan::{Malformed, Scanner};

/// What is needed to know whether an object is known already; found without looking at the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`; empty if absent.
    pub uid: String,
    /// `metadata.resourceVersion`; empty if absent.
    pub resource_version: String,
}

impl Glance {
    /// Looks at an object as far as needed. Its rest may be anything.
    ///
    /// # Errors
    /// What comes before is not JSON, or there is no `metadata.name`.
    pub fn at(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut found: [Option<Range<usize>>; 4] = [const { None }; 4];
        Scanner::new(bytes, 0).each_member(|scanner, key| {
            if key == b"metadata" {
                let at = scanner.position()?;
                glance_at_metadata(bytes, at, &mut found)?;
                return Ok(ControlFlow::Break(()));
            }
            scanner.value()?;
            Ok(ControlFlow::Continue(()))
        })?;
        let text = |range: &Option<Range<usize>>| {
            let raw = &bytes[range.clone().unwrap_or_default()];
            plain_text(raw).map(str::to_owned).or_else(|| serde_json::from_slice(raw).ok()).unwrap_or_default()
        };
        let [name, namespace, uid, resource_version] = &found;
        let key = ObjectKey::new(text(namespace), text(name));
        if key.name.is_empty() {
            return Err(ParseError::Missing("metadata.name"));
        }
        Ok(Self { key, uid: text(uid), resource_version: text(resource_version) })
    }
}

/// Finds name, namespace, uid and resourceVersion; all four end the search.
fn glance_at_metadata(bytes: &[u8], at: usize, found: &mut [Option<Range<usize>>; 4]) -> Result<(), Malformed> {
    Scanner::new(bytes, at).each_member(|scanner, key| {
        let value = scanner.value()?;
        let slot = match key {
            b"name" => 0,
            b"namespace" => 1,
            b"uid" => 2,
            b"resourceVersion" => 3,
            _ => return Ok(ControlFlow::Continue(())),
        };
        found[slot] = Some(value);
        Ok(if found.iter().all(Option::is_some) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_behind_what_is_needed_is_looked_at() {
        let text = br#"{"kind":"A","metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"7"!"#;
        let glance = Glance::at(text).unwrap();
        assert_eq!((glance.key.to_string().as_str(), &*glance.uid, &*glance.resource_version), ("s/n", "u", "7"));
        assert_eq!(Glance::at(br#"{"metadata":{"uid":"u"}}"#), Err(ParseError::Missing("metadata.name")));
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_whole_object(name in "[a-z\"\\\\é]{1,5}", namespace in "[a-z]{0,3}", uid in "[a-z]{0,3}", rest in any::<bool>()) {
            let mut object = serde_json::json!({"apiVersion": "v1", "metadata": {"name": name, "labels": {"name": "x"}}});
            for (field, text) in [("namespace", namespace), ("uid", uid)] {
                if !text.is_empty() { object["metadata"][field] = text.into(); }
            }
            if rest { object["metadata"]["resourceVersion"] = "9".into(); }
            let bytes = object.to_string();
            let (glance, whole) = (Glance::at(bytes.as_bytes()).unwrap(), crate::Object::parse(bytes.into()).unwrap());
            prop_assert_eq!(glance.key, whole.key());
            prop_assert_eq!(glance.uid, whole.uid());
            prop_assert_eq!(glance.resource_version, whole.resource_version());
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Glance::at(&bytes);
        }
    }
}
