//! The checker accepts what can be, and nothing else.

use super::*;

fn event(revision: u64, key: &str, value: Option<Value>, added: bool) -> Event {
    Event { revision, key: key.into(), value, added }
}

fn operation(begun: u64, ended: u64, act: Act, outcome: Outcome) -> Operation {
    Operation { begun, ended, act, outcome }
}

fn items(all: &[(&str, u64, Value)]) -> BTreeMap<Key, (u64, Value)> {
    all.iter().map(|(key, revision, value)| ((*key).to_owned(), (*revision, *value))).collect()
}

/// Two objects; one is replaced, patched and deleted.
fn log() -> Vec<Event> {
    vec![
        event(5, "a", Some(1), true),
        event(7, "b", Some(2), true),
        event(8, "a", Some(3), false),
        event(9, "a", Some(4), false),
        event(12, "a", None, false),
    ]
}

fn history() -> Vec<Operation> {
    let a = || "a".to_owned();
    vec![
        operation(1, 2, Act::Create(a(), 1), Outcome::Written(5)),
        operation(3, 6, Act::Create("b".into(), 2), Outcome::Written(7)),
        operation(4, 5, Act::Get(a()), Outcome::Found(5, 1)),
        operation(7, 10, Act::Replace(a(), 3, 5), Outcome::Written(8)),
        operation(8, 9, Act::List, Outcome::Listed(7, items(&[("a", 5, 1), ("b", 7, 2)]))),
        operation(11, 12, Act::Create(a(), 99), Outcome::Exists),
        operation(13, 14, Act::Patch(a(), 4), Outcome::Unknown),
        operation(15, 16, Act::Replace(a(), 98, 8), Outcome::Conflict),
        operation(17, 18, Act::Delete(a(), 9), Outcome::Deleted),
        operation(19, 20, Act::Get(a()), Outcome::Absent),
        operation(21, 22, Act::List, Outcome::Listed(13, items(&[("b", 7, 2)]))),
    ]
}

#[test]
fn what_can_be_is_accepted() {
    assert_eq!(check(&history(), &log(), &[log(), log()[2..].to_vec(), log()[1..3].to_vec(), Vec::new()]), Ok(()));
}

/// Breaks one thing and expects it to be noticed, in these words.
#[track_caller]
fn refused(words: &str, breaking: impl FnOnce(&mut Vec<Operation>, &mut Vec<Event>, &mut Vec<Event>)) {
    let (mut operations, mut events, mut other) = (history(), log(), log());
    breaking(&mut operations, &mut events, &mut other);
    let violation = check(&operations, &events, &[other]).expect_err(words).to_string();
    assert!(violation.contains(words), "{violation}");
}

#[test]
fn broken_watches_are_noticed() {
    refused("after", |_, events, _| events.swap(1, 2));
    refused("after", |_, events, _| events.insert(2, event(7, "b", Some(2), true)));
    refused("two watches differ", |_, _, other| drop(other.remove(2)));
    refused("two watches differ", |_, _, other| other.swap(2, 3));
    refused("two watches differ", |_, _, other| other[3].value = Some(77));
    refused("more than there was", |_, _, other| other.push(event(13, "c", Some(50), true)));
    refused("is called new", |_, events, _| events[2].added = true);
    refused("written twice", |_, events, other| {
        events.push(event(14, "c", Some(2), true));
        *other = events.clone();
    });
    refused("nobody wrote", |_, events, other| {
        events.push(event(14, "c", Some(1234), true));
        *other = events.clone();
    });
    refused("nobody deleted", |operations, _, _| operations[8].act = Act::Delete("a".into(), 8));
}

#[test]
fn lost_and_doubled_writes_are_noticed() {
    // Acknowledged, and not in the log.
    refused("cannot be", |operations, _, _| {
        operations.push(operation(30, 31, Act::Create("c".into(), 60), Outcome::Written(20)));
    });
    // Acknowledged with a revision that another write has.
    refused("cannot be", |operations, _, _| operations[3].outcome = Outcome::Written(7));
    // A delete that did not happen.
    refused("cannot be", |operations, _, _| {
        operations.push(operation(30, 31, Act::Delete("b".into(), 7), Outcome::Deleted));
    });
    // Refused, and it happened all the same.
    refused("cannot be", |operations, _, _| operations[1].outcome = Outcome::Exists);
    // It replaced another state than the one it was meant for.
    refused("cannot be", |operations, _, _| operations[3].act = Act::Replace("a".into(), 3, 4));
}

#[test]
fn reads_of_the_past_and_of_the_future_are_noticed() {
    // After the write of revision 8 was acknowledged.
    refused("cannot be", |operations, _, _| {
        operations.push(operation(11, 12, Act::Get("a".into()), Outcome::Found(5, 1)));
    });
    refused("outside of", |operations, _, _| {
        operations.push(operation(11, 12, Act::List, Outcome::Listed(7, items(&[("a", 5, 1), ("b", 7, 2)]))));
    });
    // Two reads, one after the other, that see time go back.
    refused("cannot be", |operations, _, _| {
        operations[6] = operation(13, 30, Act::Patch("a".into(), 4), Outcome::Unknown);
        operations.push(operation(31, 32, Act::Get("b".into()), Outcome::Absent));
    });
    // Before the write was even begun.
    refused("outside of", |operations, _, _| {
        operations.push(operation(3, 4, Act::Get("a".into()), Outcome::Found(8, 3)));
    });
    // What a list shows is what there was.
    refused("instead of", |operations, _, _| {
        operations[4].outcome = Outcome::Listed(7, items(&[("a", 5, 1)]));
    });
    refused("cannot be", |operations, _, _| operations[2].outcome = Outcome::Found(5, 2));
    refused("cannot be", |operations, _, _| operations[9].outcome = Outcome::Found(9, 4));
}

#[test]
fn writes_are_in_the_order_of_time() {
    refused("outside of", |operations, _, _| {
        // The create of b ended before this one began, and has a later revision.
        operations[0] = operation(40, 41, Act::Create("a".into(), 1), Outcome::Written(5));
    });
    // A write without an answer may come late, but not before it was sent.
    refused("outside of", |operations, _, _| {
        operations[6] = operation(50, 51, Act::Patch("a".into(), 4), Outcome::Unknown);
    });
}
