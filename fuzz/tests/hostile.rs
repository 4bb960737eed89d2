//! Bodies that are made to cost much cost four times as much when they are four times as large, and not sixteen times;
//! and their memory is some times their length. Every case runs in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

use concert_fuzz::hostile::{Cost, Group};

/// Small enough to be fast in a debug build, large enough to be measured.
const SMALL: usize = 64 << 10;
const LARGE: usize = 4 * SMALL;
/// Milliseconds that say nothing: clocks are coarse, and machines are busy.
const NOISE: u64 = 250;
/// Between four times, which is right, and sixteen times, which is not.
const GROWTH: u64 = 8;
/// A level of JSON in five bytes is a tree node of 600, in as many copies as a write has.
const MEMORY: u64 = 600;
/// What a process may take for any body.
const ROOM: u64 = 48 << 20;

fn cost(case: &str, bytes: usize) -> Cost {
    let mut command = Command::new(env!("CARGO_BIN_EXE_concert-fuzz"));
    let output = command.args(["hostile", case, "--bytes", &bytes.to_string()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case} of {bytes} bytes: {}\n{errors}", output.status);
    let numbers: Vec<u64> = text.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
    let [memory, time] = numbers[..] else { panic!("{case}: {text}") };
    Cost { memory, time }
}

fn check(group: Group) {
    for case in group.cases() {
        let (small, large) = (cost(case.name, SMALL), cost(case.name, LARGE));
        let most = GROWTH * small.time + NOISE;
        assert!(large.time <= most, "{}: {} ms, then {} ms", case.name, small.time, large.time);
        let most = MEMORY * LARGE as u64 + ROOM;
        assert!(large.memory <= most, "{}: {} bytes of memory for {LARGE}", case.name, large.memory);
    }
}

#[test]
fn configurations_cost_as_much_as_they_are_long() {
    check(Group::Applied);
}

#[test]
fn objects_in_json_cost_as_much_as_they_are_long() {
    check(Group::Json);
}

#[test]
fn patches_cost_as_much_as_they_are_long() {
    check(Group::Patches);
}

#[test]
fn objects_in_protobuf_cost_as_much_as_they_are_long() {
    check(Group::Protobuf);
}

#[test]
fn objects_in_yaml_cost_as_much_as_they_are_long() {
    check(Group::Yaml);
}
