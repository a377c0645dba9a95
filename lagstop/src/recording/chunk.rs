//! Chunks of compressed recordings: what is compressed together, and can be read without what comes before.
//!
//! A chunk is three zstd frames: one with the lines, one with all of their intervals merged into one, and a skippable one
//! that says when its intervals began. Standard tools pass over the last and read the others. Where chunks are followed as they
//! come, there is no merged one.

use serde::{Deserialize, Serialize};

use super::line::Gap;
use crate::model::Nanos;

/// Says what is in the chunk that ends with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    /// Lines of the recording before the chunk's.
    pub(super) lines_before: u64,
    /// When each of its intervals began.
    pub(super) start_ns: Vec<Nanos>,
    pub(super) gaps: Vec<Gap>,
}

/// One of the sixteen numbers that zstd's own format sets aside for frames that are passed over.
pub(super) const INDEX_MAGIC: [u8; 4] = 0x184d_2a5e_u32.to_le_bytes();

impl Index {
    pub(super) fn frame(&self) -> serde_json::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
        Ok([&INDEX_MAGIC[..], &length.to_le_bytes(), &json].concat())
    }
}
