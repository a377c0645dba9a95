//! The lines of a frame.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    sync::Arc,
};

use zstd::stream::read::Decoder;

use super::{Frame, Piece};
use crate::recording::reader::{error::Problem, frames::Kind, room};

/// Log₂ of the largest window that a frame may ask for: zstd's own default limit.
const LARGEST_WINDOW: u32 = 27;
/// A file that expands beyond this size, and beyond this multiple of its compressed size, is a decompression bomb.
/// Recordings expand to 5 to 40 times their compressed size.
const BOMB_BYTES: u64 = 1 << 30;
const BOMB_RATIO: u64 = 2_000;
const BUFFER: usize = 128 << 10;

/// Reads the lines of a frame, one after the other.
pub(super) struct FrameLines {
    reader: BufReader<Decoder<'static, BufReader<Piece>>>,
    /// The longest line that is read of any recording, and of one that is compressed to so little.
    limit: u64,
    longest: u64,
    line: Vec<u8>,
    number: u64,
    /// Bytes so far, and those that are suspicious.
    bytes: u64,
    suspicious: u64,
    is_whole: bool,
    is_cut: bool,
}

/// A frame or file of `compressed` bytes that expands to more than this is a decompression bomb.
pub(super) fn suspicious(compressed: u64) -> u64 {
    BOMB_BYTES.max(compressed.saturating_mul(BOMB_RATIO))
}

impl fmt::Debug for FrameLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameLines").field("number", &self.number).finish_non_exhaustive()
    }
}

impl FrameLines {
    pub(super) fn open(file: &Arc<File>, frame: Frame, longest: u64) -> Result<Self, Problem> {
        let piece = Piece { file: Arc::clone(file), at: frame.start, end: frame.end };
        let mut decoder = Decoder::with_buffer(BufReader::with_capacity(BUFFER, piece)).map_err(Problem::Read)?;
        decoder.window_log_max(LARGEST_WINDOW).map_err(Problem::Read)?;
        Ok(Self {
            reader: BufReader::with_capacity(BUFFER, decoder.single_frame()),
            limit: longest,
            longest: longest.min(room::line(frame.end - frame.start)),
            line: Vec::new(),
            number: 0,
            bytes: 0,
            suspicious: suspicious(frame.end - frame.start),
            is_whole: frame.kind == Kind::Data { is_whole: true },
            is_cut: false,
        })
    }

    /// The next whole line, without its end. `None` at the end, or where the frame was cut off.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Problem> {
        self.line.clear();
        let read = (&mut self.reader).take(self.longest + 1).read_until(b'\n', &mut self.line);
        match read {
            // Cut off: what was there before is good.
            Err(error) if !self.is_whole && error.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                return Ok(None);
            }
            Err(error) => return Err(Problem::Damaged(error)),
            Ok(_) => {}
        }
        self.bytes += self.line.len() as u64;
        if self.line.len() as u64 > self.longest {
            let is_explained = self.longest >= self.limit;
            return Err(if is_explained { Problem::TooLong { limit: self.limit } } else { Problem::Bomb });
        }
        if self.bytes > self.suspicious {
            return Err(Problem::Bomb);
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.last() != Some(&b'\n') && !self.is_whole {
            self.is_cut = true;
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(self.line.trim_ascii_end()))
    }

    /// Goes over what is left of a whole frame: its checksum is at its end, and until then a wrong figure looks like any
    /// other.
    pub(super) fn finish(&mut self) -> Result<(), Problem> {
        loop {
            let more = match self.reader.fill_buf() {
                Ok(bytes) => bytes.len(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Problem::Damaged(error)),
            };
            if more == 0 {
                return Ok(());
            }
            self.reader.consume(more);
            self.bytes += more as u64;
            if self.bytes > self.suspicious {
                return Err(Problem::Bomb);
            }
        }
    }

    /// Lines so far.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Bytes so far.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What is left of a line that was cut off.
    pub(super) fn rest(&self) -> Option<&[u8]> {
        Some(&*self.line).filter(|line| !line.is_empty())
    }
}
