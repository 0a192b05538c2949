//! A browser that opens a page and tells what became of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Chromium without a window. Whatever it wants from a network, it asks a proxy that is not there.
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--proxy-server=127.0.0.1:9",
    "--dump-dom",
];

/// Where `scripts/setup-browser.sh` puts one, if the distribution has none to install.
const FETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/browser/chromium");

/// Longer than any start of a browser on a busy machine.
const SECONDS_MAX: &str = "120";

/// What a page became after its scripts had run.
pub(crate) struct Opened {
    dom: String,
}

impl Opened {
    /// Opens the page in a new browser that knows nothing of others, in a window of that width.
    pub(crate) fn page(page: &Path, profile: &Path, width: u32) -> Self {
        let page: PathBuf = fs::canonicalize(page).unwrap();
        let browser = match Path::new(FETCHED).exists() {
            true => FETCHED,
            false => "chromium",
        };
        let output = Command::new("timeout")
            .args([SECONDS_MAX, browser])
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--window-size={width},900"))
            .arg(format!("file://{}", page.display()))
            .output()
            .expect("`timeout` is part of every Linux");
        assert!(
            output.status.success(),
            "{browser} did not show the page ({}); scripts/setup-browser.sh installs it: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Self {
            dom: String::from_utf8(output.stdout).unwrap(),
        }
    }

    /// The page as it is now.
    pub(crate) fn dom(&self) -> &str {
        &self.dom
    }

    /// A data attribute of the document, as text.
    pub(crate) fn data(&self, name: &str) -> Option<String> {
        let tag = self.dom.split("<html").nth(1)?.split('>').next()?;
        let start = format!("data-{name}=\"");
        let value = tag.split(&start).nth(1)?.split('"').next()?;
        let value = value.replace("&lt;", "<").replace("&gt;", ">");
        Some(value.replace("&quot;", "\"").replace("&amp;", "&"))
    }
}
