//! kube-rs as a subject.

fn main() -> anyhow::Result<()> {
    concert_bench_kube::main(None)
}
