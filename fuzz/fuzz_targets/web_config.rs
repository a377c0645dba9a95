//! The file that says who may scrape.
#![no_main]

use lagstop::serve::check_web_config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = check_web_config(&String::from_utf8_lossy(bytes));
});
