//! What was read can be written in either form, and is the same when it is read back.
//!
//! What goes in are plain lines, in which the fuzzer can see what it does.
#![no_main]

use lagstop_fuzz::{MemoryFile, Recording};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(read) = Recording::of(&MemoryFile::of(bytes)) else { return };
    for file in [read.plain(), read.compressed()] {
        let back = Recording::of(&file).expect("what was written can be read");
        back.assert_is(&read);
    }
});
