//! Protobuf without a schema, to be looked at and compared: every field that is there, and whether they are in order.
//!
//! A message is an object whose members are the numbers of its fields; what can be text is text. Of the envelope and of
//! metadata the names are known, since revisions are compared by their order.

use concert_api::Time;
use serde_json::{Map, Value, json};

const MAGIC: &[u8] = b"k8s\0";
/// The seconds that are times of our days: 2025 to 2050.
const OUR_DAYS: std::ops::Range<u64> = 1_735_689_600..2_524_608_000;

/// A body in its envelope; `None` if it is none.
#[must_use]
pub fn shown(body: &[u8]) -> Option<Value> {
    let fields = fields(body.strip_prefix(MAGIC)?)?;
    let [(1, Wire::Bytes(kind)), (2, Wire::Bytes(raw)), rest @ ..] = fields.as_slice() else { return None };
    let kind = message(kind)?;
    let name = kind["2"][0].as_str().unwrap_or_default().to_owned();
    let mut object = message(raw)?;
    if !name.starts_with("API") {
        name_metadata(&mut object, &name);
    }
    object["apiVersion"] = kind["1"][0].clone();
    object["kind"] = name.into();
    object["then"] = rest.iter().map(|(number, value)| json!([number, value.shown()])).collect();
    Some(object)
}

/// An event of a watch: what happened, and to what.
#[must_use]
pub fn event(frame: &[u8]) -> Option<(String, Value)> {
    let fields = fields(frame)?;
    let [(1, Wire::Bytes(kind)), (2, Wire::Bytes(object))] = fields.as_slice() else { return None };
    let inner = self::fields(object)?;
    let [(1, Wire::Bytes(raw))] = inner.as_slice() else { return None };
    Some((String::from_utf8_lossy(kind).into_owned(), shown(raw)?))
}

/// The names of what is compared in another way, or looked at.
fn name_metadata(object: &mut Value, kind: &str) {
    let (names, items): (&[(&str, &str)], _) = match kind {
        "Status" => (&[("2", "resourceVersion")], None),
        _ if kind.ends_with("List") => (&[("2", "resourceVersion"), ("3", "continue")], object["2"].as_array_mut()),
        _ => (&[("1", "name"), ("5", "uid"), ("6", "resourceVersion"), ("12", "annotations")], None),
    };
    for item in items.into_iter().flatten() {
        name_metadata(item, "");
    }
    let Some(members) = object.as_object_mut() else { return };
    let Some(Value::Array(mut metadata)) = members.remove("1") else { return };
    let Some(Value::Object(mut metadata)) = metadata.pop() else { return };
    for (number, name) in names {
        let Some(Value::Array(found)) = metadata.remove(*number) else { continue };
        let value: Value = match (*name, found.as_slice()) {
            ("annotations", all) => all.iter().map(|entry| (key(entry), entry["2"][0].clone())).collect(),
            (_, [one]) => one.clone(),
            (_, all) => all.into(),
        };
        metadata.insert((*name).to_owned(), value);
    }
    members.insert("metadata".to_owned(), metadata.into());
}

fn key(entry: &Value) -> String {
    entry["1"][0].as_str().unwrap_or_default().to_owned()
}

enum Wire<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl Wire<'_> {
    fn shown(&self) -> Value {
        match self {
            Self::Number(number) if OUR_DAYS.contains(number) => {
                Time::from_unix_seconds(number.cast_signed()).to_string().into()
            }
            Self::Number(number) => (*number).into(),
            Self::Double(number) => (*number).into(),
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) => text.into(),
                _ => message(bytes).unwrap_or_else(|| format!("{bytes:02x?}").into()),
            },
        }
    }
}

/// The fields of a message, each with all its values; whether they are out of order stands there too.
fn message(bytes: &[u8]) -> Option<Value> {
    let mut members = Map::new();
    let mut last = 0;
    for (number, value) in fields(bytes)? {
        let values = members.entry(number.to_string()).or_insert_with(|| json!([]));
        values.as_array_mut()?.push(value.shown());
        if number < last {
            members.insert("unordered".to_owned(), true.into());
        }
        last = number;
    }
    Some(members.into())
}

fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Double(f64::from_le_bytes(*take(&mut bytes, 8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            _ => return None,
        };
        (tag >> 3 > 0).then(|| found.push((tag >> 3, value)))?;
    }
    Some(found)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes, 1)? else { return None };
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}
