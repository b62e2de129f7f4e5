# SPDX-License-Identifier: Apache-2.0
"""Files that `cannon test` writes on request, by the rules of cannon's other commands (src/cli/output.h).

An existing file is replaced only if it is empty, or begins like a file that cannon wrote for the same purpose, or with
--force. Symbolic links are not followed. A new file is written beside the old one and renamed when it is complete, so a
failure leaves the old one. Pipes, terminals and descriptors (/dev/stdout, /dev/fd/N) are written to directly.
"""
import os
import re
import stat
import sys
import tempfile

#: kind: (words, what files of the kind begin with)
KINDS = {
    "json": ("JSON that cannon wrote", '{\n\t"written_by":\t"cannon '),
    "junit": ("JUnit XML that cannon wrote",
              '<?xml version="1.0" encoding="UTF-8"?>\n<!-- written by cannon test -->\n'),
    "html": ("a page that cannon test wrote",
             '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>cannon test'),
}


class OutputError(Exception):
    pass


class Output:
    """A file to be written. kind: a key of KINDS."""

    def __init__(self, path, kind, force=False):
        self.path, self.kind, self.force = path, kind, force

    def _refuse(self, why):
        raise OutputError(f"cannot write {self.path}: {why}")

    def _is_ours(self):
        begins = KINDS[self.kind][1].encode()
        with open(self.path, "rb", opener=_open_plain) as f:
            return f.read(len(begins)) == begins

    def check(self):
        """Raises OutputError unless the file may be written, as far as this can be seen without changing anything.
        Returns nothing, file, empty or stream: what is there now."""
        try:
            return self._look()
        except OSError as e:
            self._refuse(e.strerror)

    def _look(self):
        descriptor = re.fullmatch(r"/dev/(?:stdin|stdout|stderr|fd/\d+)|/proc/self/fd/\d+", self.path)
        try:
            found = os.stat(self.path) if descriptor else os.lstat(self.path)
        except FileNotFoundError:
            self._possible()
            return "nothing"
        if stat.S_ISLNK(found.st_mode):
            self._refuse("it is a symbolic link")
        if stat.S_ISDIR(found.st_mode):
            self._refuse("it is a folder")
        if descriptor or stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode):
            return "stream"
        if not stat.S_ISREG(found.st_mode):
            self._refuse("it is not a file")
        self._possible()
        if not found.st_size:
            return "empty"
        if not self.force and not self._is_ours():
            self._refuse(f"it is there already and is not {KINDS[self.kind][0]}; --force replaces it")
        return "file"

    def _possible(self):
        """Whether a file can be created there."""
        folder, name = os.path.split(self.path)
        if not name:
            self._refuse("it names no file")
        if not os.path.isdir(folder or "."):
            self._refuse(os.strerror(2))
        if not os.access(folder or ".", os.W_OK | os.X_OK):
            self._refuse(os.strerror(13))

    def write(self, text):
        """Checks again, since time has passed, and writes the file. Raises OutputError."""
        there = self.check()
        data = text.encode("utf-8", "replace")
        try:
            if there in ("stream", "empty"):
                sys.stdout.flush()
                with open(self.path, "wb", opener=None if there == "stream" else _open_plain) as f:
                    f.write(data)
            else:
                self._replace(data)
        except OSError as e:
            self._refuse(e.strerror)

    def _replace(self, data):
        folder, name = os.path.split(self.path)
        fd, beside = tempfile.mkstemp(prefix=name[:200] + ".", dir=folder or ".")
        try:
            with os.fdopen(fd, "wb") as f:
                os.fchmod(fd, self._mode())
                f.write(data)
            os.rename(beside, self.path)
        except BaseException:
            os.unlink(beside)
            raise

    def _mode(self):
        """The permissions of the old file, or those of new files."""
        try:
            return os.lstat(self.path).st_mode & 0o777
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            return 0o666 & ~mask


def _open_plain(path, flags):
    """Opens a file, and neither what a link leads to nor a pipe that would block."""
    return os.open(path, (flags & ~os.O_TRUNC) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
