use super::*;
use crate::cache::index::Postings;
use bytes::Bytes;
use proptest::prelude::*;

fn arrived(namespace: &str, name: &str, revision: u32) -> Arrived {
    let json = format!(
        r#"{{"kind":"K","metadata":{{"name":"{name}","namespace":"{namespace}","resourceVersion":"{revision}","labels":{{"v":"{}"}}}}}}"#,
        revision % 3
    );
    let bytes = Bytes::from(json);
    Arrived { glance: Glance::at(&bytes).unwrap(), bytes }
}

fn object(name: &str, revision: u32) -> Arrived {
    arrived("n", name, revision)
}

fn apply(store: &mut Store, event: Event) -> Vec<String> {
    let changes = store.apply("", event).unwrap();
    changes.iter().map(|change| format!("{:?} {} {:?}", change.verb(), change.key.name, change.origin)).collect()
}

#[test]
fn a_relist_keeps_what_did_not_change_and_drops_what_vanished() {
    let mut store = Store::default();
    apply(&mut store, Event::Reset);
    assert_eq!(apply(&mut store, Event::Listed(object("a", 1))), ["Created a Initial"]);
    apply(&mut store, Event::Listed(object("b", 2)));
    apply(&mut store, Event::Listed(object("c", 3)));
    assert!(apply(&mut store, Event::Complete("3".into())).is_empty());
    let kept = store.get(&ObjectKey::new("n", "a")).unwrap();
    apply(&mut store, Event::Reset);
    assert!(apply(&mut store, Event::Listed(object("a", 1))).is_empty());
    assert_eq!(apply(&mut store, Event::Listed(object("b", 9))), ["Updated b Relisted"]);
    assert_eq!(apply(&mut store, Event::Complete("9".into())), ["Deleted c Relisted"]);
    assert!(Arc::ptr_eq(&kept, &store.get(&ObjectKey::new("n", "a")).unwrap()), "the very same entry");
}

#[test]
fn what_did_not_change_is_not_even_read() {
    let mut store = Store::default();
    apply(&mut store, Event::Applied(object("a", 1)));
    let mut broken = object("a", 1);
    broken.bytes = Bytes::from_static(b"not an object at all");
    assert!(apply(&mut store, Event::Listed(broken.clone())).is_empty());
    broken.glance.resource_version = "2".into();
    assert!(store.apply("", Event::Listed(broken)).is_err(), "what did change is");
    assert_eq!(store.len(), 1, "and who cannot be read does not take its last good state with it");
}

#[test]
fn who_says_its_name_twice_is_not_kept() {
    let twice = br#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","name":"b"}}"#;
    let bytes = Bytes::from_static(twice);
    let arrived = Arrived { glance: Glance::at(&bytes).unwrap(), bytes };
    let mut store = Store::default();
    assert!(store.apply("", Event::Applied(arrived)).is_err());
    assert_eq!(store.len(), 0);
}

#[test]
fn a_list_that_breaks_off_deletes_nothing() {
    let mut store = Store::default();
    for event in
        [Event::Reset, Event::Listed(object("a", 1)), Event::Listed(object("b", 1)), Event::Complete("1".into())]
    {
        apply(&mut store, event);
    }
    apply(&mut store, Event::Reset);
    apply(&mut store, Event::Listed(object("a", 1)));
    apply(&mut store, Event::Reset);
    assert_eq!(store.len(), 2);
    apply(&mut store, Event::Listed(object("b", 1)));
    assert_eq!(apply(&mut store, Event::Complete("1".into())), ["Deleted a Relisted"]);
}

#[test]
fn namespaces_are_listed_alone() {
    let mut store = Store::default();
    apply(&mut store, Event::Applied(object("a", 1)));
    apply(&mut store, Event::Applied(arrived("nn", "a", 1)));
    assert_eq!(store.list_in("n").len(), 1);
    assert_eq!(store.list_in("").len(), 0);
    assert!(apply(&mut store, Event::Deleted(object("zz", 1))).is_empty(), "an unknown object cannot go");
}

#[test]
fn each_watch_of_several_sweeps_its_own_namespace() {
    let mut store = Store::default();
    for namespace in ["a", "b"] {
        store.apply(namespace, Event::Reset).unwrap();
        store.apply(namespace, Event::Listed(arrived(namespace, "x", 1))).unwrap();
        store.apply(namespace, Event::Complete("1".into())).unwrap();
    }
    store.apply("a", Event::Reset).unwrap();
    let gone = store.apply("a", Event::Complete("2".into())).unwrap();
    assert_eq!(gone.iter().map(|change| change.key.to_string()).collect::<Vec<_>>(), ["a/x"]);
    assert_eq!(store.leave("b").len(), 1);
    assert_eq!((store.len(), store.bytes()), (0, 0));
}

/// One step of a random life.
#[derive(Clone, Debug)]
enum Act {
    Put(u8, u32),
    Delete(u8),
    /// A list that names these.
    Relist(Vec<(u8, u32)>, bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6u8, 1..9u32).prop_map(|(name, revision)| Act::Put(name, revision)),
        2 => (0..6u8).prop_map(Act::Delete),
        1 => (prop::collection::vec((0..6u8, 1..9u32), 0..6), any::<bool>()).prop_map(|(all, whole)| Act::Relist(all, whole)),
    ]
}

proptest! {
    /// The store agrees with a plain map, its index with a scan, and what handlers are told with both.
    #[test]
    fn a_store_is_a_map_with_indexes_that_tells_what_it_does(acts in prop::collection::vec(act(), 0..40)) {
        let mut store = Store::default();
        let index = Arc::new(Postings::new(|object: &Object| object.labels().into_values().collect::<Vec<_>>()));
        store.add_index(&index);
        let (mut model, mut told) = (BTreeMap::<String, String>::new(), BTreeMap::<String, String>::new());
        for act in acts {
            let events = match act {
                Act::Put(name, revision) => {
                    model.insert(name.to_string(), revision.to_string());
                    vec![Event::Applied(object(&name.to_string(), revision))]
                }
                Act::Delete(name) => {
                    model.remove(&name.to_string());
                    vec![Event::Deleted(object(&name.to_string(), 99))]
                }
                Act::Relist(listed, whole) => {
                    let mut events = vec![Event::Reset];
                    if whole { model.clear(); }
                    for (name, revision) in listed {
                        model.insert(name.to_string(), revision.to_string());
                        events.push(Event::Listed(object(&name.to_string(), revision)));
                    }
                    if whole { events.push(Event::Complete("1".into())); }
                    events
                }
            };
            for event in events {
                for Change { key, new, .. } in store.apply("", event).unwrap() {
                    match new {
                        Some(new) => told.insert(key.name.to_string(), new.resource_version().into_owned()),
                        None => told.remove(&*key.name),
                    };
                }
            }
            let objects = store.list();
            let known: BTreeMap<String, String> =
                objects.iter().map(|o| (o.name().into_owned(), o.resource_version().into_owned())).collect();
            prop_assert_eq!(&known, &model);
            prop_assert_eq!(&told, &model);
            prop_assert_eq!(store.bytes(), objects.iter().map(|object| object.bytes().len()).sum::<usize>());
            for value in ["0", "1", "2"] {
                let mut by_scan: Vec<_> = objects.iter().filter(|o| o.labels()["v"] == value).map(|o| o.key()).collect();
                let mut by_index: Vec<_> =
                    index.slots_of(&value.to_owned()).into_iter().map(|slot| store.at(slot).unwrap().key()).collect();
                by_scan.sort();
                by_index.sort();
                prop_assert_eq!(by_scan, by_index);
            }
        }
    }
}
