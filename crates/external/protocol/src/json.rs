//! Objects as `google.protobuf.Struct` and back.
//!
//! A Struct has one kind of number, a double. What went out as an integer must come back as one, so an integral
//! double becomes a JSON integer again (as protojson prints it). Integers beyond 2^53 are rounded on the way out: the
//! reconciler never takes unchanged fields from a reply, so the rounding stays on the wire.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as Wire};
use serde_json::{Map, Number, Value};

/// How deep an object may be nested: protobuf decoders in several languages stop at 100 messages, and a level of a
/// Struct takes three.
pub const MAX_DEPTH: usize = 32;

/// An object that cannot cross the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructError {
    /// The root is not an object.
    #[error("cannot convert {found}: a resource must be an object")]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("cannot convert {path}: nested deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Where.
        path: String,
    },
    /// NaN or an infinity, which JSON does not have.
    #[error("cannot convert {path}: {number} is not a JSON number")]
    NotFinite {
        /// Where.
        path: String,
        /// `NaN`, `inf` or `-inf`.
        number: String,
    },
}

impl StructError {
    /// The path of the field at fault; empty for the root.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::NotAnObject { .. } => "",
            Self::TooDeep { path } | Self::NotFinite { path, .. } => path,
        }
    }
}

/// A JSON object as a Struct.
///
/// # Errors
/// If `value` is not an object, or is nested deeper than [`MAX_DEPTH`].
pub fn to_struct(value: &Value) -> Result<Struct, StructError> {
    match value {
        Value::Object(fields) => object_to_wire(fields, &Path::Root, 1),
        Value::Null => Err(StructError::NotAnObject { found: "null" }),
        Value::Bool(_) => Err(StructError::NotAnObject { found: "a boolean" }),
        Value::Number(_) => Err(StructError::NotAnObject { found: "a number" }),
        Value::String(_) => Err(StructError::NotAnObject { found: "a string" }),
        Value::Array(_) => Err(StructError::NotAnObject { found: "an array" }),
    }
}

/// A Struct as a JSON object.
///
/// # Errors
/// If it holds NaN or an infinity, or is nested deeper than [`MAX_DEPTH`].
pub fn to_json(fields: &Struct) -> Result<Value, StructError> {
    struct_to_json(fields, &Path::Root, 1)
}

/// Where we are; becomes text only if there is something to say.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn text(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(Path::Root, name) => (*name).to_owned(),
            Self::Field(parent, name) => format!("{}.{name}", parent.text()),
            Self::Index(parent, index) => format!("{}[{index}]", parent.text()),
        }
    }

    fn check(&self, depth: usize) -> Result<(), StructError> {
        if depth > MAX_DEPTH { Err(StructError::TooDeep { path: self.text() }) } else { Ok(()) }
    }
}

fn object_to_wire(fields: &Map<String, Value>, path: &Path<'_>, depth: usize) -> Result<Struct, StructError> {
    path.check(depth)?;
    let convert =
        |(name, value): (&String, &Value)| Ok((name.clone(), value_to_wire(value, &Path::Field(path, name), depth)?));
    Ok(Struct { fields: fields.iter().map(convert).collect::<Result<_, _>>()? })
}

fn value_to_wire(value: &Value, path: &Path<'_>, depth: usize) -> Result<Wire, StructError> {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(yes) => Kind::BoolValue(*yes),
        // Every JSON number that serde_json holds has a nearest double.
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(array_to_wire(items, path, depth + 1)?),
        Value::Object(fields) => Kind::StructValue(object_to_wire(fields, path, depth + 1)?),
    };
    Ok(Wire { kind: Some(kind) })
}

fn array_to_wire(items: &[Value], path: &Path<'_>, depth: usize) -> Result<ListValue, StructError> {
    path.check(depth)?;
    let convert = |(index, item)| value_to_wire(item, &Path::Index(path, index), depth);
    Ok(ListValue { values: items.iter().enumerate().map(convert).collect::<Result<_, _>>()? })
}

fn struct_to_json(fields: &Struct, path: &Path<'_>, depth: usize) -> Result<Value, StructError> {
    path.check(depth)?;
    let convert =
        |(name, value): (&String, &Wire)| Ok((name.clone(), wire_to_json(value, &Path::Field(path, name), depth)?));
    Ok(Value::Object(fields.fields.iter().map(convert).collect::<Result<_, _>>()?))
}

fn wire_to_json(value: &Wire, path: &Path<'_>, depth: usize) -> Result<Value, StructError> {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Ok(Value::Null),
        Some(Kind::BoolValue(yes)) => Ok(Value::Bool(*yes)),
        Some(Kind::NumberValue(number)) => number_to_json(*number, path),
        Some(Kind::StringValue(text)) => Ok(Value::String(text.clone())),
        Some(Kind::StructValue(fields)) => struct_to_json(fields, path, depth + 1),
        Some(Kind::ListValue(list)) => list_to_json(list, path, depth + 1),
    }
}

