//! Containers of which nothing but the id is known, and why.

use std::{collections::BTreeMap, io};

use super::{
    Names, components,
    find::{Engine, named},
    look::Look,
    subtree::{Kind, owners},
};

/// Containers of one runtime that have ids and no names.
#[derive(Debug)]
pub struct Nameless {
    pub runtime: &'static str,
    pub containers: usize,
    /// Where names would be.
    pub directory: &'static str,
    /// Why that cannot be read. `None` where it can, and has no names of them that count.
    pub why: Option<io::Error>,
}

impl Names {
    /// Of the containers whose cgroups are among `paths`: those that have no names, though their runtimes keep names in files.
    pub fn nameless<'p>(&mut self, paths: impl IntoIterator<Item = &'p str>) -> Vec<Nameless> {
        let mut counts: BTreeMap<Engine, usize> = BTreeMap::new();
        for path in paths {
            let engine = self.engine_of_nameless(path);
            engine.into_iter().for_each(|engine| *counts.entry(engine).or_default() += 1);
        }
        let of = |(engine, containers): (Engine, usize)| {
            let directory = engine.directory();
            let why = self.trusted.list(directory, 1).err();
            Nameless { runtime: engine.name(), containers, directory, why }
        };
        counts.into_iter().map(of).collect()
    }

    /// Who should know the name of the container whose own cgroup is at `path`.
    fn engine_of_nameless(&mut self, path: &str) -> Option<Engine> {
        let all = components(path);
        let owner = owners(&all).into_iter().find(|owner| owner.length == all.len())?;
        let Kind::Container(container) = owner.kind else { return None };
        let engine = Engine::of(&container).filter(|_| !container.is_monitor)?;
        let mut look = Look::new(&self.trusted, &mut self.stores);
        named(&container, &mut look).is_none().then_some(engine)
    }
}
