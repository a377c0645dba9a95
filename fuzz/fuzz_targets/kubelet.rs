//! What a kubelet answers, or whoever has its address.
#![no_main]

use lagstop::host::read_kubelet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read_kubelet(bytes);
});
