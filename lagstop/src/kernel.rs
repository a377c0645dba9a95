//! The only code that talks to eBPF: facts → plan → attach → read.

mod answer;
mod attach;
mod attachment;
mod btf;
mod capabilities;
mod clock;
mod confine;
mod error;
mod facts;
mod loaded;
mod map;
mod memlock;
mod misses;
mod offsets;
mod options;
mod per_cpu;
mod plan;
mod probe_cost;
mod proof;
mod reader;
mod rows;
mod setback;
mod table;
mod tracefs;
mod way;

pub use answer::Answer;
pub use attach::attach;
pub(crate) use btf::Structure;
pub use btf::{Btf, BtfError};
pub use capabilities::{Capabilities, Capability, setcap};
pub use error::KernelError;
pub(crate) use facts::configuration;
pub use facts::{Facts, SchedExt, Types, is_scheduler_enabled, loaded_scheduler, measured_scheduler};
pub(crate) use map::{Map, bpf};
pub use options::AttachOptions;
pub use plan::{AttachPlan, Wish, Wishes};
pub use reader::{KernelCgroup, KernelReader, KernelSnapshot, MadeUpHost};
pub use setback::Setback;
pub use way::{At, Probe, Way};

/// The object that `cargo xtask ebpf` builds.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/lagstop.bpf.o");
