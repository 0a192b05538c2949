//! A browser that opens a page and tells what became of it.

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

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
    "--remote-debugging-pipe",
];

/// Where `scripts/setup-browser.sh` puts one, if the distribution has none to install.
const FETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/browser/chromium");

/// Longer than any start of a browser on a busy machine.
const SECONDS_MAX: &str = "120";

/// Chromium is asked on descriptor 3 and answers on 4.
const WITH_PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 >&2";

/// What a page became after its scripts had run.
pub(crate) struct Opened {
    dom: String,
}

impl Opened {
    /// Opens the page in a new browser that knows nothing of others, in a window of that width.
    pub(crate) fn page(page: &Path, profile: &Path, width: u32) -> Self {
        let page = fs::canonicalize(page).unwrap();
        let mut browser = Browser::start(profile);
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", attached);
        browser.session = session["sessionId"].clone();
        browser.ask("Page.enable", json!({}));
        let window =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.ask("Emulation.setDeviceMetricsOverride", window);
        let url = format!("file://{}", page.display());
        browser.ask("Page.navigate", json!({"url": url}));
        while browser.next()["method"] != "Page.loadEventFired" {}
        let whole = json!({"expression": "document.documentElement.outerHTML"});
        let dom = browser.ask("Runtime.evaluate", whole);
        Self {
            dom: dom["result"]["value"].as_str().unwrap().to_owned(),
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

/// A running one. It is asked over pipes, which every build of it has, while some have no
/// `--dump-dom`.
struct Browser {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What it says beside, much of it about what a machine without a screen lacks.
    told: File,
    asked: u64,
    /// The page that is asked, or null: the browser itself.
    session: Value,
}

impl Browser {
    fn start(profile: &Path) -> Self {
        let browser = match Path::new(FETCHED).exists() {
            true => FETCHED,
            false => "chromium",
        };
        let told = tempfile::tempfile().unwrap();
        let mut child = Command::new("timeout")
            .args([SECONDS_MAX, "sh", "-c", WITH_PIPES, browser])
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(told.try_clone().unwrap())
            .spawn()
            .expect("`timeout` is part of every Linux");
        Self {
            asks: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            told,
            asked: 0,
            session: Value::Null,
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut ask = json!({"id": self.asked, "method": method, "params": params});
        if !self.session.is_null() {
            ask["sessionId"] = self.session.clone();
        }
        let mut asks = self.asks.as_ref().unwrap();
        if asks.write_all(format!("{ask}\0").as_bytes()).is_err() {
            self.give_up();
        }
        loop {
            let mut answer = self.next();
            if answer["id"] == self.asked {
                assert_eq!(answer["error"], Value::Null, "{method}");
                return answer["result"].take();
            }
        }
    }

    /// An answer or an event.
    fn next(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).unwrap();
        if message.pop() != Some(0) {
            self.give_up();
        }
        serde_json::from_slice(&message).unwrap()
    }

    fn give_up(&mut self) -> ! {
        let mut told = String::new();
        self.told.rewind().unwrap();
        self.told.read_to_string(&mut told).unwrap();
        panic!(
            "chromium is not there or took {SECONDS_MAX} s; scripts/setup-browser.sh installs it: \
             {told}"
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends with its pipe.
        self.asks = None;
        drop(self.child.wait());
    }
}
