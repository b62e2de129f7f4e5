# SPDX-License-Identifier: Apache-2.0
"""Tests of `cannon run --check`: kinds, lines, inlined functions, Python's lines, counts, exit status, suppressions,
JSON, the page, and the report of a process that was not started by it.

    CANNON_PREFIX=/path python3 tests/cli/test_check.py
"""
import json
import os
import pathlib
import re
import subprocess
import unittest

import test_cli
from test_cli import CANNON, PREFIX, execute

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_exp.h"

static __attribute__((noinline)) void *make(size_t bytes) {
  void *p = NULL;
  aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST); /* made */
  return p;
}
static inline __attribute__((always_inline)) void give_back(void *p) {
  aclrtFree(p); /* freed */
}
static __attribute__((noinline)) void exponential(void *data) {
  const int64_t dims[] = {1000};
  uint64_t bytes;
  aclOpExecutor *e;
  aclTensor *t = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, data);
  if (aclnnInplaceExpGetWorkspaceSize(t, &bytes, &e) == 0)
    aclnnInplaceExp(NULL, 0, e, NULL); /* launched */
  aclDestroyTensor(t);
}
int main(int argc, char **argv) {
  void *p, *q;
  if (argc > 2) {
    const pid_t child = fork();
    if (child) wait(NULL);
    if (child) _exit(3);
  }
  aclInit(NULL);
  aclrtSetDevice(0);
  p = make(4096);
  q = make(100);
  const char *what = argc > 1 ? argv[1] : "";
  switch (*what) {
  case 'b':
    for (int i = 0; i < 3; i++) exponential(q); /* bounds */
    break;
  case 'd':
    give_back(p); /* first */
    give_back(p); /* second */
    break;
  case 'i': aclrtFree((char *)q + 64); break; /* inside */
  case 'u':
    aclrtFree(p);   /* before */
    exponential(p); /* after */
    break;
  case 'h': return *(volatile int *)q; /* touched */
  }
  if (*what != 'd' && *what != 'u') aclrtFree(p);
  aclrtFree(q);
  aclrtResetDevice(0);
  aclFinalize();
  return 3;
}
"""
SCRIPT = """
import ctypes, sys
acl = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
acl.aclInit(None)
acl.aclrtSetDevice(0)
class Layer:
    def forward(self):
        p = ctypes.c_void_p()
        acl.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(4096), 0)
        return p
def drop(p):
    acl.aclrtFree(p)
p = Layer().forward()
drop(p)
for i in range(3):
    drop(p)
