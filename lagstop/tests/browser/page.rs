//! The page of `lagstop serve`, fed with intervals that a test makes.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use lagstop::{
    diagnosis::Thresholds,
    model::{Cgroup, CgroupId, Interval, Nanos, Session, WaitBehind},
    recording::Reader,
    serve::{ConnectionLimits, Feeder, Offered, Security, ServeOptions, Server, Watcher},
};
use tokio::sync::watch;

use crate::{HOSTILE, RECORDING, chromium::Tab};

const LONG: Duration = Duration::from_secs(20);
/// The bully, and whom it makes wait.
const BULLY: &str = "batch.slice/cargo";

/// A server with a page, whose host measures what a test says.
struct Served {
    server: Server,
    feeder: Feeder,
    page: Arc<Watcher>,
    intervals: Vec<Interval>,
    n: u64,
}

impl Served {
    fn start(rename: impl Fn(&mut Cgroup)) -> Self {
        let mut reader = Reader::open(Path::new(RECORDING)).unwrap();
        let session = Session { interval_ns: Nanos::SECOND, ..reader.session().clone() };
        let mut intervals: Vec<Interval> =
            (0..reader.len()).map(|n| Interval { duration_ns: Nanos::SECOND, ..reader.interval(n).unwrap() }).collect();
        intervals.iter_mut().flat_map(|interval| &mut interval.cgroups).for_each(rename);
        let (_, metrics) = watch::channel(None);
        let feeder = Feeder::new(&session).unwrap();
        let page = Watcher::new(feeder.feed(), &Thresholds::default());
        let offered = Offered { metrics, intervals: feeder.feed(), page: Some(Arc::clone(&page)) };
        let options = ServeOptions {
            limits: ConnectionLimits::default(),
            fresh_for: LONG,
            hangs_after: Duration::from_secs(3_600),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server::start(listener, Security::none(), offered, options).unwrap();
        Self { server, feeder, page, intervals, n: 0 }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.server.address())
    }

    /// The next interval, with a bully in it or without.
    fn measure(&mut self, has_bully: bool) {
        let mut interval = self.intervals[self.n as usize % self.intervals.len()].clone();
        interval.start_ns = Nanos(self.n * Nanos::SECOND.0);
        interval.seq = self.n;
        self.n += 1;
        if has_bully {
            let bully = CgroupId(u64::MAX - 1);
            let victim = &mut interval.cgroups[0];
            victim.totals.runq_wait_ns = Some(Nanos(5 * Nanos::SECOND.0));
            victim.totals.wait_behind_ns = Some(Nanos(4_900_000_000));
            victim.waits_behind = vec![WaitBehind { id: bully, wait_ns: Nanos(4_500_000_000) }];
            let mut added =
                Cgroup { id: bully, name: BULLY.into(), path: format!("/{BULLY}").into(), ..Cgroup::default() };
            added.totals.cpu_ns = Nanos(1_900_000_000);
            interval.cgroups.push(added);
        }
        self.feeder.add(&interval).unwrap();
        self.page.show(&interval.into());
    }
}

/// Where pictures go for people to look at, if they want any.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("LAGSTOP_PICTURES").map(PathBuf::from)
}

