//! Lists of CPUs, as the kernel writes them: `0-2,5`.

use thiserror::Error;

/// More CPUs than any kernel takes (`NR_CPUS`): what a list of the kernel's has beyond is left out.
const MOST: usize = 1 << 16;
/// No CPU has such a number (`NR_CPUS` of arch/x86/Kconfig, MAXSMP).
const END: u32 = 8_192;

/// Reads a list of the kernel's. What is no number is left out.
pub(crate) fn parse_cpus(text: &str) -> Vec<u32> {
    text.trim().split(',').filter_map(range).flatten().take(MOST).collect()
}

/// A part of a list that a person wrote, which names no CPU.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no CPU; write numbers and ranges, such as 2-5,8")]
pub struct NoCpu(String);

/// Reads a list that a person wrote, of which each part has to mean something.
pub(crate) fn cpus_given(text: &str) -> Result<Vec<u32>, NoCpu> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        match range(part) {
            Some(range) if !range.is_empty() && *range.end() < END => cpus.extend(range),
            _ => return Err(NoCpu(part.to_owned())),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn range(part: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
}

pub(crate) fn show_cpus(cpus: &[u32]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    let runs = cpus.chunk_by(|a, b| a + 1 == *b).filter_map(|run| Some((run.first()?, run.last()?)));
    let shown: Vec<String> =
        runs.map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") }).collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_the_kernel_writes_them() {
        assert_eq!(parse_cpus("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpus("0\n"), [0]);
        assert_eq!(parse_cpus("\n"), [] as [u32; 0]);
        assert_eq!(parse_cpus("0-4294967295").len(), MOST);
        assert_eq!([show_cpus(&[]), show_cpus(&[3]), show_cpus(&[7, 0, 1, 2, 5, 6])], ["", "3", "0-2,5-7"]);
    }

    #[test]
    fn a_person_is_told_what_is_no_cpu() {
        assert_eq!(cpus_given("5,2-3, 3"), Ok(vec![2, 3, 5]));
        for wrong in ["", "2-", "3-2", "x", "1,,2", "-1", "0-8192", "0-4294967295"] {
            assert!(cpus_given(wrong).is_err(), "{wrong}");
        }
    }
}
