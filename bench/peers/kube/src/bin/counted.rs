//! The same, counting what it allocates.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> anyhow::Result<()> {
    concert_bench_kube::main(Some(|| COUNTED.stats().bytes_allocated as u64))
}
