//! `bpf(2)` as far as a scheduler takes it. All of `unsafe` that these calls need is here.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use aya_obj::generated::{
    BPF_F_LINK, BPF_F_RDONLY_PROG, BPF_F_SLEEPABLE, bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_map_type,
    bpf_prog_type,
};

use crate::kernel::bpf;

/// A map to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapKind {
    pub(super) map_type: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) max_entries: u32,
    pub(super) flags: u32,
}

/// A program to be loaded as an operation of a structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program<'p> {
    pub(super) name: &'p str,
    pub(super) instructions: &'p [bpf_insn],
    pub(super) licence: &'p CStr,
    /// The structure's id in the kernel's BTF, and the place of the operation among its members.
    pub(super) structure: u32,
    pub(super) member: u32,
    pub(super) may_sleep: bool,
}

/// All zeros, which stand for what a call does not say.
fn nothing() -> bpf_attr {
    // SAFETY: a union of plain integers, for which zero is valid.
    unsafe { std::mem::zeroed() }
}

/// Asks for something that is known by a file descriptor from then on.
///
/// # Safety
/// As of [`bpf`]; and `command` gives a file descriptor.
unsafe fn descriptor(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for it.
    let fd = unsafe { bpf(command, attr) }?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel just gave it, to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// As many bytes of `name` as the kernel keeps; bytes that it does not accept become underscores.
fn name_of(name: &str) -> [libc::c_char; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes()) {
        let is_taken = from.is_ascii_alphanumeric() || from == b'_' || from == b'.';
        *to = if is_taken { from as libc::c_char } else { b'_' as libc::c_char };
    }
    bytes
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

pub(super) fn make_map(name: &str, kind: MapKind) -> io::Result<OwnedFd> {
    let mut attr = nothing();
    attr.__bindgen_anon_1.map_type = kind.map_type;
    attr.__bindgen_anon_1.key_size = kind.key_size;
    attr.__bindgen_anon_1.value_size = kind.value_size;
    attr.__bindgen_anon_1.max_entries = kind.max_entries;
    attr.__bindgen_anon_1.map_flags = kind.flags;
    attr.__bindgen_anon_1.map_name = name_of(name);
    // SAFETY: no pointers.
    unsafe { descriptor(bpf_cmd::BPF_MAP_CREATE, &mut attr) }
}

/// Makes an array of one value that programs only read, and that nobody writes any more: the verifier takes it for constant.
pub(super) fn make_constants(name: &str, value: &[u8]) -> io::Result<OwnedFd> {
    let too_large = |_| io::Error::other("constants of more than 4 GiB");
    let kind = MapKind {
        map_type: bpf_map_type::BPF_MAP_TYPE_ARRAY as u32,
        key_size: 4,
        value_size: u32::try_from(value.len()).map_err(too_large)?,
        max_entries: 1,
        flags: BPF_F_RDONLY_PROG,
    };
    let map = make_map(name, kind)?;
    write(map.as_fd(), value)?;
    let mut attr = nothing();
    attr.__bindgen_anon_2.map_fd = number(map.as_fd());
    // SAFETY: no pointers.
    unsafe { bpf(bpf_cmd::BPF_MAP_FREEZE, &mut attr) }?;
    Ok(map)
}

/// Writes the first value of `map`, which is as large as `value`.
fn write(map: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    let first = 0u32;
    let mut attr = nothing();
    attr.__bindgen_anon_2.map_fd = number(map);
    attr.__bindgen_anon_2.key = std::ptr::from_ref(&first) as u64;
    attr.__bindgen_anon_2.__bindgen_anon_1.value = value.as_ptr() as u64;
    // SAFETY: both are read only; callers make maps with values of this length.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }.map(drop)
}

/// Loads a program. What the verifier says of one that it refuses is put into `log`.
pub(super) fn load(program: &Program<'_>, log: &mut String) -> io::Result<OwnedFd> {
    const LOG: usize = 1 << 20;
    let mut attr = nothing();
    attr.__bindgen_anon_3.prog_type = bpf_prog_type::BPF_PROG_TYPE_STRUCT_OPS as u32;
    attr.__bindgen_anon_3.insn_cnt = u32::try_from(program.instructions.len()).map_err(io::Error::other)?;
    attr.__bindgen_anon_3.insns = program.instructions.as_ptr() as u64;
    attr.__bindgen_anon_3.license = program.licence.as_ptr() as u64;
    attr.__bindgen_anon_3.prog_flags = if program.may_sleep { BPF_F_SLEEPABLE } else { 0 };
    attr.__bindgen_anon_3.prog_name = name_of(program.name);
    attr.__bindgen_anon_3.expected_attach_type = program.member;
    attr.__bindgen_anon_3.attach_btf_id = program.structure;
    // SAFETY: instructions and licence are read, as many and as far as is said.
    match unsafe { descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attr) } {
        Err(error) => {
            let mut said = vec![0u8; LOG];
            attr.__bindgen_anon_3.log_level = 1;
            attr.__bindgen_anon_3.log_size = LOG as u32;
            attr.__bindgen_anon_3.log_buf = said.as_mut_ptr() as u64;
            // SAFETY: as above, and the log has room for what is said. Should it load after all, it is let go.
            drop(unsafe { descriptor(bpf_cmd::BPF_PROG_LOAD, &mut attr) });
            let end = said.iter().position(|&byte| byte == 0).unwrap_or(LOG);
            log.push_str(&String::from_utf8_lossy(&said[..end]));
            Err(error)
        }
        loaded => loaded,
    }
}

