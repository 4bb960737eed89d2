//! Our runtime as a subject: a process that carries out the driver's lines. See `concert_bench::runtime::ours`.

fn main() -> anyhow::Result<()> {
    concert_bench::runtime::ours::main(None)
}
