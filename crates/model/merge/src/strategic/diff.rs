//! Writing the strategic merge patch between two documents.

use std::collections::BTreeSet;

use concert_schema::Schema;
use serde_json::{Map, Value, json};

use super::place::Place;
use super::{DELETE, DELETE_FROM_LIST, DIRECTIVE, Members, REPLACE, RETAIN_KEYS, SET_ORDER};
use crate::error::StrategicError;

/// The strategic merge patch that turns `old` into `new`, objects of a built-in kind; `None` if they are equal. Lists that
/// the schema merges are told item by item, so that what others put beside them stays.
///
/// As with [`merge_diff`](crate::merge_diff), a null is written as the removal of its member.
///
/// # Errors
/// A document has a member that the kind does not have.
pub fn strategic_merge_diff(
    old: &Value,
    new: &Value,
    schema: &Schema,
    kind: &str,
) -> Result<Option<Value>, StrategicError> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return Ok((old != new).then(|| new.clone()));
    };
    let changes = of_members(before, after, Place::root(schema, kind))?;
    Ok(Some(Value::Object(changes)).filter(|changes| *changes != json!({})))
}

fn of_members(old: &Members, new: &Members, place: Place<'_>) -> Result<Members, StrategicError> {
    let mut changes = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(Value::Object(before)) if value.is_object() => {
                changes.insert(key.clone(), of_object(before, value, place.field(key)?)?);
            }
            Some(Value::Array(before)) if value.is_array() => of_list(&mut changes, key, before, value, place)?,
            _ => {
                changes.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(changes)
}

fn of_object(old: &Members, new: &Value, place: Place<'_>) -> Result<Value, StrategicError> {
    let Value::Object(members) = new else { return Ok(new.clone()) };
    if place.strategy()? == REPLACE {
        return Ok(new.clone());
    }
    let has_objects = members.values().any(|member| member.is_object() || member.is_array());
    if place.go_kind() != "struct" && has_objects {
        let mut whole = members.clone();
        whole.insert(DIRECTIVE.to_owned(), REPLACE.into());
        return Ok(Value::Object(whole));
    }
    let mut changes = of_members(old, members, place)?;
    if place.retains_keys() {
        changes.insert(RETAIN_KEYS.to_owned(), members.keys().cloned().collect());
    }
    Ok(Value::Object(changes))
}

fn of_list(
    changes: &mut Members,
    key: &str,
    old: &[Value],
    new: &Value,
    place: Place<'_>,
) -> Result<(), StrategicError> {
    let Value::Array(items) = new else { return Ok(()) };
    let field = place.field(key)?;
    if field.strategy()? != "merge" {
        changes.insert(key.to_owned(), new.clone());
        return Ok(());
    }
    let merge_key = field.merge_key();
    let set = |items: &[Value]| keys(items, merge_key);
    match (set(old), set(items)) {
        (Some(before), Some(after)) if merge_key.is_empty() => {
            scalars(changes, key, items, &before, &after);
        }
        (Some(before), Some(after)) => {
            let of_each = of_items(old, items, &before, &after, merge_key, field.items(place)?)?;
            let order = items.iter().map(|item| json!({ merge_key: item[merge_key] })).collect();
            changes.insert(format!("{SET_ORDER}/{key}"), order);
            if !of_each.is_empty() {
                changes.insert(key.to_owned(), of_each.into());
            }
        }
        // Items that cannot be told apart are replaced all together.
        _ => {
            let whole = [json!({ DIRECTIVE: REPLACE })].into_iter().chain(items.iter().cloned());
            changes.insert(key.to_owned(), whole.collect());
        }
    }
    Ok(())
}

/// What tells the items of a list apart, as text; `None` if something does not.
fn keys(items: &[Value], merge_key: &str) -> Option<BTreeSet<String>> {
    let key = |item: &Value| match item {
        Value::Object(members) if !merge_key.is_empty() => members.get(merge_key).map(ToString::to_string),
        Value::Object(_) | Value::Array(_) | Value::Null => None,
        scalar if merge_key.is_empty() => Some(scalar.to_string()),
        _ => None,
    };
    let keys: Option<BTreeSet<String>> = items.iter().map(key).collect();
    keys.filter(|keys| keys.len() == items.len())
}

fn scalars(changes: &mut Members, key: &str, new: &[Value], before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let gone: Vec<Value> = before.difference(after).filter_map(|text| serde_json::from_str(text).ok()).collect();
    let added: Vec<Value> = new.iter().filter(|item| !before.contains(&item.to_string())).cloned().collect();
    if !gone.is_empty() {
        changes.insert(format!("{DELETE_FROM_LIST}/{key}"), gone.into());
    }
    if !added.is_empty() {
        changes.insert(key.to_owned(), added.into());
    }
    changes.insert(format!("{SET_ORDER}/{key}"), new.to_vec().into());
}

/// What happened to each item: changed and new ones in the new order, then those that are gone.
fn of_items(
    old: &[Value],
    new: &[Value],
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
    merge_key: &str,
    place: Place<'_>,
) -> Result<Vec<Value>, StrategicError> {
    let mut all = Vec::new();
    for item in new {
        if !before.contains(&item[merge_key].to_string()) {
            all.push(item.clone());
            continue;
        }
        let known = old.iter().find(|known| known[merge_key] == item[merge_key]);
        let (Some(Value::Object(known)), Value::Object(members)) = (known, item) else { continue };
        let mut changes = of_members(known, members, place)?;
        if !changes.is_empty() {
            changes.insert(merge_key.to_owned(), item[merge_key].clone());
            all.push(Value::Object(changes));
        }
    }
    let gone = old.iter().filter(|item| !after.contains(&item[merge_key].to_string()));
    all.extend(gone.map(|item| json!({ DIRECTIVE: DELETE, merge_key: item[merge_key] })));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategic_merge_patch;
    use concert_schema::Builtin;
    use proptest::prelude::*;

    fn schema(group: &str, kind: &str) -> &'static Schema {
        &Builtin::find(&concert_api::Gvk::new(group, "v1", kind)).unwrap().schema
    }

    fn diff(old: &Value, new: &Value) -> Option<Value> {
        strategic_merge_diff(old, new, schema("", "Pod"), "Pod").unwrap()
    }

    #[test]
    fn lists_are_told_item_by_item() {
        let container = |name: &str, image: &str| json!({"name": name, "image": image});
        let old = json!({"spec": {"containers": [container("a", "1"), container("b", "1"), container("c", "1")]}});
        let new = json!({"spec": {"containers": [container("c", "1"), container("a", "2"), container("d", "1")]}});
        let expected = json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "d"}],
            "containers": [{"name": "a", "image": "2"}, container("d", "1"), {"$patch": "delete", "name": "b"}],
        }});
        assert_eq!(diff(&old, &new), Some(expected));
        assert_eq!(diff(&old, &old), None);
    }

    #[test]
    fn members_of_a_union_are_retained_by_name() {
        let (old, new) = (
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        );
        let patch = strategic_merge_diff(&old, &new, schema("apps", "Deployment"), "Deployment").unwrap().unwrap();
        assert_eq!(patch["spec"]["strategy"]["$retainKeys"], json!(["type"]));
        let mut patched =
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 7}}, "replicas": 3}});
        strategic_merge_patch(&mut patched, &patch, schema("apps", "Deployment"), "Deployment").unwrap();
        assert_eq!(patched, json!({"spec": {"strategy": {"type": "Recreate"}, "replicas": 3}}));
    }

    #[test]
    fn a_member_that_the_kind_does_not_have_is_named() {
        let error = strategic_merge_diff(
            &json!({"spec": {"x": {}}}),
            &json!({"spec": {"x": {"y": 1}}}),
            schema("", "Pod"),
            "Pod",
        );
        assert!(error.unwrap_err().public_message().contains("for the json field \"x\""));
    }

    fn pod() -> impl Strategy<Value = Value> {
        let names = || prop::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle();
        let text = || "[xy]{1}";
        let environment = (names(), text()).prop_map(|(names, value)| {
            names.iter().map(|name| json!({"name": name, "value": value})).collect::<Vec<_>>()
        });
        let container = (environment, text(), prop::collection::vec(text(), 0..3), prop::bool::ANY);
        let containers = (names(), prop::collection::vec(container, 3)).prop_map(|(names, bodies)| {
            let one = |(name, (env, image, command, ports)): (&&str, &(Vec<Value>, String, Vec<String>, bool))| {
                let mut container = json!({"name": name, "image": image, "command": command, "env": env});
                if *ports {
                    container["ports"] = json!([{"containerPort": 1, "name": image}]);
                }
                container
            };
            names.iter().zip(&bodies).map(one).collect::<Vec<_>>()
        });
        let labels = prop::collection::btree_map("[ab]", "[xy]", 0..3);
        (containers, names(), labels, prop::option::of("[xy]"), prop::collection::vec("[ab]", 0..3)).prop_map(
            |(containers, finalizers, labels, node, hosts)| {
                let mut pod = json!({
                    "metadata": {"finalizers": finalizers, "labels": labels},
                    "spec": {"containers": containers, "hostAliases": [{"ip": "1", "hostnames": hosts}]},
                });
                if let Some(node) = node {
                    pod["spec"]["nodeName"] = node.into();
                }
                pod
            },
        )
    }

    proptest! {
        #[test]
        fn the_patch_turns_the_old_into_the_new(old in pod(), new in pod()) {
            let mut patched = old.clone();
            if let Some(patch) = diff(&old, &new) {
                strategic_merge_patch(&mut patched, &patch, schema("", "Pod"), "Pod").unwrap();
            }
            prop_assert_eq!(patched, new);
        }
    }
}
