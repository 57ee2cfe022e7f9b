//! Certificates of a cluster. One authority signs them all, and every connection shows one on both
//! sides. A node's certificate has the name [`NODE_NAME`]: only its holder is accepted as a
//! scheduler or an executor, so that a client cannot take the place of one.
//!
//! The name is that of a role and not of a machine, since executors come and go with addresses of
//! their own.
//!
//! What does not belong here: making certificates, and the cluster's services.

use crate::error::{FleetContext, FleetError, Result};
use crate::store::read_secret;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;
use ballista_core::extension::EndpointOverrideFn;
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use rustls_pki_types::{CertificateDer, ServerName};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use tonic::Status;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::Scheme;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use webpki::EndEntityCert;

/// The DNS name in the certificate of each scheduler and executor.
pub const NODE_NAME: &str = "iowhy-fleet-node";
/// The authority's certificate, and the own one with its key: the names that cert-manager gives.
const FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
/// Calls of the scheduler that executors make and nobody else.
const NODE_CALLS: [&str; 5] = [
    "PollWork",
    "RegisterExecutor",
    "HeartBeatFromExecutor",
    "UpdateTaskStatus",
    "ExecutorStopped",
];
/// Bytes of a certificate or key at most.
const MOST_BYTES: u64 = 1 << 20;

/// The certificate of a node or a client, and the authority that it trusts.
#[derive(Clone)]
pub struct ClusterTls {
    authority: Certificate,
    identity: Identity,
}

impl std::fmt::Debug for ClusterTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ClusterTls")
    }
}

impl ClusterTls {
    /// Reads the certificates in a directory: `ca.crt`, `tls.crt` and `tls.key`.
    ///
    /// # Errors
    /// Fails if one cannot be read or is not valid, or if others may read the key.
    pub fn load(folder: &Path) -> Result<ClusterTls> {
        let [authority, own, key] = FILES.map(|name| folder.join(name));
        let read = |path: &Path| {
            let text = std::fs::metadata(path).and_then(|file| match file.len() <= MOST_BYTES {
                true => std::fs::read(path),
                false => Err(std::io::ErrorKind::FileTooLarge.into()),
            });
            text.context(|| format!("read {}", path.display()))
        };
        let tls = ClusterTls {
            authority: Certificate::from_pem(read(&authority)?),
            identity: Identity::from_pem(read(&own)?, read_secret(&key)?),
        };
        let usable = Server::builder().tls_config(tls.server()).map(drop);
        let endpoint = Endpoint::from_static("https://localhost");
        let usable = usable.and_then(|()| endpoint.tls_config(tls.client()).map(drop));
        usable.map_err(|error| {
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            let message =
                format!("failed to use the certificates in {}: {reason}", folder.display());
            FleetError::new(message).hint("ca.crt, tls.crt and tls.key are PEM; docs/fleet.md")
        })?;
        Ok(tls)
    }

    /// Returns a server's TLS settings: its certificate, and the authority of its clients.
    pub(super) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity.clone())
            .client_ca_root(self.authority.clone())
    }

    /// Returns a client's TLS settings: its certificate, and that it only connects to nodes.
    fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .identity(self.identity.clone())
            .ca_certificate(self.authority.clone())
            .domain_name(NODE_NAME)
    }

    /// Makes a connection that Ballista is about to open an encrypted one. It names the scheduler
    /// by `http`, also where it is told to encrypt.
    fn encrypt(
        &self,
        endpoint: Endpoint,
    ) -> std::result::Result<Endpoint, Box<dyn Error + Send + Sync>> {
        let mut parts = endpoint.uri().clone().into_parts();
        if parts.scheme == Some(Scheme::HTTPS) {
            return Ok(endpoint.tls_config(self.client())?);
        }
        parts.scheme = Some(Scheme::HTTPS);
        let uri = Uri::from_parts(parts)?;
        let endpoint = create_grpc_client_endpoint(uri, Some(&GrpcClientConfig::default()))?;
        Ok(endpoint.tls_config(self.client())?)
    }

    /// [`ClusterTls::encrypt`] as Ballista takes it.
    pub(super) fn endpoints(self: &Arc<Self>) -> EndpointOverrideFn {
        let tls = Arc::clone(self);
        Arc::new(move |endpoint| tls.encrypt(endpoint))
    }
}

/// Whether a certificate, which the authority has signed, is that of a node.
fn is_node(certificate: &CertificateDer<'_>) -> bool {
    let name = ServerName::try_from(NODE_NAME);
    let certificate = EndEntityCert::try_from(certificate);
    match (certificate, name) {
        (Ok(certificate), Ok(name)) => certificate.verify_is_valid_for_subject_name(&name).is_ok(),
        _ => false,
    }
}

/// Refuses clients the calls of executors, and tells the scheduler who calls it.
pub(super) async fn check_role(mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>().cloned();
    let call = request.uri().path().rsplit('/').next().unwrap_or_default();
    if NODE_CALLS.contains(&call) {
        let certificates = peer.as_ref().and_then(TlsConnectInfo::peer_certs);
        let own = certificates.as_ref().and_then(|chain| chain.first());
        if !own.is_some_and(is_node) {
            let message =
                format!("{call} is for nodes, whose certificates have the name {NODE_NAME}");
            return Status::permission_denied(message).into_http();
        }
    }
    if let Some(address) = peer.and_then(|peer| peer.get_ref().remote_addr()) {
        request.extensions_mut().insert(ConnectInfo(address));
    }
    next.run(request).await
}
