//! What lagstop found, for assistants: tools of the Model Context Protocol on standard input and output.
//!
//! Nothing is changed on any host. What the client sends is hostile until checked: it names recordings only as they are
//! listed. What the host's users have named is marked, so that an assistant can tell it from lagstop's own words.

mod answer;
mod library;
mod measurer;
mod names;
mod seen;
mod server;
mod shelf;
mod tools;
mod trouble;

pub use library::Library;
pub use measurer::{Measurer, MeasuringTime};
pub use server::{ServeError, serve};
pub use shelf::Shelf;
pub use tools::reference;
