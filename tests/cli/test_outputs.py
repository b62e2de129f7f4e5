# SPDX-License-Identifier: Apache-2.0
"""Tests of the files that the tools and the library write: no file of the user is lost, and a full disk is reported.

    CANNON_PREFIX=/path python3 tests/cli/test_outputs.py
"""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from test_cli import CANNON, MIB, NPU_SMI, PREFIX, CliTest, clean_environment, execute

MSPROF = PREFIX / "tools/profiler/bin/msprof"
TABLE = "id,lower,upper,size\na,0,2,100\nb,1,3,50\n"
TRACE = f"a 1 {MIB}\nf 1\n"
FULL = "No space left on device"


def tree(folder):
    """The files in a folder with their contents."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class OutputTest(CliTest):
    def setUp(self):
        self.out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (self.out / "table.csv").write_text(TABLE)
        (self.out / "trace.txt").write_text(TRACE)

    def file(self, text="the user's\n", name="precious"):
        path = self.out / name
        path.write_text(text)
        return path

    def cannon(self, *arguments, **options):
        options.setdefault("env", clean_environment(PATH="/usr/bin:/bin"))
        return execute(CANNON, *arguments, cwd=self.out, **options)

    def unchanged(self, *arguments, status=2, words=()):
        """Expects the command to fail with this status and these words, leaving all files unchanged. Returns its
        output."""
        before = tree(self.out)
        done = self.cannon(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(tree(self.out), before)
        return done.stderr

    @contextlib.contextmanager
    def small_disk(self, options="size=64k"):
        """A folder with a small file system of its own."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)


class Refused(OutputTest):
    """Outputs do not overwrite an existing file of another kind."""

    def commands(self, path):
        run = ("run", "--quiet")
        return [(*run, "--record", path, "--", self.program), (*run, "--json", path, "--", self.program),
                (*run, f"--leaks=report={path}", "--", self.program), ("replay", "--json", path, "trace.txt"),
                ("replay", "--html", path, "trace.txt"), ("plan", "-o", path, "table.csv"),
                ("plan", "--html", path, "table.csv"), ("plan", "--svg", path, "table.csv"),
                ("plan", "--json", path, "table.csv")]

    def test_of_another_kind(self):
        for text in ("the user's\n", '{"a": 1}\n', "<!DOCTYPE html>\n<title>mine</title>\n",
                     "id,lower,upper,size\nx,0,1,5\n"):
            path = self.file(text)
            for command in self.commands(path):
                self.unchanged(*command, words=(f"cannot write {path}: ", "--force"))

    def test_force_and_empty_files(self):
        for command in self.commands(self.out / "precious"):
            self.file()
            done = self.cannon(command[0], "--force", *command[1:])
            self.assertEqual(done.returncode, 0, done.stderr)
            made = (self.out / "precious").read_bytes()
            self.assertNotEqual(made, b"the user's\n")
            self.file("")
            self.assertEqual(self.cannon(*command).returncode, 0)
            self.assertNotEqual((self.out / "precious").read_bytes(), b"")
            self.assertEqual(self.cannon(*command).returncode, 0, "one of this kind may be replaced")
            self.assertEqual(sorted(tree(self.out)), ["precious", "table.csv", "trace.txt"])

    def test_a_program_whose_argument_was_forgotten(self):
        train = self.file("#!/bin/sh\nexit 0\n", "train")
        train.chmod(0o755)
        for option in ("--record", "--json"):
            self.unchanged("run", option, "./train", words=("no program given",))
            self.unchanged("run", option, "./train", "--", self.program, words=("cannot write ./train",))

    def test_folders_and_links(self):
        target = self.file()
        link = self.out / "link"
        link.symlink_to(target)
        for path, words in ((link, "symbolic link"), (self.out, "folder")):
            for command in self.commands(path):
                self.unchanged(*command, words=(f"cannot write {path}: ", words))
        self.assertTrue(link.is_symlink())

    def test_impossible_names(self):
        for path in ("", "new/", "x" * 250):
            for command in self.commands(path):
                # the option itself refuses the other combinations
                if path == "new/" or f"--leaks=report={path}" not in command:
                    self.unchanged(*command, words=(f"cannot write {path}: ",))

    def test_an_empty_file_that_is_held_open(self):
        for command in (("replay", "--json", "{}", "trace.txt"), ("plan", "--json", "{}", "table.csv"),
                        ("run", "--quiet", "--json", "{}", "--", self.program)):
            with tempfile.NamedTemporaryFile() as held:
                self.assertEqual(self.cannon(*(str(word).format(held.name) for word in command)).returncode, 0)
                self.assertIn("written_by", json.load(held))

    def test_pipes(self):
        pipe = self.out / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
            self.assertEqual(self.cannon("replay", "--json", pipe, "trace.txt").returncode, 0)
            self.assertEqual(json.loads(reader.stdout.read())["events"], 2)
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(self.cannon("replay", "--json", "/dev/null", "trace.txt").returncode, 0)
        self.assertIn(FULL, self.cannon("replay", "--json", "/dev/full", "trace.txt").stderr)

    def test_the_planned_table_is_not_overwritten(self):
        plan = self.file("id,lower,upper,size,offset\na,0,2,100,0\n", "fixed.csv")
        self.unchanged("plan", "-o", plan, plan, words=("it is the table that is planned", "--force"))

    def test_standard_streams_are_accepted(self):
        done = self.cannon("replay", "--json", "/dev/stdout", "trace.txt")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"trace":', done.stdout)
        log = self.file("kept\n", "log")
        with open(log, "a", encoding="utf-8") as f:
            subprocess.run([CANNON, "run", "--quiet", "--leaks=report=/dev/stderr", self.program], stderr=f, check=True,
                           stdout=subprocess.DEVNULL, env=clean_environment())
        self.assertTrue(log.read_text().startswith("kept\nCannon: memory of process "), log.read_text())


