//! Mutations that go through compression.
//!
//! A frame of zstd ends in a checksum of what is in it. Of bytes that are changed at random nothing is ever read but that they
//! are damaged; so what is in a frame is changed, and compressed again.

use std::io::{self, Read, Write};

use zstd::{stream::write::Encoder, zstd_safe};

use crate::dice::Dice;

/// The first of the 16 magic numbers of frames that are passed over.
const SKIPPABLE: u32 = 0x184d_2a50;
const SKIPPABLE_HEADER: usize = 8;
const LEVEL: i32 = 1;
/// More of a frame is not decompressed.
const MOST_CONTENTS: usize = 1 << 20;

/// Changes the recording in the first `size` of `data`, which has room for `max_size`. Gives its new size. `bytes` is
/// libFuzzer's own way to do that.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    bytes: impl Fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut dice = Dice::new(seed);
    let frames = split(&data[..size]);
    // Damage is to be found as well.
    if frames.is_empty() || dice.roll(8) == 0 {
        return bytes(data, size, max_size);
    }
    let mut frames: Vec<Vec<u8>> = frames.into_iter().map(<[u8]>::to_vec).collect();
    let (at, other) = (dice.roll(frames.len()), dice.roll(frames.len()));
    match dice.roll(16) {
        0 => drop(frames.remove(at)),
        1 => frames.insert(at, frames[other].clone()),
        2 => frames.swap(at, other),
        _ => match inside(&frames[at], max_size, &bytes) {
            Some(frame) => frames[at] = frame,
            None => return bytes(data, size, max_size),
        },
    }
    let all = frames.concat();
    if all.is_empty() || all.len() > max_size {
        return bytes(data, size, max_size);
    }
    data[..all.len()].copy_from_slice(&all);
    all.len()
}

/// The frames that `file` consists of, and what is behind them. Nothing where it begins with none.
fn split(file: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    let mut rest = file;
    while let Ok(length) = zstd_safe::find_frame_compressed_size(rest) {
        let (frame, behind) = rest.split_at(length);
        frames.push(frame);
        rest = behind;
    }
    if !frames.is_empty() && !rest.is_empty() {
        frames.push(rest);
    }
    frames
}

/// A frame with other contents. `None` where it has none.
fn inside(frame: &[u8], max_size: usize, bytes: impl Fn(&mut [u8], usize, usize) -> usize) -> Option<Vec<u8>> {
    let magic = u32::from_le_bytes(*frame.first_chunk()?);
    let is_skippable = magic & !0xf == SKIPPABLE;
    let mut contents = if is_skippable { frame.get(SKIPPABLE_HEADER..)?.to_vec() } else { decompress(frame)? };
    let size = contents.len();
    contents.resize(size + max_size, 0);
    let size = bytes(&mut contents, size, size + max_size);
    contents.truncate(size);
    if is_skippable {
        let length = u32::try_from(contents.len()).ok()?;
        Some([&frame[..4], &length.to_le_bytes(), &contents].concat())
    } else {
        compress(&contents).ok()
    }
}

fn decompress(frame: &[u8]) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    let decoder = zstd::Decoder::with_buffer(frame).ok()?.single_frame();
    decoder.take(MOST_CONTENTS as u64).read_to_end(&mut contents).ok()?;
    Some(contents)
}

/// As lagstop does: what is there of a line can be read when it was cut off behind it.
fn compress(contents: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    for line in contents.split_inclusive(|byte| *byte == b'\n') {
        encoder.write_all(line)?;
        encoder.flush()?;
    }
    encoder.finish()
}
