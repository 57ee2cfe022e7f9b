//! A cluster with certificates: a client with one of its authority is answered, one without is not,
//! and a client cannot take the place of a node.

use crate::cluster::{QUERIES, TestCluster, fleet};
use crate::support::{TestPlace, free_port, program, sorted};
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{ExecutorStoppedParams, GetJobStatusParams};
use iowhy_fleet::engine::tls::{ClusterTls, NODE_NAME};
use iowhy_fleet::engine::{EngineOptions, FleetEngine};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// A directory with a certificate of this name.
    fn certificate(&self, below: &Path, folder: &str, name: &str) -> PathBuf {
        let path = below.join(folder);
        std::fs::create_dir(&path).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let own = params.signed_by(&key, &self.0).unwrap();
        let files =
            [("ca.crt", self.0.pem()), ("tls.crt", own.pem()), ("tls.key", key.serialize_pem())];
        for (file, text) in files {
            std::fs::write(path.join(file), text).unwrap();
        }
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path.join("tls.key"), mode).unwrap();
        path
    }
}

/// Certificates of a node, of a client, and of a stranger that another authority calls a node.
struct Certificates {
    _folder: tempfile::TempDir,
    node: PathBuf,
    client: PathBuf,
    stranger: PathBuf,
}

fn certificates() -> Certificates {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (Authority::new(), Authority::new());
    Certificates {
        node: own.certificate(folder.path(), "node", NODE_NAME),
        client: own.certificate(folder.path(), "client", "someone.example"),
        stranger: other.certificate(folder.path(), "stranger", NODE_NAME),
        _folder: folder,
    }
}

async fn engine(test: &TestPlace, cluster: &TestCluster, tls: Option<&Path>) -> FleetEngine {
    let tls = tls.map(|folder| Arc::new(ClusterTls::load(folder).unwrap()));
    let patience = Duration::from_secs(60);
    let options = EngineOptions { cluster: cluster.url(), tls, patience, ..Default::default() };
    test.engine_with(options).await
}

/// A connection as anybody with these files can make one.
async fn channel(port: u16, folder: &Path) -> Channel {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(read("ca.crt")))
        .identity(Identity::from_pem(read("tls.crt"), read("tls.key")))
        .domain_name(NODE_NAME);
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
    endpoint.tls_config(tls).unwrap().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_with_a_certificate_are_answered() {
    let test = fleet().await;
    let certificates = certificates();
    let folder = certificates.node.to_str().unwrap();
    let cluster = TestCluster::start_with(2, &["--tls", folder]);
    let here = test.engine(None).await;
    let there = engine(&test, &cluster, Some(&certificates.client)).await;
    for sql in QUERIES {
        let (a, b) = (here.query(sql).await.unwrap(), there.query(sql).await.unwrap());
        assert_eq!(sorted(&a), sorted(&b), "{sql}");
    }
    for tls in [None, Some(certificates.stranger.as_path())] {
        let error = engine(&test, &cluster, tls).await.query(QUERIES[0]).await.unwrap_err();
        assert!(error.is_transient && error.to_string().contains("--tls"), "{tls:?}: {error}");
    }
    // Bytes without encryption are no request to them.
    for port in [cluster.scheduler.port, cluster.executors[0].port] {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        let is_alert = answer.first().is_none_or(|first| *first == 0x15);
        assert!(is_alert, "port {port}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_no_node() {
    let certificates = certificates();
    let cluster = TestCluster::start_with(0, &["--tls", certificates.node.to_str().unwrap()]);
    let stopped = ExecutorStoppedParams { executor_id: "x".to_owned(), reason: String::new() };
    let mut client =
        SchedulerGrpcClient::new(channel(cluster.scheduler.port, &certificates.client).await);
    let refused = client.executor_stopped(stopped.clone()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
    let job_id = "none".to_owned();
    let asked = client.get_job_status(GetJobStatusParams { job_id }).await;
    let code = asked.err().map(|status| status.code());
    assert_ne!(code, Some(tonic::Code::PermissionDenied), "a client may ask");
    let mut node =
        SchedulerGrpcClient::new(channel(cluster.scheduler.port, &certificates.node).await);
    let code = node.executor_stopped(stopped).await.err().map(|status| status.code());
    assert_ne!(code, Some(tonic::Code::PermissionDenied), "a node may");

    // Nor is it believed to be a scheduler.
    let test = fleet().await;
    let posing = TestCluster::start_with(0, &["--tls", certificates.client.to_str().unwrap()]);
    let error = engine(&test, &posing, Some(&certificates.client)).await;
    let error = error.query(QUERIES[0]).await.unwrap_err();
    assert!(error.is_transient, "{error}");
}

/// Returns the message of a node that does not start.
fn refusal(args: &[&str]) -> String {
    let port = free_port().to_string();
    let mut command = program();
    command.args(["scheduler", "--port", &port]).args(args);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_node_without_certificates_stays_on_its_machine() {
    for address in ["0.0.0.0", "::", "192.0.2.1"] {
        let error = refusal(&["--bind", address]);
        assert!(error.contains("hint: --tls DIR") && error.contains("--insecure"), "{error}");
    }
    // With --insecure it is not refused for that: the address is not one of this machine.
    let error = refusal(&["--bind", "192.0.2.1", "--insecure"]);
    assert!(!error.contains("certificates"), "{error}");
}

#[test]
fn what_is_no_certificate_is_said_in_words() {
    let certificates = certificates();
    let folder = certificates.node.to_str().unwrap();
    let key = certificates.node.join("tls.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&["--tls", folder]).contains("others may read it"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (file, text) in [
        ("tls.key", "no key"),
        ("tls.key", &std::fs::read_to_string(certificates.stranger.join("tls.key")).unwrap()),
        ("ca.crt", "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n"),
        ("tls.crt", ""),
    ] {
        let path = certificates.node.join(file);
        let before = std::fs::read(&path).unwrap();
        std::fs::write(&path, text).unwrap();
        let error = refusal(&["--tls", folder]);
        assert!(error.contains("failed to use the certificates in"), "{file} {text}: {error}");
        std::fs::write(&path, before).unwrap();
    }
    std::fs::remove_file(&key).unwrap();
    assert!(refusal(&["--tls", folder]).contains("tls.key"));
}
