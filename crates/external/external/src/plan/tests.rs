use concert_api::{Gvk, Time};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::marks::{CREATE_OUTCOME, CREATE_PENDING, CREATE_TOKEN};

fn kind(names: NamePolicy, window: u64) -> KindInfo {
    KindInfo { names, consistency_window: Duration::from_secs(window), ..KindInfo::plain(Gvk::new("g", "v1", "File")) }
}

/// An object that is held and has its external name.
fn held() -> Value {
    json!({"metadata": {
        "name": "a", "uid": "u", "finalizers": [FINALIZER], "annotations": {EXTERNAL_NAME: "a"},
    }})
}

fn with(mut object: Value, annotations: Value) -> Value {
    concert_merge_into(&mut object["metadata"]["annotations"], annotations);
    object
}

fn concert_merge_into(target: &mut Value, add: Value) {
    for (key, value) in add.as_object().unwrap() {
        target[key] = value.clone();
    }
}

fn deleting(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object
}

fn unknown(object: Value) -> Value {
    with(object, Marks::pending(&CreateToken::new("u", 1), Time::from_unix_seconds(0)))
}

fn succeeded(object: Value) -> Value {
    with(unknown(object), Marks::outcome(true, Time::from_unix_seconds(0)))
}

fn failed(object: Value) -> Value {
    with(unknown(object), Marks::outcome(false, Time::from_unix_seconds(0)))
}

const EXISTS: Observation = Observation {
    exists: true,
    up_to_date: true,
    late_initialized: false,
    object: None,
    connection: std::collections::BTreeMap::new(),
    diff: String::new(),
};

fn drifted() -> Observation {
    Observation { up_to_date: false, ..EXISTS }
}

fn gone() -> Observation {
    Observation::default()
}

struct Case {
    object: Value,
    observation: Observation,
    kind: KindInfo,
    absent_for: u64,
    deleted: bool,
}

fn step(case: &Case) -> Step {
    let policy = Policy::of(&case.object).unwrap();
    plan(&Situation {
        object: &case.object,
        policy,
        kind: &case.kind,
        observation: &case.observation,
        absent_for: Duration::from_secs(case.absent_for),
        call_deadline: Duration::from_secs(60),
        deleted: case.deleted,
    })
}

fn check(name: &str, object: Value, observation: Observation, expected: Step) {
    let case = Case { object, observation, kind: kind(NamePolicy::Deterministic, 0), absent_for: 0, deleted: false };
    assert_eq!(step(&case), expected, "{name}");
}

fn token(attempt: u64) -> CreateToken {
    CreateToken::new("u", attempt)
}

#[test]
fn the_rows_of_the_table() {
    let bare = json!({"metadata": {"name": "a", "uid": "u"}});
    let spec = |policies: Value| {
        let mut object = held();
        object["spec"] = json!({"managementPolicies": policies});
        object
    };
    check("absent: create", bare.clone(), gone(), Step::Create(token(1)));
    check("after a failure: a new attempt", failed(held()), gone(), Step::Create(token(2)));
    check("deleted outside: a new attempt", succeeded(held()), gone(), Step::Create(token(2)));
    check("exists, not held", bare.clone(), EXISTS, Step::Hold);
    check("up to date", held(), EXISTS, Step::Settled(Settled::UpToDate));
    check("drifted", held(), drifted(), Step::Update);
    let late = Observation { late_initialized: true, ..EXISTS };
    check("late initialised", held(), late.clone(), Step::LateInitialize);
    check("late initialised, not allowed", spec(json!(["Observe"])), late, Step::Settled(Settled::UpToDate));
    check("drifted, not allowed", spec(json!(["Observe", "Create"])), drifted(), Step::Settled(Settled::MayNotUpdate));
    check("absent, only observe", spec(json!(["Observe"])), gone(), Step::Settled(Settled::NothingToObserve));
    check(
        "absent, update only: nothing to update",
        spec(json!(["Observe", "Update"])),
        gone(),
        Step::Settled(Settled::MayNotCreate),
    );
    check("deleting, exists", deleting(held()), EXISTS, Step::Delete);
    check("deleting, gone", deleting(held()), gone(), Step::Release);
    let mut shared = deleting(held());
    shared["metadata"]["finalizers"] = json!([FINALIZER, "other.io/x"]);
    check("deleting, others hold it", shared.clone(), EXISTS, Step::Wait(Wait::OtherFinalizers));
    check("deleting, gone, others hold it", shared, gone(), Step::Wait(Wait::OtherFinalizers));
    check("unknown, and it is there", unknown(held()), EXISTS, Step::RecordCreated);
    check("unknown, and it is there, deleting", deleting(unknown(held())), EXISTS, Step::RecordCreated);
}

