//! Where things lie in the checkout.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::command::{self, CommandError};

/// The checkout that xtask was started in.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The one that cargo runs xtask for, else the one that it was built in.
    pub(crate) fn here() -> Self {
        let manifest_dir =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        Self { root: manifest_dir.parent().map_or_else(|| manifest_dir.clone(), Path::to_path_buf) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo builds, `CARGO_TARGET_DIR` respected.
    pub(crate) fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR")
            .and_then(|dir| std::path::absolute(dir).ok())
            .unwrap_or_else(|| self.root.join("target"))
    }

    /// Builds what users run, as `scripts/release` does: another C library takes memory in another way.
    pub(crate) fn released(&self) -> Result<PathBuf, CommandError> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let of = ["--package", "lagstop", "--bin", "lagstop", "--features", "mcp,parquet", "--target", &target];
        let arguments = ["build", "--profile", "released", "--locked"].into_iter().chain(of);
        command::run(cargo.current_dir(&self.root).args(arguments))?;
        Ok(self.target().join(target).join("released/lagstop"))
    }
}
