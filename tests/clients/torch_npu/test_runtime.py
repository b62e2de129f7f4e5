# SPDX-License-Identifier: Apache-2.0
"""What programs do with torch_npu besides operators: memory, streams, events, graphs, processes, failures."""
import os
import subprocess
import sys
import threading
import unittest

import torch
import torch_npu
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


def in_a_process(code, **environment):
    """Runs code in a Python process of its own and returns its output; fails if the process fails."""
    p = subprocess.run([sys.executable, '-c', 'import torch, torch_npu\n' + code],
                       env={**os.environ, **environment}, cwd=HERE,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if p.returncode:
        raise AssertionError(f'status {p.returncode}\n{p.stdout}\n{p.stderr[-3000:]}')
    return p.stdout


class Device(unittest.TestCase):
    def test_is_there(self):
        self.assertTrue(torch.npu.is_available())
        self.assertGreaterEqual(torch.npu.device_count(), 1)
        self.assertEqual(torch.npu.current_device(), 0)
        self.assertTrue(torch.npu.get_device_name(0).startswith('Ascend'))
        p = torch.npu.get_device_properties(0)
        self.assertGreater(p.total_memory, 1 << 30)
        self.assertGreater(p.cube_core_num, 0)

    def test_imports_by_itself(self):
        out = subprocess.run([sys.executable, '-c', 'import torch; print(torch.ones(2).npu().sum().item())'],
                             stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout
        self.assertEqual(out.strip(), '2.0')


class Tensors(unittest.TestCase):
    def test_print(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool):
            x = torch.arange(-3, 3).to(dtype)
            self.assertEqual(str(x.npu()).split('device')[0].rstrip(', '), str(x).split('dtype')[0].rstrip(', )'))
        self.assertIn('1.0000e-08', str(torch.tensor([1e-8, 1e8], device='npu')))

    def test_index(self):
        x = torch.arange(60.).view(3, 4, 5)
        y = x.npu()
        for i in (1, (slice(None), 2), (..., slice(1, 4, 2)), (None, 2), torch.tensor([2, 0, 1]), x > 30,
                  (x > 30).any(2), (torch.tensor([0, 1]), slice(None), torch.tensor([3, 4])),
                  (slice(None), torch.tensor([[0, 3], [1, 2]]))):
            of_npu = tuple(j.npu() if isinstance(j, torch.Tensor) else j for j in i) if isinstance(i, tuple) else \
                i.npu() if isinstance(i, torch.Tensor) else i
            self.assertTrue(torch.equal(y[of_npu].cpu(), x[i]), f'{i}')
        y[y > 30] = -1
        x[x > 30] = -1
        y[0, torch.tensor([1, 3]).npu()] += 5
        x[0, torch.tensor([1, 3])] += 5
        self.assertTrue(torch.equal(y.cpu(), x))

    def test_views_share_memory(self):
        x = torch.zeros(4, 6, device='npu')
        x.t()[2:4].add_(1)
        x.view(-1)[::7].mul_(3).sub_(1)
        y = torch.zeros(4, 6)
        y.t()[2:4].add_(1)
        y.view(-1)[::7].mul_(3).sub_(1)
        self.assertTrue(torch.equal(x.cpu(), y))

    def test_random_numbers_repeat(self):
        torch.npu.manual_seed(7)
        state = torch.npu.get_rng_state()
        a = torch.rand(1000, device='npu')
        b = torch.randn(1000, device='npu')
        torch.npu.set_rng_state(state)
        self.assertTrue(torch.equal(a, torch.rand(1000, device='npu')))
        self.assertTrue(torch.equal(b, torch.randn(1000, device='npu')))
        self.assertAlmostEqual(a.mean().item(), 0.5, delta=0.05)
        self.assertAlmostEqual(b.std().item(), 1.0, delta=0.1)
        self.assertEqual(torch.randperm(100, device='npu').sort()[0].tolist(), list(range(100)))

    def test_dropout_by_its_statistics_and_its_mask(self):
        x = torch.ones(1 << 16, device='npu', requires_grad=True)
        y = nn.functional.dropout(x, 0.3)
        kept = (y != 0)
        self.assertAlmostEqual(kept.float().mean().item(), 0.7, delta=0.01)
        self.assertTrue(torch.allclose(y[kept], torch.tensor(1 / 0.7, device='npu')))
        y.sum().backward()
        self.assertTrue(torch.equal(x.grad, y.detach()))  # the same mask, the same scale

    def test_operators_of_python(self):
        """Some of them have no name in the database: `<<` and `>>` are called as operators by name."""
        x, y = torch.arange(-20, 20, dtype=torch.int32), torch.arange(40, dtype=torch.int32) % 7 + 1
        for symbol in ('+', '-', '*', '//', '%', '<<', '>>', '&', '|', '^'):
            for other in ('y', '3'):
                on = [eval(f'a {symbol} {other}', {'a': a, 'y': b}) for a, b in ((x, y), (x.npu(), y.npu()))]
                self.assertTrue(torch.equal(on[1].cpu(), on[0]), symbol)
                in_place = [a.clone() for a in (x, x.npu())]
                for a, b in zip(in_place, (y, y.npu())):
                    exec(f'a {symbol}= {other}', {'a': a, 'y': b})
                self.assertTrue(torch.equal(in_place[1].cpu(), in_place[0]), symbol)

    def agrees(self, function, *inputs):
        """The results, and the gradients of real inputs, are the same on npu as on cpu."""
        outcomes = []
        for device in ('cpu', 'npu'):
            here = [t.to(device).requires_grad_(t.is_floating_point()) for t in inputs]
            y = function(*here)
            y.pow(2).sum().backward()
            outcomes.append([y.detach().cpu()] + [t.grad.cpu() for t in here if t.grad is not None])
        for want, got in zip(*outcomes):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)

    def test_what_the_database_has_not(self):
        """Cases that op_db.py does not reach: embedding bags, where `sum` has no offset2bag; pads of negative width,
        which torch_npu calls by name; complex numbers, which are not among its dtypes."""
        words, starts = torch.tensor([1, 2, 3, 3, 5, 9, 0]), torch.tensor([0, 3, 5])
        for mode in ('sum', 'mean', 'max'):
            self.agrees(lambda w, i, o, mode=mode: nn.functional.embedding_bag(i, w, o, mode=mode),
                        torch.randn(10, 6), words, starts)
        self.agrees(lambda x: nn.functional.pad(x, (-1, 2, 3, -2), value=0.5), torch.randn(2, 5, 6))
        self.agrees(lambda x, y: torch.view_as_real(torch.complex(x, y).exp().sum(0)),
                    torch.randn(4, 3), torch.randn(4, 3))
        self.agrees(lambda x: nn.functional.gelu(x, approximate='tanh'), torch.randn(100))

    def test_copies(self):
        x = torch.arange(24).view(4, 6)
        self.assertTrue(torch.equal(x.t().npu().cpu(), x.t()))
        self.assertTrue(torch.equal(x[:, ::2].npu().to(torch.float16).cpu(), x[:, ::2].half()))
        y = torch.empty(6, 4, dtype=torch.int64, device='npu')
        y.copy_(x.t())
        self.assertTrue(torch.equal(y.cpu(), x.t()))
        self.assertEqual(torch.ones(3, dtype=torch.float64, device='npu').dtype, torch.float64)


class Memory(unittest.TestCase):
    def test_statistics(self):
        torch.npu.empty_cache()
        before = torch.npu.memory_allocated()
        x = torch.empty(10 << 20, dtype=torch.uint8, device='npu')
        self.assertGreaterEqual(torch.npu.memory_allocated() - before, 10 << 20)
        self.assertGreaterEqual(torch.npu.memory_reserved(), torch.npu.memory_allocated())
        del x
        self.assertEqual(torch.npu.memory_allocated(), before)
        self.assertIn('Allocated memory', torch.npu.memory_summary())
        free, total = torch.npu.mem_get_info()
        self.assertLess(free, total)

    def test_snapshot(self):
        torch.npu.memory._record_memory_history()
        x = torch.empty(3 << 20, dtype=torch.uint8, device='npu')
        segments = torch.npu.memory_snapshot()
        self.assertTrue(any(s['allocated_size'] >= x.numel() for s in segments))
        torch.npu.memory._record_memory_history(enabled=None)

    def test_running_out_is_an_exception_and_the_process_goes_on(self):
        kept = torch.full((1000,), 3.0, device='npu')
        total = torch.npu.get_device_properties(0).total_memory
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, 'out of memory'):
                torch.empty(2 * total, dtype=torch.uint8, device='npu')
        self.assertEqual((kept * 2).sum().item(), 6000.0)

    def test_expandable_segments(self):
        out = in_a_process(
            'xs = [torch.full((n << 18,), float(n), device="npu") for n in range(1, 9)]\n'
            'del xs[::2]\n'
            'torch.npu.empty_cache()\n'
            'ys = [torch.full((n << 17,), 1.0, device="npu") for n in range(1, 9)]\n'
            'print([x[-1].item() for x in xs], sum(y.sum().item() for y in ys))\n'
            'assert any(s.get("is_expandable") for s in torch.npu.memory_snapshot())',
            PYTORCH_NPU_ALLOC_CONF='expandable_segments:True')
        self.assertEqual(out.strip(), '[2.0, 4.0, 6.0, 8.0] 4718592.0')

    def test_pinned(self):
        x = torch.arange(1 << 20).pin_memory()
        self.assertTrue(x.is_pinned())
        y = x.to('npu', non_blocking=True)
        z = torch.empty_like(x).pin_memory()
        z.copy_(y + 1, non_blocking=True)
        torch.npu.synchronize()
        self.assertTrue(torch.equal(z, x + 1))


