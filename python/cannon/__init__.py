# SPDX-License-Identifier: Apache-2.0
"""Cannon from Python: operators on arrays, a test framework for operators, data that arrives in time.

Nothing is imported before its first use, so `import cannon` is quick and needs no NumPy.
"""
import importlib

_SUBMODULES = ("aclnn", "data", "dtypes", "runtime", "tensor", "testing")
_MODULE_OF = {"AclError": "_library", "Tensor": "tensor", "from_dlpack": "dlpack", "prefix": "_autoload",
              "__version__": "_installed"}
_MODULE_OF.update(dict.fromkeys(("Stream", "current_stream", "default_stream", "device", "device_count", "memory_info",
                                 "stream", "synchronize"), "runtime"))


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    raise AttributeError(f"module 'cannon' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_MODULE_OF})
