//! What a cache keeps of an object.

use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;

use super::{Object, ParseError, Span, Spans};
use crate::Gvk;
use crate::scan::Care;

impl Object {
    /// Scans one object and keeps what a cache needs, in memory of its own: without `metadata.managedFields`, which only
    /// servers need, and with apiVersion and kind as given (items of lists have none, partial ones have others).
    ///
    /// # Errors
    /// Its strings and brackets do not end, it has no `metadata.name`, or says a part twice that has a span. Anything else
    /// that is wrong within a part is found by whoever decodes that part.
    pub fn lean(bytes: &Bytes, gvk: &Gvk) -> Result<Self, ParseError> {
        let object = Self::scan(bytes.clone(), Care::Skimmed)?;
        let books = Some(object.spans.managed_fields).filter(|span| !span.is_empty());
        let cuts = books.map(|span| object.member(span)).into_iter().collect();
        Ok(object.kept(gvk, cuts))
    }

    /// As [`Object::lean`], with `metadata.managedFields`.
    ///
    /// # Errors
    /// As [`Object::lean`].
    pub fn whole(bytes: &Bytes, gvk: &Gvk) -> Result<Self, ParseError> {
        Ok(Self::scan(bytes.clone(), Care::Skimmed)?.kept(gvk, Vec::new()))
    }

    /// A copy with this kind and without some members.
    fn kept(self, gvk: &Gvk, cuts: Vec<Range<usize>>) -> Self {
        let mut edit = Edit { cuts, head: String::new() };
        if self.kind() != gvk.kind.as_str() || self.api_version() != gvk.api_version().as_str() {
            for span in [self.spans.api_version, self.spans.kind].into_iter().filter(|span| !span.is_empty()) {
                edit.cuts.push(self.member(span));
            }
            let quote = |text: &str| Value::from(text).to_string();
            edit.head = format!("{{\"apiVersion\":{},\"kind\":{},", quote(&gvk.api_version()), quote(&gvk.kind));
        }
        edit.carry_out(self)
    }

    /// The range of a member, given its value's span: from the opening quote of its name.
    fn member(&self, value: Span) -> Range<usize> {
        let before = |end: usize, byte: u8| self.bytes[..end].iter().rposition(|b| *b == byte).unwrap_or(end);
        let close = before(before(value.start as usize, b':'), b'"');
        before(close, b'"')..value.end as usize
    }
}

/// How the bytes of an object become others: ranges to leave out, and what stands at the beginning instead of `{`.
struct Edit {
    cuts: Vec<Range<usize>>,
    head: String,
}

impl Edit {
    /// The edited object. It is not scanned again: spans move with their bytes.
    fn carry_out(mut self, whole: Object) -> Object {
        self.settle(&whole.bytes);
        let opening =
            if self.head.is_empty() { 0 } else { whole.bytes.iter().position(|b| *b == b'{').unwrap_or(0) + 1 };
        let gone: usize = self.cuts.iter().map(ExactSizeIterator::len).sum();
        let mut kept = Vec::with_capacity(self.head.len() + whole.bytes.len() - opening - gone);
        kept.extend_from_slice(self.head.as_bytes());
        let mut from = opening;
        for cut in &self.cuts {
            kept.extend_from_slice(&whole.bytes[from..cut.start]);
            from = cut.end;
        }
        kept.extend_from_slice(&whole.bytes[from..]);
        let spans = whole.spans.each(|span| self.moved(span, opening));
        let mut object = Object { bytes: kept.into(), spans };
        if !self.head.is_empty() {
            object.spans.identify(&self.head);
        }
        object
    }

    /// Joins cuts of members that stand beside each other, and gives each cut one of the commas beside it.
    fn settle(&mut self, bytes: &[u8]) {
        let skip = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.cuts.sort_by_key(|cut| cut.start);
        self.cuts.dedup_by(|next, cut| {
            let beside = bytes[cut.end..next.start].iter().all(|byte| skip(byte) || *byte == b',');
            if beside {
                cut.end = next.end;
            }
            beside
        });
        for cut in &mut self.cuts {
            while bytes.get(cut.end).is_some_and(skip) {
                cut.end += 1;
            }
            if bytes.get(cut.end) == Some(&b',') {
                cut.end += 1;
                continue;
            }
            while cut.start > 0 && skip(&bytes[cut.start - 1]) {
                cut.start -= 1;
            }
            if cut.start > 0 && bytes[cut.start - 1] == b',' {
                cut.start -= 1;
            }
        }
    }

