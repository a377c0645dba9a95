//! How much memory a compressed recording may take for its size.
//!
//! Text that says the same over and over is compressed to a ten-thousandth, and what is made of text takes more memory than
//! the text. So nothing is made of more than the size of the file explains: each limit is some bytes that are nothing to any
//! host, and a multiple of what is compressed that no recording comes near.
//!
//! What reading an interval takes at most beyond that multiple, with all that may be there at once:
//!
//! | | MB |
//! | -- | -- |
//! | zstd's window, where a frame asks for it | 134 |
//! | a line, and 12 times as much of what is made of it | 14 |
//! | names | 8 |
//! | gaps | 8 |
//! | together | 164 |
//!
//! The multiple: a line may be 32 times its frame, and names 128 times; both of a recording that was made up. Of a real one a line
//! is 10 times, and names 20. What is made of a line is 12 times as long where it is full of cgroups without names, but lists end
//! ([`bounded`](crate::model::bounded)): all cgroups of an interval and their levels are 150 MB, and 47 MB of columns. What nobody
//! knows is skipped and takes nothing.

/// A line of at most this length is always accepted.
const LINE: u64 = 1 << 20;
/// Recordings expand to 5 to 40 times. A line is a part of its frame.
const LINE_TIMES: u64 = 32;

/// Memory for names that is always accepted, in bytes.
const NAMES: u64 = 8 << 20;
/// A name that is in a frame takes some 300 bytes of memory, and 5 bytes of the frame at the very least.
const NAMES_TIMES: u64 = 128;

/// Bytes that a line may have in a frame of `frame` bytes.
pub(super) const fn line(frame: u64) -> u64 {
    LINE.saturating_add(frame.saturating_mul(LINE_TIMES))
}

/// Bytes of memory that the names in a frame of `frame` bytes may take, in a file of `file` bytes. Somebody may keep the names of
/// all frames, so all frames together get what a file of a single frame gets.
pub(super) fn names(frame: u64, file: u64) -> u64 {
    let part = u128::from(NAMES) * u128::from(frame) / u128::from(file.max(1));
    u64::try_from(part).unwrap_or(u64::MAX).min(NAMES).saturating_add(frame.saturating_mul(NAMES_TIMES))
}

/// Bytes of memory that all gaps may take in a file of `file` bytes.
pub(super) const fn gaps(file: u64) -> u64 {
    NAMES.saturating_add(file.saturating_mul(NAMES_TIMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_no_more_room_than_the_whole() {
        let file = 1_000_000;
        assert_eq!(names(file, file), NAMES + 128 * file);
        assert!(names(file / 10, file) * 10 <= names(file, file));
        // One that grew since it was opened, and one that is empty.
        assert_eq!(names(2 * file, file), NAMES + 256 * file);
        assert_eq!(names(0, 0), 0);
        assert_eq!(names(u64::MAX, 1), u64::MAX);
        assert_eq!((line(0), line(u64::MAX)), (LINE, u64::MAX));
    }
}
