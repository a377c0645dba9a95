/// Declares a program for each way to see an event: `kind "place" => name`. All of them call `$body` with their context.
///
/// The kinds are called as in the sections of the object. Of two on the same tracepoint, `raw_tp` is for where the kernel shows
/// no types. A `syscall` is a tracepoint of the category `syscalls`.
macro_rules! hooks {
    ($body:ident: $($kind:ident $place:literal => $program:ident),+ $(,)?) => {
        $(hooks!(@$kind $place, $program => $body);)+
    };
    (@tp_btf $place:literal, $($to:tt)+) => {
        hooks!(@declare [btf_tracepoint(function = $place)] BtfTracePointContext, typed, i32, $($to)+);
    };
    (@raw_tp $place:literal, $($to:tt)+) => {
        hooks!(@declare [raw_tracepoint(tracepoint = $place)] RawTracePointContext, untyped, i32, $($to)+);
    };
    (@fentry $place:literal, $($to:tt)+) => {
        hooks!(@declare [fentry(function = $place)] FEntryContext, typed, i32, $($to)+);
    };
    (@fexit $place:literal, $($to:tt)+) => {
        hooks!(@declare [fexit(function = $place)] FExitContext, typed, i32, $($to)+);
    };
    (@kprobe $place:literal, $($to:tt)+) => {
        hooks!(@declare [kprobe(function = $place)] ProbeContext, untyped, u32, $($to)+);
    };
    (@kretprobe $place:literal, $($to:tt)+) => {
        hooks!(@declare [kretprobe(function = $place)] RetProbeContext, untyped, u32, $($to)+);
    };
    (@syscall $place:literal, $($to:tt)+) => {
        hooks!(@declare [tracepoint(category = "syscalls", name = $place)] TracePointContext, untyped, u32, $($to)+);
    };
    (@declare [$($attribute:tt)+] $context:ident, $types:ident, $result:ident, $program:ident => $body:ident) => {
        #[aya_ebpf::macros::$($attribute)+]
        pub(crate) fn $program(context: aya_ebpf::programs::$context) -> $result {
            $body($crate::kernel::Context::$types(aya_ebpf::EbpfContext::as_ptr(&context)));
            0
        }
    };
}
pub(super) use hooks;
