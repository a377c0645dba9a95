//! Why a trial ended before its time.

use std::{io, sync::Arc, time::Duration};

use thiserror::Error;

use super::{NotUndone, PolicyChange, PolicyError, SwitchError};
use crate::{background::BackgroundError, display::plain};

#[derive(Debug, Error)]
pub(super) enum Ended {
    #[error("it was interrupted")]
    Asked,
    #[error("its watchdog was killed or stopped")]
    Unwatched,
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Switch(#[from] SwitchError),
    #[error(transparent)]
    Background(#[from] BackgroundError),
    #[error("{path} was runnable and got less than {floor} cores for {patience:?}{}", by_budget(*is_throttled))]
    Starved {
        path: Arc<str>,
        floor: f64,
        patience: Duration,
        /// Its own real-time budget was used up.
        is_throttled: bool,
    },
    #[error("{change}: {}", plain(source))]
    Change { change: Box<PolicyChange>, source: io::Error },
    #[error(transparent)]
    NotUndone(Box<NotUndone>),
}

const fn by_budget(is_throttled: bool) -> &'static str {
    if is_throttled { ": its real-time budget, cpu.rt_runtime_us, was used up" } else { "" }
}
