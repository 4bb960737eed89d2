//! The rules, one by one.

use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn elector(identity: &str) -> Elector {
    Elector::new(LeaseSettings::new("n", "l", identity))
}

fn held(holder: &str, renewed: &str) -> Answer {
    let record = Record { holder: holder.into(), seconds: 15, renewed: renewed.into(), ..Record::default() };
    Answer::Seen(Some((record, format!("rv-{renewed}"))))
}

fn wall(seconds: i64) -> Time {
    Time::from_unix_seconds(seconds)
}

/// One attempt that begins with a read at this moment; gives what it wants to write.
fn attempt(elector: &mut Elector, seen: Answer, now: Duration) -> Option<Write> {
    while let Step::Wait(_) = elector.step(now, wall(0), 0.0) {
        elector.stage = Stage::Reading;
    }
    elector.answered(seen, now, 0.0);
    match elector.step(now, wall(9_999_999), 0.0) {
        Step::Write(write) => Some(write),
        _ => None,
    }
}

/// A leader whose write was sent at `sent`.
fn leader(identity: &str, sent: Duration) -> Elector {
    let mut elector = elector(identity);
    let write = attempt(&mut elector, Answer::Seen(None), sent).expect("there is none yet");
    assert_eq!(write.expected, None);
    elector.answered(Answer::Written("7".into()), sent + s(1), 0.0);
    elector
}

#[test]
fn waits_by_its_own_clock_since_the_record_last_changed() {
    let mut b = elector("b");
    // Our wall clock is far ahead of the holder's: that decides nothing.
    assert_eq!(attempt(&mut b, held("a", "1"), s(100)), None);
    assert_eq!(attempt(&mut b, held("a", "1"), s(114)), None);
    assert_eq!(attempt(&mut b, held("a", "2"), s(116)), None, "a renewal counts from when it was seen");
    assert_eq!(attempt(&mut b, held("a", "2"), s(130)), None);
    let write = attempt(&mut b, held("a", "2"), s(131)).expect("the lease is over");
    assert_eq!((write.record.holder.as_str(), write.record.transitions), ("b", 1));
    assert_eq!(write.expected.as_deref(), Some("rv-2"));
    assert!(!b.standing(s(131)).leads(), "not before the write was answered");
}

#[test]
fn a_leader_that_cannot_renew_is_lost_before_others_take_over() {
    let mut a = leader("a", s(0));
    assert_eq!(a.standing(s(9)), Standing::Leading { fence: "7".into() });
    assert!(!a.standing(s(10)).leads(), "counted from when the write was sent");
    let Step::Write(write) = a.step(s(3), wall(3), 0.0) else { panic!("renews without reading") };
    assert_eq!(write.expected.as_deref(), Some("7"));
    a.answered(Answer::Written("8".into()), s(4), 0.0);
    assert_eq!(a.standing(s(12)), Standing::Leading { fence: "7".into() });
    assert_eq!(a.step(s(13), wall(0), 0.0), Step::Lost("not renewed within 10s".into()));
}

#[test]
fn a_write_whose_answer_was_lost_makes_no_leader_until_the_next_one() {
    let mut a = elector("a");
    assert!(attempt(&mut a, Answer::Seen(None), s(0)).is_some());
    a.answered(Answer::Failed, s(5), 0.0);
    assert!(!a.standing(s(5)).leads());
    // It was carried out, as the record shows. Whoever saw it then may take over soon: reading is not enough.
    let write = attempt(&mut a, held("a", "1"), s(8)).expect("it is ours");
    assert!(!a.standing(s(8)).leads());
    assert_eq!((write.record.transitions, write.expected.as_deref()), (0, Some("rv-1")));
    a.answered(Answer::Written("9".into()), s(9), 0.0);
    assert_eq!(a.standing(s(9)), Standing::Leading { fence: "9".into() });
}

