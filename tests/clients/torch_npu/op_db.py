#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares PyTorch's operator database on `npu` with `cpu`: forward and backward, by dtype.

Each entry of op_db is an operator with a generator of sample inputs. For each dtype that PyTorch supports for it on
the CPU, the samples run on both devices, and the results must agree. An outcome is one of

  pass      the same results, computed by Cannon's kernels
  fail      another result, or an error; crash and hang are outcomes of their own
  absent    the library has no operator of a name that torch_npu asks for
  refused   the operator exists and refuses the dtype or shape (161002; 500002 by name), as CANN's does
  client    torch_npu itself refuses, before it asks the library
  fallback  torch_npu has no kernel for some step, and computed it on the CPU
  view      the right result, but no kernel ran: there is nothing to compute

The outcome of an entry is the worst of its samples; but if some samples pass, refusals of others do not count. Each
process runs a few entries. If it dies, if its task queue stopped at an error, or if torch_npu fell back, another
process runs the remaining entries.

  op_db.py [--out FILE.json] [--verbose] [--sample FRACTION --seed N] [PATTERN...]    run
  op_db.py --report FILE.json > docs/reports/torch_npu.md                           the table"""
import argparse, collections, fnmatch, itertools, json, os, random, subprocess, sys, tempfile, threading

DTYPES = ('float32', 'float16', 'bfloat16', 'int64', 'int32', 'uint8', 'bool')
MAX_SAMPLES = 12       # per entry and dtype; the database's first samples differ most
CHUNK = 12             # entries per process
ENTRY_SECONDS = 90     # for all dtypes of an entry
STOPPED = 'The Inner error is reported as above'
QUEUE_STOPPED = 3      # exit status of a child: torch_npu runs nothing any more after an error of a task
FELL_BACK = 4          # exit status of a child: torch_npu says only once per process that an operator falls back
TOLERANCE = {'float32': (1e-4, 1e-5), 'float16': (2e-3, 1e-3), 'bfloat16': (1.6e-2, 8e-3)}


def label(op):
    return op.name + (f'.{op.variant_test_name}' if op.variant_test_name else '')


# ---- one entry, in the child -----------------------------------------------------------------------------------------

class Outcome(Exception):
    def __init__(self, kind, words=''):
        self.kind, self.words = kind, ' '.join(words.split())[:300]


def tensors(x):
    import torch
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from tensors(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from tensors(y)


def moved(x, device):
    """x with every tensor copied, its layout kept, as a leaf that requires a gradient where the original did."""
    import torch
    if isinstance(x, torch.Tensor):
        y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device) if x.layout == torch.strided \
            else x.to(device)
        with torch.no_grad():
            y.copy_(x)
        return y.requires_grad_(x.requires_grad)
    if isinstance(x, (list, tuple)):
        return type(x)(moved(y, device) for y in x)
    if isinstance(x, dict):
        return {k: moved(y, device) for k, y in x.items()}
    if isinstance(x, torch.device) or (isinstance(x, str) and x == 'cpu'):
        return device
    return x


def run(op, sample, device, backward, launches=int, grads_as=None):
    """Runs the sample on a device. Returns its results with the gradients, and the number of kernels that ran."""
    import torch
    s = [moved(x, device) for x in (sample.input, sample.args, sample.kwargs)]
    torch.manual_seed(1)
    before = launches()
    out = op(s[0], *s[1], **s[2])
    results = [t.detach() for t in tensors(out)]
    if backward:
        want = [t for t in tensors(s) if t.requires_grad]
        of = [t for t in tensors(out) if t.requires_grad]
        if want and of:
            torch.manual_seed(2)
            # Rounded to grads_as, if another run gets its gradients in that type.
            grads = [torch.randn(t.shape).to(grads_as or t.dtype).to(t.dtype).to(device) for t in of]
            given = torch.autograd.grad(of, want, grads, allow_unused=True)
            results += [g for g in given if g is not None]
    return results, launches() - before


def wider(x):
    """x with its 16-bit tensors as float32 ones, and float32 ones as float64."""
    import torch
    of = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
    if isinstance(x, torch.Tensor):
        return x.detach().to(of[x.dtype]).requires_grad_(x.requires_grad) if x.dtype in of else x
    if isinstance(x, (list, tuple)):
        return type(x)(wider(y) for y in x)
    if isinstance(x, dict):
        return {k: wider(y) for k, y in x.items()}
    return of.get(x, x) if isinstance(x, torch.dtype) else x


def close(got, want, tolerance):
    import torch
    exact = not (want.dtype.is_floating_point or want.dtype.is_complex)
    rtol, atol = (0, 0) if exact else tolerance
    if want.dtype.itemsize == 2 and not exact and want.numel():  # sums that cancel keep the rounding of their terms
        finite = want[want.isfinite()].abs()
        atol = max(atol, rtol / 2 * finite.max().item()) if finite.numel() else atol
    torch.testing.assert_close(got.cpu().to(want.dtype), want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


def compare(op, sample, want, got, dtype, backward):
    """Compares each result with the CPU's, or with the more exact result in a wider type: it must be close to one."""
    import torch
    if len(want) != len(got):
        raise Outcome('client', f'{len(got)} results, expected {len(want)}')  # torch_npu lacks some gradients
    tolerance = LOOSER.get((op.name, dtype), TOLERANCE.get(dtype, TOLERANCE['float32']))
    exact = None
    if op.name == 'argsort':  # equal values may come in any order
        place = dict(zip(('dim', 'descending', 'stable'), sample.args), **sample.kwargs).get('dim', -1)
        values = sample.input.detach() if sample.input.dim() else sample.input.detach()[None]
        want, got = ([torch.take_along_dim(values, r[0].cpu().view_as(values), place)] for r in (want, got))
    for i, (w, g) in enumerate(zip(want, got)):
        if i and op.name in ANY_OF_EQUALS and (w.dtype == torch.int64 or w.dtype.itemsize == 2):
            continue
        if w.dtype != g.dtype and op.name in OTHER_INDICES:
            continue
        if g.dtype != w.dtype and {w.dtype, g.dtype} - {torch.float64, torch.float32, torch.float16, torch.bfloat16}:
            raise Outcome('client', f'dtype {g.dtype}, expected {w.dtype}')  # torch_npu makes the output tensors
        try:
            close(g, w, tolerance)
        except AssertionError as e:
            words = f'result {i}: {e}'
            if dtype not in TOLERANCE:
                raise Outcome('fail', words) from None
            if exact is None:
                sample.input, sample.args, sample.kwargs = wider(sample.input), wider(sample.args), wider(sample.kwargs)
                exact = run(op, sample, 'cpu', backward, grads_as=getattr(torch, dtype))[0]
            e = exact[i].to(w.dtype)
            try:
                close(g, e.float() if e.dtype.itemsize == 2 else e, tolerance)
            except AssertionError:
                raise Outcome('fail', words) from None


