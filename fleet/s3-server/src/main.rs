//! An S3 server over a directory, on the loopback address: what the tests and the demo upload to.
//! It checks signatures as any S3 server does.
//!
//! What does not belong here: anything that a fleet needs.
#![forbid(unsafe_code)]

use clap::Parser;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::error::Error;
use std::path::PathBuf;
use tokio::net::TcpListener;

/// An S3 server over a directory; each folder in it is a bucket.
#[derive(Debug, Parser)]
struct ServerArgs {
    /// The directory
    root: PathBuf,
    /// The port on the loopback address
    #[arg(long)]
    port: u16,
    /// The access key
    #[arg(long)]
    access_key: String,
    /// The secret key
    #[arg(long)]
    secret_key: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = ServerArgs::parse();
    let files = FileSystem::new(args.root).map_err(|error| format!("{error:?}"))?;
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(args.access_key, args.secret_key));
    let service = service.build();
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            let server = Builder::new(TokioExecutor::new());
            // A client that goes away is no failure of the server.
            let _ = server.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
