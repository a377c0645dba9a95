//! Any file: plain or compressed, whole, damaged or made up.
#![no_main]

use lagstop::recording::Reader;
use lagstop_fuzz::{MemoryFile, frames, read_all};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| {
    let file = MemoryFile::of(bytes);
    if let Ok(mut reader) = Reader::open(&file.path()) {
        read_all(&mut reader, bytes.len() as u64);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    frames::mutate(data, size, max_size, seed, fuzzer_mutate)
});
