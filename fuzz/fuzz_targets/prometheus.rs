//! What a Prometheus server answers.
#![no_main]

use lagstop::fleet::check_answer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = check_answer(bytes);
});
