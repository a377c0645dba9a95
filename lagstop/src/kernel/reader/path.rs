//! Paths of cgroups, from the names that the programs keep.

use lagstop_ebpf::Lineage;

use crate::model::CgroupId;

/// `/grandparent/parent/itself`, from the names kept when the cgroup was first seen. `…` stands for what is above, where
/// the way to the root was longer than is kept, and for the end of a longer name: behind it is then the id of the cgroup that is
/// called so, lest two whose names begin alike are taken for one.
pub(super) fn path_of(lineage: &Lineage) -> String {
    let ancestors: Vec<_> = lineage.ancestors.iter().take_while(|ancestor| ancestor.id != 0).collect();
    let reached_root = ancestors.last().is_some_and(|last| last.id == CgroupId::ROOT.0);
    let mut path = String::new();
    if !reached_root {
        path.push('…');
    }
    for ancestor in ancestors.iter().rev().filter(|ancestor| ancestor.id != CgroupId::ROOT.0) {
        let end = ancestor.name.iter().position(|&byte| byte == 0).unwrap_or(ancestor.name.len());
        path.push('/');
        path.push_str(&String::from_utf8_lossy(&ancestor.name[..end]));
        if end + 1 >= ancestor.name.len() {
            path.push_str(&format!("…#{}", ancestor.id));
        }
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;
    use lagstop_ebpf::{Ancestor, NAME_LEN};

    use super::*;

    fn lineage(names: &[(u64, &str)]) -> Lineage {
        let mut lineage = Lineage::zeroed();
        for (ancestor, (id, name)) in lineage.ancestors.iter_mut().zip(names) {
            *ancestor = Ancestor { id: *id, name: [0; NAME_LEN] };
            ancestor.name[..name.len()].copy_from_slice(name.as_bytes());
        }
        lineage
    }

    #[test]
    fn paths_are_built_from_the_names_up_to_the_root() {
        assert_eq!(path_of(&lineage(&[(9, "c"), (8, "b"), (7, "a"), (1, "/")])), "/a/b/c");
        assert_eq!(path_of(&lineage(&[(1, "/")])), "/");
        let deep: Vec<_> = (2..10).map(|id| (id, "x")).collect();
        assert_eq!(path_of(&lineage(&deep)), "…/x/x/x/x/x/x/x/x");
        let cut = "y".repeat(NAME_LEN - 1);
        assert_eq!(path_of(&lineage(&[(9, &cut), (1, "/")])), format!("/{cut}…#9"));
        assert_eq!(path_of(&lineage(&[(9, "x"), (8, &cut), (1, "/")])), format!("/{cut}…#8/x"));
    }
}
