//! `concert_fuzz::patch`, driven by libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| concert_fuzz::patch(data));
