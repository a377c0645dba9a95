//! Findings, for people and for programs.

pub mod bench;
pub mod check;
pub mod diff;
pub mod explanation;
pub mod fleet;
pub mod hosts;
pub mod html;
pub mod json;
pub mod markdown;
mod page;
pub mod plan;
pub mod run;
pub mod show;
pub mod text;
pub mod trial;

pub use crate::diagnosis::Report;
