//! Values of the kernel's arrays, mapped into this process' memory, where programs go on writing to them.

use std::{
    io,
    marker::PhantomData,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU64, Ordering},
};

use bytemuck::Pod;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// An array whose values are `V`: as many words of eight bytes as it takes, in each of which the kernel's loads and stores are whole.
pub(super) struct Table<V> {
    words: Words,
    values: PhantomData<V>,
}

enum Words {
    /// In the kernel.
    Mapped { begin: NonNull<AtomicU64>, words: usize },
    /// Here, where nothing is measured.
    MadeUp(Box<[AtomicU64]>),
}

// SAFETY: the memory belongs to nobody's thread, and is only read, atomically.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl<V: Pod> Table<V> {
    const WORDS: usize = {
        assert!(size_of::<V>().is_multiple_of(8), "the kernel rounds values up to eight bytes");
        size_of::<V>() / 8
    };

    /// Maps an array of so many `values`, made with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn map(array: BorrowedFd<'_>, values: usize) -> io::Result<Self> {
        let words = values * Self::WORDS;
        // SAFETY: a new mapping, at an address that the kernel chooses, of what nobody can truncate.
        let begin = unsafe { mmap(ptr::null_mut(), words * 8, ProtFlags::READ, MapFlags::SHARED, array, 0) }?;
        let begin = NonNull::new(begin.cast()).ok_or_else(|| io::Error::other("the kernel mapped an array at 0"))?;
        Ok(Self { words: Words::Mapped { begin, words }, values: PhantomData })
    }

    /// A table of zeros, without a kernel.
    pub(super) fn made_up(values: usize) -> Self {
        let words = (0..values * Self::WORDS).map(|_| AtomicU64::new(0)).collect();
        Self { words: Words::MadeUp(words), values: PhantomData }
    }

    /// The value at `index`, as it is now: each word is whole, all of them are not of one moment. Zeros beyond the end.
    #[inline]
    pub(super) fn get(&self, index: usize) -> V {
        let mut value = V::zeroed();
        let words: &mut [u64] = bytemuck::cast_slice_mut(slice::from_mut(&mut value));
        let begin = index * Self::WORDS;
        let from = self.words.get().get(begin..begin + Self::WORDS).unwrap_or_default();
        for (word, from) in words.iter_mut().zip(from) {
            *word = from.load(Ordering::Relaxed);
        }
        value
    }

    /// All values as arrays of their words.
    #[inline]
    pub(super) fn values<const WORDS: usize>(&self) -> &[[AtomicU64; WORDS]] {
        const { assert!(WORDS * 8 == size_of::<V>(), "the words of a value") };
        self.words.get().as_chunks().0
    }

    /// Writes to a made up one.
    pub(super) fn set(&self, index: usize, value: V) {
        let Words::MadeUp(words) = &self.words else { return };
        let begin = index * Self::WORDS;
        let to = words.get(begin..begin + Self::WORDS).unwrap_or_default();
        for (to, word) in to.iter().zip(bytemuck::cast_slice::<V, u64>(&[value])) {
            to.store(*word, Ordering::Relaxed);
        }
    }
}

impl Words {
    #[inline]
    fn get(&self) -> &[AtomicU64] {
        match self {
            // SAFETY: mapped for as long as this is there; whoever else writes there does so in whole words.
            Self::Mapped { begin, words } => unsafe { slice::from_raw_parts(begin.as_ptr(), *words) },
            Self::MadeUp(words) => words,
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if let Self::Mapped { begin, words } = self {
            // SAFETY: mapped by this, and nobody holds a reference any more. It cannot fail for what is mapped.
            let _ = unsafe { munmap(begin.as_ptr().cast(), *words * 8) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_where_they_were_put_and_zeros_beyond_the_end() {
        let table = Table::made_up(3);
        table.set(1, [7u64, 8]);
        table.set(9, [1u64, 1]);
        assert_eq!([table.get(0), table.get(1), table.get(2), table.get(3)], [[0, 0], [7, 8], [0, 0], [0, 0]]);
    }
}
