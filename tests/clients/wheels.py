#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints docs/reports/wheels.md: which of the functions of CANN that wheels name an installed prefix has.

    wheels.py --prefix PREFIX NAME=FOLDER... > docs/reports/wheels.md

FOLDER is a virtual environment with the wheel NAME (torch_npu, mindspore or onnxruntime, with its version, as in
torch_npu-2.9.0). Names are those that the wheel's libraries link, and the strings in them that are a function's whole
name, which they look up when they run. Of those of torch_npu, an operator counts where both of its functions are
named; MindSpore makes one name of the other. Functions other than operators count if they are public or have a name
that only CANN's have."""
import argparse
import csv
import glob
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARIES = {
    'torch_npu': ('torch_npu/lib/libtorch_npu.so', 'torch_npu/lib/libop_plugin_atb.so', 'torch_npu/_C.*.so'),
    'mindspore': ('mindspore/lib/plugin/libmindspore_ascend.so*', 'mindspore/lib/plugin/libmindspore_ops_ascend.so',
                  'mindspore/lib/plugin/ascend/lib*.so'),
    'onnxruntime': ('onnxruntime/capi/libonnxruntime_providers_cann.so',),
}
NAME = re.compile(rb'(?<=\0)((?:acl|Hccl|mstx|Msprof|hal|rt)[A-Z]\w{3,}|acl(?:nn|rt|mdl|op|prof|tdt|sk)[A-Z]\w{2,}|'
                  rb'(?:InitHuge|UnInitHuge|ReleaseHuge)Mem\w*)(?=\0)')
CERTAIN = re.compile(r'(aclrt|aclsk|aclprof|mstx)[A-Z]|aclStressDetect$')
# (group, of operators' names): the first that matches counts.
OPERATORS = (
    ('communication fused with computation', r'AllReduce|AllGather|ReduceScatter|AlltoAll|AllToAll|Dispatch|Combine'),
    ('attention, caches and rotary embeddings', r'Attention|Flash|Mla|Mqa|Rope|Rotary|Cache|Indexer|Nsa|Kv[A-Z]'),
    ('mixtures of experts, grouped products', r'Moe|Grouped|GroupGemm|Ffn|FFN'),
    ('quantisation', r'Quant|quant'),
    ('weights in the format NZ', r'Nz$|WeightNz|FormatCast|WeightPreprocess'),
    ('random numbers', r'Random|Dropout|Bernoulli|Stateless|Exponential|Normal(Float|Tensor)|Multinomial'),
    ('optimisers and norms', r'Adam|Sgd|Optim|Ema|Norm'),
    ('other operators', r''),
)
FUNCTIONS = (
    ('models', r'^aclmdl|^aclsk|GraphDump'), ('profiling', r'^aclprof|^mstx|^Msprof'), ('runtime', r'^aclrt'),
    ('HCCL', r'^Hccl'), ('channels', r'^acltdt'), ('driver and runtime below AscendCL', r'^(rt|hal)[A-Z]'),
    ('others', r''),
)


def symbols(path, *which):
    out = subprocess.run(['nm', '-D', *which, path], capture_output=True, text=True, check=False).stdout
    return {line.split()[-1].split('@')[0] for line in out.splitlines() if line.strip()}


def known():
    """Names that the tables of CANN's public interface have."""
    names = set()
    for table, column in (('functions', 'function'), ('aclnn_ops', 'op'), ('aclnn_extra', 'op')):
        with open(os.path.join(ROOT, 'abi', table + '.tsv'), encoding='utf-8', newline='') as f:
            names.update(r[column] for r in csv.DictReader(f, delimiter='\t', quoting=csv.QUOTE_NONE))
    return names


def read(folder, kind):
    """What the wheel's libraries name, and what they link."""
    named, linked = set(), set()
    for pattern in LIBRARIES[kind]:
        for path in glob.glob(os.path.join(folder, 'lib', 'python3*', 'site-packages', pattern)):
            if os.path.islink(path) or 'dvpp' in os.path.basename(path):     # decoders of images and videos: optional
                continue
            with open(path, 'rb') as f:
                named.update(n.decode() for n in NAME.findall(f.read()))
            linked |= {s for s in symbols(path, '--undefined-only')
                       if re.match(r'(acl|Hccl|mstx|Msprof|hal|rt)\w*[A-Z]|_ZNK?2ge', s)}
    return named, linked


