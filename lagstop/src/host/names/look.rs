//! One look for a name, which remembers in what files it was looked for.

use std::io;

use serde::de::DeserializeOwned;

use super::{
    stores::Stores,
    trusted::{Stamp, Trusted},
};

/// Largest file of one container, or of a daemon's settings.
pub(super) const SMALL: u64 = 1 << 20;

/// A file that a name is from, or would be if it were there.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) path: String,
    pub(super) stamp: Option<Stamp>,
}

/// Looks into files, and remembers which.
#[derive(Debug)]
pub(super) struct Look<'t> {
    pub(super) trusted: &'t Trusted,
    /// What was read of Podman's stores.
    pub(super) stores: &'t mut Stores,
    pub(super) seen: Vec<Watch>,
}

impl<'t> Look<'t> {
    pub(super) const fn new(trusted: &'t Trusted, stores: &'t mut Stores) -> Self {
        Self { trusted, stores, seen: Vec::new() }
    }

    /// Remembers a file. Its stamp is taken before it is read, so that a change meanwhile leads to another read.
    pub(super) fn watch(&mut self, path: &str) -> Option<Stamp> {
        let stamp = self.trusted.stamp(path);
        self.seen.push(Watch { path: path.to_owned(), stamp });
        stamp
    }

    /// Reads a file of up to `most` bytes. See [`Trusted::read`].
    pub(super) fn read(&mut self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        self.watch(path);
        self.trusted.read(path, most)
    }

    /// Reads text; what is no text shows as �.
    pub(super) fn text(&mut self, path: &str, most: u64) -> Option<String> {
        Some(String::from_utf8_lossy(&self.read(path, most).ok()?).into_owned())
    }

    /// Reads the fields of `T` from a file of JSON. What else is in it is not kept: these files hold secrets.
    pub(super) fn json<T: DeserializeOwned>(&mut self, path: &str) -> Option<T> {
        // While it is being written only half of it may be there: it changes then, and is read again.
        serde_json::from_slice(&self.read(path, SMALL).ok()?).ok()
    }

    /// See [`Trusted::has_directory`].
    pub(super) fn has_directory(&mut self, path: &str) -> bool {
        self.watch(path).is_some() && self.trusted.has_directory(path)
    }
}
