# SPDX-License-Identifier: Apache-2.0
"""torch_npu.profiler of the stock wheel: it records, calls msprof, and writes its trace and tables with Cannon's
operators.

Run by an interpreter that has torch_npu, in the environment of set_env.sh:

    . PREFIX/set_env.sh; python tests/clients/torch_npu/test_profiler.py
"""
import contextlib
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import torch
import torch_npu

P = torch_npu.profiler
ACTIVITIES = [P.ProfilerActivity.CPU, P.ProfilerActivity.NPU]


def train(step, n):
    x, w = torch.randn(64, 64).npu(), torch.randn(64, 64).npu().requires_grad_()
    for _ in range(n):
        torch.relu(torch.mm(x, w)).sum().backward()
        torch.npu.synchronize()
        step()


class Profiler(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name

    def tearDown(self):
        self.temporary.cleanup()

    def profile(self, level, schedule=None, **options):
        experimental = P._ExperimentalConfig(profiler_level=getattr(P.ProfilerLevel, level),
                                             **options.pop("experimental", {}))
        with P.profile(activities=ACTIVITIES, experimental_config=experimental, schedule=schedule,
                       on_trace_ready=P.tensorboard_trace_handler(self.folder), **options) as profile:
            train(profile.step, 4)
        self.output, = glob.glob(os.path.join(self.folder, "*_ascend_pt", "ASCEND_PROFILER_OUTPUT"))

    def table(self, name):
        with open(os.path.join(self.output, name), newline="", encoding="utf-8") as f:
            return list(csv.DictReader(f))

    def trace(self):
        with open(os.path.join(self.output, "trace_view.json"), encoding="utf-8") as f:
            return json.load(f)

    def test_steps_hold_their_operators(self):
        self.profile("Level0", schedule=P.schedule(wait=1, warmup=1, active=2, repeat=1))
        kernels = self.table("kernel_details.csv")
        for step in ("2", "3"):
            names = [k["Name"] for k in kernels if k["Step Id"] == step]
            self.assertIn("aclnnMm", names)
            self.assertIn("aclnnRelu", names)
        self.assertEqual(len([k for k in kernels if k["Name"] == "aclnnRelu"]), 2)
        steps = self.table("step_trace_time.csv")
        self.assertEqual([s["Step"] for s in steps], ["2", "3"])
        for s in steps:
            self.assertGreater(float(s["Computing"]), 0)

    def test_operators_of_torch_lead_to_their_kernels(self):
        self.profile("Level1")
        mm = [o for o in self.table("operator_details.csv") if o["Name"] == "aten::mm"]
        self.assertTrue(mm)
        for o in mm:
            self.assertGreater(float(o["Device Total Duration(us)"]), 0)
            self.assertGreater(float(o["Device Total Duration With AICore(us)"]), 0)
        trace = self.trace()
        flows = [e for e in trace if e.get("cat") == "async_npu" and e["ph"] == "f"]
        kernels = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in trace if e["ph"] == "X"}
        self.assertIn("aclnnRelu", {kernels[e["pid"], e["tid"], e["ts"]] for e in flows})
        self.assertTrue([e for e in trace if e["name"] == "AscendCL@aclnnMm"])

    def test_shapes(self):
        self.profile("Level1", experimental=dict(aic_metrics=P.AiCMetrics.PipeUtilization))
        relu = [k for k in self.table("kernel_details.csv") if k["Name"] == "aclnnRelu"]
        self.assertEqual({(k["Input Shapes"], k["Input Data Types"]) for k in relu}, {("64,64", "FLOAT")})
        statistic = {o["OP Type"]: o for o in self.table("op_statistic.csv")}
        self.assertEqual(statistic["Relu"]["Count"], "4")
        calls = [a for a in self.table("api_statistic.csv") if a["API Name"] == "aclnnRelu" and a["Count"] == "4"]
        self.assertTrue(calls)

    def test_memory(self):
        self.profile("Level1", profile_memory=True, with_stack=True, record_shapes=True)
        self.assertTrue(self.table("memory_record.csv"))
        self.assertTrue(self.table("operator_memory.csv"))

    def test_without_kernels(self):
        self.profile("Level_none")
        self.assertTrue(self.trace())

    def test_chrome_trace(self):
        path = os.path.join(self.folder, "trace.json")
        with contextlib.chdir(self.folder):  # torch_npu keeps a folder there until the trace is exported
            profile = P.profile(activities=ACTIVITIES)
            with profile:
                train(lambda: None, 1)
        profile.export_chrome_trace(path)
        with open(path, encoding="utf-8") as f:
            self.assertTrue([e for e in json.load(f) if e["name"] == "aclnnRelu"])


class Communication(unittest.TestCase):
    """Two ranks, each of which profiles what it does."""
    RANK = """if True:
        import os, sys, torch, torch_npu, torch.distributed as dist
        P, rank = torch_npu.profiler, int(os.environ["RANK"])
        torch.npu.set_device(rank)
        dist.init_process_group("hccl")
        x = torch.ones(64, 64).npu()
        level = P._ExperimentalConfig(profiler_level=P.ProfilerLevel.Level1)
        with P.profile(activities=[P.ProfilerActivity.CPU, P.ProfilerActivity.NPU], experimental_config=level,
                       on_trace_ready=P.tensorboard_trace_handler(f"{sys.argv[1]}/{rank}")):
            y = torch.mm(x, x)
            dist.all_reduce(y)
            dist.all_gather([torch.empty_like(x) for _ in range(2)], x)
            torch.npu.synchronize()
        assert y.unique().tolist() == [128]
        dist.destroy_process_group()
    """

    def test_two_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "rank.py")
            with open(script, "w", encoding="utf-8") as f:
                f.write(self.RANK)
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
            subprocess.run([*torchrun, script, folder], check=True, env=dict(os.environ, CANNON_DEVICES="2"))
            for rank in range(2):
                output, = glob.glob(os.path.join(folder, f"{rank}/*_ascend_pt/ASCEND_PROFILER_OUTPUT"))
                self.check_rank(rank, output)

    def check_rank(self, rank, output):
        with open(os.path.join(output, "kernel_details.csv"), newline="", encoding="utf-8") as f:
            kernels = [k["Name"] for k in csv.DictReader(f)]
        for name in ("aclnnMm", "hcom_allReduce__", "hcom_allGather__"):
            self.assertEqual(len([k for k in kernels if k.startswith(name)]), 1, kernels)
        with open(os.path.join(output, "step_trace_time.csv"), newline="", encoding="utf-8") as f:
            step, = csv.DictReader(f)
        self.assertGreater(float(step["Communication"]), 0)
        with open(os.path.join(output, "communication.json"), encoding="utf-8") as f:
            calls = json.load(f)["step"]["collective"]
        self.assertEqual(len(calls), 3)  # and their sum
        with open(os.path.join(output, "communication_matrix.json"), encoding="utf-8") as f:
            links = {link for op in json.load(f)["step"]["collective"].values() for link in op}
        self.assertEqual(links, {f"{rank}-{1 - rank}", f"{rank}-{rank}"})
        with open(os.path.join(output, "trace_view.json"), encoding="utf-8") as f:
            trace = json.load(f)
        flows = {(e["pid"], e["tid"], e["ts"]) for e in trace if e.get("cat") == "async_npu" and e["ph"] == "f"}
        reduction, = [e for e in trace if e["ph"] == "X" and e["name"].startswith("hcom_allReduce__")]
        self.assertIn((reduction["pid"], reduction["tid"], reduction["ts"]), flows)  # from c10d::allreduce_


if __name__ == "__main__":
    unittest.main()
