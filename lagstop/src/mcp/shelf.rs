//! All that a client may ask about: recordings of the user's, or what is measured for it.

use std::{collections::VecDeque, fs, path::PathBuf, sync::Arc, time::SystemTime};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::{sync::Mutex, task::spawn_blocking};

use super::{
    library::{Library, Listed},
    measurer::{Measurer, MeasuringTime},
    names,
    seen::Seen,
    trouble::Trouble,
};
use crate::diagnosis::Thresholds;

/// Recordings that stay in memory once they are read.
const KEPT: usize = 4;
/// Names of recordings that an error lists.
const NAMED: usize = 10;

/// All that a client may ask about.
#[derive(Debug)]
pub struct Shelf {
    place: Place,
    thresholds: Thresholds,
    read: Mutex<VecDeque<(Version, Arc<Seen>)>>,
}

/// Where recordings come from.
#[derive(Debug)]
enum Place {
    Library(Library),
    Measurer(Measurer),
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// Recordings. There is no measuring, and no `seconds`.
    Recordings,
    /// A live host. `seconds` is how long a call measures, from then on.
    Live,
    /// A live host that is always measured. `seconds` is how far a call looks back: after a change, wait for so long.
    Connected,
}

/// A file as it was when it was read: it may grow.
type Version = (PathBuf, u64, Option<SystemTime>);

/// What is asked about, where no recording is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unnamed {
    /// What is measured from now on.
    New,
    /// The last measurement, if there is one.
    Last,
}

impl Shelf {
    /// Recordings of the user's.
    pub fn of_recordings(library: Library, thresholds: Thresholds) -> Self {
        Self { place: Place::Library(library), thresholds, read: Mutex::default() }
    }

    /// What is measured for the client.
    pub fn of_measurements(measurer: Measurer, thresholds: Thresholds) -> Self {
        Self { place: Place::Measurer(measurer), thresholds, read: Mutex::default() }
    }

    pub(super) const fn source(&self) -> Source {
        match &self.place {
            Place::Library(_) => Source::Recordings,
            Place::Measurer(Measurer { window: MeasuringTime { looks_back: false, .. }, .. }) => Source::Live,
            Place::Measurer(_) => Source::Connected,
        }
    }

    /// All recordings that there are now.
    pub(super) fn list(&self) -> Vec<Listed> {
        match &self.place {
            Place::Library(library) => library.list(),
            Place::Measurer(measurer) => measurer.list(),
        }
    }

    /// The recording named `recording`; without a name, what `unnamed` says.
    pub(super) async fn look(
        &self,
        recording: Option<&str>,
        seconds: Option<u64>,
        unnamed: Unnamed,
    ) -> Result<Arc<Seen>, Trouble> {
        if seconds.is_some() && (recording.is_some() || self.source() == Source::Recordings) {
            return Err(Trouble::AsItIs);
        }
        let listed = match (recording, &self.place) {
            (Some(name), _) => self.named(name)?,
            (None, Place::Library(library)) => only(library.list())?,
            (None, Place::Measurer(measurer)) => {
                let last = measurer.list().pop().filter(|_| unnamed == Unnamed::Last && seconds.is_none());
                match last {
                    Some(last) => last,
                    None => measurer.measure(seconds).await?,
                }
            }
        };
        self.read(listed).await
    }

    fn named(&self, name: &str) -> Result<Listed, Trouble> {
        let mut all = self.list();
        match all.iter().position(|listed| listed.name == names::unquoted(name)) {
            Some(at) => Ok(all.swap_remove(at)),
            None => Err(Trouble::NoRecording(names::quoted(names::unquoted(name)))),
        }
    }

    /// Reads it, unless it was read before. One at a time: each may take much memory.
    async fn read(&self, listed: Listed) -> Result<Arc<Seen>, Trouble> {
        let mut read = self.read.lock().await;
        let metadata = fs::metadata(&listed.path).ok();
        let bytes = metadata.as_ref().map_or(0, fs::Metadata::len);
        let version = (listed.path.clone(), bytes, metadata.and_then(|it| it.modified().ok()));
        // Descriptors are numbered again: a measurement that is gone may have had the same.
        let known = read.iter().find(|(of, seen)| *of == version && seen.listed.name == listed.name);
        if let Some((_, seen)) = known {
            return Ok(Arc::clone(seen));
        }
        let thresholds = self.thresholds.clone();
        let seen = Arc::new(aside(move || Seen::read(listed, &thresholds)).await??);
        read.push_back((version, Arc::clone(&seen)));
        if read.len() > KEPT {
            read.pop_front();
        }
        drop(read);
        Ok(seen)
    }
}

/// The only recording. An error if there are more, or none.
fn only(mut all: Vec<Listed>) -> Result<Listed, Trouble> {
    if all.len() > 1 {
        let named: Vec<&str> = all.iter().take(NAMED).map(|listed| listed.name.as_str()).collect();
        let more = if all.len() > NAMED { ", …" } else { "" };
        return Err(Trouble::Which(named.join(", ") + more));
    }
    all.pop().ok_or(Trouble::Empty)
}

/// Runs `task`, which takes a while, on a thread of its own: the client may have more to say.
pub(super) async fn aside<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Result<T, Trouble> {
    spawn_blocking(task).await.map_err(|_| Trouble::Died)
}