class Streams(unittest.TestCase):
    def test_streams_and_events(self):
        a, b = torch.npu.Stream(), torch.npu.Stream(priority=-1)
        start, end, done = (torch.npu.Event(enable_timing=t) for t in (True, True, False))
        x = torch.ones(1 << 16, device='npu')
        torch.npu.synchronize()
        with torch.npu.stream(a):
            start.record()
            for _ in range(50):
                x.add_(1)
            done.record()
        b.wait_event(done)
        with torch.npu.stream(b):
            y = x * 2
            end.record()
        end.synchronize()
        self.assertTrue(done.query())
        self.assertTrue(b.query())
        self.assertEqual(y[0].item(), 102.0)
        self.assertGreater(start.elapsed_time(end), 0)
        torch.npu.current_stream().wait_stream(b)

    def test_record_stream(self):
        s = torch.npu.Stream()
        x = torch.ones(1 << 20, device='npu')
        s.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(s):
            y = x.sum()
        x.record_stream(s)
        del x
        torch.npu.synchronize()
        self.assertEqual(y.item(), 1 << 20)

    def test_threads_of_autograd(self):
        want = None
        results = {}

        def work(i):
            torch.manual_seed(0)
            m = nn.Linear(64, 64)
            m.npu()
            x = torch.ones(8, 64, device='npu')
            for _ in range(5):
                m(x).square().sum().backward()
            results[i] = m.weight.grad.cpu()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        want = results.pop(0)
        self.assertTrue(torch.isfinite(want).all())
        m = nn.Linear(64, 64).npu()
        x = torch.ones(8, 64, device='npu')

        def backward():
            for _ in range(20):
                m(x).square().sum().backward()

        threads = [threading.Thread(target=backward) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        total = m.weight.grad.clone()
        m.zero_grad()
        m(x).square().sum().backward()
        self.assertTrue(torch.allclose(total, m.weight.grad * 80, rtol=1e-3))


class TaskQueue(unittest.TestCase):
    def test_modes(self):
        code = ('from models import train\n'
                'print(train("mlp", "npu", steps=4), train("lm", "npu", steps=2))')
        outs = {in_a_process(code, TASK_QUEUE_ENABLE=mode) for mode in '012'}
        self.assertEqual(len(outs), 1, outs)

    def test_blocking_launches(self):
        out = in_a_process('from models import train\nprint(len(train("mlp", "npu", steps=2)))',
                           ASCEND_LAUNCH_BLOCKING='1')
        self.assertEqual(out.strip(), '2')


class Graphs(unittest.TestCase):
    def test_replay_sees_new_inputs(self):
        x = torch.zeros(16, 16, device='npu')
        w = torch.eye(16, device='npu')
        torch.npu.synchronize()
        g = torch.npu.NPUGraph()
        with torch.npu.graph(g):
            y = torch.relu(x @ w) + 1
        for value in (2.0, -5.0, 7.0):
            x.fill_(value)
            g.replay()
            torch.npu.synchronize()
            self.assertEqual(y[0, 0].item(), max(value, 0) + 1)

    def test_training_step(self):
        torch.manual_seed(0)
        m, x, t = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)), torch.randn(32, 8), torch.randn(32, 1)
        m, x, t = m.npu(), x.npu(), t.npu()
        o = torch.optim.SGD(m.parameters(), lr=0.1)
        side = torch.npu.Stream()
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            for _ in range(3):
                o.zero_grad(set_to_none=True)
                nn.functional.mse_loss(m(x), t).backward()
                o.step()
        torch.npu.current_stream().wait_stream(side)
        g = torch.npu.NPUGraph()
        o.zero_grad(set_to_none=True)
        with torch.npu.graph(g):
            loss = nn.functional.mse_loss(m(x), t)
            loss.backward()
            o.step()
        losses = []
        for _ in range(20):
            g.replay()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0] * 0.9)
        self.assertEqual(losses, sorted(losses, reverse=True))

    def test_make_graphed_callables(self):
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).npu()
        x = torch.randn(5, 8, device='npu', requires_grad=True)
        want = m(x)
        want.sum().backward()
        grads = [p.grad.clone() for p in m.parameters()]
        m.zero_grad()
        graphed = torch.npu.make_graphed_callables(m, (torch.randn(5, 8, device='npu', requires_grad=True),))
        got = graphed(x)
        got.sum().backward()
        self.assertTrue(torch.allclose(got, want))
        for g, p in zip(grads, m.parameters()):
            self.assertTrue(torch.allclose(p.grad, g))

    def test_random_numbers_differ_between_replays(self):
        x = torch.zeros(1000, device='npu')
        g = torch.npu.NPUGraph()
        torch.npu.synchronize()
        with torch.npu.graph(g):
            y = nn.functional.dropout(x + 1, 0.5)
        g.replay()
        first = y.clone()
        g.replay()
        self.assertFalse(torch.equal(first, y))


