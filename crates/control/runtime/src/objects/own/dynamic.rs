//! Owners and finalizers of objects whose kind is known only at run time: trees, as [`Objects<Value>`](crate::Objects) has
//! them.

use concert_api::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{OwnError, Owner, Ownership};

fn key(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

fn references(object: &Value) -> Result<Vec<OwnerReference>, OwnError> {
    let known = serde_json::from_value::<Option<_>>(object["metadata"]["ownerReferences"].clone());
    let why = |error: serde_json::Error| OwnError::Unreadable { object: key(object), why: error.to_string() };
    Ok(known.map_err(why)?.unwrap_or_default())
}

/// As [`set_owner`](super::set_owner).
///
/// # Errors
/// The rule that it would break, or the owners that it has make no sense.
pub fn set_owner(object: &mut Value, owner: &Owner, ownership: Ownership) -> Result<(), OwnError> {
    let mut known = references(object)?;
    owner.join(&mut known, key(object), ownership)?;
    object["metadata"]["ownerReferences"] = json!(known);
    Ok(())
}

/// As [`remove_owner`](super::remove_owner).
pub fn remove_owner(object: &mut Value, owner: &Owner) -> bool {
    let Ok(mut known) = references(object) else { return false };
    let before = known.len();
    known.retain(|reference| !owner.is(reference));
    let was = known.len() < before;
    if was {
        object["metadata"]["ownerReferences"] = json!(known);
    }
    was
}

/// As [`owns`](super::owns).
#[must_use]
pub fn owns(owner: &Owner, object: &Value) -> bool {
    references(object).is_ok_and(|known| owner.is_among(&known))
}

/// As [`controller_of`](super::controller_of).
#[must_use]
pub fn controller_of(object: &Value) -> Option<OwnerReference> {
    references(object).ok()?.into_iter().find(|reference| reference.controller == Some(true))
}

/// As [`has_finalizer`](super::has_finalizer).
#[must_use]
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().any(|name| name == finalizer)
}

/// As [`add_finalizer`](super::add_finalizer).
pub fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let missing = !has_finalizer(object, finalizer);
    if missing {
        match &mut object["metadata"]["finalizers"] {
            Value::Array(names) => names.push(finalizer.into()),
            none => *none = json!([finalizer]),
        }
    }
    missing
}

/// As [`remove_finalizer`](super::remove_finalizer).
pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let has = has_finalizer(object, finalizer);
    if let Some(Value::Array(names)) = object.pointer_mut("/metadata/finalizers") {
        names.retain(|name| name != finalizer);
    }
    has
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Value {
        let metadata = json!({ "namespace": "a", "name": name, "uid": format!("uid-{name}") });
        json!({ "apiVersion": "x.dev/v1", "kind": "File", "metadata": metadata })
    }

    fn owner(name: &str) -> Owner {
        let bytes = object(name).to_string().into();
        Owner::of_object(&concert_api::Object::parse(bytes).unwrap()).unwrap()
    }

    #[test]
    fn trees_have_owners_by_the_same_rules() {
        let (mut child, one, two) = (object("child"), owner("one"), owner("two"));
        set_owner(&mut child, &one, Ownership::Controller).unwrap();
        let refused = set_owner(&mut child, &two, Ownership::Controller).unwrap_err().to_string();
        assert_eq!(refused, "cannot make File two the controller of a/child: File one controls it already");
        set_owner(&mut child, &two, Ownership::Owner).unwrap();
        assert_eq!(
            child["metadata"]["ownerReferences"],
            json!([
                { "apiVersion": "x.dev/v1", "kind": "File", "name": "one", "uid": "uid-one", "controller": true, "blockOwnerDeletion": true },
                { "apiVersion": "x.dev/v1", "kind": "File", "name": "two", "uid": "uid-two" },
            ])
        );
        assert_eq!(controller_of(&child).unwrap().name, "one");
        assert!(owns(&two, &child) && remove_owner(&mut child, &two) && !remove_owner(&mut child, &two));
        child["metadata"]["ownerReferences"] = json!("nobody");
        let odd = set_owner(&mut child, &one, Ownership::Owner).unwrap_err().to_string();
        assert!(odd.starts_with("cannot read the owners of a/child: "), "{odd}");
    }

    #[test]
    fn what_changes_nothing_leaves_the_tree_as_it_is() {
        let mut child = object("child");
        let stranger = Owner { namespace: "b".into(), ..owner("one") };
        assert!(!remove_owner(&mut child, &stranger) && !remove_finalizer(&mut child, "f"));
        assert!(set_owner(&mut child, &stranger, Ownership::Owner).is_err());
        assert_eq!(child, object("child"));
        let mut nothing = json!({});
        assert!(!remove_owner(&mut nothing, &stranger) && !remove_finalizer(&mut nothing, "f"));
        assert_eq!(nothing, json!({}));
    }

    #[test]
    fn trees_have_finalizers() {
        let mut object = object("x");
        assert!(add_finalizer(&mut object, "f") && !add_finalizer(&mut object, "f") && has_finalizer(&object, "f"));
        assert!(remove_finalizer(&mut object, "f") && !remove_finalizer(&mut object, "f"));
    }
}
