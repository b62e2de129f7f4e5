# SPDX-License-Identifier: Apache-2.0
"""The Python package `te` of CANN, which compiles operators for an NPU, in name only.

MindSpore wants to import it, and with it defines operators of its own, whose functions nobody calls here: no operator
is compiled. So each name in this package, and in `tbe` and `topi`, which belong to it, is a decorator that leaves
functions as they are."""
import importlib.abc
import importlib.machinery
import sys
import types

# MindSpore waits for three seconds where it does not know the version; it knows this one from 2.7 to 2.10.
version = types.SimpleNamespace(version='8.5.0')


class _Name:
    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **_):
        return args[0] if args and isinstance(args[0], types.FunctionType) else self


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    return _Name()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes modules of any name below `te`, `tbe` and `topi`. It is asked last, so other packages of these names win."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition('.')[0] in ('te', 'tbe', 'topi'):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def exec_module(self, module):
        module.__getattr__ = __getattr__


sys.meta_path.append(_Finder())
