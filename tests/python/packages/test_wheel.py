# SPDX-License-Identifier: Apache-2.0
"""The wheel in a bare virtual environment: commands, the installation inside, and the start-up hook, with a small
module in the place of torch_npu (test_torch.py has the real one)."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from packages import BUILD, MODULE, SOURCE, TOOLS, PackageTest, clean_environment, environment_with_wheel, execute

PROGRAM = r"""
#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include <stdio.h>
int main(void) {
  printf("%d %s\n", aclInit(NULL), aclrtGetSocName());
  return (void *)aclnnAdd == NULL;
}
"""


# Cuts the path of the library that defines aclrtMalloc, as the two versions of MindSpore do, and counts the libraries
# that they open by their paths below what is left.
MINDSPORE = r"""
import ctypes, os
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("file", "base", "name", "at")]
found = Info()
malloc = ctypes.cast(ctypes.CDLL("libascendcl.so").aclrtMalloc, ctypes.c_void_p)
ctypes.CDLL(None).dladdr(malloc, ctypes.byref(found))
path = found.file.decode()
latest = path.rindex("latest") + len("latest")
for version, end in (("2.7.2", latest), ("2.10.0", max(latest, path.rindex("cann") + len("cann")))):
    names = "ascendcl acl_op_compiler msprofiler acl_tdt_channel nnopbase opapi hccl".split()
    print(f"{version}:", len([ctypes.CDLL(f"{path[:end]}/lib64/lib{name}.so") for name in names]))
"""


class WheelTest(PackageTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cannon-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.programs = environment_with_wheel(cls.folder / "venv")
        cls.python = cls.programs / "python"
        cls.packages = pathlib.Path(execute(cls.python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))")
                                    .stdout.strip())
        cls.prefix = cls.packages / "cannon_npu"


class Commands(WheelTest):
    def test_they_are_the_installations(self):
        for name, real in (("cannon", "bin/cannon"), ("npu-smi", "bin/npu-smi"), ("atc", "bin/atc"),
                           ("msprof", "tools/profiler/bin/msprof")):
            told = self.succeeds(self.programs / name, "--help")
            self.assertTrue(told.startswith(f"Usage: {name} "), told)
            self.assertEqual(told, self.succeeds(self.prefix / real, "--help"))
        self.assertEqual(self.succeeds(self.python, "-m", "cannon", "--version"),
                         self.succeeds(BUILD / "prefix/bin/cannon", "--version"))

    def test_exit_status_and_arguments_pass(self):
        done = execute(self.programs / "cannon", "run", "--quiet", "sh", "-c", 'echo "$1"; exit 3', "sh", "a  b")
        self.assertEqual((done.returncode, done.stdout), (3, "a  b\n"), done.stderr)

    def test_prefix(self):
        self.assertEqual(self.succeeds(self.programs / "cannon", "prefix").strip(), str(self.prefix))
        self.assertEqual(self.succeeds(self.python, "-c", "import cannon; print(cannon.prefix())").strip(),
                         str(self.prefix))
        self.assertEqual(execute(self.programs / "cannon", "prefix", "x").returncode, 2)

    def test_environment(self):
        env = clean_environment(PATH=f"{self.programs}:/usr/bin:/bin")
        shown = self.succeeds("sh", "-euc", 'eval "$(cannon env)"; eval "$(cannon env)"; env', env=env)
        values = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        self.assertEqual(values["ASCEND_HOME_PATH"], str(self.prefix))
        self.assertEqual(values["LD_LIBRARY_PATH"], f"{self.prefix}/latest/lib64")
        self.assertEqual(values["PATH"], f"{self.prefix}/bin:{self.prefix}/tools/profiler/bin:{env['PATH']}")
        self.assertEqual(values["PYTHONPATH"], f"{self.prefix}/opp/built-in/op_impl/ai_core/tbe")

    def test_package(self):
        told = self.succeeds(self.python, "-c", """if True:
            import sys, cannon
            print(cannon.__version__, "cannon._autoload" in sys.modules, "ctypes" in sys.modules)
            assert {"aclnn", "prefix"} <= set(dir(cannon))
            try: cannon.nothing
            except AttributeError as e: print(e)""")
        version = self.succeeds(self.programs / "cannon", "--version").split()[1]
        self.assertEqual(told, f"{version} False False\nmodule 'cannon' has no attribute 'nothing'\n")


class Installation(WheelTest):
    """The wheel's prefix is as good as that of `make install`."""

    def test_tests_of_an_installation(self):
        done = execute("/usr/bin/python3", "-m", "unittest", "-q", "test_cli.Layout", "test_cli.Shells",
                       "test_cli.OtherCommands", cwd=SOURCE / "tests/cli",
                       env=clean_environment(CANNON_PREFIX=str(self.prefix)))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_file_is_missing(self):
        """A wheel has no symbolic links: each path of an installation is a file there, but links to programs and the
        Python packages, which are beside the prefix."""
        other = BUILD / "prefix"
        listed = [os.path.relpath(os.path.join(top, name), other)
                  for top, _, names in os.walk(other, followlinks=False) for name in names]
        left_out = {other / p for p in ("bin/msprof", "compiler/bin", "fwkacllib/bin", "atc/bin",
                                        "ascend-toolkit/latest")}
        for link in (p for p in other.rglob("*") if p.is_symlink() and p.name != "stub" and p not in left_out):
            listed += [str(link.relative_to(other) / name) for name in os.listdir(link)] if link.is_dir() else [
                str(link.relative_to(other))]
        missing = [p for p in listed if not (self.prefix / p).exists() and not p.startswith("python/")]
        # libcannon.so, libcannon_ge.so and the folder lib64/cannon are once there, and build files beside them.
        others = ("/libcannon.so", "/libcannon_ge.so", "/cmake", "/pkgconfig", "/stub", "/libcann", "bin/msprof",
                  "compiler/bin", "fwkacllib/bin", "atc/bin", "ascend-toolkit/latest", "/cannon")
        self.assertEqual([p for p in missing if not p.endswith(others)], [])
        self.assertFalse([p for p in self.packages.rglob("*") if p.is_symlink()])

    def test_libraries_in_the_places_of_links(self):
        (self.folder / "program.c").write_text(PROGRAM)
        for place in ("lib64", "runtime/lib64", "compiler/lib64", "acllib/lib64", f"{os.uname().machine}-linux/lib64",
                      "latest/lib64"):
            include = place.replace("latest/", "").replace("lib64", "include")
            self.succeeds("cc", self.folder / "program.c", "-o", self.folder / "program", f"-I{self.prefix}/{include}",
                          f"-L{self.prefix}/{place}", "-lascendcl", "-lopapi", "-lnnopbase")
            told = self.succeeds(self.folder / "program", env=clean_environment(LD_LIBRARY_PATH=self.prefix / place))
            self.assertEqual(told, "0 Ascend910B3\n", place)

    def test_bundled_libraries(self):
        shown = self.succeeds("ldd", self.prefix / "bin/cannon")
        for library in ("libdw", "libelf", "libcjson"):
            self.assertRegex(shown, rf"{library}[-.\w]* => {self.prefix}/bin/\.\./lib64/bundled/")

    def test_manual_pages(self):
        pages = self.folder / "venv/share/man/man1"
        self.assertIn("cannon-prefix.1", os.listdir(pages))
        self.assertEqual(sorted(os.listdir(pages)), sorted(os.listdir(BUILD / "prefix/share/man/man1")))


