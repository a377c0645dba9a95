//! Where the kernel keeps its fields: a one-pass reader of its BTF, made for looking up a few dozen members.
//!
//! Format: `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h` of the kernel. aya-obj parses BTF too, but shows no
//! members.

use std::{collections::HashMap, fs, io, path::Path};

use thiserror::Error;

use crate::display::plain;

/// What is wrong with a BTF blob.
#[derive(Debug, Error)]
pub enum BtfError {
    /// The file could not be read.
    #[error("cannot read {path}: {}", plain(source))]
    Read { path: String, source: io::Error },
    /// The bytes are not BTF, or not of a kind that is known here.
    #[error("the BTF data is malformed: {0}")]
    Malformed(&'static str),
}

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN: usize = 24;
/// Deepest nesting of anonymous members that is followed.
const MAX_DEPTH: u32 = 16;

mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FWD: u32 = 7;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// A structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Structure {
    pub(crate) id: u32,
    /// In bytes.
    pub(crate) size: u32,
    /// In order.
    pub(crate) members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// In bytes, rounded down where it is a bit field.
    pub(crate) offset: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) id: u32,
    /// Their names.
    pub(crate) parameters: Vec<String>,
}

/// A parsed BTF blob: the bytes, and where each type and each named structure is.
pub struct Btf {
    data: Vec<u8>,
    strings: usize,
    /// Byte offset of type `id`, by `id - 1`.
    types: Vec<u32>,
    structs: HashMap<Box<[u8]>, u32>,
    typedefs: HashMap<Box<[u8]>, u32>,
    functions: HashMap<Box<[u8]>, u32>,
}

impl Btf {
    /// Where the running kernel shows its BTF.
    pub const VMLINUX: &'static str = "/sys/kernel/btf/vmlinux";

    /// Reads and indexes the BTF in `path`.
    ///
    /// # Errors
    /// When the file cannot be read or is not BTF.
    pub fn read(path: &Path) -> Result<Self, BtfError> {
        let data = fs::read(path).map_err(|source| BtfError::Read { path: path.display().to_string(), source })?;
        Self::parse(data)
    }

