//! The protocol, on standard input and output.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InitializeResult,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, Tool, ToolAnnotations,
    },
    serve_server,
    service::{RequestContext, ServerInitializeError},
    transport::{async_rw::AsyncRwTransport, stdio_pipes},
};
use thiserror::Error;

use super::{
    answer::Answer,
    names::{NOTICE, harmless, quoted},
    shelf::Shelf,
    tools,
    trouble::Trouble,
};

/// Bytes of a message from the client.
const LONGEST_MESSAGE: usize = 1 << 20;

const ABOUT: &str = "\
    lagstop says who waits for the CPU on a Linux host, behind whom, and what scheduling costs, for each cgroup \
    (container, service). Call `overview` first. It only reads: no tool changes anything on the host.";

/// Why nothing is served.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("the client broke the protocol: {}. Start `lagstop mcp` from an MCP client", harmless(&.0.to_string()))]
    Protocol(#[source] Box<ServerInitializeError>),
    #[error("serving ended because of a bug in lagstop. Please report it with the message above")]
    Died,
}

/// Answers a client on standard input and output, until the client ends.
///
/// # Errors
/// When the client breaks the protocol at the beginning.
pub async fn serve(shelf: Shelf) -> Result<(), ServeError> {
    let (input, output) = stdio_pipes();
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LONGEST_MESSAGE);
    let server = Server { shelf: Arc::new(shelf), tools: tools::declared().into_iter().map(tool).collect() };
    let running = match serve_server(server, transport).await {
        Ok(running) => running,
        // It went away before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Protocol(Box::new(error))),
    };
    running.waiting().await.map(drop).map_err(|_| ServeError::Died)
}

/// Answers one client.
struct Server {
    shelf: Arc<Shelf>,
    tools: Vec<Tool>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        let itself = Implementation::new("lagstop", env!("CARGO_PKG_VERSION"));
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(itself)
            .with_instructions(format!("{ABOUT} {NOTICE}"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answered = tools::ask(Arc::clone(&self.shelf), &request.name, request.arguments.unwrap_or_default());
        let answered = tokio::select! {
            answered = answered => answered,
            // Nobody waits for it any more: what is being measured for it ends.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the client cancelled the call", None)),
        };
        match answered {
            None => {
                let unknown = format!("no tool is called {}. Ask for the list of tools", quoted(&request.name));
                Err(ErrorData::invalid_params(unknown, None))
            }
            Some(answered) => Ok(result(answered).into()),
        }
    }
}

fn tool(declared: tools::Declared) -> Tool {
    let tools::Declared { name, title, about, input, output } = declared;
    // Reading only, and of one host: it says nothing about the rest of the world.
    let hints = ToolAnnotations::with_title(title).read_only(true).destructive(false).open_world(false);
    Tool::new(name, Cow::from(format!("{about} {NOTICE}")), Arc::new(input))
        .with_title(title)
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(hints)
}

/// A few sentences, and all of it: as text, too, for clients that know no structured answers.
fn result(answered: Result<Answer, Trouble>) -> CallToolResult {
    match answered {
        Ok(Answer { text, data }) => {
            let mut result = CallToolResult::structured(data);
            result.content.insert(0, ContentBlock::text(text));
            result
        }
        Err(trouble) => CallToolResult::error(vec![ContentBlock::text(harmless(&trouble.to_string()))]),
    }
}
