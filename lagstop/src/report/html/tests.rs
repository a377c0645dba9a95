use super::*;
use crate::{
    diagnosis::{Observations, Thresholds, fixture::contended},
    model::Interval,
    model::fixture,
};

fn page(intervals: &[Interval]) -> String {
    let mut observations = Observations::new(fixture::session());
    intervals.iter().for_each(|interval| observations.add(interval));
    let report = observations.diagnose(&Thresholds::default());
    render(&report, &observations.pictures(&report))
}

/// Asserts that the page contains nothing that could run, load something, or lead away from it.
fn is_harmless(page: &str) {
    let lower = page.to_lowercase();
    for bad in ["<script", "javascript:", "onerror", "onload", "<img", "<iframe", "<a ", "url(", "@import", "src="] {
        assert!(!lower.contains(bad), "{bad}");
    }
    // The XML namespace is only a name; nothing is loaded from it.
    assert_eq!(
        lower.matches("http").count(),
        lower.matches("xmlns=\"http://www.w3.org/2000/svg\"").count() + 1,
        "http-equiv"
    );
}

#[test]
fn a_full_report_has_all_pictures() {
    let page = page(&fixture::full_of_problems());
    let headings = ["Overhead over time", "Cost of a switch", "Light and heavy", "CPUs over time", "Backlog"];
    assert_eq!(page.matches("<svg").count(), headings.len());
    for heading in headings {
        assert!(page.contains(heading), "{heading}");
    }
    assert!(self::page(&contended(40)).contains("Run-queue waits"), "where it is predicted what is left of them");
    assert!(page.contains("currentColor") && !page.contains("#010203"));
    is_harmless(&page);
}

#[test]
fn without_content_there_is_a_page_without_pictures() {
    for intervals in fixture::without_content() {
        let page = page(&intervals);
        assert!(page.ends_with("</html>\n") && !page.contains("NaN") && !page.contains("\"inf"), "{page}");
    }
    assert_eq!(page(&[]).matches("<svg").count(), 0);
}

#[test]
fn a_hostile_name_is_nothing_but_text() {
    let mut intervals = fixture::full_of_problems();
    for cgroup in intervals.iter_mut().flat_map(|interval| &mut interval.cgroups) {
        cgroup.name = "</td><script>alert(1)</script><img src=x onerror='alert(2)'>".into();
        cgroup.path = "/\"><svg/onload=alert(3)>".into();
    }
    let page = page(&intervals);
    let shown =
        page.replace("&lt;script&gt;", "").replace("&lt;img src=x onerror=&#39;", "").replace("&lt;svg/onload=", "");
    is_harmless(&shown.replace("&lt;/script&gt;", ""));
    assert_eq!(page.matches("<svg").count(), 5, "ours");
    assert_eq!(text("a\"b'c&d\u{1b}"), "a&quot;b&#39;c&amp;d\u{fffd}");
}