    /// Indexes the BTF in `data`.
    ///
    /// # Errors
    /// When `data` is not little-endian BTF, or is cut off.
    pub fn parse(data: Vec<u8>) -> Result<Self, BtfError> {
        let cut = BtfError::Malformed("it ends too early");
        if data.len() < HEADER_LEN {
            return Err(cut);
        }
        if u16::from_le_bytes([data[0], data[1]]) != MAGIC {
            return Err(BtfError::Malformed("it does not start with the BTF magic number"));
        }
        let word = |at: usize| -> Option<u32> { Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?)) };
        let header = |at| word(at).map(|w| w as usize).ok_or(BtfError::Malformed("it ends too early"));
        let header_len = header(4)?;
        let (start, len) = (header_len + header(8)?, header(12)?);
        let strings = header_len + header(16)?;
        let end = start.checked_add(len).filter(|&end| end <= data.len()).ok_or(cut)?;

        let mut btf = Self {
            data: Vec::new(),
            strings,
            types: Vec::new(),
            structs: HashMap::new(),
            typedefs: HashMap::new(),
            functions: HashMap::new(),
        };
        let mut at = start;
        let (mut structs, mut typedefs, mut functions) = (Vec::new(), Vec::new(), Vec::new());
        while at < end {
            let info = word(at + 4).ok_or(BtfError::Malformed("it ends too early"))?;
            let (kind, vlen) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            btf.types.push(u32::try_from(at).map_err(|_| BtfError::Malformed("it is larger than 4 GiB"))?);
            let id = u32::try_from(btf.types.len()).unwrap_or(u32::MAX);
            match kind {
                kind::STRUCT | kind::UNION => structs.push(id),
                kind::TYPEDEF => typedefs.push(id),
                kind::FUNC => functions.push(id),
                _ => {}
            }
            at += 12
                + match kind {
                    kind::INT | kind::VAR | kind::DECL_TAG => 4,
                    kind::ARRAY => 12,
                    kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => vlen * 12,
                    kind::ENUM | kind::FUNC_PROTO => vlen * 8,
                    0 | 20.. => return Err(BtfError::Malformed("it holds a kind of type that is not known here")),
                    _ => 0,
                };
        }
        if at > end {
            return Err(BtfError::Malformed("its last type is cut off"));
        }
        btf.data = data;
        btf.structs = btf.by_name(&structs);
        btf.typedefs = btf.by_name(&typedefs);
        btf.functions = btf.by_name(&functions);
        Ok(btf)
    }

    /// Byte offset of `path` in the structure `name`: members joined by dots, anonymous ones left out, as in
    /// `("task_struct", "se.cfs_rq")`. `None` where this kernel has no such member, or has it as a bit field.
    pub fn offset(&self, name: &str, path: &str) -> Option<u64> {
        let mut id = *self.structs.get(name.as_bytes())?;
        let mut bits = 0;
        for member in path.split('.') {
            let (offset, of) = self.member(self.resolve(id)?, member.as_bytes(), 0)?;
            bits += offset;
            id = of;
        }
        (bits % 8 == 0).then_some(u64::from(bits / 8))
    }

    /// How many arguments the tracepoint `name` has. `None` where there is none.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<u32> {
        let typedef = self.at(*self.typedefs.get(format!("btf_trace_{name}").as_bytes())?)?;
        let pointer = self.at(self.word(typedef + 8)?)?;
        let prototype = self.at(self.word(pointer + 8)?)?;
        // The first one is the program's own.
        (self.word(prototype + 4)? & 0xffff).checked_sub(1)
    }

    /// Is there a structure or union `name`?
    pub fn has_structure(&self, name: &str) -> bool {
        self.structs.contains_key(name.as_bytes())
    }

    /// How many arguments the function `name` takes. `None` where there is none.
    pub fn arguments(&self, name: &str) -> Option<u32> {
        let function = self.at(*self.functions.get(name.as_bytes())?)?;
        let prototype = self.at(self.word(function + 8)?)?;
        Some(self.word(prototype + 4)? & 0xffff)
    }

    /// The structure or union `name`. `None` where there is none.
    pub(crate) fn structure(&self, name: &str) -> Option<Structure> {
        let id = *self.structs.get(name.as_bytes())?;
        let at = self.at(id)?;
        let info = self.word(at + 4)?;
        let member = |n: usize| {
            let member = at + 12 + n * 12;
            let bits = self.word(member + 8)?;
            let bits = if info >> 31 == 1 { bits & 0x00ff_ffff } else { bits };
            let name = String::from_utf8_lossy(self.string(self.word(member)?)?).into_owned();
            Some(Member { name, offset: bits / 8 })
        };
        let members = (0..(info & 0xffff) as usize).map(member).collect::<Option<_>>()?;
        Some(Structure { id, size: self.word(at + 8)?, members })
    }

    /// The function `name`. `None` where there is none.
    pub(crate) fn function(&self, name: &str) -> Option<Function> {
        let id = *self.functions.get(name.as_bytes())?;
        let prototype = self.at(self.word(self.at(id)? + 8)?)?;
        let parameter = |n: usize| {
            let name = self.string(self.word(prototype + 12 + n * 8)?)?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        let count = (self.word(prototype + 4)? & 0xffff) as usize;
        Some(Function { id, parameters: (0..count).map(parameter).collect::<Option<_>>()? })
    }

    /// BTF with the same ids, but only the names of functions and typedefs, which attaching needs. A full copy in aya's form takes
    /// 25 MB.
    pub fn names_only(&self) -> Vec<u8> {
        let (types_len, strings) = (self.types.len() * 12, &self.data[self.strings.min(self.data.len())..]);
        let mut thin = Vec::with_capacity(HEADER_LEN + types_len + strings.len());
        thin.extend_from_slice(&MAGIC.to_le_bytes());
        thin.extend_from_slice(&[1, 0]);
        for word in [HEADER_LEN, 0, types_len, types_len, strings.len()] {
            thin.extend_from_slice(&(word as u32).to_le_bytes());
        }
        for &at in &self.types {
            let at = at as usize;
            match self.word(at + 4).map(|info| info >> 24 & 0x1f) {
                Some(kind::FUNC | kind::TYPEDEF) => thin.extend_from_slice(&self.data[at..at + 12]),
                _ => [0, kind::FWD << 24, 0].iter().for_each(|word| thin.extend_from_slice(&word.to_le_bytes())),
            }
        }
        thin.extend_from_slice(strings);
        thin
    }

    fn by_name(&self, ids: &[u32]) -> HashMap<Box<[u8]>, u32> {
        let mut names = HashMap::with_capacity(ids.len());
        for &id in ids {
            if let Some(name) = self.at(id).and_then(|at| self.string(self.word(at)?)).filter(|name| !name.is_empty()) {
                // The first of several: pahole puts the kernel's own before those of merged objects.
                names.entry(name.into()).or_insert(id);
            }
        }
        names
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.data.get(at..at + 4)?.try_into().ok()?))
    }

    fn at(&self, id: u32) -> Option<usize> {
        self.types.get((id as usize).checked_sub(1)?).map(|&at| at as usize)
    }

    fn string(&self, offset: u32) -> Option<&[u8]> {
        let rest = self.data.get(self.strings + offset as usize..)?;
        Some(&rest[..rest.iter().position(|&byte| byte == 0)?])
    }

    /// The structure behind typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<u32> {
        for _ in 0..MAX_DEPTH {
            let at = self.at(id)?;
            match self.word(at + 4)? >> 24 & 0x1f {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = self.word(at + 8)?
                }
                _ => return Some(id),
            }
        }
        None
    }

    /// Bit offset and type of the member `wanted` of the structure `id`, also inside its anonymous members.
    fn member(&self, id: u32, wanted: &[u8], depth: u32) -> Option<(u32, u32)> {
        if depth > MAX_DEPTH {
            return None;
        }
        let at = self.at(id)?;
        let info = self.word(at + 4)?;
        if !matches!(info >> 24 & 0x1f, kind::STRUCT | kind::UNION) {
            return None;
        }
        let has_bit_fields = info >> 31 == 1;
        for member in (0..(info & 0xffff) as usize).map(|n| at + 12 + n * 12) {
            let (name, of, mut offset) = (self.word(member)?, self.word(member + 4)?, self.word(member + 8)?);
            if has_bit_fields {
                // The upper byte is the width of a bit field: those have no byte to point at.
                if offset >> 24 != 0 {
                    continue;
                }
                offset &= 0x00ff_ffff;
            }
            if name == 0 {
                if let Some((inner, of)) = self.member(self.resolve(of)?, wanted, depth + 1) {
                    return Some((offset + inner, of));
                }
            } else if self.string(name)? == wanted {
                return Some((offset, of));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a blob: `types` are (name, info, size or type, what follows).
    fn blob(types: &[(u32, u32, u32, &[u32])], strings: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        for (name, info, size, rest) in types {
            for word in [name, info, size].into_iter().chain(rest.iter()) {
                body.extend_from_slice(&word.to_le_bytes());
            }
        }
        let mut data = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, body.len() as u32, body.len() as u32, strings.len() as u32] {
            data.extend_from_slice(&word.to_le_bytes());
        }
        data.extend(body);
        data.extend_from_slice(strings);
        data
    }

    const STRINGS: &[u8] = b"\0outer\0a\0inner\0b\0bits\0btf_trace_x\0";
    const OUTER: u32 = 1;
    const A: u32 = 7;
    const INNER: u32 = 9;
    const B: u32 = 15;
    const BITS: u32 = 17;
    const TRACE_X: u32 = 22;

    fn sample() -> Vec<u8> {
        blob(
            &[
                (0, kind::INT << 24, 4, &[32]),
                // 2: struct inner { int a; int b; }
                (INNER, kind::STRUCT << 24 | 2, 8, &[A, 1, 0, B, 1, 32]),
                // 3: anonymous union { inner_t inner; }
                (0, kind::UNION << 24 | 1, 8, &[INNER, 5, 0]),
                // 4: struct outer, with bit fields: int bits: 3 at bit 0; the anonymous union at byte 8; int a at byte 16
                (OUTER, 1 << 31 | kind::STRUCT << 24 | 3, 24, &[BITS, 1, 3 << 24, 0, 3, 64, A, 1, 128]),
                // 5: typedef inner inner
                (INNER, kind::TYPEDEF << 24, 2, &[]),
                // 6: void (void *, int, int); 7: pointer to it; 8: its typedef
                (0, kind::FUNC_PROTO << 24 | 3, 0, &[0, 0, 0, 1, 0, 1]),
                (0, 2 << 24, 6, &[]),
                (TRACE_X, kind::TYPEDEF << 24, 7, &[]),
                // 9: a function of that type
                (B, kind::FUNC << 24, 6, &[]),
            ],
            STRINGS,
        )
    }

    #[test]
    fn members_are_found_through_anonymous_unions_typedefs_and_beside_bit_fields() {
        let btf = Btf::parse(sample()).unwrap();
        assert_eq!(btf.offset("outer", "a"), Some(16));
        assert_eq!(btf.offset("outer", "inner.b"), Some(12));
        assert_eq!(btf.offset("inner", "b"), Some(4));
        assert_eq!(btf.offset("outer", "bits"), None, "a bit field has no byte offset");
        assert_eq!(btf.offset("outer", "nothing"), None);
        assert_eq!(btf.offset("nothing", "a"), None);
    }

    #[test]
    fn tracepoints_are_known_by_their_typedefs() {
        let btf = Btf::parse(sample()).unwrap();
        assert_eq!((btf.tracepoint_arguments("x"), btf.tracepoint_arguments("y")), (Some(2), None));
        assert!(btf.has_structure("outer") && !btf.has_structure("x"));
    }

    #[test]
    fn functions_are_known_with_their_arguments() {
        let btf = Btf::parse(sample()).unwrap();
        assert_eq!((btf.arguments("b"), btf.arguments("outer")), (Some(3), None));
        let function = btf.function("b").unwrap();
        assert_eq!((function.id, function.parameters), (9, vec![String::new(); 3]));
        assert_eq!(btf.function("outer"), None);
    }

    #[test]
    fn structures_are_known_with_their_members() {
        let inner = Btf::parse(sample()).unwrap().structure("inner").unwrap();
        let members: Vec<(&str, u32)> = inner.members.iter().map(|member| (&*member.name, member.offset)).collect();
        assert_eq!((inner.id, inner.size, members), (2, 8, vec![("a", 0), ("b", 4)]));
    }

    #[test]
    fn names_keep_their_ids_in_thin_data() {
        let whole = Btf::parse(sample()).unwrap();
        let thin = Btf::parse(whole.names_only()).unwrap();
        assert_eq!((&thin.functions, &thin.typedefs), (&whole.functions, &whole.typedefs));
        assert_eq!(thin.types.len(), whole.types.len());
        assert!(thin.structs.is_empty());
    }

    #[test]
    fn broken_data_is_refused_or_gives_nothing() {
        let whole = sample();
        for len in 0..whole.len() {
            if let Ok(btf) = Btf::parse(whole[..len].to_vec()) {
                let _ = (btf.offset("outer", "inner.b"), btf.structure("outer"), btf.function("b"));
            }
        }
        for at in 0..whole.len() {
            let mut data = whole.clone();
            data[at] ^= 0xff;
            if let Ok(btf) = Btf::parse(data) {
                let _ = (btf.offset("outer", "inner.b"), btf.tracepoint_arguments("x"), btf.arguments("b"));
                let _ = btf.names_only();
            }
        }
        assert!(Btf::parse(b"not BTF at all, but long enough".to_vec()).is_err());
        let mut cut = blob(&[(1, kind::FUNC << 24, 0, &[])], b"");
        cut.truncate(cut.len() - 4);
        cut[12..16].copy_from_slice(&8u32.to_le_bytes());
        assert!(Btf::parse(cut).is_err(), "the last type has no end");
    }
}
