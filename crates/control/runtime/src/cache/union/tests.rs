use super::*;
use bytes::Bytes;
use concert_api::Glance;
use proptest::prelude::*;

/// What a store would hold: the revision of each object.
type Known = BTreeMap<String, u64>;

fn arrived(name: &str, revision: u64) -> Arrived {
    let bytes = Bytes::from(format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{revision}"}}}}"#));
    Arrived { glance: Glance::at(&bytes).unwrap(), bytes }
}

fn carry_out(known: &mut Known, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Apply(Event::Applied(arrived) | Event::Listed(arrived)) => {
                known.insert(arrived.glance.key.name.to_string(), number(&arrived.glance.resource_version));
            }
            Step::Apply(Event::Deleted(arrived)) => {
                known.remove(&*arrived.glance.key.name);
            }
            Step::Apply(_) => {}
            Step::Vanished(key) => {
                known.remove(&*key.name);
            }
        }
    }
}

/// A list of names and revisions, as events.
fn list(objects: &[(&str, u64)], at: u64) -> Vec<Event> {
    let listed = objects.iter().map(|(name, revision)| Event::Listed(arrived(name, *revision)));
    [Event::Reset].into_iter().chain(listed).chain([Event::Complete(at.to_string())]).collect()
}

fn check(events: Vec<(FeedNumber, Event)>, expected: &[(&str, u64)]) {
    let (mut union, mut known) = (Union::default(), Known::new());
    for (feed, event) in events {
        let steps = union.take(feed, event);
        carry_out(&mut known, steps);
    }
    assert_eq!(known, expected.iter().map(|(name, revision)| ((*name).to_owned(), *revision)).collect());
}

fn of(feed: FeedNumber, events: Vec<Event>) -> Vec<(FeedNumber, Event)> {
    events.into_iter().map(|event| (feed, event)).collect()
}

#[test]
fn who_leaves_one_selector_is_known_by_the_other() {
    let mut events = of(0, list(&[("a", 1), ("b", 2)], 2));
    events.extend(of(1, list(&[("b", 2), ("c", 3)], 3)));
    events.push((1, Event::Applied(arrived("b", 5))));
    events.push((0, Event::Applied(arrived("b", 4)))); // late
    events.push((0, Event::Deleted(arrived("b", 5))));
    events.push((0, Event::Deleted(arrived("a", 6))));
    check(events, &[("b", 5), ("c", 3)]);
}

#[test]
fn a_list_takes_only_what_its_own_watch_showed() {
    let mut events = of(0, list(&[("a", 1), ("b", 2)], 3));
    events.extend(of(1, list(&[("b", 2), ("c", 3)], 3)));
    events.extend(of(0, list(&[], 9)));
    check(events, &[("b", 2), ("c", 3)]);
}

#[test]
fn a_server_that_lost_its_history_is_believed() {
    let mut events = of(0, list(&[("a", 70)], 70));
    events.extend(of(1, list(&[("a", 70)], 70)));
    events.extend(of(0, list(&[("a", 5)], 9)));
    events.extend(of(1, list(&[("a", 5)], 9)));
    check(events, &[("a", 5)]);
}

#[test]
fn who_leaves_takes_what_nobody_else_shows() {
    let (mut union, mut known) = (Union::default(), Known::new());
    let mut events = of(0, list(&[("a", 1), ("b", 2)], 2));
    events.extend(of(1, list(&[("b", 2)], 2)));
    for (feed, event) in events {
        let steps = union.take(feed, event);
        carry_out(&mut known, steps);
    }
    let steps = union.leave(0);
    carry_out(&mut known, steps);
    assert_eq!(known, Known::from([("b".to_owned(), 2)]));
}

/// A change on the server: who, and which of the two selectors select it from then on.
type Deed = (usize, bool, bool);

proptest! {
    /// However two watches lag behind each other and are cut, in the end what is known is what the server has.
    #[test]
    fn both_together_show_what_either_selects(
        deeds in prop::collection::vec((0usize..3, any::<bool>(), any::<bool>()), 0..20),
        order in prop::collection::vec((0u32..2, any::<bool>()), 0..60),
    ) {
        let mut union = Union::default();
        let mut known = Known::new();
        let mut at = [0usize, 0];
        for feed in 0..2 {
            for event in list(&[], 0) {
                let steps = union.take(feed, event);
                carry_out(&mut known, steps);
            }
        }
        let ends = [(0, false), (1, false)].into_iter().cycle().take(2 * deeds.len());
        for (feed, cut) in order.into_iter().chain(ends) {
            let events = if cut { relist(&deeds, feed, &mut at) } else { next(&deeds, feed, &mut at).into_iter().collect() };
            for event in events {
                let before = known.clone();
                let steps = union.take(feed, event);
                carry_out(&mut known, steps);
                let back = |(name, then): (&String, &u64)| known.get(name).is_some_and(|now| now < then);
                prop_assert!(!before.iter().any(back), "from {:?} back to {:?}", before, known);
            }
        }
        let mut expected = Known::new();
        for (revision, (name, first, second)) in (1..).zip(&deeds) {
            expected.remove(NAMES[*name]);
            if *first || *second { expected.insert(NAMES[*name].to_owned(), revision); }
        }
        prop_assert_eq!(known, expected);
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn selects(deed: &Deed, feed: FeedNumber) -> bool {
    if feed == 0 { deed.1 } else { deed.2 }
}

/// The next change as a watch tells it, if it concerns what it selects.
fn next(deeds: &[Deed], feed: FeedNumber, at: &mut [usize; 2]) -> Option<Event> {
    let place = &mut at[feed as usize];
    let deed = deeds.get(*place)?;
    let before = deeds[..*place].iter().rev().find(|one| one.0 == deed.0).is_some_and(|one| selects(one, feed));
    *place += 1;
    let object = arrived(NAMES[deed.0], *place as u64);
    match (before, selects(deed, feed)) {
        (_, true) => Some(Event::Applied(object)),
        (true, false) => Some(Event::Deleted(object)),
        (false, false) => None,
    }
}

/// A watch that was cut lists anew, as of now.
fn relist(deeds: &[Deed], feed: FeedNumber, at: &mut [usize; 2]) -> Vec<Event> {
    at[feed as usize] = deeds.len();
    let mut objects = BTreeMap::new();
    for (revision, deed) in (1..).zip(deeds) {
        objects.remove(NAMES[deed.0]);
        if selects(deed, feed) {
            objects.insert(NAMES[deed.0], revision);
        }
    }
    list(&objects.into_iter().collect::<Vec<_>>(), deeds.len() as u64)
}
