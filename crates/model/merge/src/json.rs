//! JSON patch (RFC 6902).

mod diff;

use concert_api::DEPTH_MAX;
use serde_json::{Map, Value};

pub use diff::json_diff;

use crate::PatchError;

/// As the real server allows.
pub(crate) const OPERATIONS_MAX: usize = 10_000;
/// Bytes of JSON that the `copy` operations of one patch may add together; the real server's limit on request bodies.
const COPIED_MAX: usize = 3 * 1024 * 1024;
/// Items of lists that the operations of one patch may push from their places, each counted as often as it moves.
const SHIFTED_MAX: usize = 50_000_000;
/// Values that may be looked at to see how deep they are, each counted as often as it is moved.
const WALKED_MAX: usize = 50_000_000;

/// Applies a JSON patch; on failure the document is untouched.
///
/// Where RFC 6902 and the real server differ, this is the real server: a negative index counts from the end, `replace`
/// of an absent member adds it, `copy` of an absent member copies null, `test` of an absent member equals null, a
/// missing `value` is null, and the whole document can be replaced or tested but not added, removed or moved.
///
/// # Errors
/// The patch is malformed or too large, or an operation does not fit the document.
pub fn json_patch(document: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let operations = decode(patch)?;
    let mut patched =
        Patched { value: document.clone(), depth: depth(document).levels, copied: 0, shifted: 0, walked: 0 };
    for (index, operation) in operations.iter().enumerate() {
        patched.apply(operation).map_err(|why| PatchError::Rejected(index, why))?;
    }
    *document = patched.value;
    Ok(())
}

struct Operation<'a> {
    op: &'a str,
    path: &'a str,
    from: &'a str,
    value: &'a Value,
}

fn decode(patch: &Value) -> Result<Vec<Operation<'_>>, PatchError> {
    let Value::Array(operations) = patch else {
        return Err(unmarshal(patch, "Go value of type []handlers.jsonPatchOp"));
    };
    let operations: Vec<_> = operations.iter().map(decode_operation).collect::<Result<_, _>>()?;
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    Ok(operations)
}

fn decode_operation(operation: &Value) -> Result<Operation<'_>, PatchError> {
    let members = match operation {
        Value::Object(members) => members,
        // Go reads nothing into an operation, too, which is then none that it knows.
        Value::Null => return Ok(Operation { op: "", path: "", from: "", value: &Value::Null }),
        other => return Err(unmarshal(other, "Go value of type handlers.jsonPatchOp")),
    };
    let text = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(unmarshal(other, &format!("Go struct field jsonPatchOp.{name} of type string"))),
    };
    let value = members.get("value").unwrap_or(&Value::Null);
    Ok(Operation { op: text("op")?, path: text("path")?, from: text("from")?, value })
}

fn unmarshal(found: &Value, target: &str) -> PatchError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    PatchError::Malformed(format!("json: cannot unmarshal {found} into {target}"))
}

/// The document being patched.
struct Patched {
    value: Value,
    /// At least the number of its levels.
    depth: usize,
    copied: usize,
    shifted: usize,
    walked: usize,
}