pub(crate) fn a_bully(browser: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(|_| {});
    (0..12).for_each(|_| served.measure(false));
    let mut tab = Tab::open(browser, home.path());
    tab.go(&served.url());
    tab.wait_for("document.querySelectorAll('#cgroups tbody tr').length > 3", LONG);
    let host = served_host();
    assert_eq!(tab.value("document.getElementById('host').textContent"), host.as_str());
    assert_eq!(tab.value("document.querySelector('#verdict .mark') !== null"), true);
    // It begins right after an interval has: what is seen of it is there a second later.
    served.measure(false);
    let began = Instant::now();
    let sees = format!("document.querySelector('#waits').textContent.includes('{BULLY}')");
    assert_eq!(tab.value(&sees), false);
    std::thread::sleep(Duration::from_secs(1));
    served.measure(true);
    tab.wait_for(&sees, LONG);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    println!("the bully was seen {took:?} after it began, at {:?}", SystemTime::now());
    assert_eq!(tab.value("document.querySelector('#waits tbody tr td:nth-child(2)').textContent"), BULLY);

    // One cgroup's story.
    (0..3).for_each(|_| served.measure(true));
    tab.value(&format!(
        "[...document.querySelectorAll('button.name')].find((it) => it.textContent === '{BULLY}').click()"
    ));
    tab.wait_for("!document.getElementById('story').hidden", LONG);
    tab.wait_for("document.getElementById('story-victims').textContent.includes('4.50')", LONG);
    tab.wait_for("document.querySelectorAll('#story-cpu path').length === 2", LONG);

    if let Some(pictures) = pictures() {
        for (width, scheme) in [(1_200, "light"), (1_200, "dark"), (390, "light"), (390, "dark")] {
            tab.picture(width, scheme, &pictures.join(format!("{width}-{scheme}.png")));
        }
    }

    // Back to before it came, and to now.
    tab.value(
        "(() => { const it = document.getElementById('when'); it.value = 3; it.dispatchEvent(new Event('input')); })()",
    );
    tab.wait_for(&format!("!({sees})"), LONG);
    tab.wait_for("/ ago$/.test(document.getElementById('moment').textContent)", LONG);
    served.measure(true);
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(tab.value(&sees), false, "it stays where it was put");
    tab.value("document.getElementById('pause').click()");
    tab.wait_for(&sees, LONG);
    tab.wait_for("/ live$/.test(document.getElementById('moment').textContent)", LONG);
    assert_eq!(tab.complaints, Vec::<String>::new());
}

fn served_host() -> String {
    Reader::open(Path::new(RECORDING)).unwrap().session().hostname.clone()
}

pub(crate) fn hostile_names(browser: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(|cgroup| {
        cgroup.name = HOSTILE.into();
        cgroup.path = format!("/{HOSTILE}").into();
    });
    (0..12).for_each(|_| served.measure(true));
    let mut tab = Tab::open(browser, home.path());
    tab.go(&served.url());
    tab.wait_for("document.querySelectorAll('#cgroups tbody tr').length > 3", LONG);
    tab.value("document.querySelector('#cgroups tbody button.name').click()");
    tab.wait_for("document.getElementById('story-name').textContent.includes('<script>')", LONG);
    assert_eq!(tab.value("document.documentElement.dataset.pwned === undefined"), true);
    assert_eq!(tab.value("document.querySelectorAll('script').length"), 1);
    assert_eq!(tab.value("document.querySelectorAll('img, [onload], [onerror]').length"), 0);
    assert_eq!(tab.complaints, Vec::<String>::new());
    // And where somebody finds a way to make markup of a name, the policy is in between.
    let refused = tab.value(
        "(() => { try { document.body.innerHTML = '<img src=x onerror=1>'; return false; } catch { return true; } })()",
    );
    assert_eq!(refused, true, "markup is refused by the policy");
}

pub(crate) fn broken_answers(browser: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(|_| {});
    (0..3).for_each(|_| served.measure(false));
    let mut tab = Tab::open(browser, home.path());
    tab.go(&served.url());
    tab.wait_for("document.querySelectorAll('#cgroups tbody tr').length > 3", LONG);
    let said = |text: &str| format!("document.getElementById('connection').textContent.includes('{text}')");

    // An answer that breaks off in the middle, as where a tunnel ends.
    tab.value("window.whole = window.fetch; null");
    tab.value(
        "window.fetch = () => Promise.resolve(new Response(new ReadableStream({ pull(it) { it.error(new Error('cut')); } }))); null",
    );
    tab.wait_for(&said("Disconnected"), LONG);
    tab.value("window.fetch = window.whole; null");
    served.measure(true);
    let shown = served.n - 1;
    tab.wait_for(&format!("state.shown.n === {shown}"), LONG);
    assert_eq!(tab.value("document.getElementById('connection').hidden"), true);
    assert_eq!(tab.complaints, Vec::<String>::new());

    // Whoever looks away and back often asks no more often for it.
    tab.value(
        "window.at_once = 0; window.most = 0; window.fetch = async (...what) => {
           window.most = Math.max(window.most, ++window.at_once);
           await new Promise((done) => setTimeout(done, 500));
           window.at_once -= 1;
           return window.whole(...what);
         }; null",
    );
    tab.wait_for("window.at_once === 1", LONG);
    tab.value("for (let n = 0; n < 5; n++) document.dispatchEvent(new Event('visibilitychange')); null");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(tab.value("window.most"), 1);
    tab.value("window.fetch = window.whole; null");

    // A fault of the page's own.
    tab.value("window.right = showVerdict; showVerdict = () => { throw new Error('a bug'); }; null");
    served.measure(false);
    tab.wait_for(&said("This page has a fault"), LONG);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(tab.value(&said("This page has a fault")), true, "it is said for as long as it is so");
    tab.value("showVerdict = window.right; null");
    served.measure(false);
    let shown = served.n - 1;
    tab.wait_for(&format!("state.shown.n === {shown} && document.getElementById('connection').hidden"), LONG);
    assert!(tab.complaints.iter().all(|it| it.contains("a bug")), "{:?}", tab.complaints);
}