def judge(error):
    """The outcome that an exception on npu stands for."""
    words = str(error)
    if 'not in libopapi.so' in words or 'there is no operator' in words:
        return Outcome('absent', words)
    if 'error 500002' in words:  # of an operator by name: its first words say that the task queue has stopped
        return Outcome('refused', words)
    if '161002' in words or '161001' in words:
        return Outcome('refused', words[words.find('EZ1001'):] if 'EZ1001' in words else words)
    if ('cannot reshape tensor of 0 elements' in words or 'to be on cpu' in words
            or 'is not differentiable' in words or 'ERR01' in words
            or isinstance(error, NotImplementedError) or 'Could not run' in words):
        return Outcome('client', words)
    return Outcome('fail', f'{type(error).__name__}: {words}')


def fallbacks_since(position):
    """What torch_npu wrote about falling back to the CPU, after the given position in the file of standard error."""
    said = os.pread(2, 1 << 16, position).decode(errors='replace')
    return [line for line in said.splitlines() if 'fall back' in line]


def check_sample(op, sample, dtype, backward, launches):
    """Runs a sample; returns how many of Cannon's kernels ran, or None if there is nothing to compare with."""
    import torch
    try:
        want, _ = run(op, sample, 'cpu', backward)
    except Exception:
        return None  # the CPU can't run it either
    if sum(t.numel() for t in want) > 1 << 22 or any(t.layout != torch.strided for t in want):
        return None
    said_before = os.fstat(2).st_size
    try:
        got, kernels = run(op, sample, 'npu', backward, launches)
        got = [g.cpu() for g in got]
    except Exception as e:
        raise judge(e) from None
    fallen = fallbacks_since(said_before)
    if fallen:
        raise Outcome('fallback', fallen[0])
    if op.name in RANDOM or DROPS.get(op.name, lambda s: False)(sample):
        if [w.shape for w in want] != [g.shape for g in got]:
            raise Outcome('fail', 'other shapes')
    else:
        compare(op, sample, want, got, dtype, backward)
    return kernels


