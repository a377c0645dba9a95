//! What the targets share: files in memory, all the ways in which a recording is read, and how to change a compressed one.

mod dice;
mod file;
pub mod frames;
mod reading;
mod recording;

pub use file::MemoryFile;
pub use reading::read_all;
pub use recording::Recording;
