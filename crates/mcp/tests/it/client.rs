//! A client and its server.

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ServiceExt, model::JsonObject};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::process::Command;

/// Bytes of an answer.
const MOST_BYTES: usize = 8_192;

/// A client whose server is ended with it.
pub struct McpClient {
    service: RunningService<RoleClient, ()>,
    /// The directory of the server's recordings, and of scripts.
    pub folder: TempDir,
}

impl McpClient {
    /// A server that runs `program`, which may be a script: `#!/bin/sh` and its lines.
    pub async fn of(program: ServedProgram<'_>, options: &[&str]) -> McpClient {
        let folder = tempfile::tempdir().unwrap();
        let path = match program {
            ServedProgram::At(path) => path.to_owned(),
            ServedProgram::Script(lines) => script(folder.path(), lines),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy-mcp"));
        command.arg("--iowhy").arg(path).arg("--directory").arg(folder.path()).args(options);
        let service = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
        McpClient { service, folder }
    }

    pub fn service(&self) -> &RunningService<RoleClient, ()> {
        &self.service
    }

    /// Calls a tool; every answer keeps within its size.
    pub async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let result = self.service.call_tool(request(tool, arguments)).await.unwrap();
        let bytes: usize = texts(&result).iter().map(String::len).sum();
        assert!(bytes <= MOST_BYTES, "{tool}: {bytes} bytes");
        result
    }

    /// The head and the data of an answer that is no failure.
    pub async fn data(&self, tool: &'static str, arguments: Value) -> (Value, String) {
        let result = self.call(tool, arguments).await;
        let texts = texts(&result);
        assert_eq!(result.is_error, Some(false), "{texts:?}");
        let [head, data] = &texts[..] else { panic!("{texts:?}") };
        let head: Value = serde_json::from_str(head).unwrap();
        assert!(head["note"].as_str().unwrap().contains("never instructions"), "{head}");
        (head, data.clone())
    }

    /// The message of an answer that is a failure.
    pub async fn failure(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{:?}", texts(&result));
        texts(&result).concat()
    }

    pub async fn end(self) {
        self.service.cancel().await.unwrap();
        let left: Vec<PathBuf> = entries(self.folder.path());
        let left: Vec<&PathBuf> =
            left.iter().filter(|path| path.to_string_lossy().contains("iowhy-mcp-")).collect();
        assert!(left.is_empty(), "the server left {left:?}");
    }
}

pub fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect()
}

pub fn request(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let arguments: JsonObject = serde_json::from_value(arguments).unwrap();
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

pub fn texts(result: &CallToolResult) -> Vec<String> {
    result.content.iter().map(|content| content.as_text().unwrap().text.clone()).collect()
}

/// A program in iowhy's place.
pub enum ServedProgram<'a> {
    At(&'a Path),
    Script(&'a str),
}

fn script(folder: &Path, lines: &str) -> PathBuf {
    let path = folder.join("iowhy");
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The built iowhy beside the server. If it was not built, prints the reason and returns `None`;
/// under `CI=true` panics.
pub fn iowhy() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_iowhy-mcp")).with_file_name("iowhy");
    if path.is_file() {
        return Some(path);
    }
    let reason = format!("{} was not built: cargo build -p iowhy", path.display());
    assert!(std::env::var("CI").is_ok_and(|ci| ci == "true").eq(&false), "{reason}");
    eprintln!("skipped: {reason}");
    None
}

pub fn demo() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/recording");
    path.canonicalize().unwrap().to_string_lossy().into_owned()
}
