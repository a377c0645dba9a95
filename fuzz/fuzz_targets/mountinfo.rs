//! What is mounted: everybody who may mount has a say in it.
#![no_main]

use lagstop::host::read_mountinfo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read_mountinfo(&String::from_utf8_lossy(bytes));
});
