//! Whose an object is, and what keeps it: owner references and finalizers, of typed objects, and in [`dynamic`] the same of
//! trees.

pub mod dynamic;

use concert_api::{Gvk, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Why an object cannot get this owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnError {
    /// There may be only one.
    #[error("cannot make {owner} the controller of {object}: {other} controls it already")]
    Controlled {
        /// The object.
        object: ObjectKey,
        /// Who was to become the controller.
        owner: String,
        /// Who is.
        other: String,
    },
    /// Who lives in a namespace cannot own outside of it: the garbage collector would not find it there.
    #[error(
        "cannot make {owner} of namespace \"{namespace}\" an owner of {object}: owners are in the same namespace, or in none"
    )]
    OtherNamespace {
        /// The object.
        object: ObjectKey,
        /// The owner.
        owner: String,
        /// The owner's namespace.
        namespace: String,
    },
    /// An owner is known by its uid.
    #[error("cannot make {0} an owner: it has no uid or no name; read it from the server first")]
    Unknown(String),
    /// Its metadata is not what metadata is.
    #[error("cannot read the owners of {object}: {why}")]
    Unreadable {
        /// The object.
        object: ObjectKey,
        /// What is wrong with them.
        why: String,
    },
}

/// What an owner is to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The one that manages it; its deletion waits for the object's, if it is asked to.
    Controller,
    /// One of several.
    Owner,
}

/// An owner, as its objects name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    gvk: Gvk,
    namespace: String,
    name: String,
    uid: String,
    /// Whether its deletion waits for what it controls, if that is asked for.
    blocks: bool,
}

impl Owner {
    /// A typed object as an owner.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            gvk: Gvk::new(K::group(&()), K::version(&()), K::kind(&())),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            blocks: true,
        }
    }

    /// Any object as an owner; `None` if it does not say its kind.
    #[must_use]
    pub fn of_object(object: &concert_api::Object) -> Option<Self> {
        let (namespace, name) = (object.namespace().into_owned(), object.name().into_owned());
        Some(Self { gvk: object.gvk()?, namespace, name, uid: object.uid().into_owned(), blocks: true })
    }

    /// The same owner, whose deletion does not wait for what it controls. To block it, one has to be allowed to update the
    /// owner's finalizers on servers that check that.
    #[must_use]
    pub fn not_blocking(self) -> Self {
        Self { blocks: false, ..self }
    }

    /// As an object names it, for objects that are applied as a whole. Nothing is checked: see [`set_owner`].
    #[must_use]
    pub fn reference(&self, ownership: Ownership) -> OwnerReference {
        let controls = (ownership == Ownership::Controller).then_some(true);
        OwnerReference {
            api_version: self.gvk.api_version(),
            kind: self.gvk.kind.to_string(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: controls,
            block_owner_deletion: controls.filter(|_| self.blocks),
        }
    }

    fn told(&self) -> String {
        format!("{} {}", self.gvk.kind, self.name)
    }

    /// Versions come and go; the owner stays the same.
    fn is(&self, reference: &OwnerReference) -> bool {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        self.gvk.group == group && self.gvk.kind == reference.kind.as_str() && self.name == reference.name
    }

    /// Becomes an owner of `object`, among those that it has.
    fn join(
        &self,
        references: &mut Vec<OwnerReference>,
        object: ObjectKey,
        ownership: Ownership,
    ) -> Result<(), OwnError> {
        if self.uid.is_empty() || self.name.is_empty() {
            return Err(OwnError::Unknown(self.told()));
        }
        if !self.namespace.is_empty() && self.namespace != *object.namespace {
            return Err(OwnError::OtherNamespace { object, owner: self.told(), namespace: self.namespace.clone() });
        }
        let foreign = |reference: &&OwnerReference| reference.controller == Some(true) && !self.is(reference);
        if let Some(other) = references.iter().find(foreign).filter(|_| ownership == Ownership::Controller) {
            let other = format!("{} {}", other.kind, other.name);
            return Err(OwnError::Controlled { object, owner: self.told(), other });
        }
        let reference = self.reference(ownership);
        match references.iter_mut().find(|known| self.is(known)) {
            Some(known) => *known = reference,
            None => references.push(reference),
        }
        Ok(())
    }

    /// Whether it is among them, and not another of its name.
    fn is_among(&self, references: &[OwnerReference]) -> bool {
        references.iter().any(|reference| self.is(reference) && reference.uid == self.uid)
    }
}

/// Makes `owner` an owner of `object`, by controller-runtime's rules: one controller at most, never across namespaces,
/// the reference of an older version of the owner is replaced.
///
/// # Errors
/// The rule that it would break.
pub fn set_owner<K: kube::Resource>(object: &mut K, owner: &Owner, ownership: Ownership) -> Result<(), OwnError> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let key = ObjectKey::new(text(&object.meta().namespace), text(&object.meta().name));
    let mut references = object.meta().owner_references.clone().unwrap_or_default();
    owner.join(&mut references, key, ownership)?;
    object.meta_mut().owner_references = Some(references);
    Ok(())
}

/// Lets an object go: `owner` is no longer an owner of it; `false` if it was none.
pub fn remove_owner<K: kube::Resource>(object: &mut K, owner: &Owner) -> bool {
    let Some(references) = &mut object.meta_mut().owner_references else { return false };
    let before = references.len();
    references.retain(|reference| !owner.is(reference));
    references.len() < before
}