#[test]
fn a_renewal_that_meets_a_change_reads_before_it_writes() {
    let mut a = leader("a", s(0));
    let Step::Write(_) = a.step(s(3), wall(3), 0.0) else { panic!("renews") };
    a.answered(Answer::Failed, s(3), 0.0);
    assert_eq!((a.step(s(3), wall(3), 0.0), a.slow_paths()), (Step::Read, 1));
    a.answered(held("a", "2"), s(3), 0.0);
    let Step::Write(write) = a.step(s(3), wall(3), 0.0) else { panic!("writes on what it read") };
    assert_eq!(write.expected.as_deref(), Some("rv-2"));
    a.answered(Answer::Failed, s(3), 0.0);
    assert_eq!(a.step(s(3), wall(3), 0.0), Step::Wait(s(2)));
    let Step::Write(_) = a.step(s(5), wall(3), 0.0) else { panic!("renews") };
    a.answered(Answer::Failed, s(5), 0.0);
    assert_eq!(a.step(s(5), wall(3), 0.0), Step::Read);
    a.answered(held("b", "3"), s(5), 0.0);
    assert_eq!(a.step(s(5), wall(3), 0.0), Step::Lost("\"b\" took it over".into()));
}

#[test]
fn a_released_lease_is_free_at_once() {
    let mut a = leader("a", s(0));
    a.answered(Answer::Failed, s(1), 0.0);
    let Write { record, expected } = a.release(wall(1)).expect("we hold it");
    assert_eq!((record.holder.as_str(), record.seconds, expected.as_deref()), ("", 1, Some("7")));
    let mut b = elector("b");
    assert_eq!(attempt(&mut b, held("a", "1"), s(0)), None);
    assert_eq!(b.release(wall(0)), None, "it is not ours");
    assert!(attempt(&mut b, held("", "2"), s(3)).is_some());
}

#[test]
fn a_release_that_nobody_answered_is_no_loss() {
    for (holder, again) in [("", false), ("b", false), ("a", true)] {
        let mut a = leader("a", s(0));
        assert!(a.release(wall(1)).is_some());
        assert!(!a.standing(s(1)).leads(), "it may have been carried out");
        let Answer::Seen(seen) = held(holder, "9") else { panic!("it was seen") };
        a.saw(seen, s(2));
        assert!(!a.is_lost(s(2)) && !a.is_lost(s(60)), "held by \"{holder}\" now");
        assert_eq!(a.release(wall(3)).is_some(), again, "it was not carried out if it is still ours");
    }
}

#[test]
fn a_lease_that_was_deleted_is_made_anew() {
    let mut a = leader("a", s(0));
    let Step::Write(_) = a.step(s(3), wall(3), 0.0) else { panic!("renews") };
    a.answered(Answer::Failed, s(3), 0.0);
    let write = attempt(&mut a, Answer::Seen(None), s(3)).expect("nobody else has it");
    assert_eq!(write.expected, None);
    a.answered(Answer::Written("20".into()), s(3), 0.0);
    assert_eq!(a.standing(s(4)), Standing::Leading { fence: "20".into() });
}

#[test]
fn followers_spread_their_attempts_and_a_leader_does_not() {
    let wait = |elector: &mut Elector, spread: f64| elector.rest(s(0), spread);
    assert_eq!(wait(&mut elector("b"), 0.0), Step::Wait(s(2)));
    assert_eq!(wait(&mut elector("b"), 1.0), Step::Wait(Duration::from_millis(4400)));
    assert_eq!(wait(&mut leader("a", s(0)), 1.0), Step::Wait(s(2)));
}

#[test]
fn nothing_in_a_record_makes_it_panic() {
    let mut b = elector("b");
    let record = Record { holder: "a".into(), seconds: u64::MAX, transitions: i64::MAX, ..Record::default() };
    assert_eq!(attempt(&mut b, Answer::Seen(Some((record.clone(), "1".into()))), s(5)), None);
    let released = Record { holder: String::new(), ..record };
    assert!(attempt(&mut b, Answer::Seen(Some((released, "2".into()))), s(9)).is_some());
    assert_eq!(
        Record::read(&json!({ "spec": { "leaseDurationSeconds": -1, "holderIdentity": 7 } })),
        Record::default()
    );
}

#[test]
fn to_read_ones_own_name_again_and_again_makes_no_leader() {
    let mut elector = Elector::new(LeaseSettings::new("default", "m", "me"));
    let ours = Record { holder: "me".to_owned(), seconds: 15, ..Record::default() };
    for second in 0..5 {
        let now = Duration::from_secs(second);
        elector.saw(Some((ours.clone(), "7".to_owned())), now);
        assert!(!elector.standing(now).leads(), "an earlier life wrote it, or nobody knows");
    }
}
