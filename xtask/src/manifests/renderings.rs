//! The renderings, and how each is made.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{ManifestsError, file};
use crate::{
    command::{CommandError, stdout},
    ebpf::sha256,
};

/// Something rendered.
pub(super) struct Rendering {
    name: &'static str,
    by: By,
}

enum By {
    /// `kubectl kustomize` of a directory.
    Kustomize(&'static str),
    /// `helm template` of the chart with these arguments.
    Helm(&'static [&'static str]),
}

const CHART: &str = "helm/lagstop";
/// A helm that was built from its module's source otherwise takes Kubernetes for an old version.
pub(super) const HELM: [&str; 7] = ["template", "lagstop", CHART, "--namespace", "lagstop", "--kube-version", "1.36.0"];

pub(super) const ALL: [Rendering; 5] = [
    Rendering { name: "kubernetes-base", by: By::Kustomize("kubernetes/base") },
    Rendering { name: "kubernetes-everything", by: By::Kustomize("kubernetes/overlays/everything") },
    Rendering { name: "kubernetes-secured", by: By::Kustomize("kubernetes/overlays/secured") },
    Rendering { name: "helm-defaults", by: By::Helm(&[]) },
    Rendering { name: "helm-everything", by: By::Helm(&["--values", "helm/lagstop/ci/everything-values.yaml"]) },
];

impl Rendering {
    /// Where it is, below docs/deploy.
    pub(super) fn path(&self, deploy: &Path) -> PathBuf {
        deploy.join(format!("rendered/{}.yaml", self.name))
    }

    /// Renders it, with a head that says from what.
    pub(super) fn render(&self, deploy: &Path) -> Result<String, ManifestsError> {
        let body = match self.by {
            By::Kustomize(directory) => kustomize(deploy, directory)?,
            By::Helm(arguments) => stdout(Command::new("helm").args(HELM).args(arguments).current_dir(deploy))?,
        };
        // A template that renders nothing leaves spaces at the end of lines.
        let body = body.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        Ok(format!("{}\n{}\n", self.head(deploy)?, body.trim_end()))
    }

    /// The first lines, which say from what it is rendered.
    fn head(&self, deploy: &Path) -> Result<String, ManifestsError> {
        let (program, sources) = match self.by {
            By::Kustomize(directory) => (format!("kubectl kustomize docs/deploy/{directory}"), "kubernetes"),
            By::Helm(arguments) => {
                let arguments: Vec<String> = arguments
                    .iter()
                    .map(
                        |word| if word.starts_with("--") { format!(" {word}") } else { format!(" docs/deploy/{word}") },
                    )
                    .collect();
                (format!("helm template lagstop docs/deploy/{CHART} --namespace lagstop{}", arguments.concat()), CHART)
            }
        };
        let hash = hash(&deploy.join(sources))?;
        Ok(format!(
            "# Made by `cargo xtask manifests`; do not edit it: {program}\n# SHA-256 of docs/deploy/{sources}: {hash}"
        ))
    }
}

/// Renders with kubectl, or with kustomize itself where there is no kubectl.
fn kustomize(deploy: &Path, directory: &str) -> Result<String, ManifestsError> {
    match stdout(Command::new("kubectl").args(["kustomize", directory]).current_dir(deploy)) {
        Err(CommandError::Absent { .. }) => {
            Ok(stdout(Command::new("kustomize").args(["build", directory]).current_dir(deploy))?)
        }
        result => Ok(result?),
    }
}

/// The hash of all files below `directory` and of their names.
fn hash(directory: &Path) -> Result<String, ManifestsError> {
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    files.sort();
    let mut all = String::new();
    for path in files {
        let bytes = fs::read(&path).map_err(file(&path))?;
        let name = path.strip_prefix(directory).unwrap_or(&path);
        all += &format!("{} {}\n", name.display(), sha256(&bytes));
    }
    Ok(sha256(all.as_bytes()))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), ManifestsError> {
    for entry in fs::read_dir(directory).map_err(file(directory))? {
        let path = entry.map_err(file(directory))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn the_committed_renderings_are_of_these_sources() {
        let deploy = Workspace::here().root().join("docs/deploy");
        let mut committed: Vec<PathBuf> = Vec::new();
        collect(&deploy.join("rendered"), &mut committed).unwrap();
        assert_eq!(committed.len(), ALL.len(), "{committed:?}");
        for rendering in &ALL {
            let path = rendering.path(&deploy);
            let text = fs::read_to_string(&path).unwrap();
            let head = rendering.head(&deploy).unwrap();
            assert!(text.starts_with(&format!("{head}\n")), "{}: run `cargo xtask manifests`", path.display());
        }
    }

    #[test]
    fn a_hash_knows_names_and_contents() {
        let home = tempfile::tempdir().unwrap();
        let mut seen = Vec::new();
        for (name, text) in [("a", "1"), ("a", "2"), ("b", "2"), ("c", "")] {
            fs::write(home.path().join(name), text).unwrap();
            seen.push(hash(home.path()).unwrap());
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 4);
    }
}