def table(rows):
    yield '| group | named | there | missing |'
    yield '|---|---|---|---|'
    for group, names, missing in rows:
        if names:
            yield f'| {group} | {len(names)} | {len(names) - len(missing)} | {len(missing)} |'


def grouped(groups, names, missing):
    left = set(names)
    for group, pattern in groups:
        mine = {n for n in left if re.search(pattern, n[5:] if n.startswith('aclnn') else n)}
        left -= mine
        yield group, mine, mine & missing


def lines(words):
    """Words as lines of at most 118 columns."""
    line = ''
    for w in words:
        if len(line) + len(w) > 116:
            yield line.rstrip()
            line = ''
        line += w + ' '
    yield line.rstrip()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('wheels', nargs='+', metavar='NAME=FOLDER')
    a = ap.parse_args()
    exported, public = set(), known()
    for path in glob.glob(os.path.join(a.prefix, 'lib64', '*.so')):
        exported |= symbols(path, '--defined-only')
    operators, functions, summary = {}, {}, []
    details = []
    for wheel in a.wheels:
        name, folder = wheel.split('=', 1)
        named, linked = read(folder, name.split('-')[0])
        ops = {n for n in named if n.startswith('aclnn') and not n.endswith('GetWorkspaceSize')}
        if name.startswith('torch_npu'):
            ops = {n for n in ops if n + 'GetWorkspaceSize' in named}
        others = {n for n in named if not n.startswith('aclnn') and
                  not any(m != n and m.startswith(n) for m in named | exported)}
        others = {n for n in others if n in public or n in exported or CERTAIN.match(n)}
        lost = {s for s in linked if s not in exported}
        summary.append(f'| {name} | {len(linked)} | {len(lost)} | {len(ops)} | {len(ops - exported)} | {len(others)} | '
                       f'{len(others - exported)} |')
        details += ['', f'## {name}', '', *table([*grouped(OPERATORS, ops, ops - exported),
                                                  *grouped(FUNCTIONS, others, others - exported)])]
        if lost:
            details += ['', 'Linked and not there: ' + ', '.join(sorted(lost)) + '.']
        for n in ops - exported:
            operators.setdefault(n, []).append(name)
        for n in others - exported:
            functions.setdefault(n, []).append(name)
    print(HEAD)
    print('\n'.join([COLUMNS, '|---' * 7 + '|', *summary, *details]))
    print(MISSING)
    for groups, missing in ((OPERATORS, operators), (FUNCTIONS, functions)):
        for group, mine, _ in grouped(groups, set(missing), set()):
            if mine:
                print(f'\n**{group[0].upper() + group[1:]}** ({len(mine)})\n')
                print('\n'.join(lines(n.replace('aclnn', '', 1) + ('' if n in public else '°') for n in sorted(mine))))


COLUMNS = '| wheel | links | missing | operators looked up | missing | other functions looked up | missing |'
HEAD = '''# What wheels look up, and what of it is there

Generated by `tests/clients/wheels.py` from the wheels' libraries and an installation. What a wheel links must exist for
it to load. What it looks up by name may be missing until a program needs it: torch_npu and MindSpore then say which
function they did not find. The tests of these wheels ([guide](../guide.md)) come across none of the missing ones.
MindSpore has names of this form for kernels of its own, too (`View`, `Empty`, `ToDevice`), which it does not look up.
Operators that are called by another interface, by name, are in [ops/graph.aclop](../../ops/graph.aclop) and
[ops/mindspore.aclop](../../ops/mindspore.aclop); the guide has those of MindSpore that are missing.
'''
MISSING = '''
## What is missing, over all wheels

° marks names that neither the headers of CANN 8.1 nor the public repositories that `abi/` was made from have: their
arguments are not known here. Those without it are declared in public; [operators.md](../operators.md) says why an
operator is left out. Kernels that are launched with their arguments are machine code for an NPU, and so have no meaning
here; images and videos (`acldvpp*`, `aclvdec*`) are left out with the libraries of MindSpore that name them.'''

if __name__ == '__main__':
    main()