class Hook(WheelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.modules = cls.folder / "modules"
        cls.modules.mkdir()
        (cls.modules / "torch_npu.py").write_text(MODULE)
        (cls.modules / "mindspore.py").write_text(MINDSPORE)
        for name, text, flags in (("whole", "int aclrtGetVersion(int *a, int *b, int *c) { return 77; }", ()),
                                  ("broken", "int missing(void); int other(void) { return missing(); }",
                                   ("-Wl,--no-as-needed", f"-L{cls.folder}", "-lnot_there"))):
            folder = cls.folder / name
            folder.mkdir()
            cls.compile(cls.folder / "libnot_there.so", "int missing(void) { return 1; }")
            cls.compile(folder / "libascendcl.so", text, *flags)
            os.unlink(cls.folder / "libnot_there.so")

    @staticmethod
    def compile(library, text, *flags):
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *flags, "-o", library], input=text,
                       text=True, check=True)

    def load(self, code="import torch_npu", **env):
        env.setdefault("PYTHONPATH", self.modules)
        return execute(self.python, "-c", code, env=clean_environment(**{k: str(v) for k, v in env.items()}))

    def expect_loaded(self, prefix, **options):
        done = self.load(**options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"version 0\nfrom {prefix}/lib64/libcannon.so\nASCEND_HOME_PATH {prefix}\n"
                                      f"ASCEND_OPP_PATH {prefix}/opp\n")

    def expect_untouched(self, **options):
        done = self.load(**options)
        self.assertEqual(done.returncode, 1)
        self.assertIn("libascendcl.so: cannot open shared object file", done.stderr)
        self.assertNotIn("Warning", done.stderr)

    def test_libraries_are_loaded_for_torch_npu(self):
        self.expect_loaded(self.prefix)

    def test_children_too(self):
        self.expect_loaded(self.prefix, code="""if True:
            import io, contextlib
            with contextlib.redirect_stdout(io.StringIO()): import torch_npu
            import subprocess, sys
            sys.exit(subprocess.run([sys.executable, "-c", "import torch_npu"]).returncode)""")

    def test_threads_that_import_at_once(self):
        done = self.load(code="""if True:
            import threading
            threads = [threading.Thread(target=__import__, args=[name]) for name in ("acl", "torch_npu") * 4]
            for t in threads: t.start()
            for t in threads: t.join()""", PYTHONPATH=self.with_acl())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("version 0"), 2)

    def with_acl(self):
        folder = self.folder / "with_acl"
        if not folder.exists():
            shutil.copytree(self.modules, folder)
            shutil.copy(folder / "torch_npu.py", folder / "acl.py")
        return folder

    def test_mindspore_finds_its_root(self):
        done = self.load(code="import mindspore", PYTHONPATH=self.modules)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "2.7.2: 7\n2.10.0: 7\n")
        for prefix in (self.prefix, BUILD / "prefix"):
            done = self.load(code="import mindspore", LD_LIBRARY_PATH=prefix / "latest/lib64")
            self.assertEqual((done.returncode, done.stdout), (0, "2.7.2: 7\n2.10.0: 7\n"), done.stderr)

    def test_off(self):
        self.expect_untouched(CANNON_AUTOLOAD="0")
        self.expect_loaded(self.prefix, CANNON_AUTOLOAD="1")

    def test_variables_of_a_real_cann(self):
        for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
            for value in ("/no/such/folder", self.folder):
                self.expect_untouched(**{name: value})
            self.expect_loaded(self.prefix, **{name: ""})

    def test_another_cannon_that_the_user_has_chosen(self):
        self.expect_loaded(BUILD / "prefix", ASCEND_HOME_PATH=BUILD / "prefix")

    def test_library_that_the_loader_finds(self):
        done = self.load(LD_LIBRARY_PATH=self.folder / "whole")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "version 77\nfrom\nASCEND_HOME_PATH None\nASCEND_OPP_PATH None\n")
        done = self.load(LD_LIBRARY_PATH=self.folder / "broken")
        self.assertIn("libnot_there.so: cannot open shared object file", done.stderr)

    def test_values_that_are_set_stay(self):
        done = self.load(ASCEND_OPP_PATH="/mine")
        self.assertIn(f"ASCEND_HOME_PATH {self.prefix}\nASCEND_OPP_PATH /mine\n", done.stdout)

    def test_libraries_that_do_not_load_are_reported(self):
        home = self.folder / "damaged"
        (home / "lib64").mkdir(parents=True)
        (home / "lib64/libcannon.so").write_text("nothing")
        done = self.load(ASCEND_HOME_PATH=home)
        self.assertRegex(done.stderr, rf"RuntimeWarning: cannon_npu cannot load the libraries of {home}: .*"
                                      rf"\(CANNON_AUTOLOAD=0 turns this off\)")

    def test_nothing_happens_without_these_modules(self):
        told = self.succeeds(self.python, "-c", "import sys, json; print([n for n in sys.modules if 'cannon' in n or "
                             "n == 'ctypes'], 'cannon' in open('/proc/self/maps').read())")
        self.assertEqual(told, "[] False\n")

    def test_msprof_is_the_installations(self):
        code = "import io, contextlib, shutil\n" \
               "with contextlib.redirect_stdout(io.StringIO()): import torch_npu\n" \
               "print(shutil.which('msprof'))"
        done = self.load(code=code, PATH=f"{self.programs}:/usr/bin:/bin")
        self.assertEqual(done.stdout, f"{self.prefix}/tools/profiler/bin/msprof\n", done.stderr)


class Removal(WheelTest):
    def test_nothing_is_left(self):
        self.assertTrue((self.packages / "cannon_npu.pth").exists())
        self.succeeds(TOOLS / "bin/python", "-m", "pip", "--python", self.python, "uninstall", "--yes", "cannon_npu")
        self.assertEqual(list(self.packages.glob("*")), [])
        self.assertFalse((self.programs / "cannon").exists())


if __name__ == "__main__":
    unittest.main()
