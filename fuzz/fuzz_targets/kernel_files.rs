//! Files of `/proc`, `/sys` and cgroupfs that have figures in them, and messages about sockets.
#![no_main]

use lagstop::host::read_kernel_files;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read_kernel_files(bytes);
});
