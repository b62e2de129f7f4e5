# SPDX-License-Identifier: Apache-2.0
"""Tests of the manual pages of an installed prefix (scripts/gen_man.py) and of what shells complete
(scripts/gen_completion.py): each command has a page, which names all its options, and all of them are completed.

    CANNON_PREFIX=/path python3 tests/cli/test_man.py
"""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()
PAGES = PREFIX / "share/man/man1"
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def help_text(*command):
    return subprocess.run([str(PREFIX / "bin" / command[0]), *command[1:], "--help"], capture_output=True, text=True,
                          check=True, timeout=60).stdout


def commands():
    """[(page's name, help text)] of all commands."""
    top = help_text("cannon")
    listed = re.search(r"\nCommands:\n((?:  .*\n)+)", top)[1]
    found = [("cannon", top)]
    for line in listed.splitlines():
        name = line.split()[0]
        found.append((f"cannon-{name}", help_text("cannon", name)))
    return found + [(name, help_text(name)) for name in ("npu-smi", "atc", "msprof")]


class ManualPages(unittest.TestCase):
    def test_every_command_has_a_page(self):
        self.assertGreater(len(commands()), 3)
        self.assertEqual({name for name, _ in commands()}, {p.stem for p in PAGES.glob("*.1")})

    def test_pages_name_every_option(self):
        for name, text in commands():
            with self.subTest(name):
                page = (PAGES / f"{name}.1").read_text()
                shown = set(OPTION.findall(page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")))
                self.assertTrue(OPTION.findall(text))
                self.assertLessEqual(set(OPTION.findall(text)), shown)

    def test_pages_have_the_usual_sections(self):
        for name, _ in commands():
            with self.subTest(name):
                sections = re.findall(r"^\.SH (.*)$", (PAGES / f"{name}.1").read_text(), re.M)
                self.assertEqual(sections[:3], ["NAME", "SYNOPSIS", "DESCRIPTION"])
                self.assertLessEqual({"OPTIONS", "EXIT STATUS", "SEE ALSO"}, set(sections))

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_groff_has_no_complaints(self):
        for page in sorted(PAGES.glob("*.1")):
            done = subprocess.run(["groff", "-man", "-ww", "-z", str(page)], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)

    @unittest.skipUnless(shutil.which("man"), "needs man")
    def test_man_finds_them_by_path(self):
        env = {"PATH": f"{PREFIX}/bin:/usr/bin:/bin", "LC_ALL": "C"}
        done = subprocess.run(["man", "-w", "cannon-run"], capture_output=True, text=True, env=env, timeout=60)
        self.assertEqual(done.stdout.strip(), str(PAGES / "cannon-run.1"), done.stderr)


class Completion(unittest.TestCase):
    """By calling the functions as a shell does, as far as they need no terminal."""

    def complete(self, *words):
        """What bash offers for the last word."""
        script = (f". {PREFIX}/share/bash-completion/completions/cannon; COMP_WORDS=(\"$@\"); "
                  "COMP_CWORD=$(($# - 1)); _$1 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-uc", script, "bash", *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.complete("cannon", "re"), ["report", "replay"])
        self.assertLessEqual({name.removeprefix("cannon-") for name, _ in commands() if name.startswith("cannon-")},
                             set(self.complete("cannon", "")))

    def test_every_option(self):
        for name, text in commands():
            if name == "msprof":
                continue
            listed = re.findall(r"^  (-\S.*?)(?:  |$)", text, re.M)
            wanted = {o for entry in listed for o in re.findall(r"(?:^|, )(--?[A-Za-z][\w-]*)", entry)}
            words = name.split("-", 1) if name.startswith("cannon-") else [name.replace("-", "_")]
            offered = {o.rstrip("=") for o in self.complete(*words, "-")}
            self.assertTrue(wanted, name)
            self.assertEqual(offered, wanted, name)

    def test_values(self):
        self.assertEqual(self.complete("cannon", "plan", "--capacity", "-"), [])  # a value follows
        self.assertEqual(self.complete("cannon", "plan", "file.csv"), [])         # bash completes files itself
        self.assertEqual(self.complete("atc", "--soc"), ["--soc_version="])

    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_zsh_reads_its_file(self):
        path = PREFIX / "share/zsh/site-functions/_cannon"
        done = subprocess.run(["zsh", "-n", path], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
