//! What of an object comes first.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use super::{ParseError, plain_text, said};
use crate::ObjectKey;
use crate::scan::{Malformed, Scanner};

/// What is needed to know whether an object is known already; found without looking at the rest. An
/// [`Object`](super::Object) of the same bytes says the same, if there is one.
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
            if *said(key) == *b"metadata" {
                let at = scanner.position()?;
                glance_at_metadata(bytes, at, &mut found)?;
                return Ok(ControlFlow::Break(()));
            }
            scanner.skim()?;
            Ok(ControlFlow::Continue(()))
        })?;
        let text = |range: &Option<Range<usize>>| {
            let raw = &bytes[range.clone().unwrap_or_default()];
            plain_text(raw).map_or_else(|| Cow::Owned(serde_json::from_slice(raw).unwrap_or_default()), Cow::Borrowed)
        };
        let [name, namespace, uid, resource_version] = &found;
        let key = ObjectKey::new(text(namespace).as_ref(), text(name).as_ref());
        if key.name.is_empty() {
            return Err(ParseError::Missing("metadata.name"));
        }
        Ok(Self { key, uid: text(uid).into(), resource_version: text(resource_version).into() })
    }
}

/// Finds name, namespace, uid and resourceVersion; all four end the search.
fn glance_at_metadata(bytes: &[u8], at: usize, found: &mut [Option<Range<usize>>; 4]) -> Result<(), Malformed> {
    Scanner::new(bytes, at).each_member(|scanner, key| {
        let key = said(key);
        let value = scanner.skim()?;
        let slot = match &*key {
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

    /// A name of a member, perhaps with a character escaped.
    fn member(names: &'static [&'static str]) -> impl Strategy<Value = String> {
        (prop::sample::select([names, &["other"]].concat()), prop::option::of(any::<prop::sample::Index>())).prop_map(
            |(name, escape)| {
                let Some(at) = escape.map(|at| at.index(name.len())) else { return name.to_owned() };
                format!("{}\\u{:04x}{}", &name[..at], name.as_bytes()[at], &name[at + 1..])
            },
        )
    }

    #[test]
    fn a_name_that_is_said_twice_is_none() {
        for bytes in [
            r#"{"metadata":{"name":"a","na\u006de":"b"}}"#,
            r#"{"metadata":{"name":"a"},"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a","uid":"1","namespace":"n","resourceVersion":"1","uid":"2"}}"#,
        ] {
            assert!(matches!(crate::Object::parse(bytes.into()), Err(ParseError::Twice(_))), "{bytes}");
        }
        let escaped = Glance::at(br#"{"m\u0065tadata":{"na\u006de":"a"}}"#).unwrap();
        assert_eq!(&*escaped.key.name, "a");
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

        /// Names of members may be escaped, and said twice: whoever reads both takes them for the same, or has no object.
        #[test]
        fn it_agrees_with_the_whole_object_however_members_are_written(
            root in prop::collection::vec(member(&["kind", "metadata", "spec"]), 0..4),
            metadata in prop::collection::vec(
                (member(&["name", "namespace", "uid", "resourceVersion", "labels"]), "[a-c0-9]{1,2}"), 0..7),
        ) {
            let inner: Vec<String> = metadata.iter().map(|(name, text)| format!("\"{name}\":\"{text}\"")).collect();
            let inner = format!("{{{}}}", inner.join(","));
            let value = |name: &str| if said(name.as_bytes()).as_ref() == b"metadata" { inner.as_str() } else { "{}" };
            let outer: Vec<String> = root.iter().map(|name| format!("\"{name}\":{}", value(name))).collect();
            let bytes = format!("{{{}}}", outer.join(","));
            let (glance, whole) = (Glance::at(bytes.as_bytes()), crate::Object::parse(bytes.clone().into()));
            let tree: serde_json::Value = serde_json::from_str(&bytes).unwrap();
            if let Ok(whole) = whole {
                let glance = glance.unwrap();
                prop_assert_eq!(&glance.key, &whole.key());
                prop_assert_eq!(&glance.uid, &whole.uid());
                prop_assert_eq!(&glance.resource_version, &whole.resource_version());
                prop_assert_eq!(crate::meta::text(&tree, "name"), whole.name(), "as whoever decodes it reads it");
                prop_assert_eq!(crate::meta::text(&tree, "uid"), whole.uid());
                let field = whole.field(&["metadata", "name"]).unwrap();
                prop_assert_eq!(serde_json::from_slice::<String>(field).unwrap(), whole.name());
            }
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Glance::at(&bytes);
        }
    }
}
