//! The report in a real browser: its plots are there, its script runs, its names are only text.
//! And the log, read by the tool of those who made the format.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chromium;
mod processor;
mod shape;

use chromium::Opened;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Tells errors of scripts, and whatever the page was not allowed to load.
const WATCH: &str = "<head><script>
    const told = (event) => {
        const data = document.documentElement.dataset;
        data.failed = `${data.failed ?? ''} ${event.message ?? event.blockedURI}`;
    };
    addEventListener('error', told, true);
    addEventListener('securitypolicyviolation', told);
</script>";

/// A page in a directory of its own.
struct Page {
    dir: tempfile::TempDir,
    file: PathBuf,
}

impl Page {
    /// The report of the known shape, watched.
    fn write(report: &str) -> Self {
        let check = include_str!("check.js");
        let watched = report.replacen("<head>", WATCH, 1);
        let watched = watched.replacen("</body>", &format!("<script>{check}</script></body>"), 1);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("report.html");
        fs::write(&file, watched).unwrap();
        Self { dir, file }
    }

    fn open(&self, width: u32) -> Opened {
        let profile = self.dir.path().join(format!("profile-{width}"));
        Opened::page(&self.file, &profile, width)
    }
}

#[derive(Debug)]
struct Plot {
    id: String,
    width: u32,
    height: u32,
    curves: u32,
}

fn plots(opened: &Opened) -> Vec<Plot> {
    let told = opened.data("plots").expect("the check ran");
    let plots = told.split('|').map(|plot| {
        let words: Vec<&str> = plot.split(' ').collect();
        let [id, width, height, curves] = words[..] else {
            panic!("{plot:?} is no plot");
        };
        Plot {
            id: id.to_owned(),
            width: width.parse().unwrap(),
            height: height.parse().unwrap(),
            curves: curves.parse().unwrap(),
        }
    });
    plots.collect()
}

#[test]
fn every_plot_is_drawn_and_every_name_is_only_text() {
    const ROUNDS: u64 = 3;
    let report = felix_bench::report::html(&shape::findings(ROUNDS));
    assert!(report.len() < 3_000_000, "{} bytes", report.len());
    let page = Page::write(&report);
    for width in [1200, 400] {
        let opened = page.open(width);
        assert_eq!(opened.data("failed"), None, "a script failed");
        assert_eq!(opened.data("harmed"), None, "a name was run");
        assert_eq!(opened.data("done").as_deref(), Some("yes"));
        assert_eq!(opened.data("loaded").as_deref(), Some("0"));
        assert_eq!(opened.data("wider").as_deref(), Some("no"), "{width} wide");
        all_are_drawn(&plots(&opened), ROUNDS);
        stall_is_told(&opened);
        pointer_reads(&opened);
    }
}

/// Three comparisons of latencies that are no steps or steps of rates, each with two sides.
fn all_are_drawn(plots: &[Plot], rounds: u64) {
    let curves = |id: &str| {
        let plot = plots.iter().find(|plot| plot.id == id);
        let plot = plot.unwrap_or_else(|| panic!("no {id} in {plots:?}"));
        assert!(plot.width >= 300, "{plot:?}");
        assert!(plot.height >= 80, "{plot:?}");
        u64::from(plot.curves)
    };
    assert_eq!(curves("r0-rates"), 2);
    for comparison in ["c0", "c1", "c3", "c4", "c5"] {
        assert_eq!(curves(&format!("{comparison}-percentiles")), 2);
        assert_eq!(curves(&format!("{comparison}-time-0")), rounds);
        assert_eq!(curves(&format!("{comparison}-time-1")), rounds);
    }
    assert_eq!(plots.len(), 16, "{plots:?}");
}

/// 100 ms in which nothing was answered, and what the host took.
fn stall_is_told(opened: &Opened) {
    let dom = opened.dom();
    let plot = dom.split("id=\"c0-time-1\"").nth(1).unwrap();
    let plot = plot.split("</svg>").next().unwrap();
    assert_eq!(plot.matches("class=\"stall\"").count(), 1);
    assert_eq!(plot.matches("class=\"stolen\"").count(), 2);
    let told = plot.split("class=\"stalled").nth(1).unwrap();
    let told = told.split(['>', '<']).nth(1).unwrap();
    assert_eq!(told, "100 ms");
}

/// A pointer in the middle reads both sides, and one when the other is hidden.
fn pointer_reads(opened: &Opened) {
    let read = opened.data("read").unwrap();
    let lines: Vec<&str> = read.split('|').collect();
    assert_eq!(lines.len(), 3, "{read}");
    assert!(lines[0].starts_with("99"), "{read}");
    assert!(lines[1].starts_with("echo: "), "{read}");
    assert!(lines[2].starts_with("felix: "), "{read}");
    let one = opened.data("read-one").unwrap();
    assert_eq!(one.split('|').collect::<Vec<_>>(), lines[..2]);
    // Its curves, and its plot over time; nothing in other sections.
    assert_eq!(opened.data("hidden").as_deref(), Some("1 1"));
    assert_eq!(opened.data("others").as_deref(), Some("0"));
}

#[test]
fn the_log_is_read_by_the_tool_of_its_makers() {
    let found = shape::findings(2);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("latencies.hlog");
    let mut log = fs::File::create(&path).unwrap();
    felix_bench::report::hlog(&found, &mut log).unwrap();
    let (count, longest_ms) = processor::totals(&path, "produce_ack.felix.2");
    let written = found.comparisons[0].sides[1].rounds[1].latencies.all();
    assert_eq!(count, written.len());
    let longest = Duration::from_nanos(written.max()).as_secs_f64() * 1e3;
    assert!(
        (longest_ms - longest).abs() < 0.001,
        "{longest_ms} for {longest}"
    );
}
