//! Findings, for people and for programs.

pub mod bench;
pub mod changes;
pub mod checkup;
pub mod contents;
pub mod explanation;
pub mod fleet;
pub mod fleet_metrics;
pub mod html;
pub mod json;
pub mod markdown;
mod page;
pub mod plan;
pub mod sanitise;
pub mod text;
pub mod trial;

pub use sanitise::display_name;

pub use crate::diagnosis::Report;
