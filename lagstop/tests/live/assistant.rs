//! `lagstop mcp` on the running host, and on a server: it tells a client what is measured when it asks.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    Test,
    command::lagstop,
    fixture::{TestCgroup, eventually},
    serving::Server,
};

pub(crate) const TESTS: &[Test] = &[("an_assistant_is_told_who_makes_whom_wait_here_and_on_a_server", bully)];

/// A server of tools, as a client starts it. It ends when its input does.
struct Tools {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Tools {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(lagstop())
            .arg("mcp")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let mut tools = Self { process, input, output, asked: 0 };
        let client = json!({ "name": "test", "version": "0" });
        tools.ask("initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }));
        tools.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        tools
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended without an answer to {method}");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    }

    /// What a tool answers.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        self.input = None;
        let ended = self.process.wait();
        if !std::thread::panicking() {
            assert!(ended.unwrap().success());
        }
    }
}

/// Two loads on one CPU: one naps, the other spins.
fn bully() {
    let (bully, victim) = (TestCgroup::new("bully"), TestCgroup::new("victim"));
    let mut loads = [victim.start("nap-on 0 600000"), bully.start("crowd 0 3 600000")];
    loads.iter_mut().for_each(|load| drop(load.line()));
    loads.iter_mut().for_each(|load| load.go());
    let server = Server::start(&["--interval", "500ms"]);
    let url = format!("http://{}", server.address());
    for arguments in [&[][..], &["--connect", &url]] {
        let mut tools = Tools::start(arguments);
        // A server may have measured for a moment only.
        eventually("an answer that blames the bully", || {
            let overview = tools.call("overview", &json!({ "seconds": 2 }));
            assert!(overview["verdict"]["headline"].is_string(), "{overview}");
            let waits = tools.call("who_makes_wait", &json!({ "cgroup": format!("⟦{}⟧", victim.path) }));
            let worst = &waits["waits"]["items"][0];
            println!("{arguments:?}: {worst}");
            worst["culprit"]["path"] == format!("⟦{}⟧", bully.path)
        });
    }
}
