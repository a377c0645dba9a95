//! Words of the system, for people.

use std::io;

/// What the system said, without the number that it has for it.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_left_out() {
        assert_eq!(plain(&io::Error::from_raw_os_error(libc::ENOSPC)), "No space left on device");
        assert_eq!(plain(&io::Error::other("of our own")), "of our own");
    }
}
