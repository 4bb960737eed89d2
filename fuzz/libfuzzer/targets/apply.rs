//! `concert_fuzz::apply`, driven by libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| concert_fuzz::apply(data));