    fn moved(&self, span: Span, opening: usize) -> Span {
        if span.is_empty() {
            return span;
        }
        let (start, end) = (span.start as usize, span.end as usize);
        let (mut before, mut within) = (0, 0);
        for cut in &self.cuts {
            if cut.end <= start {
                before += cut.len();
            } else if cut.start <= start && end <= cut.end {
                return Span::default();
            } else if cut.end <= end {
                within += cut.len();
            }
        }
        let start = start + self.head.len() - opening - before;
        Span::of(&(start..start + span.len() - within))
    }
}

impl Spans {
    /// The same spans, each moved.
    fn each(&self, mut moved: impl FnMut(Span) -> Span) -> Self {
        Self {
            api_version: moved(self.api_version),
            kind: moved(self.kind),
            metadata: moved(self.metadata),
            name: moved(self.name),
            namespace: moved(self.namespace),
            uid: moved(self.uid),
            resource_version: moved(self.resource_version),
            generation: moved(self.generation),
            deletion: moved(self.deletion),
            labels: moved(self.labels),
            annotations: moved(self.annotations),
            finalizers: moved(self.finalizers),
            owners: moved(self.owners),
            managed_fields: moved(self.managed_fields),
            spec: moved(self.spec),
            status: moved(self.status),
        }
    }

    /// Finds apiVersion and kind in a head that names both, in this order.
    fn identify(&mut self, head: &str) {
        let values = |name: &str| head.find(name).map(|at| at + name.len());
        if let (Some(version), Some(kind)) = (values("\"apiVersion\":"), values(",\"kind\":")) {
            self.api_version = Span::of(&(version..kind - ",\"kind\":".len()));
            self.kind = Span::of(&(kind..head.len() - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// A document with members in any order.
    fn write(members: &[(&str, Value)], pretty: bool) -> Bytes {
        let (comma, end) = if pretty { (" ,\n ", "\n}") } else { (",", "}") };
        let texts: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}{end}", texts.join(comma)).into()
    }

    proptest! {
        #[test]
        fn what_is_kept_is_the_object_without_its_books(
            order in Just(vec!["kind", "apiVersion", "metadata", "spec", "status"]).prop_shuffle(),
            has_kind in any::<bool>(), other in any::<bool>(), managed in any::<bool>(), pretty in any::<bool>(),
            others in Just(vec!["a", "managedFields", "name", "z"]).prop_shuffle(),
        ) {
            let (mut inner, mut outer) = (Vec::new(), Vec::new());
            for name in others {
                match name {
                    "managedFields" if managed => inner.push((name, json!([{"manager": "a:\"b", "x": [","]}]))),
                    "managedFields" => {}
                    "name" => inner.push((name, json!("n"))),
                    _ => inner.push((name, json!({"x": ","}))),
                }
            }
            let metadata: Value = serde_json::from_slice(&write(&inner, false)).unwrap();
            let said = if other { ("meta.k8s.io/v1", "PartialObjectMetadata") } else { ("x.dev/v1", "File") };
            for name in order {
                match name {
                    "metadata" => outer.push((name, metadata.clone())),
                    "kind" if has_kind => outer.push((name, said.1.into())),
                    "apiVersion" if has_kind => outer.push((name, said.0.into())),
                    "kind" | "apiVersion" => {}
                    _ => outer.push((name, json!({"managedFields": 1}))),
                }
            }
            let lean = Object::lean(&write(&outer, pretty), &Gvk::new("x.dev", "v1", "File")).unwrap();
            let mut clean = json!({"apiVersion": "x.dev/v1", "kind": "File", "metadata": metadata});
            clean["metadata"].as_object_mut().unwrap().remove("managedFields");
            clean["spec"] = json!({"managedFields": 1});
            clean["status"] = json!({"managedFields": 1});
            prop_assert_eq!(lean.value().unwrap(), clean);
            prop_assert_eq!(&lean, &Object::parse(lean.bytes().clone()).unwrap(), "spans moved as a new scan would find them");
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Object::lean(&bytes.into(), &Gvk::new("", "v1", "A"));
        }
    }
}
