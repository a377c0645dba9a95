//! The committed objects: what they are built from, and where they are.

use std::path::PathBuf;

use crate::workspace::Workspace;

/// An object that is committed with a manifest beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// The crate, which is also its folder.
    pub(super) package: &'static str,
    /// Crates of the workspace that are linked into it. All of their sources count, for it is not known which do.
    pub(super) linked: &'static [&'static str],
    /// Files in lagstop/bpf/.
    pub(super) file: &'static str,
    pub(super) manifest: &'static str,
}

/// The programs that measure.
pub(crate) const MEASURING: Object =
    Object { package: "lagstop-ebpf", linked: &[], file: "lagstop.bpf.o", manifest: "manifest.txt" };
const SCHEDULER: Object = Object {
    package: "lagstop-scheduler-ebpf",
    linked: &["lagstop-ebpf"],
    file: "scheduler.bpf.o",
    manifest: "scheduler-manifest.txt",
};

pub(super) const OBJECTS: [Object; 2] = [MEASURING, SCHEDULER];

impl Object {
    /// The committed object.
    pub(crate) fn path(self, workspace: &Workspace) -> PathBuf {
        workspace.root().join("lagstop/bpf").join(self.file)
    }

    /// What the committed object was built from.
    pub(super) fn manifest_path(self, workspace: &Workspace) -> PathBuf {
        workspace.root().join("lagstop/bpf").join(self.manifest)
    }
}
