//! Which cgroups wait for the CPU, and what for.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Tool,
    head::{Head, about},
};
use crate::{
    diagnosis::{Blamed, Wait},
    mcp::{
        answer::{Answer, List, bounded, limit},
        seen::Seen,
        shelf::{Shelf, Unnamed, aside},
        trouble::Trouble,
    },
    model::{Cgroup, CgroupId, Measure, Nanos, id_as_text},
    units::{Unit, percent},
};

pub(super) struct WhoMakesWait;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Only waits of this cgroup, and waits for it: a path (with all cgroups inside of it), a name or an id from
    /// another answer.
    cgroup: Option<String>,
    /// Name of a recording, from the tool `recordings` or from an earlier answer. By default the only one; on a live
    /// host, the last measurement.
    recording: Option<String>,
    /// Items in each list of the answer, from 1 to 50 (default 10).
    limit: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reply {
    #[serde(flatten)]
    head: Head,
    /// What cgroups waited for, the longest waits first.
    waits: List<WaitPart>,
    /// Waits that the cgroup in question caused others, the longest first. Empty if none was named.
    makes_wait: List<WaitPart>,
    /// Cgroups by all waits that they caused others, the most first.
    culprits: List<Culprit>,
    /// Why causes of waits are missing. `None` if they were measured.
    missing: Option<String>,
}

/// A part of a cgroup's wait for the CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct WaitPart {
    victim: Who,
    /// Whose tasks ran instead. `None` if the cause is no other cgroup.
    culprit: Option<Who>,
    /// The cause, if it is no other cgroup.
    cause: Option<&'static str>,
    /// Average number of the victim's tasks that waited for this.
    waiting: f64,
    /// Share of all that the victim waited.
    share: f64,
}

/// A cgroup that makes others wait.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Culprit {
    culprit: Who,
    /// Average number of tasks of others that waited behind its tasks.
    waiting: f64,
    /// Number of cgroups that waited behind it.
    victims: usize,
}

/// A cgroup. Any user of the host may have chosen its name and path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Who {
    /// Its id, as text.
    #[serde(serialize_with = "id_as_text")]
    #[schemars(with = "String")]
    id: CgroupId,
    name: String,
    path: String,
}

impl Tool for WhoMakesWait {
    const NAME: &'static str = "who_makes_wait";
    const TITLE: &'static str = "Who makes whom wait";
    const ABOUT: &'static str = "\
        Which cgroups wait for the CPU and behind which others, as measured: victims, culprits, and waits without a \
        culprit (throttled by a quota, its own threads, kernel threads). With `cgroup`: what it waits for, and whom it \
        makes wait. It only counts: `overview` judges whether a culprit takes more than its share.";
    type Request = Request;
    type Reply = Reply;

    async fn answer(shelf: &Shelf, request: Request) -> Result<Answer, Trouble> {
        let most = limit(request.limit)?;
        let seen = shelf.look(request.recording.as_deref(), None, Unnamed::Last).await?;
        aside(move || {
            let of = request.cgroup.as_deref().map(|said| seen.cgroups(said)).transpose()?;
            let of: Option<BTreeSet<CgroupId>> = of.map(|cgroups| cgroups.iter().map(|cgroup| cgroup.id).collect());
            let waits = Waits::of(&seen, of.as_ref());
            bounded(most, seen.names(), &waits.text(&seen), |most| Reply {
                head: Head::of(&seen),
                waits: List::of(waits.shown(&waits.waits), most),
                makes_wait: List::of(waits.shown(&waits.makes_wait), most),
                culprits: List::of(waits.culprits(), most),
                missing: waits.missing.clone(),
            })
        })
        .await?
    }
}

struct Waits<'s> {
    cgroups: BTreeMap<CgroupId, &'s Cgroup>,
    duration: Nanos,
    waits: Vec<Wait>,
    makes_wait: Vec<Wait>,
    /// By culprit: how long others waited behind it, and how many.
    culprits: Vec<(CgroupId, Nanos, usize)>,
    missing: Option<String>,
}

