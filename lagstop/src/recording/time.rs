//! Points in time, as recordings write them.

use std::time::SystemTime;

/// RFC 3339 in UTC, with milliseconds.
pub fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// The same of now.
pub fn now() -> String {
    time(SystemTime::now())
}
