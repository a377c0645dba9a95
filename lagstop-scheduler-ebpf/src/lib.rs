//! What the scheduler's programs and user space share: the read-only globals, the values of maps, and how functions of the
//! kernel are called. Only `lagstop`'s `scheduler` module may know it.
#![no_std]

mod layout;

pub use layout::*;
