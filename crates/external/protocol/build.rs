//! Compiles the protocol with protox: no `protoc` is needed to build.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = ["proto/external.proto", "proto/health.proto", "proto/rpc.proto"];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let set = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().compile_fds(set)?;
    Ok(())
}
