//! The load server as a process of its own: `runtime-load KUBECONFIG`. See `concert_bench::runtime::load`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use concert_bench::runtime::load::{Site, obey, serve, write_kubeconfig};
use concert_bench::runtime::protocol::line_of;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("usage: runtime-load KUBECONFIG")?;
    let site = Arc::new(Site::default());
    let (address, authority) = serve(Arc::clone(&site)).await?;
    write_kubeconfig(Path::new(&path), address, &authority)?;
    println!("ok");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{}", line_of(obey(&site, &line).await));
    }
    std::process::exit(0)
}
