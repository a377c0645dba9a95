//! Arrays in the kernel, read by ranges.

use std::ops::Range;

use bytemuck::AnyBitPattern;

use super::{
    error::KernelError,
    map::{Map, failed, not_supported},
};

/// Most bytes asked for at once: they are kept for the next read.
const CHUNK: usize = 256 << 10;

/// An array whose values are `V`, or a per-CPU one that has a `V` for each CPU.
pub(super) struct Array<V> {
    map: Map,
    /// Values an element: of a per-CPU array one a possible CPU, of others one.
    copies: usize,
    keys: Vec<u32>,
    values: Vec<V>,
}

impl<V: AnyBitPattern> Array<V> {
    /// `copies` is how many values `map` has an element.
    pub(super) fn new(map: Map, copies: usize) -> Self {
        // No batch is larger than a chunk, but where a single element is.
        let most = (CHUNK / (copies * size_of::<V>()).max(1)).max(1);
        Self { map, copies, keys: vec![0; most], values: vec![bytemuck::Zeroable::zeroed(); most * copies] }
    }

    /// Calls `each` with every index in `range` and its values. What is beyond the end is left out.
    pub(super) fn read(&mut self, range: Range<u32>, mut each: impl FnMut(u32, &[V])) -> Result<(), KernelError> {
        let Self { map, copies, keys, values } = self;
        let most = keys.len() as u32;
        // A batch begins after the index that the cursor is at.
        let mut cursor = range.start.checked_sub(1);
        let mut at = range.start;
        while at < range.end {
            match map.batch(&mut cursor, keys, values, most.min(range.end - at)) {
                Ok((0, _)) => break,
                Ok((got, more)) => {
                    for (index, values) in (at..at + got).zip(values.chunks(*copies)) {
                        each(index, values);
                    }
                    at += got;
                    if !more {
                        break;
                    }
                }
                // Kernels before 5.13 have no batches for per-CPU arrays.
                Err(error) if at == range.start && not_supported(&error) => {
                    for index in range {
                        map.lookup(&index, &mut values[..*copies]).map_err(failed("read"))?;
                        each(index, &values[..*copies]);
                    }
                    break;
                }
                Err(error) => return Err(failed("read")(error)),
            }
        }
        Ok(())
    }
}
