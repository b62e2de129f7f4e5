# SPDX-License-Identifier: Apache-2.0
"""One side of run.py, in a process of its own: loads a model, and runs it when it is told to. It is told by lines of
JSON on its standard input, and answers with lines on its standard output.

    worker.py ours|peer THREADS MODEL INPUTS.npz OUTPUTS.npz"""
import json
import sys
import time

import numpy as np


def memory(name):
    """A figure of /proc/self/status, in bytes."""
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name + ":"))


class Peer:
    def __init__(self, threads):
        import onnxruntime
        self.ort = onnxruntime
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3

    def load(self, path):
        self.session = self.ort.InferenceSession(path, self.options, ["CPUExecutionProvider"])

    def bind(self, inputs):
        self.inputs = inputs

    def run(self):
        self.outputs = self.session.run(None, self.inputs)


class Ours:
    def __init__(self, threads):  # threads: by OMP_NUM_THREADS
        import acl
        self.acl = acl
        self.check(acl.init())
        self.check(acl.rt.set_device(0))

    def check(self, ret):
        if ret:
            raise RuntimeError(self.acl.get_recent_err_msg())

    def load(self, path):
        self.id, ret = self.acl.mdl.load_from_file(path)
        self.check(ret)

    def buffer(self, array_bytes):
        p, ret = self.acl.rt.malloc(max(1, array_bytes), 0)
        self.check(ret)
        return p

    def bind(self, inputs):
        acl = self.acl
        self.desc = acl.mdl.create_desc()
        self.check(acl.mdl.get_desc(self.desc, self.id))
        self.sets = [acl.mdl.create_dataset(), acl.mdl.create_dataset()]
        for i in range(acl.mdl.get_num_inputs(self.desc)):
            a = np.ascontiguousarray(inputs[acl.mdl.get_input_name_by_index(self.desc, i)])
            p = self.buffer(a.nbytes)
            if a.nbytes:
                self.check(acl.rt.memcpy(p, a.nbytes, acl.util.numpy_to_ptr(a), a.nbytes, 1))
            acl.mdl.add_dataset_buffer(self.sets[0], acl.create_data_buffer(p, a.nbytes))
        for i in range(acl.mdl.get_num_outputs(self.desc)):  # the library allocates them in the first run
            acl.mdl.add_dataset_buffer(self.sets[1], acl.create_data_buffer(0, 0))

    def run(self):
        self.check(self.acl.mdl.execute(self.id, *self.sets))

    @property
    def outputs(self):
        acl, found = self.acl, []
        for i in range(acl.mdl.get_num_outputs(self.desc)):
            desc = acl.mdl.get_dataset_tensor_desc(self.sets[1], i)
            dims = [acl.get_tensor_desc_dim_v2(desc, d)[0] for d in range(acl.get_tensor_desc_num_dims(desc))]
            dtype = {0: "f4", 1: "f2", 2: "i1", 3: "i4", 4: "u1", 9: "i8", 11: "f8", 12: "?"}[
                acl.get_tensor_desc_type(desc)]
            host, n = np.empty(dims, dtype), acl.get_tensor_desc_size(desc)
            if n:
                place = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(self.sets[1], i))
                self.check(acl.rt.memcpy(acl.util.numpy_to_ptr(host), n, place, n, 2))
            found.append(host)
        return found


def turn(side, seconds):
    """Runs for a time, at least once. Returns seconds of the processor and of the clock for each run."""
    n, cpu, wall = 0, time.process_time(), time.perf_counter()
    while n == 0 or time.perf_counter() - wall < seconds:
        side.run()
        n += 1
    return {"cpu": (time.process_time() - cpu) / n, "wall": (time.perf_counter() - wall) / n}


def main():
    which, threads, path, inputs, outputs = sys.argv[1:]
    answers = sys.stdout
    sys.stdout = sys.stderr  # for what libraries print
    side = (Ours if which == "ours" else Peer)(int(threads))
    arrays = dict(np.load(inputs))
    before = memory("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5")  # the peak starts again
    start, cpu = time.perf_counter(), time.process_time()
    side.load(path)
    told = {"load": time.perf_counter() - start, "load_cpu": time.process_time() - cpu}
    side.bind(arrays)
    side.run()
    told["peak"] = memory("VmHWM") - before
    np.savez(outputs, *side.outputs)
    print(json.dumps(told), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(side, json.loads(line))), file=answers, flush=True)


main()
