//! Lines made small.

use std::io::{self, Write};

use zstd::stream::write::Encoder;

use super::WriteError;
use crate::{
    model::{Interval, Merger, Nanos},
    recording::{
        chunk::Index,
        line::Line,
        packed::{Names, can_pack, pack},
    },
};

/// Compression level. Numbers in columns are hard to predict: higher levels take long and gain next to nothing.
const LEVEL: i32 = 1;

/// When a chunk is full: what reading one interval in the middle of it may cost.
const MOST_INTERVALS: usize = 60;
const MOST_BYTES: usize = 16 << 20;

/// Makes chunks of lines.
pub struct Chunks {
    encoder: Option<Encoder<'static, Vec<u8>>>,
    /// Bytes of lines in the open chunk.
    bytes: usize,
    index: Index,
    names: Names,
    /// Adds up the intervals of the open chunk. `None` for those who get each of them anyway.
    merger: Option<Merger>,
    lines: u64,
    line: Vec<u8>,
}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl Chunks {
    /// Nothing yet. Chunks end with all of their intervals merged into one, for whoever wants an overview of a file.
    #[expect(clippy::new_without_default, reason = "what begins with a header is no default")]
    pub fn new() -> Self {
        Self { merger: Some(Merger::new(Nanos::SECOND)), ..Self::to_follow() }
    }

    /// The same for whoever reads each interval as it comes: without merged ones, which take memory for every cgroup.
    pub fn to_follow() -> Self {
        Self {
            encoder: None,
            bytes: 0,
            index: Index::default(),
            names: Names::trusted(),
            merger: None,
            lines: 0,
            line: Vec::new(),
        }
    }

    /// What to write for `line`: it can be read as soon as that is written.
    ///
    /// # Errors
    /// When the library fails.
    pub fn compress(&mut self, line: &Line) -> Result<Vec<u8>, WriteError> {
        match line {
            Line::Interval(interval) => self.compress_interval(interval),
            Line::Gap(gap) => {
                self.index.gaps.push(gap.clone());
                self.push(line)?;
                self.flush()
            }
            _ => {
                if let Line::Header { session, .. } = line {
                    self.merger = self.merger.as_ref().map(|_| Merger::new(session.load_credit_time_ns));
                }
                let mut bytes = self.end_chunk()?;
                self.lines += 1;
                bytes.extend(frame(&[line])?);
                Ok(bytes)
            }
        }
    }

    /// The same for an interval that is not a line yet.
    ///
    /// # Errors
    /// When the library fails.
    pub fn compress_interval(&mut self, interval: &Interval) -> Result<Vec<u8>, WriteError> {
        let mut bytes = Vec::new();
        // A chunk, and what is merged of it, has no more cgroups than can be read.
        let has_room = match &self.merger {
            Some(merger) => merger.has_room_for(interval),
            None => self.names.have_room_for(interval),
        };
        if !has_room {
            bytes = self.end_chunk()?;
        }
        if can_pack(interval) {
            let cgroups = self.names.new_in(interval);
            if !cgroups.is_empty() {
                self.push(&Line::Names { cgroups })?;
            }
            self.push(&Line::Packed(Box::new(pack(interval))))?;
        } else {
            self.push(&Line::Interval(Box::new(interval.clone())))?;
        }
        self.index.start_ns.push(interval.start_ns);
        if let Some(merger) = &mut self.merger {
            merger.add(interval);
        }
        let is_full = self.index.start_ns.len() >= MOST_INTERVALS || self.bytes >= MOST_BYTES;
        bytes.extend(if is_full { self.end_chunk()? } else { self.flush()? });
        Ok(bytes)
    }

    /// Adds a line to the chunk.
    fn push(&mut self, line: &Line) -> Result<(), WriteError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.bytes += self.line.len();
        self.lines += 1;
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(encoder()?),
        };
        Ok(encoder.write_all(&self.line)?)
    }

    /// What is compressed so far.
    fn flush(&mut self) -> Result<Vec<u8>, WriteError> {
        let Some(encoder) = &mut self.encoder else { return Ok(Vec::new()) };
        encoder.flush()?;
        Ok(std::mem::take(encoder.get_mut()))
    }

    /// Is no chunk open?
    pub const fn is_between(&self) -> bool {
        self.encoder.is_none()
    }

    /// Ends the open chunk, if there is one, and gives what is left of it to write.
    ///
    /// # Errors
    /// When the library fails.
    pub fn end_chunk(&mut self) -> Result<Vec<u8>, WriteError> {
        if self.is_between() {
            return Ok(Vec::new());
        }
        if self.merger.is_none() {
            self.push(&Line::ChunkEnd)?;
        }
        let Some(encoder) = self.encoder.take() else { return Ok(Vec::new()) };
        let mut bytes = encoder.finish()?;
        self.names.clear();
        if let Some(merged) = self.merger.as_mut().and_then(Merger::take) {
            let names = Line::Names { cgroups: self.names.new_in(&merged) };
            let merged = Line::Merged(Box::new(pack(&merged)));
            bytes.extend(frame(&[&names, &merged])?);
            self.lines += 2;
            self.names.clear();
        }
        bytes.extend(self.index.frame()?);
        self.index = Index { lines_before: self.lines, ..Index::default() };
        self.bytes = 0;
        Ok(bytes)
    }
}

fn encoder() -> io::Result<Encoder<'static, Vec<u8>>> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// `lines` as a frame of their own.
fn frame(lines: &[&Line]) -> Result<Vec<u8>, WriteError> {
    let mut encoder = encoder()?;
    for line in lines {
        serde_json::to_writer(&mut encoder, line)?;
        encoder.write_all(b"\n")?;
    }
    Ok(encoder.finish()?)
}
