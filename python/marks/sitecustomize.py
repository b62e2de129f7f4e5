# SPDX-License-Identifier: Apache-2.0
"""Starts cannon_marks where a program of PyTorch is recorded: `cannon memory` and `cannon advise` put this folder in
front of PYTHONPATH, and Python imports this module when it starts. It costs nothing before torch_npu is imported, and
the user's own sitecustomize runs as if this one were not there."""
import importlib.util
import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))


class _Finder:
    """Calls cannon_marks.start() behind the import of torch_npu."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "torch_npu":
            return None
        sys.meta_path.remove(cls)
        spec = importlib.util.find_spec(name)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _start()
        spec.loader.exec_module = exec_module
        return spec


def _start():
    try:
        file = importlib.util.spec_from_file_location("cannon_marks", os.path.join(_folder, "cannon_marks.py"))
        module = importlib.util.module_from_spec(file)
        file.loader.exec_module(module)
        module.start()
    except Exception as error:  # a recording without marks is better than a program that does not run
        print(f"cannon: the recording has no modules: {type(error).__name__}: {error}", file=sys.stderr)


def _chain():
    """Imports the sitecustomize that Python would have found without this folder."""
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != _folder]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


sys.meta_path.insert(0, _Finder)
_chain()
