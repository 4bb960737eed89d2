//! Our runtime as a subject: a process that carries out the driver's lines. See `concert_bench::runtime::ours`.

use anyhow::Result;
use concert_bench::runtime::ours::Subject;
use concert_bench::runtime::protocol::line_of;
use tokio::io::{AsyncBufReadExt, BufReader};

fn main() -> Result<()> {
    // The driver says how many threads there are: TOKIO_WORKER_THREADS.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async { tokio::spawn(serve()).await? })
}

async fn serve() -> Result<()> {
    let mut subject = Subject::connect().await?;
    println!("ok");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{}", line_of(subject.obey(&line).await));
    }
    // What runs has no end of its own.
    std::process::exit(0)
}
