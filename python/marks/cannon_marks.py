# SPDX-License-Identifier: Apache-2.0
"""Tells Cannon's recording what a training of PyTorch does: which module runs, forward, backward or update, when a step
is over, and which memory parameters, gradients and optimiser states have (include/cannon/marks.h).

Uses PyTorch's global hooks only. They keep no tensor, so the program's memory is the same with them."""
import ctypes
import functools
import os
import weakref

OUTSIDE, FORWARD, BACKWARD, UPDATE = range(4)
PARAMETER, GRADIENT, OPTIMIZER = range(3)


def _library():
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    library = ctypes.PyDLL(os.path.join(prefix, "lib64", "libcannon.so"))
    number, text = ctypes.c_uint32, ctypes.c_char_p
    library.cannon_mark_module.argtypes = [text, text, number]
    library.cannon_mark_module.restype = number
    for name in ("enter", "leave", "backward", "phase"):
        getattr(library, f"cannon_mark_{name}").argtypes = [number]
    library.cannon_mark_memory.argtypes = [number, ctypes.c_void_p, ctypes.c_uint64, number]
    for name in ("enter", "leave", "backward", "phase", "step", "memory"):
        getattr(library, f"cannon_mark_{name}").restype = None
    return library


def _tensor(value, torch, depth=4):
    """The first tensor with a gradient in what a module returned."""
    if isinstance(value, torch.Tensor):
        return value if value.grad_fn is not None else None
    if isinstance(value, dict):
        value = tuple(value.values())
    if depth and isinstance(value, (tuple, list)):
        for v in value:
            found = _tensor(v, torch, depth - 1)
            if found is not None:
                return found
    return None


class Marks:
    def __init__(self, torch):
        library = _library()
        self.torch = torch
        self.mark_module = library.cannon_mark_module
        self.mark_enter, self.mark_leave = library.cannon_mark_enter, library.cannon_mark_leave
        self.mark_backward, self.mark_phase = library.cannon_mark_backward, library.cannon_mark_phase
        self.mark_step, self.mark_memory = library.cannon_mark_step, library.cannon_mark_memory
        self.numbers = weakref.WeakKeyDictionary()  # of modules
        self.owners = {}  # id of a parameter: the number of its module
        self.roots = weakref.WeakSet()
        self.states = weakref.WeakKeyDictionary()  # of an optimiser: how many parameters had states
        self.depth, self.phase = 0, OUTSIDE

    # ---- memory ----

    def memory(self, use, tensor, module):
        tensor = getattr(tensor, "_local_tensor", tensor)  # of a DTensor: this device's part
        if tensor is None or tensor.device.type != "npu" or tensor.layout != self.torch.strided:
            return
        try:
            storage = tensor.untyped_storage()
            if storage.nbytes():
                self.mark_memory(use, storage.data_ptr(), storage.nbytes(), module)
        except RuntimeError:
            pass  # a subclass of tensors without memory of its own: no reason to end the program

    def gradients(self):
        for root in self.roots:
            for parameter in root.parameters():
                if parameter.grad is not None:
                    self.memory(GRADIENT, parameter.grad, self.owners.get(id(parameter), 0))

    # ---- modules ----

    def add_root(self, root):
        """A module that was called by none: it gives names to those in it."""
        self.roots.add(root)
        by_name = {}
        for name, module in root.named_modules():
            parent = by_name.get(name.rpartition(".")[0], 0) if name else 0
            kind = type(module).__name__
            number = self.mark_module((name or kind).encode(), kind.encode(), parent)
            by_name[name] = number
            self.numbers[module] = number
            for parameter in module.parameters(recurse=False):
                self.owners[id(parameter)] = number
                self.memory(PARAMETER, parameter, number)

    def number(self, module):
        number = self.numbers.get(module)
        if number is None:
            self.add_root(module)
            number = self.numbers[module]
        return number

    def set_phase(self, phase):
        if self.phase != phase:
            self.phase = phase
            self.mark_phase(phase)

    def enter(self, module, inputs):
        number = self.number(module)
        if not self.depth and self.phase == OUTSIDE:
            self.set_phase(FORWARD)
        self.depth += 1
        self.mark_enter(number)

    def leave(self, module, inputs, output):
        number = self.numbers.get(module, 0)
        self.mark_leave(number)
        self.depth = max(self.depth - 1, 0)
        if self.torch.is_grad_enabled():
            self.tag(output, number)
        elif not self.depth and self.phase == FORWARD:
            self.set_phase(OUTSIDE)  # an evaluation has no backward

    def tag(self, output, number):
        """The backward of the module begins where the gradient of what it returned arrives. Of several modules that
        return the same, the innermost is the first here."""
        tensor = _tensor(output, self.torch)
        node = tensor.grad_fn if tensor is not None else None
        if node is None or "cannon" in node.metadata:
            return
        node.metadata["cannon"] = True
        mark = self.mark_backward
        node.register_prehook(lambda gradients: mark(number))

    # ---- backward and update ----

    def wrap(self, function):
        @functools.wraps(function)
        def backward(*arguments, **keywords):
            if self.phase == BACKWARD:
                return function(*arguments, **keywords)
            before, depth = self.phase, self.depth
            self.set_phase(BACKWARD)
            try:
                return function(*arguments, **keywords)
            finally:
                self.depth = depth
                self.gradients()
                self.set_phase(UPDATE if before == UPDATE else OUTSIDE)
        return backward

    def before_update(self, optimizer, arguments, keywords):
        self.set_phase(UPDATE)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self.owners:
                    self.memory(PARAMETER, parameter, 0)
                    self.memory(GRADIENT, parameter.grad, 0)

    def after_update(self, optimizer, arguments, keywords):
        if self.states.get(optimizer) != len(optimizer.state):
            self.states[optimizer] = len(optimizer.state)
            for parameter, state in optimizer.state.items():
                for value in state.values() if isinstance(state, dict) else ():
                    if isinstance(value, self.torch.Tensor):
                        self.memory(OPTIMIZER, value, self.owners.get(id(parameter), 0))
        self.mark_step()
        self.set_phase(OUTSIDE)


def start():
    import torch
    from torch.nn.modules import module
    from torch.optim import optimizer
    marks = Marks(torch)
    module.register_module_forward_pre_hook(marks.enter)
    module.register_module_forward_hook(marks.leave, always_call=True)
    optimizer.register_optimizer_step_pre_hook(marks.before_update)
    optimizer.register_optimizer_step_post_hook(marks.after_update)
    torch.autograd.backward = marks.wrap(torch.autograd.backward)
    torch.autograd.grad = marks.wrap(torch.autograd.grad)
