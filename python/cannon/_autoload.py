# SPDX-License-Identifier: Apache-2.0
"""Makes torch_npu, MindSpore and pyACL find Cannon's libraries where nobody has sourced set_env.sh.

A file cannon_npu.pth, which Python reads when it starts, puts a finder in front of the importing machinery. It calls
load() when one of the modules that need CANN's libraries is about to be imported, and costs nothing before that: this
module is not imported until then. load() opens the libraries by their paths. The dynamic loader then has libraries
with CANN's names, and takes them for everything that asks for these names later.

It steps back where the machine has a CANN of its own, and with CANNON_AUTOLOAD=0.
"""
import ctypes
import glob
import os
import sys
import threading
import warnings

from ._installed import FOLDERS

_lock = threading.Lock()  # guards _done
_done = False


def prefix():
    """The folder of the installation that this package belongs to: beside the package where a wheel has put both, or
    the package is in PREFIX/python/site-packages."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.join(packages, "cannon_npu")
    return beside if os.path.isdir(beside) else os.path.dirname(os.path.dirname(packages))


def _loader_finds(name):
    try:
        ctypes.CDLL(name)
    except OSError as error:
        # Another message is of a library that is there, and lacks something: the machine has a CANN, if a broken one.
        return not str(error).startswith(f"{name}: cannot open shared object file")
    return True


def _chosen():
    """The installation to load, or None where the machine has a CANN of its own. The variables may name an
    installation of Cannon: another that the user has chosen, or this one, in children of a process that has loaded
    it."""
    chosen = prefix()
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        home = os.environ.get(variable)
        if home and not os.path.isfile(os.path.join(home, "lib64", "libcannon.so")):
            return None
        chosen = home or chosen
    return None if _loader_finds("libascendcl.so") else chosen


def _libraries(home):
    """The libraries' paths. MindSpore 2.7.2 wants "latest" in them."""
    latest = sorted(glob.glob(os.path.join(home, "latest", "lib64", "lib*.so")))
    return latest or sorted(glob.glob(os.path.join(home, "lib64", "lib*.so")))


def _load():
    home = _chosen()
    if home is None:
        return
    try:
        for path in _libraries(home):
            ctypes.CDLL(path)
    except OSError as error:
        warnings.warn(f"cannon_npu cannot load the libraries of {home}: {error} (CANNON_AUTOLOAD=0 turns this off)",
                      RuntimeWarning, stacklevel=2)
        return
    for variable, folder in FOLDERS:
        if not os.environ.get(variable):
            os.environ[variable] = home + folder
    # MindSpore imports packages from there, and warns where PYTHONPATH lacks it.
    packages, path = os.path.join(home, "opp/built-in/op_impl/ai_core/tbe"), os.environ.get("PYTHONPATH")
    sys.path.append(packages)
    if packages not in (path or "").split(os.pathsep):
        os.environ["PYTHONPATH"] = path + os.pathsep + packages if path else packages
    # torch_npu's profiler takes the first msprof of PATH and looks for its other files from there. The one that a wheel
    # has put on PATH is a script of Python's elsewhere.
    tools, path = os.path.join(home, "tools/profiler/bin"), os.environ.get("PATH", os.defpath)
    if tools not in path.split(os.pathsep):
        os.environ["PATH"] = tools + os.pathsep + path


def load():
    """Loads the libraries and sets the variables of FOLDERS that have no value, once in a process. Returns None, which
    tells Python's import that this is not the finder of the module."""
    global _done
    with _lock:
        if not _done and os.environ.get("CANNON_AUTOLOAD", "1") != "0":
            _load()
        _done = True
