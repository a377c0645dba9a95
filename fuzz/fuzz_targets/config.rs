//! The configuration file.
#![no_main]

use lagstop::cli::check_config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = check_config(&String::from_utf8_lossy(bytes));
});