fn list_to_json(list: &ListValue, path: &Path<'_>, depth: usize) -> Result<Value, StructError> {
    path.check(depth)?;
    let convert = |(index, item)| wire_to_json(item, &Path::Index(path, index), depth);
    Ok(Value::Array(list.values.iter().enumerate().map(convert).collect::<Result<_, _>>()?))
}

/// An integral double within the range of 64-bit integers becomes an integer, as protojson prints it.
fn number_to_json(number: f64, path: &Path<'_>) -> Result<Value, StructError> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    const TWO_64: f64 = 18_446_744_073_709_551_616.0;
    if number.fract() == 0.0 && (-TWO_63..TWO_64).contains(&number) {
        let integer = if number < TWO_63 { Number::from(number as i64) } else { Number::from(number as u64) };
        return Ok(Value::Number(integer));
    }
    let not_finite = || StructError::NotFinite { path: path.text(), number: number.to_string() };
    Number::from_f64(number).map(Value::Number).ok_or_else(not_finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message;
    use serde_json::json;

    fn nested(depth: usize) -> Value {
        (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    fn wire(kind: Kind) -> Struct {
        Struct { fields: [("x".to_owned(), Wire { kind: Some(kind) })].into() }
    }

    #[test]
    fn integers_stay_integers() {
        for object in [json!({"a": 1}), json!({"a": -1}), json!({"a": 1u64 << 53}), json!({"a": 1.5}), json!({"a": 0})]
        {
            assert_eq!(to_json(&to_struct(&object).unwrap()).unwrap(), object);
        }
        assert_eq!(to_json(&wire(Kind::NumberValue(2f64.powi(63)))).unwrap(), json!({"x": 9223372036854775808u64}));
        assert_eq!(to_json(&wire(Kind::NumberValue(1e300))).unwrap(), json!({"x": 1e300}));
        assert_eq!(to_json(&wire(Kind::NumberValue(-0.0))).unwrap(), json!({"x": 0}));
    }

    #[test]
    fn what_json_lacks_is_an_error_that_names_the_path() {
        for (number, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")] {
            let list = ListValue { values: vec![Wire::default(), Wire { kind: Some(Kind::NumberValue(number)) }] };
            let error = to_json(&wire(Kind::ListValue(list))).unwrap_err();
            assert_eq!(error.to_string(), format!("cannot convert x[1]: {text} is not a JSON number"));
        }
        assert!(to_struct(&json!([1])).is_err());
    }

    #[test]
    fn thirty_two_levels_pass_and_the_next_is_named() {
        let deepest = to_struct(&nested(MAX_DEPTH)).unwrap();
        assert_eq!(to_json(&deepest).unwrap(), nested(MAX_DEPTH));
        let error = to_struct(&nested(MAX_DEPTH + 1)).unwrap_err();
        assert_eq!(error.path(), vec!["a"; MAX_DEPTH].join("."));
        // The deepest that we allow passes a decoder that stops at 100 messages, inside a session's envelope.
        let request = crate::external::Request {
            named: String::new(),
            op: Some(crate::external::request::Op::Observe(crate::external::ObserveRequest {
                resource: Some(deepest),
                create_token: String::new(),
            })),
        };
        assert_eq!(crate::external::Request::decode(&*request.encode_to_vec()).unwrap(), request);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-(1i64 << 53)..(1i64 << 53)).prop_map(Value::from),
            any::<f64>()
                .prop_filter("finite and not integral", |x| x.is_finite() && x.fract() != 0.0)
                .prop_map(Value::from),
            ".*".prop_map(Value::String),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::btree_map(".*", inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn objects_survive_the_wire(fields in prop::collection::btree_map(".*", any_json(), 0..6)) {
            let object = Value::Object(fields.into_iter().collect());
            let bytes = to_struct(&object).unwrap().encode_to_vec();
            prop_assert_eq!(to_json(&Struct::decode(&*bytes).unwrap()).unwrap(), object);
        }

        #[test]
        fn large_integers_are_rounded_but_never_fail(number: u64) {
            let object = json!({ "n": number });
            let back = to_json(&to_struct(&object).unwrap()).unwrap();
            prop_assert_eq!(back["n"].as_f64(), Some(number as f64));
        }

        #[test]
        fn no_double_panics(bits: u64) {
            let _ = to_json(&wire(Kind::NumberValue(f64::from_bits(bits))));
        }
    }
}
