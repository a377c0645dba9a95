//! Quantities with their units, and how people write them. Sums and differences end where numbers do, and are called
//! `saturating_…`.

mod cpu_list;
mod moment;
mod quantities;
mod unit;
mod words;

pub use cpu_list::NoCpu;
pub(crate) use cpu_list::{cpus_given, parse_cpus, show_cpus};
pub(crate) use moment::KernelTime;
pub use quantities::{Cores, KERNEL_LOAD, Nanos, Tasks};
pub(crate) use quantities::{ratio, six_figures};
pub use unit::{Unit, Value};
pub(crate) use words::{MOSTLY, bytes, countdown, if_measured, on_axis, span};
pub use words::{
    count, cpus, ending, number, percent, plural, points, quoted, sentence, signed_percent, times, whole_percent,
};
