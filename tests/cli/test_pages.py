# SPDX-License-Identifier: Apache-2.0
"""The HTML pages of cannon's commands in a real browser, which is driven as a person would (tests/support/browser.py):
axes, legend, zoom, moving, touch, search, what the cursor is told, light and dark. What went wrong is photographed in
page_failures, beside the prefix.

    CANNON_PREFIX=/path python3 tests/cli/test_pages.py
"""
import contextlib
import math
import pathlib
import re
import sys
import tempfile
import unittest

from test_cli import CANNON, MIB, PREFIX, SOURCE, execute

sys.path[:0] = [str(SOURCE / "tests/support"), str(SOURCE / "examples/onnx")]
import browser
import onnx_bytes as ob

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# The live bytes after each event are 3, 6, 3, 13 and 10 MiB. best-fit commits granules of 2 MiB, and places the third
# block above the hole of the first: 4, 6, 6, 16 and 16 MiB.
TRACE = f"a 1 {3 * MIB}\na 2 {3 * MIB}\nf 1\na 3 {10 * MIB}\nf 2\n"
# The maximum of live bytes is 12, and so is the smallest arena.
PLAN = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
# Frees a block twice.
DOUBLE_FREE = """
import ctypes, sys
acl = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
acl.aclInit(None)
acl.aclrtSetDevice(0)
p = ctypes.c_void_p()
acl.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(4096), 0)
for i in range(2):
    acl.aclrtFree(p)
"""
# The second block is used by a stream.
BLOCKS = """
import ctypes, sys
acl = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
acl.aclInit(None)
acl.aclrtSetDevice(0)
class Batch:
    def load(self, mib):
        self.p = ctypes.c_void_p()
        acl.aclrtMalloc(ctypes.byref(self.p), ctypes.c_size_t(mib << 20), 0)
def step():
    more = Batch()
    more.load(5)
    stream = ctypes.c_void_p()
    acl.aclrtCreateStream(ctypes.byref(stream))
    acl.aclrtMemsetAsync(more.p, ctypes.c_size_t(100), 0, ctypes.c_size_t(100), stream)
    acl.aclrtSynchronizeStream(stream)
first = Batch()
first.load(3)
step()
"""
# Two steps of a training, which tells of its memory as torch_npu does: a segment of 8 MiB with a parameter of 1 MiB, an
# activation of 3 MiB from each step's forward to its backward, and a gradient of 2 MiB from there to its update.
TRAINING = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
lib.cannon_mark_memory.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32]
lib.aclrtMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
MIB = 1 << 20
lib.aclInit(None)
lib.aclrtSetDevice(0)

def allocate(n):
    p = ctypes.c_void_p()
    assert lib.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(n), 0) == 0
    return p.value

class Range(ctypes.Structure):
    _fields_ = [("device", ctypes.c_uint32), ("ptr", ctypes.c_void_p), ("size", ctypes.c_uint64)]

class Batch(ctypes.Structure):
    _fields_ = [("heap", ctypes.c_void_p), ("type", ctypes.c_int), ("n", ctypes.c_size_t), ("ranges", ctypes.c_void_p),
                ("handles", ctypes.c_void_p)]

class Reference(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("pointer", ctypes.c_void_p)]

class References(ctypes.Structure):
    _fields_ = [("n", ctypes.c_size_t), ("array", ctypes.c_void_p)]

def tensor(address, size):
    of = Range(0, address, size)
    lib.mstxMemRegionsRegister(None, ctypes.byref(Batch(None, 0, 1, ctypes.addressof(of), None)))

def drop(address):
    of = Reference(0, address)
    lib.mstxMemRegionsUnregister(None, ctypes.byref(References(1, ctypes.addressof(of))))

allocate(MIB)  # Python's lines are known from the second call on
segment = allocate(8 * MIB)
net = lib.cannon_mark_module(b"", b"Net", 0)
layer = lib.cannon_mark_module(b"layer", b"Linear", net)
weight, activation, gradient = segment, segment + MIB, segment + 5 * MIB
tensor(weight, MIB)
lib.cannon_mark_memory(0, weight, MIB, layer)
for step in range(2):
    lib.cannon_mark_phase(1)
    lib.cannon_mark_enter(layer)
    tensor(activation, 3 * MIB)
    lib.aclrtMemcpy(activation, MIB, weight, MIB, 3)
    lib.cannon_mark_leave(layer)
    lib.cannon_mark_phase(2)
    lib.cannon_mark_backward(layer)
    tensor(gradient, 2 * MIB)
    lib.cannon_mark_memory(1, gradient, 2 * MIB, layer)
    lib.aclrtMemcpy(gradient, MIB, activation, MIB, 3)
    drop(activation)
    lib.cannon_mark_phase(3)
    lib.aclrtMemcpy(weight, MIB, gradient, MIB, 3)
    drop(gradient)
    lib.cannon_mark_step()
