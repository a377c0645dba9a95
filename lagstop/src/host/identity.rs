//! Which host this is.

use super::{HostError, read};

/// Which host this is, and which boot of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `uname -n`
    pub hostname: String,
    /// `uname -r`
    pub kernel: String,
    /// Differs from boot to boot.
    pub boot_id: String,
}

impl Identity {
    /// Asks the kernel.
    ///
    /// # Errors
    /// When `/proc` does not say.
    pub fn read() -> Result<Self, HostError> {
        let uname = rustix::system::uname();
        Ok(Self {
            hostname: uname.nodename().to_string_lossy().into_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
            boot_id: read("/proc/sys/kernel/random/boot_id")?.trim().to_owned(),
        })
    }
}