impl<'s> Waits<'s> {
    fn of(seen: &'s Seen, of: Option<&BTreeSet<CgroupId>>) -> Self {
        let all = &seen.whole.cgroups;
        let mut waits: Vec<Wait> = all.iter().filter_map(Wait::parts).flatten().collect();
        Wait::sort(&mut waits);
        let mut by_culprit: BTreeMap<CgroupId, (Nanos, usize)> = BTreeMap::new();
        for wait in &waits {
            if let Some((time, victims)) = wait.blamed.culprit().map(|id| by_culprit.entry(id).or_default()) {
                *time = time.saturating_add(wait.time);
                *victims += 1;
            }
        }
        let mut culprits: Vec<_> = by_culprit.into_iter().map(|(id, (time, victims))| (id, time, victims)).collect();
        culprits.sort_by_key(|&(id, time, _)| (Reverse(time), id));
        let makes_wait = match of {
            Some(of) => {
                waits.iter().filter(|wait| wait.blamed.culprit().is_some_and(|id| of.contains(&id))).copied().collect()
            }
            None => Vec::new(),
        };
        if let Some(of) = of {
            waits.retain(|wait| of.contains(&wait.victim));
        }
        let is_known = all.iter().any(|cgroup| cgroup.totals.wait_behind_ns.is_some());
        let missing = (!is_known).then(|| seen.observations.session().why_not(Measure::Blame));
        let cgroups = all.iter().map(|cgroup| (cgroup.id, cgroup)).collect();
        Self { cgroups, duration: seen.whole.duration_ns, waits, makes_wait, culprits, missing }
    }

    fn who(&self, id: CgroupId) -> Who {
        // One that is named behind a wait ran at the same time; a recording that was made up may say otherwise.
        let cgroup = self.cgroups.get(&id);
        let text = |of: fn(&Cgroup) -> &str| cgroup.map(|cgroup| of(cgroup).to_owned()).unwrap_or_default();
        // As it is called: it is marked later, by that.
        Who { id, name: text(|cgroup| &cgroup.name), path: text(|cgroup| &cgroup.path) }
    }

    fn shown(&self, waits: &[Wait]) -> impl Iterator<Item = WaitPart> {
        waits.iter().map(|wait| WaitPart {
            victim: self.who(wait.victim),
            culprit: wait.blamed.culprit().map(|id| self.who(id)),
            cause: wait.blamed.label(),
            waiting: wait.time.cores(self.duration).0,
            share: wait.share,
        })
    }

    fn culprits(&self) -> impl Iterator<Item = Culprit> {
        self.culprits.iter().map(|&(id, time, victims)| Culprit {
            culprit: self.who(id),
            waiting: time.cores(self.duration).0,
            victims,
        })
    }

    /// The longest waits behind others, or else the longest, in a sentence each.
    fn text(&self, seen: &Seen) -> String {
        let is_behind = |wait: &&Wait| wait.blamed.culprit().is_some();
        let worst = |waits: &[Wait]| waits.iter().find(is_behind).or(waits.first()).map(|wait| self.say(wait));
        let mut lines: Vec<String> = match (&self.missing, worst(&self.waits)) {
            (Some(why), _) => vec![format!("Causes of waits are n/a: {why}.")],
            (None, None) => vec!["No task waited for the CPU.".to_owned()],
            (None, Some(waits)) => vec![waits],
        };
        lines.extend(worst(&self.makes_wait));
        lines.push(about(seen));
        lines.join("\n")
    }

    fn say(&self, wait: &Wait) -> String {
        let called = |id: CgroupId| {
            let Who { name, path, .. } = self.who(id);
            [path, name].into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| format!("cgroup {}", id.0))
        };
        let cause = match wait.blamed {
            Blamed::Cgroup(id) => format!("behind {}", called(id)),
            Blamed::Cause(cause) => format!("with this cause: {}", cause.label().trim_matches(['(', ')'])),
        };
        let waiting = Unit::Tasks.show(wait.time.cores(self.duration).0);
        let share = percent(wait.share);
        format!("{} waited {cause}: {waiting} on average, {share} of all that it waited.", called(wait.victim))
    }
}