WORST_FIRST = ('fail', 'absent', 'fallback', 'pass', 'client', 'refused', 'view')


def check(op, dtype, launches):
    """The outcome of the entry's samples for one dtype."""
    import torch
    td = getattr(torch, dtype)
    backward = op.supports_autograd and td in op.supported_backward_dtypes('cpu') and td.is_floating_point
    outcomes = []
    for s in itertools.islice(op.sample_inputs('cpu', td, requires_grad=backward), MAX_SAMPLES):
        try:
            kernels = check_sample(op, s, dtype, backward, launches)
            if kernels is not None:
                outcomes.append(Outcome('pass' if kernels else 'view'))
        except Outcome as o:
            if STOPPED in o.words:
                return o
            outcomes.append(o)
    if not outcomes:
        return Outcome('skip', 'no sample runs on the CPU')
    worst = min(outcomes, key=lambda o: WORST_FIRST.index(o.kind))
    known = KNOWN.get((op.name, dtype)) or KNOWN.get((op.name, ''))
    if worst.kind == 'fail' and known:
        return Outcome('client', f'{known}: {worst.words}')
    refused = [o for o in outcomes if o.kind in ('client', 'refused')]
    if worst.kind == 'pass' and refused:
        worst.words = f'{len(refused)} of {len(outcomes)} samples: {refused[0].kind}: {refused[0].words}'
    return worst


# Where a larger error is documented or inherent, its tolerance.
LOOSER = {
    # aclnnGelu computes the tanh form, whatever `approximate` says: its derivative is off by up to 1.8e-3.
    ('nn.functional.gelu', 'float32'): (1e-4, 2e-3),
    # Several operators with results rounded to 16 bits between them, and terms that cancel: both devices are off by
    # 0.5, and they differ by 1.6e-2.
    ('nn.functional.normalize', 'bfloat16'): (1.6e-2, 3e-2),
    # The gradient of a weight is a sum of 16-bit values over the batch: off by up to 2.9e-3 on the CPU, 2.8e-3 here.
    ('nn.functional.instance_norm', 'float16'): (2e-3, 5e-3),
}
# Entries whose difference is not the library's fault, by dtype ('' is any dtype): their outcome is `client`.
KNOWN = {
    ('arange', 'uint8'): "CANN's casts of negative numbers to uint8 saturate",
    **{(name, 'bfloat16'): "PyTorch's vector code gives NaN on the CPU where the quotient is beyond 2^128"
       for name in ('fmod', 'remainder')},
    **{(name, ''): "torch_npu hands the correction on as an integer, as aclnnStd takes it"
       for name in ('std', 'std_mean', 'var', 'var_mean')},
    ('triangular_solve', 'float32'): "aclnnTriangularSolve's second result is the triangle alone, PyTorch's all of A",
    **{(name, ''): "aclnnBatchNorm's third result is the variance, PyTorch's the deviation's inverse"
       for name in ('native_batch_norm', '_native_batch_norm_legit')},
    ('native_dropout_backward', ''): "torch_npu's masks are bits, those of the samples are not",
    **{(name, ''): 'op-plugin folds the batch of a gradient into the rows of the other factor without turning it'
       for name in ('matmul', '__rmatmul__')},
}
# If values are equal, the index of any of them is right, and so is the gradient; in 16 bits many values are equal.
ANY_OF_EQUALS = {'sort', 'msort', 'topk', 'kthvalue', 'median', 'nanmedian', 'mode', 'max', 'min', 'cummax', 'cummin'}
# torch_npu returns indices in a format of its own, which only its backward pass reads.
OTHER_INDICES = {f'nn.functional.{kind}_pool{n}d' for kind in ('max', 'adaptive_max') for n in (1, 2, 3)}
# Their results are random: only shapes and dtypes are compared.
RANDOM = {'bernoulli', 'cauchy', 'exponential', 'geometric', 'log_normal', 'multinomial', 'normal', 'rand_like',
          'randint', 'randint_like', 'randn', 'randn_like', 'uniform', 'nn.functional.dropout',
          'nn.functional.dropout2d', 'nn.functional.dropout3d', 'nn.functional.alpha_dropout',
          'nn.functional.feature_alpha_dropout', 'empty', 'empty_like', 'empty_strided', 'empty_permuted', 'new_empty',
          'new_empty_strided', 'svd_lowrank', 'pca_lowrank', 'nn.functional.rrelu',
          'nn.functional.fractional_max_pool2d', 'nn.functional.fractional_max_pool3d', 'resize_', 'resize_as_',
          'nn.functional.scaled_dot_product_attention_dropout', 'torch.ops.aten._efficient_attention_forward'}


