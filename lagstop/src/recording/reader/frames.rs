//! The frames of a zstd file, found without decompressing them (RFC 8878, section 3.1).

use std::{fs::File, io, os::unix::fs::FileExt};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is to be decompressed. `is_whole`: it has an end.
    Data { is_whole: bool },
    /// It is to be passed over: with its magic number.
    Skippable([u8; 4]),
    /// Not a frame.
    Unknown,
}

/// Bytes before what a skippable frame holds.
pub(super) const SKIPPABLE_HEADER: u64 = 8;

const ZSTD: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
const BLOCK_HEADER: u64 = 3;
const CHECKSUM: u64 = 4;

/// The frame at `start` in a file of `len` bytes. `None` at its end.
pub(super) fn frame_at(file: &File, start: u64, len: u64) -> io::Result<Option<Frame>> {
    if start >= len {
        return Ok(None);
    }
    let frame = |end: u64, kind| Ok(Some(Frame { start, end: end.min(len), kind }));
    let mut head = [0; 18];
    let read = read_at(file, &mut head, start)?;
    let [a, b, c, d, rest @ ..] = &head[..read] else { return frame(len, Kind::Unknown) };
    let magic = [*a, *b, *c, *d];
    if magic[1..] == [0x2a, 0x4d, 0x18] && magic[0] & 0xf0 == 0x50 {
        let length = rest.first_chunk().map_or(u32::MAX, |length| u32::from_le_bytes(*length));
        let end = start + SKIPPABLE_HEADER + u64::from(length);
        let kind = if end <= len { Kind::Skippable(magic) } else { Kind::Data { is_whole: false } };
        return frame(end, kind);
    }
    if magic != ZSTD {
        return frame(len, Kind::Unknown);
    }
    let Some(&descriptor) = rest.first() else { return frame(len, Kind::Data { is_whole: false }) };
    let has_checksum = descriptor & 0x04 != 0;
    let mut at = start + 4 + header_len(descriptor);
    loop {
        let mut block = [0; BLOCK_HEADER as usize];
        if read_at(file, &mut block, at)? < block.len() {
            return frame(len, Kind::Data { is_whole: false });
        }
        let block = u64::from(block[0]) | u64::from(block[1]) << 8 | u64::from(block[2]) << 16;
        let (is_last, is_repeated, size) = (block & 1 == 1, block >> 1 & 3 == 1, block >> 3);
        at += BLOCK_HEADER + if is_repeated { 1 } else { size };
        if is_last {
            let end = at + if has_checksum { CHECKSUM } else { 0 };
            return frame(end, Kind::Data { is_whole: end <= len });
        }
    }
}

/// Length of a frame's header behind the magic number.
const fn header_len(descriptor: u8) -> u64 {
    let is_single_segment = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][(descriptor & 3) as usize];
    let size = match descriptor >> 6 {
        0 if is_single_segment => 1,
        0 => 0,
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let window = if is_single_segment { 0 } else { 1 };
    1 + window + dictionary + size
}

/// Reads as much of `buffer` as there is.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn frames(bytes: &[u8]) -> Vec<(u64, u64, Kind)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut at = 0;
        let next = || {
            let frame = frame_at(&file, at, bytes.len() as u64).unwrap()?;
            at = frame.end;
            Some((frame.start, frame.end, frame.kind))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn frames_end_where_the_library_ends_them() {
        let noise: Vec<u8> = (0..400_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let mut all = Vec::new();
        let mut expected = Vec::new();
        for text in [&b""[..], b"a", &[7; 300_000], &noise] {
            let start = all.len() as u64;
            all.extend(zstd::bulk::compress(text, 1).unwrap());
            expected.push((start, all.len() as u64, Kind::Data { is_whole: true }));
            // As streams are, without their length.
            let start = all.len() as u64;
            all.extend(zstd::stream::encode_all(text, 1).unwrap());
            expected.push((start, all.len() as u64, Kind::Data { is_whole: true }));
        }
        let start = all.len() as u64;
        let index = crate::recording::chunk::INDEX_MAGIC;
        all.extend([&index[..], &3u32.to_le_bytes(), b"abc"].concat());
        expected.push((start, start + 11, Kind::Skippable(index)));
        assert_eq!(frames(&all), expected);
    }

    #[test]
    fn what_was_cut_off_is_no_whole_frame() {
        let all = zstd::stream::encode_all(&b"some lines"[..], 1).unwrap();
        for cut in 4..all.len() {
            assert_eq!(frames(&all[..cut]), [(0, cut as u64, Kind::Data { is_whole: false })]);
        }
        assert_eq!(frames(b"ab"), [(0, 2, Kind::Unknown)]);
        assert_eq!(frames(&[&all[..], b"other"].concat())[1].2, Kind::Unknown);
        let index = crate::recording::chunk::INDEX_MAGIC;
        assert_eq!(frames(&[&index[..], &[200, 0]].concat()), [(0, 6, Kind::Data { is_whole: false })]);
    }
}
