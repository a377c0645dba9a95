//! Findings, for people and for programs.

pub mod json;
pub mod sanitise;
pub mod text;

pub use sanitise::display_name;

pub use crate::diagnosis::Report;