class Data(unittest.TestCase):
    def test_loader_workers_and_pinned_batches(self):
        out = in_a_process(
            'from torch.utils.data import DataLoader, TensorDataset\n'
            'def main():\n'
            '    data = TensorDataset(torch.arange(64.).view(64, 1))\n'
            '    total = 0\n'
            '    for x, in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True, pin_memory_device="npu"):\n'
            '        assert x.is_pinned()\n'
            '        total += x.to("npu", non_blocking=True).sum().item()\n'
            '    print(total)\n'
            'torch.ones(1).npu()\n'
            'main()')
        self.assertEqual(out.strip(), '2016.0')

    def test_checkpoint_files(self):
        import io
        m = nn.Linear(3, 3).npu()
        f = io.BytesIO()
        torch.save(m.state_dict(), f)
        f.seek(0)
        again = nn.Linear(3, 3).npu()
        # torch_npu stores an enumerator, which Python before 3.11.4 pickles in a way that weights_only refuses.
        again.load_state_dict(torch.load(f, weights_only=False))
        self.assertTrue(torch.equal(m.weight, again.weight))


class Attention(unittest.TestCase):
    """torch_npu's own attention, as vLLM calls it, beside attention in float64."""

    def expected(self, q, k, v, scale, is_causal=False):
        """q: [queries, heads, components]; k, v: those of a sequence."""
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1).double() for x in (k, v))
        scores = torch.einsum('snd,tnd->nst', q.double(), k) * scale
        if is_causal:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(k.shape[0] - q.shape[0] + 1)
            scores = scores.masked_fill(hidden, -torch.inf)
        return torch.einsum('nst,tnd->snd', scores.softmax(-1), v)

    def close(self, got, expected, tolerance):
        self.assertLess((got.cpu().double() - expected).abs().max().item(), tolerance)

    def test_pages_and_concatenated_queries(self):
        page, heads, key_heads, d = 16, 8, 2, 64
        ends, keys = [5, 6, 15], [21, 40, 9]                # of each sequence: the last query, the number of keys
        k, v = (torch.randn(20, page, key_heads, d).half() for _ in range(2))
        table = torch.randperm(20)[:9].reshape(3, 3)
        q = torch.randn(15, heads, d).half()
        mask = torch.ones(2048, 2048, dtype=torch.int8).triu(1).npu()
        out, _ = torch_npu.npu_fused_infer_attention_score(
            q.npu(), *(x.npu().view(20, page, -1) for x in (k, v)), atten_mask=mask, block_table=table.int().npu(),
            input_layout='TND', block_size=page, actual_seq_lengths=ends, actual_seq_lengths_kv=keys, num_heads=heads,
            num_key_value_heads=key_heads, scale=0.125, sparse_mode=3)
        for first, end, n, pages in zip([0, *ends], ends, keys, table):
            own = (x[pages].flatten(0, 1)[:n] for x in (k, v))
            self.close(out[first:end], self.expected(q[first:end], *own, 0.125, True), 5e-3)

    def test_latent_keys_with_separate_rotary_parts(self):
        page, heads, keys = 16, 16, [21, 40, 9]
        q, q_rope = (torch.randn(3, heads, 1, d).bfloat16() * 0.1 for d in (512, 64))
        k, k_rope = (torch.randn(20, 1, page, d).bfloat16() for d in (512, 64))
        table = torch.randperm(20)[:9].reshape(3, 3)
        whole_q, whole_k = torch.cat([q, q_rope], -1)[:, :, 0], torch.cat([k, k_rope], -1)
        for layout, as_given in (('BNSD_NBSD', lambda x: x), ('TND_NTD', lambda x: x.squeeze(2))):
            more = {'actual_seq_lengths': [1, 2, 3]} if 'T' in layout else {}
            out, _ = torch_npu.npu_fused_infer_attention_score(
                as_given(q).npu(), k.npu(), k.npu(), query_rope=as_given(q_rope).npu(), key_rope=k_rope.npu(),
                num_heads=heads, num_key_value_heads=1, input_layout=layout, scale=0.1, block_table=table.int().npu(),
                block_size=page, actual_seq_lengths_kv=keys, **more)
            for i, n in enumerate(keys):
                own = whole_k[table[i]].reshape(-1, 1, 576)[:n]
                self.close(out[:, i].reshape(heads, 512), self.expected(whole_q[i:i + 1], own, own[..., :512], 0.1)[0],
                           2e-2)

    def test_a_graph_whose_lengths_change(self):
        heads, page = 8, 16
        q, k = torch.randn(2, heads, 64).half().npu(), torch.randn(8, page, heads * 64).half().npu()
        out, lse = torch.empty_like(q), torch.empty(1).npu()
        call, given = torch_npu.npu_fused_infer_attention_score, {
            'block_table': torch.arange(8).reshape(2, 4).int().npu(), 'input_layout': 'TND', 'block_size': page,
            'num_heads': heads, 'num_key_value_heads': heads, 'scale': 0.1, 'actual_seq_lengths': [1, 2]}
        workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(
            q, k, k, actual_seq_lengths_kv=[3, 5], **given)
        graph, update = torch.npu.NPUGraph(), torch.npu.Stream()

        def launch(lengths):
            call.out(q, k, k, actual_seq_lengths_kv=lengths, workspace=workspace, out=[out, lse], **given)
        with torch.npu.graph(graph):
            stream = torch.npu.current_stream()
            torch.npu.graph_task_group_begin(stream)
            launch([3, 5])
            handle = torch.npu.graph_task_group_end(stream)
        for lengths in ([3, 5], [64, 50]):
            with torch.npu.stream(update):
                torch.npu.graph_task_update_begin(update, handle)
                launch(lengths)
                torch.npu.graph_task_update_end(update)
            torch.npu.synchronize()
            graph.replay()
            expected, _ = call(q, k, k, actual_seq_lengths_kv=lengths, **given)
            self.assertEqual((out - expected).abs().max().item(), 0)

    def test_training_with_separate_rotary_parts(self):
        sizes = (10, 4, 64), (10, 4, 16), (14, 2, 64), (14, 2, 16), (14, 2, 64)
        parts = [(torch.randn(size) * 0.5).bfloat16() for size in sizes]
        dy = torch.randn(10, 4, 64).bfloat16()
        host, device = ([x.to(where, copy=True).requires_grad_() for x in parts] for where in ('cpu', 'npu'))
        q, q_rope, k, k_rope, v = host
        q, k = torch.cat([q, q_rope], -1), torch.cat([k, k_rope], -1)
        expected = torch.cat([self.expected(q[:7], k[:9], v[:9], 0.1), self.expected(q[7:], k[9:], v[9:], 0.1)])
        expected.backward(dy.double())
        q, q_rope, k, k_rope, v = device
        out = torch_npu.npu_fusion_attention_v2(q, k, v, 4, 'TND', query_rope=q_rope, key_rope=k_rope, scale=0.1,
                                                actual_seq_qlen=[7, 10], actual_seq_kvlen=[9, 14])[0]
        out.backward(dy.npu())
        self.close(out.detach(), expected.detach(), 2e-2)
        for one, other in zip(device, host):
            self.close(one.grad, other.grad.double(), 3e-2)


class Errors(unittest.TestCase):
    def test_wrong_arguments_say_what_is_wrong(self):
        with self.assertRaisesRegex(RuntimeError, 'size|shape|mat'):
            torch.ones(2, 3, device='npu') @ torch.ones(2, 3, device='npu')
        self.assertEqual((torch.ones(2, device='npu') + 1).sum().item(), 4.0)


if __name__ == '__main__':
    unittest.main()
