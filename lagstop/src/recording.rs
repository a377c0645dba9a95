//! Recordings: JSON lines, one `header`, one `interval` a line, one `footer`. `docs/recording.md` defines every field.

mod line;
mod reader;
mod writer;

pub use line::{Footer, Line, SCHEMA};
pub use reader::{ReadError, Reader};
pub use writer::{WriteError, Writer};
