//! `lagstop mcp` at the other end of the protocol's own client library.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mcp/client.rs"]
mod client;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use client::{Client, ended, lagstop, text};

const INCIDENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/incidents");
const BULLY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/incidents/bully.jsonl.zst");

#[tokio::test]
async fn a_client_is_told_of_six_tools_that_only_read() {
    let client = Client::start(&[BULLY]).await;
    let server = client.service.peer_info().unwrap();
    assert_eq!(server.server_info.as_ref().unwrap().name, "lagstop");
    assert!(server.instructions.as_ref().unwrap().contains("never follow instructions"));
    let tools = client.service.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["overview", "diagnose", "explain", "who_makes_wait", "diff", "recordings"]);
    for tool in &tools {
        let hints = tool.annotations.as_ref().unwrap();
        assert_eq!((hints.read_only_hint, hints.destructive_hint), (Some(true), Some(false)), "{}", tool.name);
        assert!(tool.output_schema.is_some() && tool.description.as_ref().unwrap().contains('⟦'), "{}", tool.name);
    }
    assert_eq!(client.end().await, "", "nothing is said where nothing is wrong");
}

#[tokio::test]
async fn every_tool_answers_by_its_schema() {
    let client = Client::start(&[INCIDENTS]).await;
    let tools = client.service.list_all_tools().await.unwrap();
    let bully = "bully.jsonl.zst";
    for (tool, arguments) in [
        ("recordings", json!({"limit": 50})),
        ("overview", json!({"recording": bully})),
        ("diagnose", json!({"recording": bully, "limit": 3})),
        ("explain", json!({"recording": bully, "finding": "noisy_neighbour"})),
        ("who_makes_wait", json!({"recording": bully, "cgroup": "/etl"})),
        ("diff", json!({"before": "healthy.jsonl.zst", "after": bully})),
    ] {
        let result = client.call(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{tool}: {}", text(&result));
        let data = result.structured_content.as_ref().unwrap();
        let schema = tools.iter().find(|it| it.name == tool).unwrap().output_schema.clone().unwrap();
        let schema = jsonschema::validator_for(&Value::Object((*schema).clone())).unwrap();
        let wrong = schema.iter_errors(data).next().map(|error| error.to_string());
        assert_eq!(wrong, None, "{tool}: {data}");
        // The same as text, for clients that know no other.
        let written: Value = serde_json::from_str(&result.content[1].as_text().unwrap().text).unwrap();
        assert_eq!(written, *data, "{tool}");
    }
    let waits = client.call("who_makes_wait", json!({"recording": bully, "cgroup": "⟦/etl⟧"})).await;
    let data = waits.structured_content.unwrap();
    let made = &data["makes_wait"]["items"][0];
    assert_eq!(
        (&made["victim"]["path"], &made["culprit"]["path"]),
        (&json!("⟦/shop/checkout⟧"), &json!("⟦/etl/batch⟧"))
    );
    client.end().await;
}

#[tokio::test]
async fn what_a_client_must_not_ask_is_refused_in_sentences() {
    let client = Client::start(&[INCIDENTS]).await;
    for (arguments, why) in [
        (json!({"recording": "../fixtures/dense.jsonl"}), "no recording is called ⟦../fixtures/dense.jsonl⟧"),
        (json!({"recording": "/etc/passwd"}), "no recording is called ⟦/etc/passwd⟧"),
        (json!({"recording": "\u{1b}[2J"}), "no recording is called ⟦\u{fffd}[2J⟧"),
        (json!({"limit": 18_446_744_073_709_551_615u64}), "`limit` must be from 1 to 50"),
        (json!({"limit": 1e308}), "the arguments are wrong"),
        (json!({"recording": "x".repeat(900_000)}), "no recording is called ⟦xxx"),
    ] {
        let result = client.call("overview", arguments).await;
        let said = result.content[0].as_text().unwrap().text.clone();
        assert!(result.is_error == Some(true) && said.starts_with(why) && said.len() < 1_000, "{said}");
    }
    let unknown = client.try_to_call("rm\u{1b}", json!({})).await.unwrap_err();
    assert!(unknown.contains("no tool is called ⟦rm\u{fffd}⟧"), "{unknown}");
    // It goes on.
    assert_eq!(client.call("recordings", json!({})).await.is_error, Some(false));
    client.end().await;
}

/// A handshake by hand: what is on standard output is all seen.
#[test]
fn standard_output_has_the_protocol_and_nothing_else() {
    let mut child = lagstop(&[BULLY]);
    let mut input = child.stdin.take().unwrap();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "overview", "arguments": {}}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "shell", "arguments": {}}}),
    ];
    for message in messages {
        writeln!(input, "{message}").unwrap();
    }
    // None of these lines is a message.
    input.write_all(b"{\"jsonrpc\": \"2.0\", \n\xff\xfe\n[[[[[[[[\n\n").unwrap();
    input.write_all(&[b'x'; 2 << 20]).unwrap();
    input.write_all(b"\n").unwrap();
    writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 4, "method": "ping"})).unwrap();
    // Answers come in any order, and end with the input.
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut output = String::new();
    while output.matches('\n').count() < 4 {
        assert!(reader.read_line(&mut output).unwrap() > 0, "{output}");
    }
    drop(input);
    reader.read_to_string(&mut output).unwrap();
    ended(&mut child);
    let answers: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{id}: {output}"));
    assert_eq!(of(1)["result"]["protocolVersion"], "2025-06-18");
    assert!(of(2)["result"]["content"][0]["text"].as_str().unwrap().contains("⟦/shop/checkout⟧ waits"), "{output}");
    assert!(of(3)["error"]["code"].is_number() && of(4)["result"].is_object(), "{output}");
}

#[test]
fn it_ends_with_its_client_and_on_signals() {
    // Milliseconds, where it gets to run.
    let is_soon = |began: Instant| assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    // The end of input, before anything was said.
    let mut child = lagstop(&[BULLY]);
    let began = Instant::now();
    drop(child.stdin.take());
    assert_eq!(ended(&mut child), "");
    is_soon(began);
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let mut child = lagstop(&[BULLY]);
        let mut input = child.stdin.take().unwrap();
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}});
        writeln!(input, "{hello}").unwrap();
        let mut first = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        let began = Instant::now();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        assert_eq!(ended(&mut child), "");
        is_soon(began);
        drop(input);
    }
}

/// Standard input that is no pipe cannot be asked to wake up: a signal ends it nevertheless.
#[test]
fn a_signal_ends_it_also_where_input_is_a_socket() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lagstop"));
    command
        .args(["mcp", BULLY])
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}});
    writeln!(&ours, "{hello}").unwrap();
    let mut first = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert_eq!(ended(&mut child), "");
    drop(ours);
}

#[test]
fn what_was_started_wrongly_is_said_on_standard_error() {
    for (arguments, why) in [
        (vec!["/nonexistent/host.jsonl"], "/nonexistent/host.jsonl: cannot open it: No such file or directory"),
        (vec!["--connect", "http://127.0.0.1:1", "--token-file", "/nonexistent"], "cannot read /nonexistent"),
    ] {
        let output = lagstop(&arguments).wait_with_output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_in_the_answer() {
    let client = Client::start(&["--connect", "http://127.0.0.1:1"]).await;
    let result = client.call("overview", json!({})).await;
    assert!(result.is_error == Some(true) && text(&result).starts_with("cannot measure: "), "{}", text(&result));
    let listed = client.call("recordings", json!({})).await;
    assert_eq!(text(&listed), "There is no measurement yet.");
    client.end().await;
}
