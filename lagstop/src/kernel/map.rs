//! Map access by bulk: aya 0.14 reads maps one key at a time.
//!
//! All of `unsafe` that the map system calls need is here.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use aya_obj::generated::{bpf_attr, bpf_cmd};
use bytemuck::{AnyBitPattern, NoUninit, Pod};

use super::error::KernelError;

/// Most entries of a hash map asked for at once: bounds the memory of a read.
const CHUNK: u32 = 512;

/// A map, known by its file descriptor.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
}

impl Map {
    /// One that was made here.
    pub(crate) fn own(fd: OwnedFd) -> Self {
        Self { fd }
    }

    pub(super) fn new(fd: BorrowedFd<'_>) -> Result<Self, KernelError> {
        fd.try_clone_to_owned().map(|fd| Self { fd }).map_err(failed("opened"))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Every key and value of a hash map. One that comes or goes meanwhile may be in it or not.
    pub(crate) fn read_hash<K: Pod, V: Pod>(&self, max_entries: u32) -> Result<Vec<(K, V)>, KernelError> {
        let mut all = Vec::new();
        // A batch must take a whole bucket; kernels round buckets up to the number of entries, so few share one.
        let mut chunk = CHUNK.min(max_entries.max(1));
        let (mut keys, mut values): (Vec<K>, Vec<V>) = (Vec::new(), Vec::new());
        // The cursor of a hash map is the number of a bucket.
        let mut cursor: Option<u32> = None;
        loop {
            keys.resize(chunk as usize, K::zeroed());
            values.resize(chunk as usize, V::zeroed());
            match self.batch(&mut cursor, &mut keys, &mut values, chunk) {
                Ok((got, more)) => {
                    all.extend(keys.iter().copied().zip(values.iter().copied()).take(got as usize));
                    if !more {
                        return Ok(all);
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && chunk < max_entries => chunk *= 2,
                Err(error) => return Err(failed("read")(error)),
            }
        }
    }

    /// The value of `key`; `copies` of it where the map is per CPU.
    pub(crate) fn lookup<K: NoUninit, V: AnyBitPattern>(&self, key: &K, values: &mut [V]) -> io::Result<()> {
        let mut attr = self.element(key);
        attr.__bindgen_anon_2.__bindgen_anon_1.value = values.as_mut_ptr() as u64;
        // SAFETY: `values` has room for what the map has for a key; the callers see to it.
        unsafe { bpf(bpf_cmd::BPF_MAP_LOOKUP_ELEM, &mut attr) }.map(drop)
    }

    /// The value at `index` of an array.
    pub(crate) fn get<V: Pod>(&self, index: u32) -> Result<V, KernelError> {
        let mut value = V::zeroed();
        self.lookup(&index, std::slice::from_mut(&mut value)).map_err(failed("read"))?;
        Ok(value)
    }

    /// Writes a value; of a per-CPU map one for each possible CPU.
    pub(crate) fn set<K: NoUninit, V: NoUninit>(&self, key: &K, values: &[V]) -> Result<(), KernelError> {
        let mut attr = self.element(key);
        attr.__bindgen_anon_2.__bindgen_anon_1.value = values.as_ptr() as u64;
        // SAFETY: as in `lookup`.
        unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }.map(drop).map_err(failed("written"))
    }

    /// Pushes onto a stack.
    pub(super) fn push<V: NoUninit>(&self, value: &V) -> Result<(), KernelError> {
        // SAFETY: a union of plain integers, for which zero is valid.
        let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
        attr.__bindgen_anon_2.map_fd = self.fd.as_raw_fd().unsigned_abs();
        attr.__bindgen_anon_2.__bindgen_anon_1.value = std::ptr::from_ref(value) as u64;
        // SAFETY: `value` is read only, and is of the map's value size.
        unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }.map(drop).map_err(failed("written"))
    }

    /// Removes `key`; it is no error when it is not there.
    pub(crate) fn remove<K: NoUninit>(&self, key: &K) -> Result<(), KernelError> {
        // SAFETY: only `key` is read.
        match unsafe { bpf(bpf_cmd::BPF_MAP_DELETE_ELEM, &mut self.element(key)) } {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("written")(error)),
            _ => Ok(()),
        }
    }

    fn element<K: NoUninit>(&self, key: &K) -> bpf_attr {
        // SAFETY: a union of plain integers, for which zero is valid.
        let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
        attr.__bindgen_anon_2.map_fd = self.fd.as_raw_fd().unsigned_abs();
        attr.__bindgen_anon_2.key = std::ptr::from_ref(key) as u64;
        attr
    }

    /// Reads up to `count` elements after `cursor`. Gives how many, and whether there may be more.
    pub(super) fn batch<K, V>(
        &self,
        cursor: &mut Option<u32>,
        keys: &mut [K],
        values: &mut [V],
        count: u32,
    ) -> io::Result<(u32, bool)> {
        let from = *cursor;
        let mut to = 0u32;
        // SAFETY: a union of plain integers, for which zero is valid.
        let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
        attr.batch.map_fd = self.fd.as_raw_fd().unsigned_abs();
        attr.batch.in_batch = from.as_ref().map_or(0, |from| std::ptr::from_ref(from) as u64);
        attr.batch.out_batch = &raw mut to as u64;
        attr.batch.keys = keys.as_mut_ptr() as u64;
        attr.batch.values = values.as_mut_ptr() as u64;
        attr.batch.count = count;
        // SAFETY: `keys` and `values` have room for `count` elements of the map's sizes; the callers see to it.
        let result = unsafe { bpf(bpf_cmd::BPF_MAP_LOOKUP_BATCH, &mut attr) };
        // SAFETY: the kernel wrote the number of elements where the request was.
        let got = unsafe { attr.batch.count };
        *cursor = Some(to);
        match result {
            Ok(_) => Ok((got, true)),
            // The end of the map, not an error: `got` is what was left.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((got, false)),
            Err(error) => {
                *cursor = from;
                Err(error)
            }
        }
    }
}

/// `bpf(2)`. Gives what it returns, which of some commands is a file descriptor.
///
/// # Safety
/// Every pointer in `attr` must be valid for what `command` does with it.
pub(crate) unsafe fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<i64> {
    // SAFETY: the caller vouches for the pointers, and `attr` is as large as is said.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<bpf_attr>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(super) fn failed(action: &'static str) -> impl Fn(io::Error) -> KernelError {
    move |source| KernelError::Map { action, source }
}
