//! Blobs over the protocol of S3, against a server that checks signatures.

use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use sketch_server::storage::{BlobId, BlobPlace, Blobs, StorageError};
use std::path::Path;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Serves a folder as S3 on a free port for as long as the runtime lives.
fn s3_server(runtime: &Runtime, folder: &Path) -> String {
    std::fs::create_dir(folder.join("bucket")).unwrap();
    let files = s3s_fs::FileSystem::new(folder).unwrap();
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single("ours", "secret"));
    let service = service.build();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = hyper_util::rt::TokioIo::new(stream);
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(stream, service.clone());
            tokio::spawn(connection);
        }
    });
    format!("http://{address}")
}

fn open(place: &str, endpoint: &str, secret: &str) -> Blobs {
    let place: BlobPlace = place.parse().unwrap();
    let environment = [
        ("AWS_ACCESS_KEY_ID", "ours"),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_UNHEARD_OF", "is for somebody else"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Blobs::open_with(&place, environment).unwrap()
}

#[test]
fn blobs_are_written_once_read_back_and_checked() {
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = s3_server(&runtime, folder.path());
    let blobs = open("s3://bucket/failsketch", &endpoint, "secret");
    let large = vec![7; 3 << 20];
    let id = blobs.put(&large).unwrap();
    assert_eq!(blobs.put(&large).unwrap(), id);
    assert_eq!(blobs.get(&id).unwrap(), large);

    // Another server of the same bucket sees it, one of another prefix does not.
    let theirs = open("s3://bucket/failsketch", &endpoint, "secret");
    assert_eq!(theirs.get(&id).unwrap(), large);
    let elsewhere = open("s3://bucket/staging", &endpoint, "secret");
    let missing = elsewhere.get(&id).unwrap_err();
    assert!(
        matches!(missing, StorageError::BlobMissing { .. }),
        "{missing}"
    );

    let place = folder.path().join("bucket/failsketch").join(&id.0);
    std::fs::write(place, b"something else").unwrap();
    let damaged = blobs.get(&id).unwrap_err();
    assert!(
        matches!(damaged, StorageError::BlobDamaged { .. }),
        "{damaged}"
    );
}

#[test]
fn a_refusal_is_told_from_a_missing_blob() {
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = s3_server(&runtime, folder.path());
    let blobs = open("s3://bucket", &endpoint, "guessed");
    let refused = blobs.put(b"tracked build").unwrap_err();
    assert!(matches!(refused, StorageError::Blob { .. }), "{refused}");
    let refused = blobs.get(&BlobId("ab".repeat(32))).unwrap_err();
    assert!(!refused.is_lost_blob(), "{refused}");
}