"""


def replay_page(folder):
    (folder / "trace.txt").write_text(TRACE)
    return ["replay", "--repeat", "1", "--allocator", "best-fit", "--html", folder / "replay.html",
            folder / "trace.txt"]


def plan_page(folder):
    (folder / "plan.csv").write_text(PLAN)
    return ["plan", "--html", folder / "plan.html", folder / "plan.csv"]


def recorded_page(folder):
    (folder / "blocks.py").write_text(BLOCKS)
    done = execute(CANNON, "memory", "--record", folder / "blocks.rec", "--", "/usr/bin/python3", folder / "blocks.py",
                   PREFIX / "lib64/libascendcl.so")
    assert done.returncode == 0, done.stdout + done.stderr
    return ["replay", "--repeat", "1", "--allocator", "best-fit", "--html", folder / "recorded.html",
            folder / "blocks.rec"]


def model_page(folder):
    names = ["x", *"abcdefg", "y"]
    nodes = [ob.node("MatMul", [x, "w"], [y], f"to_{y}") for x, y in zip(names, names[1:])]
    (folder / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", [256, 256])], [ob.value("y", [256, 256])],
                                             [ob.initialiser("w", [256, 256], [0.5] * 65536)]))
    return ["model", "show", folder / "m.onnx", "--html", folder / "model.html"]


def check_page(folder):
    (folder / "twice.py").write_text(DOUBLE_FREE)
    return ["run", "--quiet", "--check=lifetime", "--report", folder / "check.html", "--", "/usr/bin/python3",
            folder / "twice.py", PREFIX / "lib64/libascendcl.so"]


def memory_page(folder):
    (folder / "training.py").write_text(TRAINING)
    return ["memory", "--html", folder / "memory.html", "--record", folder / "training.rec", "--", "/usr/bin/python3",
            folder / "training.py", PREFIX / "lib64/libcannon.so"]


def advise_page(folder):
    return ["advise", "--fit", "8M", "--html", folder / "advise.html", folder / "training.rec"]  # of memory_page


# Each page: the arguments of cannon that write NAME.html, and what its title has.
PAGES = {"replay": (replay_page, "trace.txt"), "plan": (plan_page, "plan.csv"), "model": (model_page, "m.onnx"),
         "check": (check_page, "python3"), "recorded": (recorded_page, "blocks.rec"),
         "memory": (memory_page, "training.rec"), "advise": (advise_page, "training.rec")}
# Those that have a map: the name of the time, the curves' names, a search with what it finds, and what the cursor is
# told at a time and an address.
MAPS = {
    "replay": ("event", ("live", "committed"), {">5M": "1 block matches", "block 1": "1 block matches",
                                                "<4M": "2 blocks match", "nothing": "0 blocks match"},
               {(0.5, MIB): "event 0: live 3.00 MiB (peak so far 3.00 MiB), committed 4.00 MiB (25.0 % of it unused); "
                            "block 0 at 0 B,",
                (2.5, MIB): "event 2: live 3.00 MiB (peak so far 6.00 MiB), committed 6.00 MiB (50.0 % of it unused); "
                            "free",
                (3.5, 9 * MIB): "event 3: live 13.0 MiB (peak so far 13.0 MiB), committed 16.0 MiB (18.8 % of it "
                                f"unused); block 2 at 6.00 MiB, {10 * MIB} bytes (10.0 MiB), events 3 to 5"}),
    "plan": ("time", ("live", "arena"), {"b1": "1 block matches", "4": "5 blocks match"},
             {(6.5, 2): "time 6: live 12 B (peak so far 12 B), arena 12 B (0.0 % of it unused); b",
              (15.5, 6): "time 15: live 8 B (peak so far 12 B), arena 12 B (33.3 % of it unused); "}),
    "model": ("step", ("live", "arena"), {">100K": "7 blocks match", "steps 1 to 2": "1 block matches"},
              {(1.5, 1000): "step 1: live 512 KiB (peak so far 512 KiB), arena 512 KiB (0.0 % of it unused); "}),
}


class View:
    """What a map shows: the ranges of time and addresses, from the places of the labels of its axes. The canvas `times`
    has those of the time."""

    def __init__(self, page, unit, times="curves"):
        self.box = page.box("#map")
        labels = [(x, float(text)) for text, x, _ in page.texts(times) if re.fullmatch(r"[\d.]+", text)]
        sizes = [(y, float(text.split()[0]) * UNITS[text.split()[1]]) for text, _, y in page.texts("map")
                 if re.fullmatch(r"[\d.]+ [KMG]?i?B", text)]
        assert len(labels) > 1 and len(sizes) > 1, "an axis has fewer than two ticks"
        assert unit in [text for text, *_ in page.texts(times)], f"the axis of the time does not say {unit}"
        self.time, self.size = (self.line(sorted(at)) for at in (labels, sizes))

    @staticmethod
    def line(points):
        (p, a), (q, b) = points[0], points[-1]
        return (b - a) / (q - p), a, p  # units per pixel, and a value with its pixel

    def at(self, x, y):
        """Time and address at a point of the window."""
        left, top = self.box[:2]
        return tuple(a + (pixel - p) * per for pixel, (per, a, p) in ((x - left, self.time), (y - top, self.size)))

    def point(self, time, size):
        left, top = self.box[:2]
        return tuple(first + p + (value - a) / per
                     for first, value, (per, a, p) in ((left, time, self.time), (top, size, self.size)))


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.pages = {}
        for name, (arguments, _) in PAGES.items():
            done = execute(CANNON, *arguments(pathlib.Path(folder.name)))
            path = pathlib.Path(folder.name) / f"{name}.html"
            assert path.exists(), done.stdout + done.stderr
            cls.pages[name] = cls.browser.open(path)

    @contextlib.contextmanager
    def page(self, name):
        """The page, in front; leaves a picture of it if the test fails."""
        page = self.pages[name]
        page.call("Page.bringToFront")
        with self.subTest(page=name):
            try:
                yield page
                self.assertEqual(page.errors, [])
            except BaseException:
                folder = PREFIX.parent / "page_failures"
                folder.mkdir(exist_ok=True)
                page.screenshot(folder / f"{name}.png")
                raise

    def test_title_and_colours(self):
        for name in PAGES:
            with self.page(name) as page:
                self.assertIn(PAGES[name][1], page.evaluate("document.title"))
                luminance = []
                for dark in (False, True):
                    page.dark(dark)
                    for property in ("background-color", "color"):
                        colour = page.evaluate(f"getComputedStyle(document.body).getPropertyValue('{property}')")
                        luminance.append(sum(map(int, re.findall(r"\d+", colour)[:3])) / 765)
                page.dark(False)
                light_ground, light_ink, dark_ground, dark_ink = luminance
                self.assertGreater(light_ground, light_ink + 0.5)
                self.assertGreater(dark_ink, dark_ground + 0.5)

    def test_maps_are_drawn_dark_and_light(self):
        for name in MAPS:
            with self.page(name) as page:
                pictures = set()
                for dark in (False, True):
                    page.dark(dark)
                    pictures |= {page.picture(canvas) for canvas in ("map", "curves")}
                page.dark(False)
                self.assertEqual(len(pictures), 4)

    def test_legend_and_axes(self):
        for name in MAPS:
            with self.page(name) as page:
                unit, curves, *_ = MAPS[name]
                View(page, unit)
                legend = page.evaluate("document.querySelector('.legend').innerText")
                for word in ("size", "512 B", "512 MiB", *curves):
                    self.assertIn(word, legend)

    def test_cursor_is_told(self):
        for name in MAPS:
            with self.page(name) as page:
                view = View(page, MAPS[name][0])
                for place, told in MAPS[name][3].items():
                    page.move(*view.point(*place))
                    self.assertIn(told, page.evaluate("tip.textContent"))

    def test_search(self):
        for name in MAPS:
            with self.page(name) as page:
                for wanted, found in MAPS[name][2].items():
                    page.write("#search", wanted)
                    self.assertEqual(page.evaluate("count.textContent"), found, wanted)
                page.write("#search", "nothing")
                dimmed = page.picture("map")
                page.write("#search", "")
                self.assertEqual(page.evaluate("count.textContent"), "")
                self.assertNotEqual(page.picture("map"), dimmed)

    def near(self, a, b, view):
        for one, other, (per_pixel, *_) in zip(a, b, (view.time, view.size)):
            self.assertLess(abs(one - other), 3 * abs(per_pixel), (a, b))

    def test_gestures(self):
        for name in MAPS:
            with self.page(name) as page:
                unit = MAPS[name][0]
                left, top, width, height = page.box("#map")
                all_of_it = View(page, unit)
                here = (left + 0.4 * width, top + 0.6 * height)
                page.wheel(*here, -100)
                now = View(page, unit)
                self.near(now.at(*here), all_of_it.at(*here), now)
                for before, after in ((all_of_it.time, now.time), (all_of_it.size, now.size)):
                    self.assertAlmostEqual(after[0] / before[0], math.exp(-0.3), delta=0.02)
                page.wheel(*here, -50, browser.SHIFT)
                before, now = now, View(page, unit)
                self.near(now.at(*here), before.at(*here), now)
                self.assertAlmostEqual(now.time[0] / before.time[0], math.exp(-0.15), delta=0.02)
                self.assertAlmostEqual(now.size[0] / before.size[0], 1, delta=0.02)
                there = (here[0] + 60, here[1] - 40)
                page.drag(here, there)
                before, now = now, View(page, unit)
                self.near(now.at(*there), before.at(*here), now)
                page.click(*here, count=2)
                now = View(page, unit)
                self.near(now.at(*here), all_of_it.at(*here), now)
                corners = (here, (here[0] + 300, here[1] - 200))
                page.drag(*corners, browser.SHIFT)
                now = View(page, unit)
                self.near(now.at(left + 74, top + height - 22), all_of_it.at(*corners[0]), all_of_it)
                self.near(now.at(left + width - 8, top + 6), all_of_it.at(*corners[1]), all_of_it)
                page.click(*here, count=2)

    def test_touch(self):
        for name in MAPS:
            with self.page(name) as page:
                unit = MAPS[name][0]
                view = View(page, unit)
                place, told = next(iter(MAPS[name][3].items()))
                page.touch([view.point(*place)], [view.point(*place)])
                self.assertIn(told, page.evaluate("tip.textContent"))
                left, top, width, height = page.box("#map")
                x, y = left + width / 2, top + height / 2
                page.touch([(x - 50, y), (x + 50, y)], [(x - 100, y), (x + 100, y)])
                now = View(page, unit)
                self.near(now.at(x, y), view.at(x, y), now)
                self.assertAlmostEqual(now.time[0] / view.time[0], 0.5, delta=0.02)
                page.click(x, y, count=2)

    def test_graph_of_a_model(self):
        with self.page("model") as page:
            left, top, width, height = page.box("#after g rect")
            page.click(left + width / 2, top + height / 2)
            self.assertIn("input x", page.evaluate("node.textContent"))
            page.box("#map")

    def test_findings_of_the_checker(self):
        with self.page("check") as page:
            self.assertEqual(page.evaluate("document.querySelectorAll('article').length"), 1)
            self.assertGreaterEqual(page.evaluate("document.querySelectorAll('svg rect').length"), 4)
            self.assertIn("twice.py:9", page.evaluate("document.body.innerText"))

    # ---- call sites on the page of `cannon replay` ----

    def test_sites_and_streams(self):
        """From the first allocation on: the interpreter's frames are known by then."""
        with self.page("recorded") as page:
            view = View(page, "event")
            for time, size, stream, frames in ((0.5, MIB, "", ["9 (Batch.load)", "18 (<module>)"]),
                                               (1.5, 4 * MIB, ", stream 1",
                                                ["9 (Batch.load)", "12 (step)", "19 (<module>)"])):
                page.move(*view.point(time, size))
                self.assertRegex(page.evaluate("tip.textContent"), rf"to 2{stream}, blocks\.py:9 \(Batch\.load\)$")
                stack = page.evaluate("document.querySelector('#more').textContent").split("\n")
                self.assertEqual([frame.rsplit("/blocks.py:")[-1] for frame in stack], frames)
            rows = page.evaluate("[...document.querySelectorAll('#sites tr')].map(row => row.innerText)")
            self.assertEqual(rows, ["blocks.py:9 (Batch.load)\t8.00 MiB\t2\t8.00 MiB\t2\t1"])
            for wanted, found in (("Batch.load", "2 blocks match"), ("12 (step)", "1 block matches"),
                                  ("stream 1", "1 block matches"), ("train.py", "0 blocks match")):
                page.write("#search", wanted)
                self.assertEqual(page.evaluate("count.textContent"), found, wanted)
            page.write("#search", "")
            page.evaluate("document.querySelector('#sites tr').click()")
            self.assertEqual(page.evaluate("count.textContent"), "2 blocks match")
            page.write("#search", "")

    @contextlib.contextmanager
    def memory(self):
        """The page of `cannon memory` with an axis of moments, at the peak."""
        with self.page("memory") as page:
            page.evaluate("$('axis').value = 'moment', $('axis').dispatchEvent(new Event('change'))")
            page.write("#search", "")
            self.press(page, "#peak")
            yield page

    def press(self, page, selector):
        left, top, width, height = page.box(selector)
        page.click(left + width / 2, top + height / 2)

    def tab(self, page, number):
        """Opens a table, and returns its cells' texts by row."""
        self.press(page, f"#tabs button:nth-child({number})")
        return self.table(page)

    def table(self, page):
        return page.evaluate("[...$('rows').rows].map(row => [...row.cells].map(cell => cell.textContent))")

    def chosen_moment(self, page):
        return int(re.search(r"moment (\d+)", page.evaluate("$('when').textContent"))[1])

    def test_memory_is_drawn(self):
        with self.memory() as page:
            pictures = set()
            for dark in (False, True):
                page.dark(dark)
                pictures |= {page.picture(canvas) for canvas in ("map", "strips")}
            page.dark(False)
            self.assertEqual(len(pictures), 4)
            legend = page.evaluate("$('legend').innerText")
            for word in ("parameters", "gradients", "activations", "other", "cache"):
                self.assertIn(word, legend)
            strips = [text for text, *_ in page.texts("strips")]
            for word in ("step", "phase", "module", "step 1", "step 2", "layer"):
                self.assertIn(word, strips)
            self.assertIn("peak 9.00 MiB", [text for text, *_ in page.texts("map")])
            View(page, "moment", "strips")
            page.evaluate("$('axis').value = 'ns', $('axis').dispatchEvent(new Event('change'))")
            self.assertTrue({"µs", "ms", "s"} & {text for text, *_ in page.texts("strips")})

    def test_memory_under_the_cursor(self):
        with self.memory() as page:
            view, peak = View(page, "moment", "strips"), self.chosen_moment(page)
            page.move(*view.point(peak + 0.5, 4 * MIB))
            self.assertRegex(page.evaluate("$('tip').textContent"),
                             rf"moment {peak}, step 1 of 2, .*\nreserved 9.00 MiB, live 7.00 MiB, fragmentation 22.2 % "
                             r"\(cache 2.00 MiB\), peak so far 9.00 MiB\n"
                             "activations 3.00 MiB, gradients 2.00 MiB, other 1.00 MiB, parameters 1.00 MiB")

    def test_memory_of_a_moment(self):
        line = r"training.py:\d+ \(tensor\)"
        with self.memory() as page:
            peak = self.chosen_moment(page)
            self.press(page, "#on")  # the activation is freed
            later = self.chosen_moment(page)
            self.assertGreater(later, peak)
            view = View(page, "moment", "strips")
            page.click(*view.point(later + 0.5, MIB))
            self.assertEqual([row[:2] for row in self.tab(page, 1)],
                             [["2.00 MiB", "gradients"], ["1.00 MiB", "other"], ["1.00 MiB", "parameters"]])
            page.touch([view.point(peak + 0.5, MIB)], [view.point(peak + 0.5, MIB)])
            rows = self.table(page)
            self.assertEqual(rows[0][:3], ["3.00 MiB", "activations", "layer"])
            self.assertRegex(rows[0][3], line)
            self.assertEqual(rows[0][6], f"{later}")
            self.assertIn("2 gaps in 1 segment; the largest is 1.00 MiB", page.evaluate("$('cache').textContent"))
            self.press(page, "#rows tr")
            self.assertRegex(page.evaluate("document.querySelector('tr.more').innerText"),
                             rf"^3145728 bytes; moments \d+ to {later}; at 1048576 of a segment of 8.00 MiB\n"
                             r".*training.py:\d+ \(tensor\)\n.*training.py:\d+ \(<module>\)")
            self.press(page, "#rows tr")
            self.assertEqual(len(self.table(page)), 4)
            self.assertEqual(self.tab(page, 4)[0], ["3.00 MiB", "33.3 %", "1", "3.00 MiB", "activations"])
            modules = [row[4] for row in self.tab(page, 3)]
            self.assertEqual(modules, ["Net", "layer (Linear)", "outside of all modules"])
            lines = self.tab(page, 2)
            self.assertEqual(lines[0][:4], ["6.00 MiB", "66.7 %", "3", "3.00 MiB"])
            self.assertRegex(lines[0][4], line)
            self.press(page, "#rows tr")  # its blocks
            self.assertEqual(page.evaluate("$('count').textContent"),
                             "3 of 4 blocks at this moment (6.00 MiB), 5 in the run")
            self.assertEqual(len(self.table(page)), 3)

    def test_memory_search(self):
        found = {">1100K": "2 of 4 blocks at this moment (5.00 MiB), 4 in the run", "nothing": "0 of 4 blocks",
                 "gradient": "1 of 4 blocks at this moment (2.00 MiB), 2 in the run", "module:layer": "3 of 4 blocks"}
        with self.memory() as page:
            everything = page.picture("map")
            for wanted, text in found.items():
                page.write("#search", wanted)
                self.assertIn(text, page.evaluate("$('count').textContent"))
                self.assertNotEqual(page.picture("map"), everything)

    def test_memory_gestures(self):
        with self.memory() as page:
            now = lambda: View(page, "moment", "strips")
            left, top, width, height = page.box("#map")
            here, there, everything = (left + 0.4 * width, top + 0.6 * height), (left + 0.6 * width, top + 5), now()
            peak = self.chosen_moment(page)
            page.wheel(*here, -100)
            self.assertAlmostEqual(now().time[0] / everything.time[0], math.exp(-0.3), delta=0.02)
            self.assertAlmostEqual(now().at(*here)[0], everything.at(*here)[0], delta=0.2)
            page.drag(here, there)
            self.assertAlmostEqual(now().at(*there)[0], everything.at(*here)[0], delta=0.2)
            self.assertEqual(self.chosen_moment(page), peak)  # dragging is no click
            page.click(*here, count=2)
            self.assertAlmostEqual(now().time[0], everything.time[0], delta=1e-6)
            page.drag(here, there, browser.SHIFT)
            self.assertAlmostEqual(now().time[0] / everything.time[0], 0.2 * width / (width - 82), delta=0.02)
            page.click(*here, count=2)
            fingers = lambda apart: [(here[0] - apart, here[1]), (here[0] + apart, here[1])]
            page.touch(fingers(50), fingers(100))
            self.assertAlmostEqual(now().time[0] / everything.time[0], 0.5, delta=0.02)
            page.click(*here, count=2)
            x, y = next((x, y) for text, x, y in page.texts("strips") if text == "step 2")
            left, top = page.box("#strips")[:2]
            page.click(left + x + 5, top + y)
            self.assertLess(now().time[0] / everything.time[0], 0.6)
            page.click(*here, count=2)
            key = "#legend button:last-child"  # the cache
            self.press(page, key)
            self.assertAlmostEqual(now().size[0] / everything.size[0], 7 / 9, delta=0.01)
            self.press(page, key)

    def test_advice(self):
        with self.page("advise") as page:
            pictures = {page.picture("plot")}
            page.dark(True)
            pictures.add(page.picture("plot"))
            page.dark(False)
            texts = [text for text, *_ in page.texts("plot")]
            for unit in ("MiB", "ms"):
                self.assertTrue([text for text in texts if unit in text], texts)
            plans = [row[0] for row in self.table(page)]
            self.press(page, f"#rows tr:nth-child({plans.index('recompute all') + 1})")
            self.assertIn("layer", page.evaluate("$('changes').textContent"))
            pictures.add(page.picture("plot"))
            self.assertEqual(len(pictures), 3)


if __name__ == "__main__":
    unittest.main()
