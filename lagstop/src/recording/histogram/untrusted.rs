//! Looks an encoded histogram over before it is decoded: the library takes the lengths and numbers in it at their word.
//!
//! The encoding (HdrHistogram's V2): a cookie, the length of the counts, an offset and the number of figures of 32 bits each,
//! the lowest and the highest value and a ratio of 64 bits each, big-endian; then the counts. Compressed, a cookie, a length
//! and all that in zlib.

use std::io::Read;

use flate2::read::ZlibDecoder;

use super::HistogramError;

const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
const COMPRESSED_HEADER: usize = 8;
const HEADER: usize = 40;
/// What is taken at most: a histogram of nanoseconds with three figures takes half of it.
const LONGEST: u64 = 1 << 20;
/// Figures at most. With each the library makes room for ten times as many counts and goes over them all: of five it is 48 MiB
/// and a tenth of a second, for a few dozen bytes.
const MOST_FIGURES: usize = 3;

/// Decompresses `bytes` and checks them. What is left for the library to find can only make it return an error.
pub(super) fn look_over(bytes: Vec<u8>) -> Result<Vec<u8>, HistogramError> {
    let bytes = if bytes.starts_with(&COMPRESSED) { inflate(&bytes)? } else { bytes };
    // If they are shorter, the library says what is missing.
    let Some((header, counts)) = bytes.split_at_checked(HEADER) else { return Ok(bytes) };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    if number(&header[12..16]) > MOST_FIGURES {
        return Err(HistogramError::TooPrecise { most: MOST_FIGURES });
    }
    let counts = counts.get(..number(&header[4..8])).ok_or(HistogramError::Cut)?;
    // A number below 0 is that many counts of 0.
    let fits = |number: i64| number.unsigned_abs() <= u32::MAX.into();
    if Numbers(counts).all(fits) { Ok(bytes) } else { Err(HistogramError::TooMany) }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, HistogramError> {
    let mut inflated = Vec::new();
    let compressed = bytes.get(COMPRESSED_HEADER..).unwrap_or_default();
    ZlibDecoder::new(compressed).take(LONGEST + 1).read_to_end(&mut inflated).map_err(HistogramError::Inflate)?;
    if inflated.len() as u64 > LONGEST {
        return Err(HistogramError::TooLong { most: LONGEST });
    }
    Ok(inflated)
}

/// The numbers of an encoding: LEB128 of nine bytes at most, the last of them whole, in zigzag. One that is cut is left out.
struct Numbers<'b>(&'b [u8]);

impl Iterator for Numbers<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        const LONGEST: usize = 9;
        let last = self.0.iter().take(LONGEST - 1).take_while(|byte| **byte >= 0x80).count();
        let (number, rest) = self.0.split_at_checked(last + 1)?;
        self.0 = rest;
        let bits = number.iter().enumerate().fold(0, |bits, (place, byte)| {
            let kept = if place == LONGEST - 1 { *byte } else { byte & 0x7f };
            bits | u64::from(kept) << (7 * place)
        });
        Some((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::{
        Histogram,
        serialization::{Deserializer, Serializer as _, V2Serializer},
    };
    use proptest::prelude::*;

    use super::*;

    fn encoded(values: &[(u64, u64)]) -> Vec<u8> {
        let mut histogram: Histogram<u64> = Histogram::new(3).unwrap();
        values.iter().for_each(|&(value, count)| histogram.record_n(value, count).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        bytes
    }

    fn refused(bytes: Vec<u8>) -> String {
        look_over(bytes).unwrap_err().to_string()
    }

    #[test]
    fn numbers_are_those_that_are_written() {
        let bytes = encoded(&[(1, 5), (100, 1 << 20), (5_000, u32::MAX.into())]);
        let counts: Vec<i64> = Numbers(&bytes[HEADER..]).filter(|number| *number > 0).collect();
        assert_eq!(counts, [5, 1 << 20, u32::MAX.into()]);
        assert_eq!(look_over(bytes.clone()).unwrap(), bytes);
        assert_eq!(Numbers(&[0xff; 9]).next(), Some(i64::MIN));
        assert_eq!(Numbers(&[0xff; 8]).next(), None);
    }

    #[test]
    fn what_the_library_would_choke_on_is_refused() {
        assert!(refused(encoded(&[(1, 1 << 33)])).contains("more than 2³²"));
        let mut long = encoded(&[(1, 1)]);
        long[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(refused(long).contains("cut short"));
        let mut exact: Histogram<u64> = Histogram::new_with_max(u64::MAX / 2, 5).unwrap();
        exact.record(1).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&exact, &mut bytes).unwrap();
        assert!(refused(bytes).contains("more than 3 significant figures"));
        let mut bomb = COMPRESSED.to_vec();
        bomb.extend([0; 4]);
        let mut zlib = flate2::write::ZlibEncoder::new(bomb, flate2::Compression::best());
        std::io::Write::write_all(&mut zlib, &vec![0; 8 << 20]).unwrap();
        assert!(refused(zlib.finish().unwrap()).contains("more than 1048576 bytes"));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            more in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = encoded(&[(3, 7), (900, 1)]);
            bytes.extend(&more);
            let length = u32::try_from(bytes.len() - HEADER).unwrap();
            bytes[4..8].copy_from_slice(&length.to_be_bytes());
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(bytes) = look_over(bytes) {
                let _ = Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice());
            }
        }
    }
}
