//! Quantities with their units, and how people write them. Sums and differences end where numbers do, and are called
//! `saturating_…`.

mod quantities;
mod unit;
mod words;

pub(crate) use quantities::ratio;
pub use quantities::{Cores, KERNEL_LOAD, Nanos, Tasks};
pub use unit::{Unit, Value};
pub use words::{count, ending, number, percent, plural, points, quoted, sentence, times};