impl Patched {
    fn apply(&mut self, operation: &Operation<'_>) -> Result<(), String> {
        match operation.op {
            "add" => self.add(operation.path, operation.value.clone()),
            "remove" => self.remove(operation.path).map(drop),
            "replace" => self.replace(operation.path, operation.value),
            "move" => {
                let moved = self.remove(operation.from)?;
                self.add(operation.path, moved)
            }
            "copy" => self.copy(operation),
            "test" => self.test(operation.path, operation.value),
            other => Err(format!("no such operation: {other:?}")),
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Result<(), String> {
        let steps = Steps::parse(path)?;
        self.check_depth(steps.parents.len() + 1, &value)?;
        let shifted = match steps.container(&mut self.value)? {
            Container::Object(members) => {
                members.insert(steps.last, value);
                0
            }
            Container::Array(items) => {
                let at = insertion_index(&steps.last, items.len())?;
                items.insert(at, value);
                items.len() - at
            }
        };
        self.check_shifted(shifted)
    }

    fn remove(&mut self, path: &str) -> Result<Value, String> {
        let steps = Steps::parse(path)?;
        let (removed, shifted) = match steps.container(&mut self.value)? {
            Container::Object(members) => {
                (members.remove(&steps.last).ok_or_else(|| format!("nothing to remove at {path:?}"))?, 0)
            }
            Container::Array(items) => {
                let at = index(&steps.last, items.len())?;
                (items.remove(at), items.len() - at)
            }
        };
        self.check_shifted(shifted)?;
        Ok(removed)
    }

    fn replace(&mut self, path: &str, value: &Value) -> Result<(), String> {
        if path.is_empty() {
            if !matches!(value, Value::Object(_) | Value::Array(_)) {
                return Err("a document is an object or a list".to_owned());
            }
            self.depth = 0;
            self.check_depth(0, value)?;
            self.value = value.clone();
            return Ok(());
        }
        let steps = Steps::parse(path)?;
        self.check_depth(steps.parents.len() + 1, value)?;
        match steps.container(&mut self.value)? {
            Container::Object(members) => drop(members.insert(steps.last, value.clone())),
            Container::Array(items) => {
                let at = index(&steps.last, items.len())?;
                items[at] = value.clone();
            }
        }
        Ok(())
    }

    fn copy(&mut self, operation: &Operation<'_>) -> Result<(), String> {
        let steps = Steps::parse(operation.from)?;
        let value = match steps.container(&mut self.value)? {
            Container::Object(members) => members.get(&steps.last).cloned().unwrap_or_default(),
            Container::Array(items) => items[index(&steps.last, items.len())?].clone(),
        };
        self.copied += value.to_string().len();
        if self.copied > COPIED_MAX {
            return Err(format!("the patch copies more than {COPIED_MAX} bytes"));
        }
        self.add(operation.path, value)
    }

    fn test(&mut self, path: &str, expected: &Value) -> Result<(), String> {
        let found = if path.is_empty() {
            &self.value
        } else {
            let steps = Steps::parse(path)?;
            match steps.container(&mut self.value)? {
                Container::Object(members) => members.get(&steps.last).unwrap_or(&Value::Null),
                Container::Array(items) => &items[index(&steps.last, items.len())?],
            }
        };
        if equal(found, expected) { Ok(()) } else { Err(format!("the value at {path:?} differs")) }
    }

    /// Many operations at the beginning of a long list are more work than anybody has time for.
    fn check_shifted(&mut self, items: usize) -> Result<(), String> {
        self.shifted += items;
        if self.shifted > SHIFTED_MAX {
            return Err(format!("the patch makes items of lists change their places more than {SHIFTED_MAX} times"));
        }
        Ok(())
    }

    /// A copy of a document into itself doubles its depth; whatever walks the result recursively must survive it.
    fn check_depth(&mut self, under: usize, value: &Value) -> Result<(), String> {
        let Depth { levels, values } = depth(value);
        self.depth = self.depth.max(under + levels);
        self.walked += values;
        if self.depth > DEPTH_MAX {
            Err(format!("the document would be more than {DEPTH_MAX} levels deep"))
        } else if self.walked > WALKED_MAX {
            Err(format!("the patch moves values more than {WALKED_MAX} times"))
        } else {
            Ok(())
        }
    }
}

/// Numbers are compared by value: 1 and 1.0 are one number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

enum Container<'a> {
    Object(&'a mut Map<String, Value>),
    Array(&'a mut Vec<Value>),
}

/// A JSON pointer, cut into the way to the container and the last step.
struct Steps {
    parents: Vec<String>,
    last: String,
}

impl Steps {
    fn parse(path: &str) -> Result<Self, String> {
        let mut parts = path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
        // What stands before the first slash is not looked at by the real server.
        let _before = parts.next();
        let mut parents: Vec<String> = parts.collect();
        let last = parents.pop().ok_or_else(|| format!("the path {path:?} names no member"))?;
        Ok(Self { parents, last })
    }

    fn container<'a>(&self, root: &'a mut Value) -> Result<Container<'a>, String> {
        let mut at = root;
        for step in &self.parents {
            at = match at {
                Value::Object(members) => members.get_mut(step),
                Value::Array(items) => {
                    let at = index(step, items.len())?;
                    items.get_mut(at)
                }
                _ => None,
            }
            .ok_or_else(|| format!("no parent {step:?}"))?;
        }
        match at {
            Value::Object(members) => Ok(Container::Object(members)),
            Value::Array(items) => Ok(Container::Array(items)),
            _ => Err("the parent is neither an object nor an array".to_owned()),
        }
    }
}

/// The index of an item that is there.
fn index(step: &str, length: usize) -> Result<usize, String> {
    signed(step, length).filter(|at| *at < length).ok_or_else(|| format!("no item {step:?}"))
}

/// The index at which an item can be inserted: `-1` and `-` are the end.
fn insertion_index(step: &str, length: usize) -> Result<usize, String> {
    if step == "-" {
        return Ok(length);
    }
    signed(step, length + 1).filter(|at| *at <= length).ok_or_else(|| format!("no place {step:?}"))
}

fn signed(step: &str, length: usize) -> Option<usize> {
    let number: i64 = step.parse().ok()?;
    if number >= 0 {
        usize::try_from(number).ok()
    } else {
        length.checked_sub(usize::try_from(number.unsigned_abs()).ok()?)
    }
}

/// How deep a value is.
struct Depth {
    /// 0 for a scalar.
    levels: usize,
    /// It itself and all that are in it.
    values: usize,
}

fn depth(value: &Value) -> Depth {
    let mut all = Depth { levels: 0, values: 1 };
    let mut below = |value: &Value| {
        let Depth { levels, values } = depth(value);
        all.levels = all.levels.max(levels + 1);
        all.values += values;
    };
    match value {
        Value::Array(items) => items.iter().for_each(&mut below),
        Value::Object(members) => members.values().for_each(&mut below),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    all
}

#[cfg(test)]
pub(crate) mod tests;
