//! A client of the protocol, by the library of those who make it, and `lagstop mcp` at its other end.

use std::{
    io::Read,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, CallToolResult},
    serve_client,
    service::RunningService,
};
use serde_json::Value;
use tokio::net::unix::pipe::{Receiver, Sender};

/// `lagstop mcp`, started by a client that has said hello.
pub(crate) struct Client {
    pub(crate) child: Child,
    pub(crate) service: RunningService<RoleClient, ()>,
}

/// `lagstop mcp` with these arguments.
pub(crate) fn lagstop(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lagstop"));
    command.arg("mcp").args(arguments).env_remove("XDG_CONFIG_HOME").env("HOME", "/nonexistent");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

impl Client {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut child = lagstop(arguments);
        let output = Receiver::from_owned_fd(OwnedFd::from(child.stdout.take().unwrap())).unwrap();
        let input = Sender::from_owned_fd(OwnedFd::from(child.stdin.take().unwrap())).unwrap();
        let service = serve_client((), (output, input)).await.unwrap();
        Self { child, service }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        self.try_to_call(tool, arguments).await.unwrap()
    }

    /// The same for a tool that may not exist.
    pub(crate) async fn try_to_call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, String> {
        let arguments = arguments.as_object().unwrap().clone();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.service.call_tool(request).await.map_err(|error| error.to_string())
    }

    /// Ends the client, and gives what the server had written to standard error until it ended well.
    pub(crate) async fn end(mut self) -> String {
        self.service.cancel().await.unwrap();
        ended(&mut self.child)
    }
}

/// What it had written to standard error until it ended well.
pub(crate) fn ended(child: &mut Child) -> String {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {said}");
    said
}

/// The few sentences of an answer, without marks of names.
pub(crate) fn text(result: &CallToolResult) -> String {
    let text = result.content[0].as_text().unwrap().text.clone();
    text.replace(['⟦', '⟧'], "")
}
