//! A map that has one value a CPU.

use bytemuck::Pod;

use super::{
    error::KernelError,
    map::{Map, failed},
};

/// The values, one a possible CPU.
pub(super) struct PerCpu<V> {
    map: Map,
    values: Vec<V>,
}

impl<V: Pod> PerCpu<V> {
    /// `copies` is how many CPUs are possible.
    pub(super) fn new(map: Map, copies: usize) -> Self {
        Self { map, values: vec![V::zeroed(); copies] }
    }

    /// Reads the values, by CPU.
    pub(super) fn read(&mut self) -> Result<&[V], KernelError> {
        self.map.lookup(&0u32, &mut self.values).map_err(failed("read"))?;
        Ok(&self.values)
    }
}
