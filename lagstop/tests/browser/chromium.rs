//! Chromium without a screen, told what to do through a pipe, as its developer tools do.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

/// A page in a browser. Dropped, the browser ends.
pub(crate) struct Tab {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: String,
    next: u64,
    /// What went wrong on the page: exceptions, console errors, violations of its policy, failed requests.
    pub(crate) complaints: Vec<String>,
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.orders.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.orders.flush();
        for _ in 0..50 {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Tab {
    /// Opens an empty page, with its profile in `home`.
    pub(crate) fn open(browser: &str, home: &Path) -> Self {
        // It takes orders from descriptor 3 and answers on 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", browser])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", home.join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut tab = Self { process, orders, answers, session: String::new(), next: 1, complaints: Vec::new() };
        let target = tab.order("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = tab.order("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        tab.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            tab.order(domain, json!({}));
        }
        tab
    }

    pub(crate) fn go(&mut self, url: &str) {
        let went = self.order("Page.navigate", json!({ "url": url }));
        assert_eq!(went.get("errorText"), None, "{went}");
    }

    /// What an expression is worth on the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.order("Runtime.evaluate", parameters);
        assert_eq!(answer.get("exceptionDetails"), None, "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true, and says how long that took.
    pub(crate) fn wait_for(&mut self, expression: &str, limit: Duration) -> Duration {
        let began = Instant::now();
        while self.value(expression) != true {
            if began.elapsed() > limit {
                let text = self.value("document.body.innerText");
                panic!(
                    "not within {limit:?}: {expression}\n{}\n{:?}",
                    text.as_str().unwrap_or_default(),
                    self.complaints
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
        began.elapsed()
    }

    /// A picture of the whole page, so wide, in light or dark.
    pub(crate) fn picture(&mut self, width: u32, scheme: &str, file: &Path) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.order("Emulation.setEmulatedMedia", json!({ "features": features }));
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.order("Emulation.setDeviceMetricsOverride", metrics);
        thread::sleep(Duration::from_millis(300));
        let picture = self.order("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        std::fs::write(file, BASE64.decode(picture["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    pub(crate) fn press(&mut self, key: &str, code: u32, text: &str) {
        for (kind, text) in [("keyDown", text), ("keyUp", "")] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.order("Input.dispatchKeyEvent", event);
        }
    }

    pub(crate) fn order(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut order = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            order["sessionId"] = self.session.clone().into();
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).unwrap();
        self.orders.flush().unwrap();
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has died");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == id {
                assert_eq!(answer.get("error"), None, "{method}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => parameters["exceptionDetails"].to_string(),
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => parameters["entry"].to_string(),
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => parameters["args"].to_string(),
            _ => return,
        };
        self.complaints.push(complaint);
    }
}