# The samples of these entries that ask for dropout, whose results are random too.
DROPS = {
    'nn.functional.scaled_dot_product_attention': lambda s: s.kwargs.get('dropout_p', 0) > 0,
    'nn.functional.multi_head_attention_forward': lambda s: s.kwargs['training'] and any(
        isinstance(a, float) and a > 0 for a in s.args),
}


def child(names):
    import ctypes
    with tempfile.TemporaryFile() as f:
        os.dup2(f.fileno(), 2)  # where torch_npu says that it falls back: its warnings are no warnings of Python's
    os.environ.pop('TORCH_NPU_DISABLED_WARNING', None)  # run.py's
    import torch, torch_npu  # noqa: F401
    from torch.testing._internal.common_methods_invocations import op_db
    torch.set_warn_always(True)
    torch.set_num_threads(1)
    torch.poisson(torch.ones(2, device='npu'))  # of no entry
    if not fallbacks_since(0):
        sys.exit('torch_npu computes poisson on the CPU, and does not say so: other fallbacks would not be seen either')
    count = ctypes.CDLL('libcannon.so').cannon_operator_launches
    count.restype = ctypes.c_uint64

    def launches():
        torch.npu.synchronize()
        return count()

    ops = {label(op): op for op in op_db}
    for name in names:
        print(json.dumps({'begin': name}), flush=True)
        name, _, after = name.partition('@')
        op = ops[name]
        fallback = None
        for dtype in DTYPES[DTYPES.index(after) + 1 if after else 0:]:
            td = getattr(torch, dtype)
            if td not in op.supported_dtypes('cpu'):
                continue
            try:
                o = fallback or check(op, dtype, launches)  # an operator without a kernel has none for any dtype
            except Exception as e:
                o = Outcome('fail', f'{type(e).__name__}: {e}')
            print(json.dumps({'name': name, 'dtype': dtype, 'outcome': o.kind, 'words': o.words}), flush=True)
            if STOPPED in o.words:
                sys.exit(QUEUE_STOPPED)
            if o.kind == 'fallback':
                fallback = o
        if fallback:
            sys.exit(FELL_BACK)


# ---- all entries, in the parent --------------------------------------------------------------------------------------

def run_chunk(names, results, verbose):
    """Runs a child for the names, and another for the remaining ones whenever a child dies or hangs."""
    left = list(names)
    while left:  # of name, or of name@dtype, which stands for the dtypes after that one
        p = subprocess.Popen([sys.executable, __file__, '--child', *left], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.DEVNULL if not verbose else None)
        current, reason = None, 'crash'
        timer = None

        def expire():
            nonlocal reason
            reason = 'hang'
            p.kill()

        timer = threading.Timer(120, expire)
        timer.start()
        for line in p.stdout:
            try:
                r = json.loads(line)
            except ValueError:
                continue
            if 'begin' in r:
                timer.cancel()
                timer = threading.Timer(ENTRY_SECONDS, expire)
                timer.start()
                current = r['begin']
                left.remove(current)
            else:
                results.append(r)
                if verbose:
                    print(r)
        timer.cancel()
        status = p.wait()
        if status == 0:
            return
        if status == QUEUE_STOPPED:
            left.insert(0, f"{current.split('@')[0]}@{results[-1]['dtype']}")
            continue
        if status == FELL_BACK:
            continue
        if current is None:
            sys.exit(f'a child died before its first entry, with status {status}')
        results.append({'name': current, 'dtype': '', 'outcome': reason, 'words': f'status {status}'})


# ---- the report ------------------------------------------------------------------------------------------------------

MARKS = {'pass': '✓', 'view': '·', 'refused': '–', 'client': '–', 'fallback': 'c', 'absent': 'a', 'fail': '✗',
         'crash': '✗', 'hang': '✗'}