/// How much lighter one of text and background is than the other, as WCAG 2 has it: 1 to 21.
const CONTRAST: &str = "(() => {
    const light = (color) => {
      const [r, g, b] = color.match(/[0-9.]+/g).map((it) => it / 255).map((it) => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const style = getComputedStyle(document.body);
    const [one, other] = [light(style.color), light(style.backgroundColor)];
    return { dark: other < one, contrast: (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) };
  })()";

pub(crate) fn by_keyboard_and_on_a_phone(browser: &str) {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(|cgroup| cgroup.name = format!("{}-{}", cgroup.name, "long".repeat(20)).into());
    (0..12).for_each(|_| served.measure(true));
    let mut tab = Tab::open(browser, home.path());
    let metrics = serde_json::json!({ "width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": true });
    tab.order("Emulation.setDeviceMetricsOverride", metrics);
    tab.go(&served.url());
    tab.wait_for("document.querySelectorAll('#cgroups tbody tr').length > 3", LONG);
    assert_eq!(tab.value("document.documentElement.scrollWidth <= 390"), true, "nothing sticks out");
    let small = "[...document.querySelectorAll('button, input')].filter((it) => it.getClientRects().length > 0 \
                 && Math.min(...[...it.getClientRects()].map((box) => box.height)) < 24).length";
    assert_eq!(tab.value(small), 0, "fingers are thick");
    for scheme in ["light", "dark"] {
        let features = serde_json::json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        tab.order("Emulation.setEmulatedMedia", serde_json::json!({ "features": features }));
        let seen = tab.value(CONTRAST);
        assert_eq!(seen["dark"], scheme == "dark", "{scheme}: {seen}");
        assert!(seen["contrast"].as_f64().unwrap() >= 7.0, "{scheme}: {seen}");
    }
    // Tab by tab to the table, and into a story.
    let stops: Vec<String> = (0..60).map(|_| next_stop(&mut tab)).collect();
    assert_eq!(stops[0], "skip/");
    for id in ["/pause", "/earlier", "/when", "/later", "/filter"] {
        assert!(stops.iter().any(|stop| stop == id), "{id} of {stops:?}");
    }
    assert!(stops.iter().any(|stop| stop == "name/"), "{stops:?}");
    tab.value("document.activeElement.blur(); scrollTo(0, 0)");
    press_tab_to(&mut tab, "/when");
    let before = tab.value("state.shown.n").as_u64().unwrap();
    tab.press("ArrowLeft", 37, "");
    tab.wait_for(&format!("state.shown.n === {}", before - 1), LONG);
    press_tab_to(&mut tab, "name/");
    tab.press("Enter", 13, "\r");
    tab.wait_for("!document.getElementById('story').hidden", LONG);
    press_tab_to(&mut tab, "/pause");
    tab.press("Enter", 13, "\r");
    tab.wait_for("state.live", LONG);
    // Whoever is in the table keeps the place while figures change.
    tab.value("document.querySelectorAll('#cgroups tbody button.name')[2].focus()");
    let focused = tab.value("document.activeElement.dataset.id");
    served.measure(false);
    let shown = served.n - 1;
    tab.wait_for(&format!("state.shown.n >= {shown}"), LONG);
    assert_eq!(tab.value("document.activeElement.dataset.id"), focused);
    assert_eq!(tab.complaints, Vec::<String>::new());
}

/// Where the Tab key leads: class and id.
fn next_stop(tab: &mut Tab) -> String {
    tab.press("Tab", 9, "");
    let stop = tab.value("document.activeElement.className + '/' + document.activeElement.id");
    stop.as_str().unwrap().to_owned()
}

fn press_tab_to(tab: &mut Tab, stop: &str) {
    assert!((0..200).any(|_| next_stop(tab) == stop), "Tab does not lead to {stop}");
}
