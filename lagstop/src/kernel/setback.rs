//! Why a hook that was tried is not tried again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::error::{KernelError, Source, chain};

/// Why a hook that was tried is not tried again. Recorded facts keep only its text.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Setback {
    /// What the kernel or the loader said.
    #[error("{0}")]
    Refused(#[source] Arc<Source>),
    #[error("attached, but did not fire in {switches} switches")]
    Silent { switches: u64 },
    /// Recorded, perhaps on another host.
    #[error("{0}")]
    Recorded(String),
}

impl From<KernelError> for Setback {
    /// Without what to do about it: the hook can be done without.
    fn from(error: KernelError) -> Self {
        Self::Refused(Arc::new(match error {
            KernelError::Refused { source, .. } => source,
            other => other.into(),
        }))
    }
}

impl From<String> for Setback {
    fn from(recorded: String) -> Self {
        Self::Recorded(recorded)
    }
}

impl From<Setback> for String {
    fn from(setback: Setback) -> Self {
        chain(&setback)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::kernel::error::errno;

    #[test]
    fn the_systems_error_is_kept_and_its_words_are_recorded() {
        let refused = KernelError::refused("program on tcp_set_state", io::Error::from_raw_os_error(libc::EPERM));
        let setback = Setback::from(refused);
        assert_eq!(errno(&setback), Some(libc::EPERM));
        let recorded = serde_json::to_string(&setback).unwrap();
        assert_eq!(recorded, r#""Operation not permitted""#);
        let again: Setback = serde_json::from_str(&recorded).unwrap();
        assert_eq!((errno(&again), again.to_string()), (None, "Operation not permitted".to_owned()));
    }
}
