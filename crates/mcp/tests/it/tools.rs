//! Answers of the tools, with the real iowhy.

use crate::client::{McpClient, ServedProgram, demo, iowhy};
use serde_json::{Value, json};

#[tokio::test]
async fn there_are_five_tools_that_only_read() {
    let client = McpClient::of(ServedProgram::Script("exit 1"), &[]).await;
    let about = client.service().peer_info().unwrap().clone();
    assert!(about.instructions.as_deref().unwrap().contains("never instructions"));
    let tools = client.service().list_all_tools().await.unwrap();
    let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["check", "explain", "findings", "query", "watch"]);
    for tool in &tools {
        assert!(tool.description.is_some(), "{}", tool.name);
        assert_eq!(tool.annotations.as_ref().unwrap().read_only_hint, Some(true), "{}", tool.name);
        assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
    }
    let bytes = serde_json::to_string(&tools).unwrap().len();
    assert!(bytes < 8_000, "the list of tools takes {bytes} bytes of an agent's context");
    client.end().await;
}

#[tokio::test]
async fn a_recording_is_explained_and_queried() {
    let Some(program) = iowhy() else { return };
    let client = McpClient::of(ServedProgram::At(&program), &[]).await;
    let source = demo();
    let (_, data) = client.data("findings", json!({ "source": source })).await;
    let brief: Value = serde_json::from_str(&data).unwrap();
    // Its disk is fine: what it waits for is information.
    assert_eq!(brief["findings"][0]["cause"], "slow-async");
    for (cause, said) in [("1", "io_uring"), ("fsync-heavy", "fsync")] {
        let (_, data) = client.data("explain", json!({ "cause": cause, "source": source })).await;
        assert!(data.contains(said), "{data:.300}");
    }
    let (_, data) = client.data("explain", json!({ "cause": "fsync-heavy" })).await;
    assert!(data.contains("fsync"), "{data:.300}");
    for view in [
        "stat", "proc", "files", "waits", "latency", "stacks", "cache", "snoop", "opens", "chains",
        "blame", "stages",
    ] {
        let (_, data) = client.data("query", json!({ "source": source, "view": view })).await;
        assert!(data.starts_with(['{', '[']), "{view}: {data:.200}");
    }
    client.end().await;
}

#[tokio::test]
async fn a_long_answer_is_read_on() {
    let Some(program) = iowhy() else { return };
    let client = McpClient::of(ServedProgram::At(&program), &[]).await;
    let query = json!({ "source": demo(), "view": "snoop", "process": "fio", "above_ms": 1.0 });
    let (mut head, mut data) = client.data("query", query).await;
    let mut parts = 1;
    while let Some(handle) = head["more"].as_str() {
        let (next, more) = client.data("query", json!({ "more": handle })).await;
        (head, parts) = (next, parts + 1);
        data.push_str(&more);
    }
    assert!(parts > 2, "{parts}");
    for line in data.lines() {
        let request: Value = serde_json::from_str(line).unwrap();
        assert_eq!(request["process"], "fio");
    }
    client.end().await;
}

#[tokio::test]
async fn answers_can_be_without_names() {
    let Some(program) = iowhy() else { return };
    let client = McpClient::of(ServedProgram::At(&program), &["--redact"]).await;
    let (_, data) = client.data("findings", json!({ "source": demo() })).await;
    assert!(data.contains("\"host\":\"host-") && !data.contains("24986-0"), "{data}");
    client.end().await;
}

/// With root and BPF a watch gives a handle; else the answer says what is missing.
#[tokio::test]
async fn a_watch_gives_a_handle_or_a_reason() {
    let Some(program) = iowhy() else { return };
    let client = McpClient::of(ServedProgram::At(&program), &[]).await;
    let watch = client.call("watch", json!({ "seconds": 1 })).await;
    let texts = crate::client::texts(&watch);
    if watch.is_error == Some(true) {
        assert!(texts[0].contains("hint:"), "{texts:?}");
        eprintln!("not watched: {}", texts[0]);
        return;
    }
    let head: Value = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!(head["source"], "watch-1");
    client.data("findings", json!({ "source": "watch-1" })).await;
    client.data("query", json!({ "source": "watch-1", "view": "stat" })).await;
    let (_, check) = client.data("check", json!({})).await;
    assert!(check.contains("rows"), "{check:.200}");
    client.end().await;
}
