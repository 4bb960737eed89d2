//! Everything that was ever found, again: nothing panics, and what must be true is true.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use concert_fuzz::{TARGETS, corpus};

/// Runs the whole corpus of a target, and names the inputs that fail.
fn check(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let kept = corpus::kept(name).unwrap();
    assert!(kept.len() >= 5, "{name} has only {} inputs", kept.len());
    let fails = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err();
    let failed: Vec<&str> = kept.iter().filter(|one| fails(&one.bytes)).map(|one| one.name.as_str()).collect();
    assert!(failed.is_empty(), "{} of {} inputs fail: {failed:?}", failed.len(), kept.len());
}

#[test]
fn apply_holds_its_corpus() {
    check("apply");
}

#[test]
fn managed_fields_hold_their_corpus() {
    check("managed_fields");
}

#[test]
fn objects_hold_their_corpus() {
    check("object");
}

#[test]
fn patches_hold_their_corpus() {
    check("patch");
}

#[test]
fn protobuf_holds_its_corpus() {
    check("protobuf");
}

#[test]
fn selectors_hold_their_corpus() {
    check("selector");
}
