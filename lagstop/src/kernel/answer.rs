//! What was found out, or why it could not be.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::display::plain;

/// Something that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<T> {
    /// What was found.
    Known(T),
    /// It could not be checked, for this reason.
    Unknown(String),
}

impl<T> Answer<T> {
    /// What was found, if it could be checked.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(found) => Some(found),
            Self::Unknown(_) => None,
        }
    }

    pub(super) fn map<U>(self, read: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Known(found) => Answer::Known(read(found)),
            Self::Unknown(why) => Answer::Unknown(why),
        }
    }
}

impl Answer<String> {
    pub(super) fn of_file(file: impl AsRef<Path>) -> Self {
        let file = file.as_ref();
        match fs::read_to_string(file) {
            Ok(text) => Self::Known(text),
            Err(error) => Self::Unknown(not_read(file, &error)),
        }
    }
}

/// Why `file` could not be read.
pub(super) fn not_read(file: &Path, error: &io::Error) -> String {
    format!("{}: {}", file.display(), plain(error))
}