class KeptByFailures(OutputTest):
    """An output file written earlier is kept when a later command fails."""

    def outputs(self):
        done = self.cannon("run", "--quiet", "--record", "old.rec", "--json", "old.json", "--", self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        return ("run", "--quiet", "--record", "old.rec", "--json", "old.json")

    def test_wrong_options_after_the_output(self):
        run = self.outputs()
        self.unchanged(*run, "--mem", "lots", "--", self.program)
        self.unchanged(*run, "--nonsense", "--", self.program)
        self.unchanged(*run)

    def test_programs_that_cannot_start(self):
        run = self.outputs()
        script = self.file("#!/no/such/interpreter\n", "script")
        script.chmod(0o755)
        text = self.file("x", "text")
        for name, status in (("no-such-program", 127), ("./no/such", 127), (text, 126), (self.out, 126), (script, 127),
                             ("", 127)):
            self.unchanged(*run, "--", name, status=status)

    def test_programs_found_by_path(self):
        run = self.outputs()
        (self.out / "one").mkdir()
        (self.out / "two").mkdir()
        plain, good = self.out / "one/tool", self.out / "two/tool"
        plain.write_text("exit 5\n")
        path = f"{self.out}/one:{self.out}/two:/usr/bin:/bin"
        before = tree(self.out)
        done = self.cannon(*run, "--", "tool", env=clean_environment(PATH=path))
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertEqual(tree(self.out), before)
        good.write_text("exit 5\n")  # without #!, so execvp runs it by a shell
        good.chmod(0o755)
        self.assertEqual(self.cannon("run", "--quiet", "--", "tool", env=clean_environment(PATH=path)).returncode, 5)
        self.assertEqual(self.cannon("run", "--quiet", "--", "npu-smi", "-v",
                                     env=clean_environment(PATH=path)).returncode, 0)

    def test_a_program_that_records_nothing(self):
        self.outputs()
        self.unchanged("run", "--quiet", "--record", "old.rec", "--", "true", status=0)

    def test_a_table_that_is_wrong(self):
        self.assertEqual(self.cannon("plan", "-o", "plan.csv", "--html", "plan.html", "table.csv").returncode, 0)
        self.file("nonsense\n", "wrong.csv")
        self.unchanged("plan", "-o", "plan.csv", "--html", "plan.html", "wrong.csv", status=1)
        self.assertEqual(self.cannon("replay", "--json", "r.json", "trace.txt").returncode, 0)
        self.unchanged("replay", "--json", "r.json", "wrong.csv", status=1)


class Leaks(OutputTest):
    def test_the_report_does_not_follow_links(self):
        target = self.file("", "target")
        link = self.out / "link"
        link.symlink_to(target)
        environment = clean_environment(CANNON_LEAKS=f"report={link}", LD_LIBRARY_PATH=str(PREFIX / "lib64"))
        done = execute(self.program, "leak", env=environment)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"the memory report {link} can't be written: ", done.stderr)
        self.assertEqual(target.read_text(), "")
        second = self.out / "second"
        second.hardlink_to(target)
        environment["CANNON_LEAKS"] = f"report={second}"
        self.assertIn("several names", execute(self.program, "leak", env=environment).stderr)
        self.assertEqual(target.read_text(), "")
        dangling = self.out / "dangling"
        dangling.symlink_to(self.out / "nothing")
        environment["CANNON_LEAKS"] = f"report={dangling}"
        self.assertIn("can't be written", execute(self.program, "leak", env=environment).stderr)
        self.assertFalse((self.out / "nothing").exists())

    def test_the_report_replaces_reports_only(self):
        path = self.file()
        environment = clean_environment(CANNON_LEAKS=f"report={path}", LD_LIBRARY_PATH=str(PREFIX / "lib64"))
        self.assertIn("can't be written", execute(self.program, "leak", env=environment).stderr)
        self.assertEqual(path.read_text(), "the user's\n")
        path.write_text("")
        for _ in range(2):
            self.assertEqual(execute(self.program, "leak", env=environment).stderr, "")
            self.assertEqual(path.read_text().count("Cannon: memory of process "), 1)

    def test_the_log_does_not_follow_links(self):
        """The log's name contains the process id, which exec keeps."""
        target = self.file()
        script = f"ln -s {target} {self.out}/plog-$$.log; exec {self.program} wrong"
        done = execute("sh", "-c", script, env=clean_environment(ASCEND_PROCESS_LOG_PATH=str(self.out),
                                                                 LD_LIBRARY_PATH=str(PREFIX / "lib64")))
        self.assertIn("can't be written: it is a symbolic link", done.stderr)
        self.assertEqual(target.read_text(), "the user's\n")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file to another user")
    def test_the_report_of_another_user(self):
        path = self.file("")
        os.chown(path, 12345, 12345)
        environment = clean_environment(CANNON_LEAKS=f"report={path}", LD_LIBRARY_PATH=str(PREFIX / "lib64"))
        self.assertIn("another user", execute(self.program, "leak", env=environment).stderr)
        self.assertEqual(path.read_text(), "")

    def test_temporary_files_do_not_follow_links(self):
        """The file beside the report has a predictable name."""
        target = self.file()
        (self.out / "leaks.txt.lines").symlink_to(target)
        self.assertEqual(self.cannon("run", "--quiet", "--leaks=report=leaks.txt", self.program, "leak").returncode, 0)
        self.assertEqual(target.read_text(), "the user's\n")
        self.assertIn("Live blocks: 1", (self.out / "leaks.txt").read_text())


