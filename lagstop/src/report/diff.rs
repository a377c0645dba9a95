//! What changed between two recordings.

mod cells;
pub mod json;
pub mod text;