/// Whether `owner` is an owner of `object`.
#[must_use]
pub fn owns<K: kube::Resource>(owner: &Owner, object: &K) -> bool {
    owner.is_among(object.meta().owner_references.as_deref().unwrap_or_default())
}

/// Who controls an object, if anybody does.
#[must_use]
pub fn controller_of<K: kube::Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

/// Whether an object has a finalizer.
#[must_use]
pub fn has_finalizer<K: kube::Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|name| name == finalizer)
}

/// Adds a finalizer; `false` if it was there.
pub fn add_finalizer<K: kube::Resource>(object: &mut K, finalizer: &str) -> bool {
    let missing = !has_finalizer(object, finalizer);
    if missing {
        object.meta_mut().finalizers.get_or_insert_default().push(finalizer.to_owned());
    }
    missing
}

/// Removes a finalizer; `false` if it was not there.
pub fn remove_finalizer<K: kube::Resource>(object: &mut K, finalizer: &str) -> bool {
    let has = has_finalizer(object, finalizer);
    if let Some(names) = &mut object.meta_mut().finalizers {
        names.retain(|name| name != finalizer);
    }
    has
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use kube::api::ObjectMeta;

    fn meta(namespace: &str, name: &str) -> ObjectMeta {
        let namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
        ObjectMeta { namespace, name: Some(name.into()), uid: Some(format!("uid-{name}")), ..ObjectMeta::default() }
    }

    fn map(namespace: &str, name: &str) -> ConfigMap {
        ConfigMap { metadata: meta(namespace, name), ..ConfigMap::default() }
    }

    #[test]
    fn an_object_has_one_controller() {
        let mut child = map("a", "child");
        let (one, two) = (Owner::of(&map("a", "one")), Owner::of(&map("a", "two")));
        set_owner(&mut child, &one, Ownership::Controller).unwrap();
        set_owner(&mut child, &one, Ownership::Controller).unwrap();
        let refused = set_owner(&mut child, &two, Ownership::Controller).unwrap_err().to_string();
        assert_eq!(refused, "cannot make ConfigMap two the controller of a/child: ConfigMap one controls it already");
        set_owner(&mut child, &two, Ownership::Owner).unwrap();
        assert!(owns(&one, &child) && owns(&two, &child));
        assert_eq!(controller_of(&child).map(|reference| reference.name.as_str()), Some("one"));
        let flags = |child: &ConfigMap| {
            let references = child.metadata.owner_references.iter().flatten();
            references.map(|r| (r.controller, r.block_owner_deletion)).collect::<Vec<_>>()
        };
        assert_eq!(flags(&child), [(Some(true), Some(true)), (None, None)]);
        set_owner(&mut child, &one.clone().not_blocking(), Ownership::Controller).unwrap();
        assert_eq!(flags(&child), [(Some(true), None), (None, None)]);
        assert!(remove_owner(&mut child, &one) && !remove_owner(&mut child, &one) && !owns(&one, &child));
        assert!(controller_of(&child).is_none() && owns(&two, &child));
    }

    #[test]
    fn the_version_of_an_owner_may_change() {
        let mut child = map("a", "child");
        let old = Owner {
            gvk: Gvk::new("x.dev", "v1beta1", "File"),
            namespace: "a".into(),
            name: "f".into(),
            uid: "u".into(),
            blocks: true,
        };
        let new = Owner { gvk: Gvk::new("x.dev", "v1", "File"), ..old.clone() };
        set_owner(&mut child, &old, Ownership::Controller).unwrap();
        set_owner(&mut child, &new, Ownership::Controller).unwrap();
        let references = child.metadata.owner_references.unwrap();
        assert_eq!(references.iter().map(|r| r.api_version.as_str()).collect::<Vec<_>>(), ["x.dev/v1"]);
    }

    #[test]
    fn owners_live_in_the_same_namespace_or_in_none() {
        let mut child = map("a", "child");
        let elsewhere = set_owner(&mut child, &Owner::of(&map("b", "one")), Ownership::Owner).unwrap_err();
        assert!(elsewhere.to_string().contains("of namespace \"b\" an owner of a/child"), "{elsewhere}");
        let node = Node { metadata: meta("", "node"), ..Node::default() };
        set_owner(&mut child, &Owner::of(&node), Ownership::Controller).unwrap();
        let mut cluster_wide = node;
        assert!(set_owner(&mut cluster_wide, &Owner::of(&map("b", "one")), Ownership::Owner).is_err());
        let unsaved = Owner { uid: String::new(), ..Owner::of(&map("a", "one")) };
        assert!(set_owner(&mut child, &unsaved, Ownership::Owner).unwrap_err().to_string().contains("no uid"));
    }

    #[test]
    fn what_changes_nothing_leaves_the_object_as_it_is() {
        let mut object = map("a", "x");
        let before = object.clone();
        let elsewhere = Owner::of(&map("b", "one"));
        assert!(!remove_owner(&mut object, &elsewhere) && !remove_finalizer(&mut object, "f"));
        assert!(set_owner(&mut object, &elsewhere, Ownership::Owner).is_err());
        assert_eq!(object, before);
    }

    #[test]
    fn finalizers_are_there_once() {
        let mut object = map("a", "x");
        assert!(add_finalizer(&mut object, "f") && !add_finalizer(&mut object, "f") && has_finalizer(&object, "f"));
        assert!(remove_finalizer(&mut object, "f") && !remove_finalizer(&mut object, "f"));
    }
}
