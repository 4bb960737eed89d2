//! As `runtime-subject`, counting what it allocates, which costs time: for the figures that are bytes.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> anyhow::Result<()> {
    concert_bench::runtime::ours::main(Some(|| COUNTED.stats().bytes_allocated as u64))
}
