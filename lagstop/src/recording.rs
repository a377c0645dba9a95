//! Recordings: JSON lines, one `header`, one `interval` a line, one `footer`; or the same packed and compressed.
//! `docs/recording.md` defines every field.

mod chunk;
mod copy;
mod cut;
mod epoch;
pub(crate) mod histogram;
mod line;
mod merge;
mod packed;
mod reader;
mod schema;
mod show;
mod time;
mod writer;

pub use copy::CopyError;
pub use cut::{Cut, Wanted};
pub use epoch::Epoch;
pub use line::{Footer, Gap, Line, SCHEMA};
pub use merge::Merge;
pub use packed::{Columns, Named, PackedInterval};
pub use reader::{ReadError, Reader, StreamEnd, StreamReader, Streamed};
pub use schema::schema;
pub use show::{CgroupCounts, CgroupSum, Contents, DatedGap, Form, HostSum};
pub use time::{now, time};
pub use writer::{Chunks, WriteError, Writer};