/// Makes a map of one structure of operations, which the kernel knows by `type_id` in its BTF, and fills it.
pub(super) fn make_operations(name: &str, type_id: u32, value: &[u8]) -> io::Result<OwnedFd> {
    // The kernel wants some BTF of the loader's with such a map, though it looks at its own only: that of one `int`.
    let types = smallest_types();
    let mut attr = nothing();
    attr.__bindgen_anon_7.btf = types.as_ptr() as u64;
    attr.__bindgen_anon_7.btf_size = types.len() as u32;
    // SAFETY: it is read, as far as is said.
    let types = unsafe { descriptor(bpf_cmd::BPF_BTF_LOAD, &mut attr) }?;
    let mut attr = nothing();
    attr.__bindgen_anon_1.map_type = bpf_map_type::BPF_MAP_TYPE_STRUCT_OPS as u32;
    attr.__bindgen_anon_1.key_size = 4;
    attr.__bindgen_anon_1.value_size = u32::try_from(value.len()).map_err(io::Error::other)?;
    attr.__bindgen_anon_1.max_entries = 1;
    attr.__bindgen_anon_1.map_flags = BPF_F_LINK;
    attr.__bindgen_anon_1.map_name = name_of(name);
    attr.__bindgen_anon_1.btf_fd = number(types.as_fd());
    attr.__bindgen_anon_1.btf_vmlinux_value_type_id = type_id;
    // SAFETY: no pointers.
    let map = unsafe { descriptor(bpf_cmd::BPF_MAP_CREATE, &mut attr) }?;
    write(map.as_fd(), value)?;
    Ok(map)
}

/// Puts operations into force, until what it gives is closed.
pub(super) fn link(operations: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = nothing();
    attr.link_create.__bindgen_anon_1.map_fd = number(operations);
    attr.link_create.attach_type = bpf_attach_type::BPF_STRUCT_OPS as u32;
    // SAFETY: no pointers.
    unsafe { descriptor(bpf_cmd::BPF_LINK_CREATE, &mut attr) }
}

/// BTF of an `int` (Documentation/bpf/btf.rst): header, the type, its name.
fn smallest_types() -> Vec<u8> {
    const NAMES: &[u8] = b"\0int\0";
    const TYPE: [u32; 4] = [1, 1 << 24, 4, 32];
    let mut blob = vec![0x9f, 0xeb, 1, 0];
    let sizes = [24, 0, 16, 16, NAMES.len() as u32];
    sizes.into_iter().chain(TYPE).for_each(|word| blob.extend_from_slice(&word.to_le_bytes()));
    blob.extend_from_slice(NAMES);
    blob
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Btf;

    #[test]
    fn the_smallest_types_are_types() {
        let btf = Btf::parse(smallest_types()).unwrap();
        assert!(!btf.has_structure("int"));
        assert_eq!(smallest_types().len(), 24 + 16 + 5);
    }

    #[test]
    fn names_are_what_the_kernel_takes() {
        let text: String = name_of("lags-select cpu and more").iter().map(|c| char::from(c.to_ne_bytes()[0])).collect();
        assert_eq!(text, "lags_select_cpu\0");
    }
}
