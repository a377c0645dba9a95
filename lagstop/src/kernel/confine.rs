//! Which capabilities are still needed once everything is attached.

use super::{
    capabilities::{Capabilities, Capability},
    error::KernelError,
    plan::version,
    reader::Reader,
    way::Measure,
};

/// Before it every call of bpf(2) takes CAP_BPF where it is kept from ordinary users, which may be switched on any time
/// (c8644cd0efe7).
const BPF_IS_FREE_SINCE: (u32, u32) = (5, 19);

impl Reader {
    /// The capabilities that reading needs, of those that are held. All others can be given up: see
    /// [`Capabilities::keep_only`].
    ///
    /// # Errors
    /// When a map cannot be read even with all of them, or capabilities cannot be changed.
    pub fn needs(&self) -> Result<Capabilities, KernelError> {
        let held = Capabilities::held();
        let mut needed = Capabilities::NONE.with(Capability::DacReadSearch);
        if self.measures(Measure::TcpState) {
            // Containers listen in network namespaces of their own: to find and to enter them.
            needed = needed.with(Capability::SysPtrace).with(Capability::SysAdmin);
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        if version(&release).is_none_or(|version| version < BPF_IS_FREE_SINCE) {
            needed = needed.with(Capability::Bpf);
        }
        for more in [Capabilities::NONE, Capabilities::NONE.with(Capability::Bpf)] {
            let tried = needed.and(more).among(held);
            let result =
                tried.try_with(|| self.try_to_read()).map_err(|source| KernelError::Capabilities { source })?;
            if result.is_ok() {
                return Ok(tried);
            }
        }
        Ok(held)
    }
}
