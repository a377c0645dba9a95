//! Figures of many cgroups, each figure's values together and their bytes apart: what is alike lies side by side, which
//! is what makes it small when compressed.

use std::io::{self, Read, Write};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};

/// Fast, and close to the best compression.
const LEVEL: Compression = Compression::new(3);

/// Columns being written.
#[derive(Debug, Default)]
pub(super) struct Columns(Vec<u8>);

impl Columns {
    pub(super) fn push(&mut self, values: &[u16]) {
        self.0.extend(values.iter().map(|value| value.to_be_bytes()[0]));
        self.0.extend(values.iter().map(|value| value.to_be_bytes()[1]));
    }

    pub(super) fn push_wide(&mut self, values: &[u32]) {
        for byte in 0..4 {
            self.0.extend(values.iter().map(|value| value.to_be_bytes()[byte]));
        }
    }

    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn push_narrow(&mut self, values: impl Iterator<Item = u8>) {
        self.0.extend(values);
    }

    /// All columns, compressed. `scratch` is a buffer to compress in, so that the result has no spare capacity.
    pub(super) fn compress(&self, scratch: &mut Vec<u8>) -> io::Result<Box<[u8]>> {
        scratch.clear();
        let mut encoder = DeflateEncoder::new(scratch, LEVEL);
        encoder.write_all(&self.0)?;
        Ok(encoder.finish()?.as_slice().into())
    }
}

/// Columns being read, in the order in which they were written.
#[derive(Debug)]
pub(super) struct Reading {
    bytes: Vec<u8>,
    at: usize,
}

impl Reading {
    pub(super) fn open(compressed: &[u8]) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(compressed.len() * 3);
        DeflateDecoder::new(compressed).read_to_end(&mut bytes)?;
        Ok(Self { bytes, at: 0 })
    }

    pub(super) fn pull(&mut self, count: usize) -> io::Result<Vec<u16>> {
        let (high, low) = self.pull_bytes(2 * count)?.split_at(count);
        Ok(high.iter().zip(low).map(|(&high, &low)| u16::from_be_bytes([high, low])).collect())
    }

    pub(super) fn pull_wide(&mut self, count: usize) -> io::Result<Vec<u32>> {
        let bytes = self.pull_bytes(4 * count)?;
        Ok((0..count).map(|n| u32::from_be_bytes(std::array::from_fn(|byte| bytes[byte * count + n]))).collect())
    }

    pub(super) fn pull_bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        let bytes = self.bytes.get(self.at..self.at + count).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.at += count;
        Ok(bytes)
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}
