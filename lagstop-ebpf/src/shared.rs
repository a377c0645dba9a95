//! Memory of maps, for the programs of both objects. While a program uses it, other CPUs, programs that interrupt this one, and
//! user space may write to it: there is never a reference to it.

use core::{
    borrow::Borrow,
    intrinsics::{AtomicOrdering, atomic_xadd},
    ptr::NonNull,
};

use aya_ebpf::btf_maps::{Array, HashMap, LruHashMap, PerCpuArray};
use bytemuck::Pod;

/// A value of a map, or a part of one.
///
/// Its address stays good for as long as a program runs: the maps are allocated when they are made, and are not freed
/// before the programs are. An element of a hash map that is removed meanwhile is memory of the map still, and may be
/// another key's by then. Values are aligned to 8 bytes, any bytes are a value of a `Pod`, and the verifier holds every
/// access to the value's bounds.
///
/// `get` and `set` are volatile: numbers are read and written in one piece, nothing is left out, and their order among
/// themselves stays, so that a program that interrupts this one on its CPU finds what was written before. `add` is atomic,
/// but not ordered with them. `copy` and `replace` are plain: only for what nobody else writes to meanwhile.
#[derive(Clone, Copy)]
pub struct Shared<T>(NonNull<T>);

impl<T: Pod> Shared<T> {
    /// # Safety
    /// `value` is a value of a map, or a part of one.
    #[inline(always)]
    pub unsafe fn new(value: *mut T) -> Self {
        // SAFETY: what is there has an address.
        Self(unsafe { NonNull::new_unchecked(value) })
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// A structure that nobody writes to meanwhile.
    #[inline(always)]
    pub fn copy(self) -> T {
        // SAFETY: see the type.
        unsafe { self.0.read() }
    }

    /// Writes a structure that nobody else reads or writes meanwhile.
    #[inline(always)]
    pub fn replace(self, value: T) {
        // SAFETY: see the type.
        unsafe { self.0.write(value) }
    }
}

impl<T: Number> Shared<T> {
    #[inline(always)]
    pub fn get(self) -> T {
        // SAFETY: see the type.
        unsafe { self.0.read_volatile() }
    }

    #[inline(always)]
    pub fn set(self, value: T) {
        // SAFETY: see the type.
        unsafe { self.0.write_volatile(value) }
    }

    /// Adds to a number that nobody else writes to meanwhile, which costs less: to one of this CPU's, with interrupts off; wraps.
    #[inline(always)]
    pub fn add_nonatomic(self, amount: T) {
        self.set(self.get().plus(amount));
    }

    /// Adds to a number that others may add to at the same time; wraps.
    #[inline(always)]
    pub fn add(self, amount: T) {
        // SAFETY: see the type; whoever else adds does so atomically, or cannot interrupt this or be interrupted by it.
        unsafe { atomic_xadd::<T, T, { AtomicOrdering::Relaxed }>(self.0.as_ptr(), amount) };
    }
}

impl<T: Pod, const N: usize> Shared<[T; N]> {
    /// The `n`th of an array, if it has so many.
    #[inline(always)]
    pub fn at(self, n: usize) -> Option<Shared<T>> {
        // SAFETY: within the array.
        (n < N).then(|| Shared(unsafe { self.0.cast::<T>().add(n) }))
    }
}

/// What is read and written in one piece, and can be added to atomically.
pub trait Number: Pod {
    /// The sum; wraps.
    fn plus(self, amount: Self) -> Self;
}

impl Number for u8 {
    #[inline(always)]
    fn plus(self, amount: Self) -> Self {
        self.wrapping_add(amount)
    }
}

impl Number for i64 {
    #[inline(always)]
    fn plus(self, amount: Self) -> Self {
        self.wrapping_add(amount)
    }
}

impl Number for u32 {
    #[inline(always)]
    fn plus(self, amount: Self) -> Self {
        self.wrapping_add(amount)
    }
}

impl Number for u64 {
    #[inline(always)]
    fn plus(self, amount: Self) -> Self {
        self.wrapping_add(amount)
    }
}

/// A part of a value: `field!(value.path.to[its].field)`.
#[macro_export]
macro_rules! field {
    ($value:ident.$($field:tt)+) => {{
        let value = $crate::shared::Shared::as_ptr($value);
        // SAFETY: a part of a value of a map; its address is taken, and nothing read.
        unsafe { $crate::shared::Shared::new(&raw mut (*value).$($field)+) }
    }};
}
pub use crate::field;

/// A map whose values are shared.
pub trait Lookup<K, V> {
    /// The value for `key`: of a map that has one for each CPU, this CPU's.
    fn shared(&self, key: impl Borrow<K>) -> Option<Shared<V>>;
}

impl<V: Pod, const N: usize, const FLAGS: usize> Lookup<u32, V> for Array<V, N, FLAGS> {
    #[inline(always)]
    fn shared(&self, index: impl Borrow<u32>) -> Option<Shared<V>> {
        // SAFETY: a value of the map.
        self.get_ptr_mut(*index.borrow()).map(|value| unsafe { Shared::new(value) })
    }
}

impl<V: Pod, const N: usize> Lookup<u32, V> for PerCpuArray<V, N> {
    #[inline(always)]
    fn shared(&self, index: impl Borrow<u32>) -> Option<Shared<V>> {
        // SAFETY: a value of the map.
        self.get_ptr_mut(*index.borrow()).map(|value| unsafe { Shared::new(value) })
    }
}

impl<K, V: Pod, const N: usize> Lookup<K, V> for HashMap<K, V, N> {
    #[inline(always)]
    fn shared(&self, key: impl Borrow<K>) -> Option<Shared<V>> {
        // SAFETY: a value of the map.
        self.get_ptr_mut(key).map(|value| unsafe { Shared::new(value) })
    }
}

impl<K, V: Pod, const N: usize> Lookup<K, V> for LruHashMap<K, V, N> {
    #[inline(always)]
    fn shared(&self, key: impl Borrow<K>) -> Option<Shared<V>> {
        // SAFETY: a value of the map.
        self.get_ptr_mut(key).map(|value| unsafe { Shared::new(value) })
    }
}
