//! Findings, for people and for programs.

pub mod changes;
pub mod checkup;
pub mod contents;
pub mod json;
mod page;
pub mod sanitise;
pub mod text;

pub use sanitise::display_name;

pub use crate::diagnosis::Report;