"""
FILTER = "bounds,lifetime,host"  # the parts of which these programs have findings


class Check(test_cli.CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "wrong.c").write_text(PROGRAM)
        cls.wrong = cls.folder / "wrong"
        subprocess.run([os.environ.get("CC", "cc"), "-g", "-O2", cls.folder / "wrong.c", "-o", cls.wrong,
                        f"-I{PREFIX}/include", f"-L{PREFIX}/lib64", "-lascendcl", "-lnnopbase", "-lopapi"], check=True)

    def line(self, mark):
        """The number of the line with this comment."""
        return next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if f"/* {mark} */" in text)

    def check(self, *arguments, options=()):
        """The ended process, and what the checker found."""
        path = self.folder / "check.json"
        done = execute(CANNON, "run", "--quiet", f"--check={FILTER}", "--json", path, "--force", *options, "--",
                       *arguments)
        return done, json.loads(path.read_text())["check"]

    def one(self, what, kind):
        done, check = self.check(self.wrong, what)
        self.assertEqual([f["kind"] for f in check["findings"]], [kind], done.stderr)
        return done, check["findings"][0]

    def places(self, stack):
        return [(f.get("function"), f.get("line")) for f in stack]

    def test_bounds(self):
        done, finding = self.one("bounds", "out-of-bounds")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(finding["count"], 3)  # though the compiler may unroll the loop
        self.assertEqual(self.places(finding["stack"]), [("exponential", self.line("launched")),
                                                         ("main", self.line("bounds"))])
        self.assertEqual(finding["tasks"], ["aclnnInplaceExp"])
        self.assertEqual(finding["allocation"]["size"], 100)
        self.assertEqual(finding["allocation"]["call"], "aclrtMalloc")
        self.assertEqual(self.places(finding["allocation"]["stack"])[0], ("make", self.line("made")))
        self.assertRegex(done.stderr, r"cannon: out-of-bounds, 3 times: .*Allocate what the shape")
        self.assertIn(f"wrong.c:{self.line('bounds')} in main", done.stderr)
        self.assertIn("the checker has 1 finding (1 out-of-bounds)", done.stderr)

    def test_frees(self):
        _, finding = self.one("double", "double-free")
        freed = ("give_back", self.line("freed"))  # inlined
        self.assertEqual(self.places(finding["stack"]), [freed, ("main", self.line("second"))])
        self.assertEqual(self.places(finding["other"]["stack"]), [freed, ("main", self.line("first"))])
        _, finding = self.one("inside", "invalid-free")
        self.assertEqual(self.places(finding["stack"]), [("main", self.line("inside"))])
        self.assertEqual(finding["allocation"]["first"], 64)

    def test_use_after_free(self):
        _, finding = self.one("use", "use-after-free")
        self.assertEqual(self.places(finding["stack"])[1], ("main", self.line("after")))
        self.assertEqual(self.places(finding["other"]["stack"]), [("main", self.line("before"))])

    def test_host_access_is_told_though_the_program_is_killed(self):
        done, finding = self.one("host", "host-access")
        self.assertLess(done.returncode, 0)
        self.assertIn(("main", self.line("touched")), self.places(finding["stack"]))
        self.assertEqual(finding["allocation"]["size"], 100)

    def test_exit_status(self):
        for what, expected in ("double", 9), ("host", 9), ("none", 3):
            done, check = self.check(self.wrong, what, options=["--error-exitcode", "9"])
            self.assertEqual(done.returncode, expected, done.stderr)
            self.assertEqual(check["summary"]["findings"], int(expected == 9))

    def test_a_forked_child_has_its_own_findings(self):
        done, check = self.check(self.wrong, "double", "fork")
        self.assertEqual([f["kind"] for f in check["findings"]], ["double-free"], done.stderr)
        self.assertEqual(check["summary"]["killed_processes"], 0)

    def test_without_findings_nothing_is_said(self):
        done = execute(CANNON, "run", "--quiet", f"--check={FILTER}", self.wrong)
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        done = execute(CANNON, "run", f"--check={FILTER}", self.wrong)
        self.assertIn("cannon: the checker has 0 findings.", done.stderr)

    def test_suppressions(self):
        known = self.folder / "known.supp"
        known.write_text("[known]\nkind = double-free\nfile = wrong.c\nfunction = give_back\n")
        done, check = self.check(self.wrong, "double", options=["--suppressions", known, "--error-exitcode", "9"])
        self.assertEqual(done.returncode, 3)
        self.assertEqual(check["findings"], [])
        self.assertEqual(check["summary"]["suppressions"], [{"name": "known", "findings": 1}])
        done, check = self.check(self.wrong, "inside", options=["--suppressions", known])
        self.assertEqual(check["summary"]["findings"], 1)
        known.write_text("[known]\nkind = nonsense\n")
        done = execute(CANNON, "run", "--check", "--suppressions", known, self.wrong)
        self.assertEqual(done.returncode, 2)
        self.assertIn("known.supp:2: unknown kind", done.stderr)

    def test_wrong_options_run_nothing(self):
        for options, words in ((["--check=bounds,nonsense"], "nonsense"), (["--report", "x.html"], "needs --check"),
                               (["--check", "--error-exitcode", "0"], "expected 1 to 255"),
                               (["--check", "--suppressions", "/nowhere"], "cannot read /nowhere")):
            done = execute(CANNON, "run", *options, self.wrong)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(words, done.stderr)

    def test_page(self):
        page = self.folder / "check.html"
        self.check(self.wrong, "double", options=["--report", page])
        text = page.read_text()  # nothing in it comes from elsewhere
        self.assertNotIn("http", re.sub(r"http://www\.w3\.org/(2000/svg|1999/xhtml)", "", text))

    def test_python_lines(self):
        script = self.folder / "script.py"
        script.write_text(SCRIPT)
        done, check = self.check("/usr/bin/python3", script, PREFIX / "lib64/libascendcl.so")
        self.assertEqual([f["kind"] for f in check["findings"]], ["double-free"], done.stderr)
        (finding,) = check["findings"]
        self.assertEqual(finding["count"], 3)
        lines = lambda stack: [(f["function"], f["line"]) for f in stack if f.get("language") == "python"]
        self.assertEqual(lines(finding["stack"]), [("drop", 12), ("<module>", 16)])
        self.assertEqual(lines(finding["other"]["stack"]), [("drop", 12), ("<module>", 14)])
        self.assertEqual(lines(finding["allocation"]["stack"])[0][1], 9)
        self.assertTrue(any("object" in f for f in finding["stack"]))  # native frames as well
        self.assertIn("script.py:16 in <module>", done.stderr)

    def test_a_process_alone_prints_its_findings(self):
        env = test_cli.clean_environment(CANNON_CHECK=FILTER)
        env["LD_LIBRARY_PATH"] = f"{PREFIX}/lib64"
        done = execute(self.wrong, "double", env=env)
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannon: double-free: ", done.stderr)
        self.assertIn("1 findings of the checker", done.stderr)
        self.assertEqual(execute(self.wrong, env=env).stderr, "")

    def test_findings_without_their_folder_are_printed(self):
        env = test_cli.clean_environment(CANNON_CHECK=FILTER, CANNON_CHECK_REPORT=str(self.folder / "nowhere"))
        env["LD_LIBRARY_PATH"] = f"{PREFIX}/lib64"
        done = execute(self.wrong, "double", env=env)
        self.assertEqual(done.returncode, 3)
        self.assertIn("expected a folder: no file can be made there: No such file", done.stderr)
        self.assertIn("cannon: double-free: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
