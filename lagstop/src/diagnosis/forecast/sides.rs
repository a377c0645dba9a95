//! Who competes with whom.

use std::{collections::BTreeSet, sync::Arc};

use super::super::asked::Asked;

/// The two sides of an intervention, by the paths of cgroups: all inside of one belongs to its side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Competitors {
    /// Who is to go first.
    pub light: Vec<Arc<str>>,
    /// Who pays.
    pub heavy: Vec<Arc<str>>,
}

/// The cgroups, by number, at which `one` and `other` compete: the children of the lowest cgroup that both are inside of.
/// `None` where one is inside of the other.
pub(in crate::diagnosis) fn siblings(asked: &Asked, one: usize, other: usize) -> Option<(usize, usize)> {
    let (one, other) = (line(asked, one), line(asked, other));
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    Some((*one.get(same)?, *other.get(same)?))
}

/// All that a cgroup is inside of and that the scheduler has a queue for, from the top, and itself.
fn line(asked: &Asked, number: usize) -> Vec<usize> {
    let groups = &asked.trace().groups;
    let up = std::iter::successors(Some(number), |&number| groups[number].parent);
    let mut line: Vec<usize> = up.filter(|&number| groups[number].has_queue).collect();
    line.reverse();
    line
}

impl Competitors {
    /// Lifts `light` and `heavy` to where the one competes with the other.
    ///
    /// # Errors
    /// Why no change can reach the one without the other.
    pub(in crate::diagnosis) fn lifted(asked: &Asked, light: &[usize], heavy: &[usize]) -> Result<Self, String> {
        let (mut first, mut pays) = (BTreeSet::new(), BTreeSet::new());
        for &one in light {
            for &other in heavy {
                match siblings(asked, one, other) {
                    Some((a, b)) => {
                        first.insert(a);
                        pays.insert(b);
                    }
                    None => {
                        return Err(format!(
                            "one of {} and {} is inside of the other: a change would reach both",
                            asked.path(one),
                            asked.path(other)
                        ));
                    }
                }
            }
        }
        if let Some((a, b)) = first
            .iter()
            .flat_map(|&a| pays.iter().map(move |&b| (a, b)))
            .find(|&(a, b)| asked.is_inside(a, b) || asked.is_inside(b, a))
        {
            return Err(format!(
                "{} competes for some and against others of those that are to go first: {} is on the other side of it",
                asked.path(b),
                asked.path(a)
            ));
        }
        let paths =
            |numbers: BTreeSet<usize>| numbers.into_iter().map(|number| Arc::clone(asked.path(number))).collect();
        Ok(Self { light: paths(first), heavy: paths(pays) })
    }
}