COUNTED = ('pass', 'fail', 'crash', 'hang', 'absent')  # torch_npu has kernels for these and calls the library


def of_entry(outcomes):
    """The outcome of an entry: the worst of its dtypes' outcomes that count."""
    for kind in ('crash', 'hang', 'fail', 'absent', 'fallback', 'pass', 'view', 'refused', 'client'):
        if kind in outcomes.values():
            return kind
    return 'skip'


def report(file):
    with open(file, encoding='utf-8') as f:
        results = json.load(f)
    entries = {}
    for r in results:
        entries.setdefault(r['name'], {})[r['dtype']] = r['outcome']
    words = {r['name']: r['words'] for r in reversed(results) if r['outcome'] in ('fail', 'crash', 'hang', 'absent')}
    kinds = collections.Counter(of_entry(e) for e in entries.values())
    counted = [r for r in results if r['outcome'] in COUNTED]
    passed = sum(r['outcome'] == 'pass' for r in counted)
    n = sum(kinds[k] for k in COUNTED)
    entries_passed = f"{100 * kinds['pass'] / n:.1f} %"
    dtypes_passed = f'{100 * passed / len(counted):.1f} %'
    n_refused = kinds['refused'] + kinds['client']
    print(f'''# PyTorch's operator database on torch_npu

Generated by `tests/clients/torch_npu/op_db.py`, whose first lines define the outcomes. Of {len(entries)} entries,
torch_npu 2.7.1 computes {n} on the device for every dtype that it takes of them. {kinds['pass']} of these pass for
every dtype ({entries_passed}); counted by entry and dtype, {passed} of {len(counted)} pass ({dtypes_passed}).
{kinds['view']} entries are views, {kinds['fallback']} fall back to the CPU in some step because torch_npu has no
kernel, {n_refused} are refused for every dtype, and {kinds['skip']} have no sample for a CPU.

✓ passes, ✗ fails, a: the library lacks an operator, c: torch_npu falls back to the CPU, – refused as on a device,
· nothing to compute, blank: PyTorch has no such dtype for it.
''')
    short = {'float32': 'f32', 'float16': 'f16', 'bfloat16': 'bf16', 'int64': 'i64', 'int32': 'i32', 'uint8': 'u8',
             'bool': 'b'}
    print('| entry | ' + ' | '.join(short.values()) + ' | |\n|---|' + '---|' * (len(short) + 1))
    for name in sorted(entries):
        e = entries[name]
        if of_entry(e) in ('view', 'skip'):
            continue
        marks = ' | '.join(MARKS.get(e.get(d, e.get('')), '') for d in short)
        print(f'| {name} | {marks} | {" ".join(words.get(name, "").split())[:100].replace("|", "/")} |')


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--child', nargs='+')
    ap.add_argument('--out')
    ap.add_argument('--sample', type=float, default=1.0)
    ap.add_argument('--seed', type=int, default=0)
    ap.add_argument('--verbose', action='store_true')
    ap.add_argument('--report', metavar='FILE')
    ap.add_argument('patterns', nargs='*')
    a = ap.parse_args()
    if a.child:
        return child(a.child)
    if a.report:
        return report(a.report)
    listing = subprocess.run([sys.executable, '-c',
        'import torch\nfrom torch.testing._internal.common_methods_invocations import op_db\n'
        'for o in op_db: print(o.name + ("." + o.variant_test_name if o.variant_test_name else ""))'],
        stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, 'TORCH_DEVICE_BACKEND_AUTOLOAD': '0'})
    names = sorted(set(listing.stdout.split()))
    if a.patterns:
        names = [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in a.patterns)]
    if a.sample < 1:
        names = sorted(random.Random(a.seed).sample(names, max(1, int(len(names) * a.sample))))
    results, bad = [], 0
    for i in range(0, len(names), CHUNK):
        run_chunk(names[i:i + CHUNK], results, a.verbose)
        if a.out:
            with open(a.out, 'w', encoding='utf-8') as f:
                json.dump(results, f, indent=0)
    counts = collections.Counter(r['outcome'] for r in results)
    print(dict(counts))
    for r in results:
        if r['outcome'] in ('fail', 'crash', 'hang'):
            print(f"{r['name']} {r['dtype']}: {r['outcome']}: {r['words']}")
            bad += 1
    sys.exit(bad > 0)


if __name__ == '__main__':
    main()
