//! One file an event, with a program for each way to see it.

mod accept;
mod entry;
mod exit;
mod free;
mod migrate;
mod pick;
mod settle;
mod switch;
mod tcp_state;
mod wakeup;

/// Declares the two programs on a tracepoint: one whose arguments the verifier knows by type, and one for where the kernel
/// shows no types. Both call `$body` with the arguments.
macro_rules! tracepoint {
    ($name:literal: $typed:ident, $untyped:ident => $body:ident) => {
        #[doc = concat!("`", $name, "`, with types")]
        #[aya_ebpf::macros::btf_tracepoint(function = $name)]
        pub(crate) fn $typed(context: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            $body($crate::kernel::Arguments::typed(aya_ebpf::EbpfContext::as_ptr(&context)));
            0
        }

        #[doc = concat!("`", $name, "`, without types")]
        #[aya_ebpf::macros::raw_tracepoint(tracepoint = $name)]
        pub(crate) fn $untyped(context: aya_ebpf::programs::RawTracePointContext) -> i32 {
            $body($crate::kernel::Arguments::untyped(aya_ebpf::EbpfContext::as_ptr(&context)));
            0
        }
    };
}
pub(crate) use tcp_state::lose;
use tracepoint;
