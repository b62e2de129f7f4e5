# SPDX-License-Identifier: Apache-2.0
"""Finds the C libraries, Cannon's or CANN's own, and declares the functions that this package calls.

    lib = load()
    check("aclrtSetDevice", lib.aclrtSetDevice(0))

Only CANN's public functions are used, so the same file runs on an NPU. The functions may be called from any thread;
ctypes releases the interpreter's lock during a call.
"""
import ctypes as ct
import glob
import os

from ._autoload import prefix

NAMES = ("libascendcl.so", "libnnopbase.so", "libopapi.so")
REPEAT_INITIALIZE = 100002                      # ACL_ERROR_REPEAT_INITIALIZE

_PROTOTYPES = """
aclInit const char *
aclFinalize
aclrtGetDeviceCount void *
aclrtSetDevice int
aclrtGetDevice void *
aclrtSynchronizeDevice
aclrtGetMemInfo int void * void *
aclrtMalloc void * size int
aclrtFree void *
aclrtMemcpy void * size void * size int
aclrtCreateStream void *
aclrtDestroyStream void *
aclrtSynchronizeStream void *
aclrtCreateEvent void *
aclrtDestroyEvent void *
aclrtRecordEvent void * void *
aclrtStreamWaitEvent void * void *
aclDestroyTensor void *
aclDestroyScalar void *
aclDestroyIntArray void *
aclDestroyBoolArray void *
aclDestroyFloatArray void *
aclDestroyTensorList void *
aclDestroyScalarList void *
aclGetViewShape void * void * void *
aclSetAclOpExecutorRepeatable void *
aclDestroyAclOpExecutor void *
"""
_CREATORS = """
aclCreateTensor void * size int void * long int void * size void *
aclCreateScalar void * int
aclCreateIntArray void * size
aclCreateBoolArray void * size
aclCreateFloatArray void * size
aclCreateTensorList void * size
aclCreateScalarList void * size
"""
_TYPES = {"void *": ct.c_void_p, "const char *": ct.c_char_p, "size": ct.c_size_t, "long": ct.c_int64, "int": ct.c_int}


class AclError(RuntimeError):
    """A function of CANN's interface failed: `code` is its error code, `function` its name, and `message` what
    aclGetRecentErrMsg said."""

    def __init__(self, function, code, message=""):
        super().__init__(f"{function} returned {code}" + (f": {message}" if message else ""))
        self.function, self.code, self.message = function, code, message

    def __reduce__(self):
        return AclError, (self.function, self.code, self.message)


class Library:
    """The functions of CANN's libraries as attributes; `acl`, `base` and `op` are the libraries, `prefix` the folder
    they were found in (None: they were loaded already, or are on the loader's path)."""

    def __init__(self):
        self.prefix, (self.acl, self.base, self.op) = _open()
        self.custom = []                        # libraries of operators that the user adds, which are asked first
        self.declare(ct.c_int, _PROTOTYPES)
        self.declare(ct.c_void_p, _CREATORS)
        self._message = self.find("aclGetRecentErrMsg")
        self._message.restype, self._message.argtypes = ct.c_char_p, []

    def declare(self, restype, prototypes):
        """Makes functions attributes: a line has a name and the types of its arguments."""
        for line in prototypes.strip().splitlines():
            name, _, types = line.strip().partition(" ")
            function = self.find(name)
            if function is None:
                raise ImportError(f"{name} is missing in {', '.join(NAMES)} of {self.prefix or 'the loader path'}")
            function.restype = restype
            function.argtypes = [_TYPES[t] for t in _split(types)]
            setattr(self, name, function)

    def find(self, name):
        """The function of that name with the default prototype, or None."""
        for handle in (*self.custom, self.acl, self.base, self.op):
            try:
                return handle[name]             # unlike getattr, a new object each time, with its own prototype
            except AttributeError:
                pass
        return None

    def message(self):
        """The thread's last error message; reading clears it."""
        text = self._message()
        return text.decode("utf-8", "replace") if text else ""


def _split(types):
    """Splits "void * size" into "void *" and "size"."""
    rest = types
    while rest:
        word = next(t for t in _TYPES if rest.startswith(t))
        yield word
        rest = rest[len(word):].lstrip()


def _folders():
    """Where the libraries may be, in the order of preference: what the environment names (CANN's or Cannon's
    set_env.sh), the loader's path (None), and the installation that this package belongs to."""
    for variable in ("CANNON_PREFIX", "ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        if os.environ.get(variable):
            yield os.environ[variable]
    yield None
    yield prefix()


def _open():
    """Opens the libraries: those that the process has already loaded, else those of the first folder that has them."""
    try:
        return None, [ct.CDLL(name, ct.RTLD_GLOBAL | os.RTLD_NOLOAD) for name in NAMES]
    except OSError:
        pass
    tried = []
    for folder in _folders():
        paths = [os.path.join(folder, "lib64", name) if folder else name for name in NAMES]
        if folder and not os.path.exists(paths[0]):
            tried.append(os.path.dirname(paths[0]))
            continue
        try:
            return folder, [ct.CDLL(path, ct.RTLD_GLOBAL) for path in paths]
        except OSError as error:
            tried.append(str(error))
    raise ImportError("CANN's libraries are not found; set CANNON_PREFIX or source set_env.sh. Tried: " +
                      "; ".join(tried))


_library = None


def load():
    """The libraries, loaded and initialised (aclInit) at the first call."""
    global _library
    if _library is None:
        library = Library()
        code = library.aclInit(None)
        library.initialised_here = code == 0
        if code not in (0, REPEAT_INITIALIZE):
            raise AclError("aclInit", code, library.message())
        for path in custom_paths():
            library.custom.append(ct.CDLL(path, ct.RTLD_GLOBAL))
        _library = library
    return _library


def custom_paths():
    """The libraries of the user's operators in the folders that ASCEND_CUSTOM_OPP_PATH names."""
    for folder in filter(None, os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":")):
        yield from sorted(glob.glob(os.path.join(folder, "op_api", "lib", "libcust_opapi.so")))


def check(function, code):
    """Raises AclError unless the code that the function returned is 0."""
    if code:
        raise AclError(function, code, load().message())
