//! Takes out of the object what no loader reads: four fifths of it is debug information.

use object::{
    build::{
        Error,
        elf::{Builder, SectionData},
    },
    elf::SHT_STRTAB,
};

/// The object without debug sections. BTF and everything that relocates programs stays.
pub(super) fn strip(object: &[u8]) -> Result<Vec<u8>, Error> {
    let mut builder = Builder::read(object)?;
    for section in &mut builder.sections {
        section.delete = is_debug(&String::from_utf8_lossy(&section.name));
    }
    builder.delete_orphans();
    // LLVM keeps the names of symbols and of sections in one table; the builder wants one for each.
    if !builder.sections.iter().any(|section| matches!(section.data, SectionData::SectionString)) {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = SHT_STRTAB;
        names.sh_addralign = 1;
        names.data = SectionData::SectionString;
    }
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

/// True for sections that only debuggers read. The relocations of BTF are for linkers alone (`R_BPF_64_NODYLD32`); what
/// they would add is in place already, and loaders pass over them.
fn is_debug(section: &str) -> bool {
    section.starts_with(".debug_")
        || section.starts_with(".rel.debug_")
        || matches!(section, ".rel.BTF" | ".rel.BTF.ext")
}

#[cfg(test)]
mod tests {
    use super::{super::object::OBJECTS, *};
    use crate::workspace::Workspace;

    #[test]
    fn the_committed_objects_are_stripped_already() {
        for object in OBJECTS {
            let bytes = std::fs::read(object.path(&Workspace::here())).unwrap();
            assert_eq!(strip(&bytes).unwrap(), bytes, "{}", object.file);
        }
    }

    #[test]
    fn btf_and_relocations_of_programs_stay() {
        for section in [".BTF", ".BTF.ext", ".maps", ".rodata", ".text", ".rel.text", ".reltp_btf/sched_switch"] {
            assert!(!is_debug(section), "{section}");
        }
        for section in [".debug_info", ".rel.debug_info", ".rel.BTF.ext"] {
            assert!(is_debug(section), "{section}");
        }
    }
}