#[test]
fn an_unknown_create_is_waited_out_and_repeated_with_its_token() {
    for deleting_too in [false, true] {
        let object = if deleting_too { deleting(unknown(held())) } else { unknown(held()) };
        let mut case = Case {
            object,
            observation: gone(),
            kind: kind(NamePolicy::SearchedByToken, 3),
            absent_for: 10,
            deleted: false,
        };
        assert_eq!(step(&case), Step::Wait(Wait::Outcome(Duration::from_secs(53))));
        case.absent_for = 63;
        let expected = if deleting_too { Step::Release } else { Step::Create(token(1)) };
        assert_eq!(step(&case), expected);
        case.kind = kind(NamePolicy::Assigned, 3);
        assert_eq!(step(&case), Step::Stop, "nobody can find out");
    }
}

#[test]
fn what_was_created_may_take_a_while_to_show() {
    let mut case = Case {
        object: succeeded(held()),
        observation: gone(),
        kind: kind(NamePolicy::SearchedByToken, 5),
        absent_for: 1,
        deleted: false,
    };
    assert_eq!(step(&case), Step::Wait(Wait::Visible(Duration::from_secs(4))));
    case.absent_for = 5;
    assert_eq!(step(&case), Step::Create(token(2)), "somebody removed it");
    case.kind = kind(NamePolicy::Assigned, 0);
    assert_eq!(step(&case), Step::Wait(Wait::Visible(Duration::from_secs(25))), "the usual thirty seconds");
}

#[test]
fn before_anybody_is_asked() {
    assert_eq!(begin(&held()), Begin::Observe(Policy::ALL));
    let mut orphan = deleting(held());
    orphan["spec"] = json!({"deletionPolicy": "Orphan"});
    assert_eq!(begin(&orphan), Begin::Orphan);
    let paused = with(orphan, json!({crate::policy::PAUSED: "true"}));
    assert_eq!(begin(&paused), Begin::Paused, "pause beats deletion");
    let broken = json!({"metadata": {"annotations": {}}, "spec": {"deletionPolicy": 1}});
    assert!(matches!(begin(&broken), Begin::Invalid(_)));
    assert_eq!(begin(&with(broken, json!({crate::policy::PAUSED: "true"}))), Begin::Paused, "and everything else");
    let mut gone_again = Case {
        object: deleting(succeeded(held())),
        observation: gone(),
        kind: kind(NamePolicy::Assigned, 0),
        absent_for: 0,
        deleted: false,
    };
    assert!(matches!(step(&gone_again), Step::Wait(Wait::Visible(_))), "perhaps it only does not show yet");
    gone_again.deleted = true;
    assert_eq!(step(&gone_again), Step::Release, "its provider deleted it");
}

fn any_object() -> impl Strategy<Value = Value> {
    let marks = prop::sample::select(vec![0, 1, 2, 3, 4]);
    let finalizers =
        prop::sample::select(vec![json!([]), json!([FINALIZER]), json!([FINALIZER, "x/y"]), json!(["x/y"])]);
    (marks, finalizers, any::<bool>(), any::<bool>()).prop_map(|(marks, finalizers, deletes, named)| {
        let mut object = held();
        object["metadata"]["finalizers"] = finalizers;
        if !named {
            object["metadata"]["annotations"] = json!({});
        }
        object = match marks {
            1 => unknown(object),
            2 => succeeded(object),
            3 => failed(object),
            4 => with(object, json!({CREATE_TOKEN: "other.9", CREATE_OUTCOME: "?", CREATE_PENDING: "?"})),
            _ => object,
        };
        if deletes { deleting(object) } else { object }
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let names =
        prop::sample::select(vec![NamePolicy::Assigned, NamePolicy::Deterministic, NamePolicy::SearchedByToken]);
    let observation =
        (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(exists, up_to_date, late_initialized)| Observation {
            exists,
            up_to_date,
            late_initialized,
            ..gone()
        });
    (any_object(), observation, names, 0u64..10, 0u64..100).prop_map(
        |(object, observation, names, window, absent_for)| Case {
            object,
            observation,
            kind: kind(names, window),
            absent_for,
            deleted: false,
        },
    )
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {:?} {}", self.object, self.observation, self.kind.names, self.absent_for)
    }
}

proptest! {
    /// Whatever the state: nothing is created while it exists, while a create may still show, or while the object
    /// goes; nothing is deleted or let go while the object stays; nothing absent is changed.
    #[test]
    fn no_step_does_harm(case in any_case()) {
        let step = step(&case);
        let is_deleting = meta::is_deleting(&case.object);
        match &step {
            Step::Create(token) => {
                prop_assert!(!case.observation.exists && !is_deleting);
                let marks = Marks::of(&case.object);
                if marks.creation == Creation::Unknown {
                    prop_assert!(case.kind.names.may_repeat_create());
                    prop_assert_eq!(Some(token), marks.token.as_ref(), "the same token");
                    prop_assert!(case.absent_for >= 60 + case.kind.consistency_window.as_secs());
                }
            }
            Step::Delete => prop_assert!(is_deleting && case.observation.exists),
            Step::Release => prop_assert!(is_deleting && !case.observation.exists),
            Step::Update | Step::LateInitialize => prop_assert!(case.observation.exists && !is_deleting),
            Step::Hold => prop_assert!(!is_deleting),
            Step::RecordCreated | Step::Settled(_) | Step::Wait(_) | Step::Stop => {}
        }
    }
}
