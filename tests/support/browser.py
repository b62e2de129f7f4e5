# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven as a person would: by its DevTools protocol over two pipes. Only the standard library.

    with Browser() as browser:
        page = browser.open("page.html")
        page.move(400, 200)
        print(page.evaluate("document.title"), page.errors)

Points are CSS pixels of the window. Each gesture returns when the page has handled its events. `errors` has what went
wrong in the page since it was opened: exceptions, and errors and warnings of its console.
"""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import tempfile
import time

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1000, 800
ANSWER_S = 30  # an answer takes milliseconds; a loaded machine may take seconds to start the browser
SHIFT = 8  # of the protocol's bits for modifier keys

# Notes the texts that are drawn into each canvas since it was last cleared: [text, x, y] by the canvas's id.
SPY = """
const drawn = window.drawnTexts = {}, context = CanvasRenderingContext2D.prototype, { fillText, clearRect } = context;
context.fillText = function (text, x, y, ...more) {
  (drawn[this.canvas.id] ??= []).push([text, x, y]);
  return fillText.call(this, text, x, y, ...more);
};
context.clearRect = function (...where) {
  drawn[this.canvas.id] = [];
  return clearRect.apply(this, where);
};
"""


def find_browser():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def high_pipe():
    """A pipe whose ends are not among the numbers that the browser is given (3 and 4)."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
    for end in low:
        os.close(end)
    return high


class Browser:
    def __init__(self):
        program = find_browser()
        if not program:
            raise FileNotFoundError(f"no browser: expected one of {', '.join(NAMES)} (Debian: chromium)")
        self.folder = tempfile.TemporaryDirectory(prefix="cannon_browser_", ignore_cleanup_errors=True)
        commands, self.commands = high_pipe()
        self.answers, answers = high_pipe()
        log = pathlib.Path(self.folder.name) / "log"
        # Without its sandbox, which root in a container cannot have; it is shown pages of these tests only.
        self.process = os.posix_spawn(
            program, [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                      "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                      "--no-first-run", "--no-default-browser-check", "--hide-scrollbars", "--mute-audio",
                      "--force-device-scale-factor=1", "--remote-debugging-pipe",
                      f"--user-data-dir={self.folder.name}/profile", "about:blank"],
            {**os.environ, "HOME": self.folder.name, "XDG_CONFIG_HOME": self.folder.name,
             "XDG_CACHE_HOME": self.folder.name},
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                          (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT, 0o600),
                          (os.POSIX_SPAWN_DUP2, 1, 2), (os.POSIX_SPAWN_DUP2, commands, 3),
                          (os.POSIX_SPAWN_DUP2, answers, 4)],
            setpgroup=0)
        os.close(commands)
        os.close(answers)
        self.log, self.unread, self.last_id, self.pages = log, b"", 0, {}
        try:
            self.call("Browser.getVersion")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the browser and all processes that it has started."""
        if self.process is None:
            return
        os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.process = None
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def receive(self, until):
        """The next message."""
        while b"\0" not in self.unread:
            if not select.select([self.answers], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser does not answer; it wrote:\n{self.log.read_text(errors='replace')}")
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise ConnectionError(f"the browser has ended; it wrote:\n{self.log.read_text(errors='replace')}")
            self.unread += data
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        """Calls a method of the protocol, and returns its result. Events that come in the meantime go to their page."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data):]
        until = time.monotonic() + ANSWER_S
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            page = self.pages.get(answer.get("sessionId"))
            if page and "method" in answer:
                page.hear(answer["method"], answer["params"])

    def open(self, path):
        """Opens a file in a window of its own; returns when its scripts have run."""
        return Page(self, pathlib.Path(path).resolve())


class Page:
    def __init__(self, browser, path):
        self.browser, self.errors, self.loaded, self.button = browser, [], False, "none"
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        self.call("Page.addScriptToEvaluateOnNewDocument", source=SPY)
        self.loaded = False
        self.call("Page.navigate", url=path.as_uri())
        until = time.monotonic() + ANSWER_S
        while not self.loaded:
            if time.monotonic() > until:
                raise TimeoutError(f"{path} is not loaded after {ANSWER_S} s")
            self.call("Runtime.evaluate", expression="0")
        self.evaluate("document.readyState")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        del self.browser.pages[self.session]

    def hear(self, method, event):
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.errors.append(event["entry"]["text"])

    def evaluate(self, expression):
        """The value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def box(self, selector):
        """Left, top, width and height of the first element that a selector of CSS finds, scrolled into view."""
        return self.evaluate(f"""(() => {{
          const e = document.querySelector({json.dumps(selector)});
          e.scrollIntoView({{ block: "nearest" }});
          const r = e.getBoundingClientRect();
          return [r.left, r.top, r.width, r.height];
        }})()""")

    def texts(self, canvas):
        """What is written in a canvas now: a list of [text, x, y]."""
        return self.evaluate(f"drawnTexts[{json.dumps(canvas)}] ?? []")

    def picture(self, canvas):
        """The pixels of a canvas, as text to compare."""
        return self.evaluate(f"document.getElementById({json.dumps(canvas)}).toDataURL()")

    def dark(self, on):
        """Sets the system's setting for dark pages, and lets the page, which must be in front, draw itself anew."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => 0)")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=self.button, **more)

    def move(self, x, y, keys=0):
        self.mouse("mouseMoved", x, y, modifiers=keys, buttons=int(self.button == "left"))

    def click(self, x, y, count=1):
        """Clicks once, or `count` times in a row."""
        for n in range(1, count + 1):
            self.press(x, y, count=n)
            self.release(x, y, count=n)

    def press(self, x, y, keys=0, count=1):
        self.move(x, y, keys)
        self.button = "left"
        self.mouse("mousePressed", x, y, modifiers=keys, buttons=1, clickCount=count)

    def release(self, x, y, keys=0, count=1):
        self.mouse("mouseReleased", x, y, modifiers=keys, buttons=0, clickCount=count)
        self.button = "none"

    def drag(self, start, end, keys=0, steps=4):
        self.press(*start, keys)
        for i in range(1, steps + 1):
            self.move(*(a + (b - a) * i / steps for a, b in zip(start, end)), keys)
        self.release(*end, keys)

    def wheel(self, x, y, delta, keys=0):
        """Turns the wheel; a negative delta is away from the user."""
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta, modifiers=keys)

    def touch(self, start, end, steps=4):
        """Moves fingers from the points `start` to the points `end`."""
        points = lambda at: [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(at)]
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=points(start))
        for i in range(1, steps + 1):
            now = [[a + (b - a) * i / steps for a, b in zip(*pair)] for pair in zip(start, end)]
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=points(now))
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def write(self, selector, text):
        """Clicks into an input, deletes what is in it, and types the text."""
        left, top, width, height = self.box(selector)
        self.click(left + width / 2, top + height / 2, count=3)
        self.key("Backspace", 8)
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def key(self, name, code):
        """Presses a key that writes nothing; its code is that of Windows."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