class Temporaries(OutputTest):
    def test_folders_of_that_name_that_cannon_did_not_make(self):
        folders = {"cannon-run-backup": "notes.txt", "cannon-run-AbCdEf": "1.stats", "cannon-run-": "x"}
        for name, inside in folders.items():
            (self.out / name).mkdir()
            (self.out / name / inside).write_text("mine")
        (self.out / "cannon-run-empty0").mkdir()
        before = tree(self.out)
        self.cannon("run", self.program, env=clean_environment(TMPDIR=str(self.out)))
        self.assertEqual(tree(self.out), before)
        self.assertTrue((self.out / "cannon-run-empty0").is_dir())

    def killed(self):
        """Returns the folder of a run that was killed."""
        with subprocess.Popen([CANNON, "run", self.program, "pause"], stdout=subprocess.PIPE, text=True,
                              env=clean_environment(TMPDIR=str(self.out))) as process:
            process.stdout.readline()
            process.kill()
        (folder,) = self.out.glob("cannon-run-*")
        return folder

    def test_files_that_others_put_there(self):
        folder = self.killed()
        self.assertTrue(list(folder.glob("*.stats")))
        (folder / "results.txt").write_text("mine")
        (folder / "old.stats").write_text("mine")
        (folder / "sub").mkdir()
        self.cannon("run", "true", env=clean_environment(TMPDIR=str(self.out)))
        self.assertEqual({p.name for p in folder.iterdir()}, {"results.txt", "old.stats", "sub"})

    def test_a_copy_made_by_the_user_is_kept(self):
        folder = self.killed()
        copy = self.out / "cannon-run-backup"
        copy.mkdir()
        for path in folder.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        self.cannon("run", "true", env=clean_environment(TMPDIR=str(self.out)))
        self.assertFalse(folder.exists())
        self.assertTrue(list(copy.glob("*.stats")))


