//! The only code that talks to eBPF: facts → plan → attach → read.

mod attach;
mod btf;
mod error;
mod facts;
mod map;
mod offsets;
mod plan;
mod probe_cost;
mod reader;
mod rows;
mod tracefs;

pub use attach::{Options, attach};
pub use btf::{Btf, BtfError};
pub use error::KernelError;
pub use facts::{Facts, MissingCapability};
pub use plan::{HookId, Plan};
pub use reader::{KernelSnapshot, Reader};

/// Where CPUs sit, for telling migrations apart and for placing the copies of the distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPlace {
    /// Number of the CPU.
    pub cpu: u32,
    /// A number that CPUs with the same last-level cache share.
    pub llc: u32,
    /// NUMA node.
    pub numa: u32,
}

/// The object that `cargo xtask ebpf` builds.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/lagstop.bpf.o");