class FullDisks(OutputTest):
    def test_statistics(self):
        with self.small_disk() as disk:
            done = self.cannon("run", self.program, "three", env=clean_environment(TMPDIR=str(disk)))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"cannon: this process keeps no statistics: {disk}/cannon-run-", done.stderr)
            self.assertIn(FULL, done.stderr)
            self.assertNotIn("did not use Cannon", done.stderr)
            self.assertEqual(list(disk.iterdir()), [])

    def test_folder_of_the_statistics(self):
        for inodes in (1, 2):
            with self.small_disk(f"size=64k,nr_inodes={inodes}") as disk:
                done = self.cannon("run", self.program, "three", env=clean_environment(TMPDIR=str(disk)))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("cannon run: no statistics are collected: cannot make a folder", done.stderr)
                self.assertIn(FULL, done.stderr)
                self.assertNotIn("did not use Cannon", done.stderr)
                self.assertEqual(list(disk.iterdir()), [])

    def test_reports(self):
        with self.small_disk("size=4k") as disk:
            done = self.cannon("run", "--quiet", f"--leaks=report={disk}/leaks.txt", self.program, "leak")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Live blocks: 1", (disk / "leaks.txt").read_text())
            self.assertIn(f"cannot write {disk}/leaks.txt: {FULL}", done.stderr)
            self.assertEqual([p.name for p in disk.iterdir()], ["leaks.txt"])
            (disk / "leaks.txt").unlink()
            (disk / "filler").write_bytes(bytes(4096))
            environment = clean_environment(CANNON_LEAKS=f"report={disk}/leaks.txt",
                                            LD_LIBRARY_PATH=str(PREFIX / "lib64"))
            done = execute(self.program, "leak", env=environment)
            self.assertIn(f"the memory report {disk}/leaks.txt can't be written: {FULL}", done.stderr)

    def test_recordings(self):
        with self.small_disk() as disk:
            done = self.cannon("run", "--quiet", "--record", disk / "r.rec", "--", self.program, "three")
            self.assertEqual(done.returncode, 3)
            self.assertIn(f"cannon: the recording ends here: it can't grow: {FULL}", done.stderr)
        environment = clean_environment(CANNON_RECORD="/dev/full", LD_LIBRARY_PATH=str(PREFIX / "lib64"))
        done = execute(self.program, "three", env=environment)
        self.assertEqual(done.returncode, 3)
        self.assertIn("CANNON_RECORD is /dev/full, expected ", done.stderr)

    def test_profiles(self):
        with self.small_disk() as disk:
            (disk / "filler").write_bytes(bytes(60 << 10))
            environment = clean_environment(LD_LIBRARY_PATH=str(PREFIX / "lib64"), CANNON_PROFILE=str(disk))
            done = execute(self.program, "three", env=environment)
            self.assertIn(FULL, done.stderr)
            self.assertIn("profile", done.stderr)
            self.assertEqual(done.returncode, 3, done.stderr)

    def test_msprof(self):
        with self.small_disk() as disk:
            done = subprocess.run([MSPROF, f"--output={self.out}", self.program, "three"], capture_output=True,
                                  text=True, env=clean_environment(LD_LIBRARY_PATH=str(PREFIX / "lib64")))
            self.assertEqual(done.returncode, 3, done.stderr)
            (session,) = self.out.glob("PROF_*")
            copy = disk / session.name
            subprocess.run(["cp", "-r", session / "host", session / "device_0", "-t", disk], check=True)
            copy.mkdir()
            for name in ("host", "device_0"):
                (disk / name).rename(copy / name)
            with contextlib.suppress(OSError), open(disk / "filler", "wb") as f:
                f.write(bytes(1 << 20))
            before = sorted(tree(disk))
            done = subprocess.run([MSPROF, "--export=on", f"--output={disk}"], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("Traceback", done.stderr)
            self.assertIn(FULL, done.stderr)
            self.assertEqual(sorted(tree(disk)), before)
            done = subprocess.run([MSPROF, f"--output={disk}", self.program, "three"], capture_output=True, text=True,
                                  env=clean_environment(LD_LIBRARY_PATH=str(PREFIX / "lib64")))
            self.assertNotIn("Traceback", done.stderr)
            self.assertIn(FULL, done.stderr)
            self.assertEqual(done.returncode, 3)

    def test_json_and_the_others(self):
        commands = (("run", "--quiet", "--json", "{}/x", "--", self.program), ("replay", "--json", "{}/x", "trace.txt"),
                    ("replay", "--html", "{}/x", "trace.txt"), ("plan", "-o", "{}/x", "table.csv"),
                    ("plan", "--html", "{}/x", "table.csv"))
        with self.small_disk() as disk:
            (disk / "filler").write_bytes(bytes(64 << 10))
            for command in commands:
                done = self.cannon(*(str(word).format(disk) for word in command))
                self.assertIn(f"cannot write {disk}/x: {FULL}", done.stderr)
                self.assertEqual(done.returncode, 0 if command[0] == "run" else 1)
                self.assertEqual([p.name for p in disk.iterdir()], ["filler"])

    def test_standard_output(self):
        with open("/dev/full", "wb") as full:
            for command in ((CANNON, "info"), (CANNON, "info", "--coverage"), (CANNON, "--version"), (CANNON, "--help"),
                            (CANNON, "plan", "table.csv"), (CANNON, "replay", "--repeat", "1", "trace.txt"),
                            (CANNON, "env"),
                            (CANNON, "run", "--help"), (CANNON, "top", "--help"), (NPU_SMI, "info"), (NPU_SMI, "-v")):
                done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.out,
                                      env=clean_environment())
                self.assertEqual(done.returncode, 1, command)
                self.assertIn(f"standard output: {FULL}", done.stderr)


class Exports(OutputTest):
    def test_a_second_export_keeps_foreign_files(self):
        done = subprocess.run([MSPROF, f"--output={self.out}", self.program], capture_output=True, text=True,
                              env=clean_environment(LD_LIBRARY_PATH=str(PREFIX / "lib64")))
        self.assertEqual(done.returncode, 0, done.stderr)
        (session,) = self.out.glob("PROF_*")
        notes = session / "mindstudio_profiler_output/notes.txt"
        notes.write_text("mine")
        done = subprocess.run([MSPROF, "--export=on", f"--output={session}"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("notes.txt", done.stderr)
        self.assertEqual(notes.read_text(), "mine")




if __name__ == "__main__":
    unittest.main()
