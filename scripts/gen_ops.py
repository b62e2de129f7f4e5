#!/usr/bin/env python3
"""Operator schemas (ops/*.ops) -> CANN's aclnnop headers, entry points and operator table entries.

usage: gen_ops.py --abi DIR --headers OUT_INCLUDE --sources OUT_SOURCES FILE.ops...

C types, parameter names and header names are CANN's (abi/aclnn_ops.tsv and aclnn_extra.tsv); a schema that does not fit
them is an error. Writes OUT_INCLUDE/aclnnop/*.h, OUT_SOURCES/<file>_ops.c and OUT_SOURCES/kernel/families.h; files that
would not change are left alone."""
import argparse
import collections
import csv
import os
import re
import sys

# schema type: (arg_kind, union member, C types it may have, const or not)
TYPES = {
    'Tensor': ('ARG_TENSOR', 'tensor', {'aclTensor *'}),
    'TensorList': ('ARG_TENSOR_LIST', 'tensors', {'aclTensorList *'}),
    'Scalar': ('ARG_SCALAR', 'scalar', {'aclScalar *'}),
    'ScalarList': ('ARG_SCALAR_LIST', 'scalars', {'aclScalarList *'}),
    'IntArray': ('ARG_INT_ARRAY', 'ints', {'aclIntArray *'}),
    'BoolArray': ('ARG_BOOL_ARRAY', 'bools', {'aclBoolArray *'}),
    'FloatArray': ('ARG_FLOAT_ARRAY', 'floats', {'aclFloatArray *'}),
    'int': ('ARG_INT', 'integer', {'int64_t', 'uint64_t', 'int8_t', 'int32_t', 'int'}),
    'dtype': ('ARG_INT', 'integer', {'aclDataType'}),
    'float': ('ARG_FLOAT', 'real', {'float', 'double'}),
    'bool': ('ARG_BOOL', 'boolean', {'bool'}),
    'string': ('ARG_STRING', 'string', {'char *'}),
}
FLAGS = {'': 'ARG_READ', '!': 'ARG_WRITTEN', '&': 'ARG_READ | ARG_WRITTEN'}
FUNCTION = re.compile(r'function (\w+)$')
LINE = re.compile(r'(\w+)\((.*)\)\s+(\w+)(?:\s+(\w+))?$')
ARGUMENT = re.compile(r'(\w+)([!&]?)(\??) (\w+)$')

Arg = collections.namedtuple('Arg', 'type access optional name c_type')
# Of CANN after 8.1, included by ggml's backend.
LATER_HEADERS = ('aclnnop/aclnn_recurrent_gated_delta_rule.h',)

Op = collections.namedtuple('Op', 'name function header args family variant c_params schema')


def table(abi, name):
    with open(os.path.join(abi, name), encoding='utf-8', newline='') as f:
        return list(csv.DictReader(f, delimiter='\t', quoting=csv.QUOTE_NONE))


def facts(abi):
    """{op: (header, parameter text of phase one)}, of CANN's first level where the operator is there."""
    rows = table(abi, 'aclnn_ops.tsv') + table(abi, 'aclnn_extra.tsv')
    rows.sort(key=lambda r: '/level2/' not in r['header'])
    return {r['op']: (r['header'], r['get_workspace_size_params']) for r in rows}


def functions_of_headers(abi):
    """{function: (header, declaration)}, of the functions in aclnnop/ that are no operators."""
    return {r['function']: (r['header'], f"{r['return_type']} {r['function']}({r['params']});")
            for r in table(abi, 'functions.tsv') if r['header'].startswith('aclnnop/')}


def c_parameters(text):
    """[(C type, name)] of a parameter list."""
    return [re.match(r'(.*?)(\w+)$', p.strip()).groups() for p in text.split(',')]


def known_function(name, known):
    if 'aclnn' + name not in known:
        raise ValueError(f'aclnn{name} is no function of a header in aclnnop/')
    return known['aclnn' + name]


def parse(path, known, known_functions):
    """The file's operators, and its functions as (header, declaration)."""
    ops, functions = [], []
    with open(path, encoding='utf-8') as f:
        for number, text in enumerate(f, 1):
            text = text.split('#')[0].strip()
            if text:
                try:
                    function = FUNCTION.match(text)
                    if function:
                        functions.append(known_function(function.group(1), known_functions))
                    else:
                        ops.append(parse_line(text, known))
                except ValueError as error:
                    sys.exit(f'{path}:{number}: {error}')
    return ops, functions


def parse_line(text, known):
    m = LINE.match(text)
    if not m:
        raise ValueError('expected: Name(Type name, ...)  family [VARIANT], or: function Name')
    name, arguments, family, variant = m.groups()
    function = next((f for f in ('aclnn' + name, 'acl' + name) if f in known), None)
    if not function:
        raise ValueError(f'aclnn{name} is not in abi/aclnn_ops.tsv')
    header, c_text = known[function]
    params = c_parameters(c_text)[:-2]  # without workspaceSize, executor
    parts = [p.strip() for p in arguments.split(',')]
    if len(parts) != len(params):
        raise ValueError(f'{len(parts)} arguments, CANN has {len(params)}: {c_text}')
    args = []
    for part, (c_type, c_name) in zip(parts, params):
        a = ARGUMENT.match(part)
        if not a or a.group(1) not in TYPES:
            raise ValueError(f'{part!r}: expected a type, ! or & and ? where they apply, a name')
        kind, access, optional, arg_name = a.groups()
        if arg_name != c_name or c_type.replace('const ', '').strip() not in TYPES[kind][2]:
            raise ValueError(f'{part!r} does not fit {c_type}{c_name}')
        args.append(Arg(kind, access, bool(optional), arg_name, c_type))
    return Op(name, function, header, args, family, variant or '0', c_text, f'{name}({arguments})')


def wrap(head, params, end):
    """A declaration or definition head, one parameter after the other, to 110 columns."""
    lines, indent = [head], ' ' * len(head)
    for i, p in enumerate(params):
        piece = p + (', ' if i + 1 < len(params) else end)
        if len(lines[-1]) + len(piece.rstrip()) > 110 and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += piece
    return '\n'.join(lines)


def signatures(op, prefix, end):
    one = wrap(f'{prefix}aclnnStatus {op.function}GetWorkspaceSize(', [p.strip() for p in op.c_params.split(',')], end)
    two = wrap(f'{prefix}aclnnStatus {op.function}(', ['void *workspace', 'uint64_t workspaceSize',
                                                         'aclOpExecutor *executor', 'aclrtStream stream'], end)
    return one, two


def header_text(header, ops, functions):
    guard = re.sub(r'\W', '_', header).upper()
    out = [f'/* SPDX-License-Identifier: Apache-2.0',
           ' *',
           ' * ' + ', '.join(o.function for o in ops)
           + ': made by scripts/gen_ops.py from the schemas below, in which "!" is',
           ' * written, "&" read and written, "?" may be NULL.',
           ' *',
           ' * Phase one checks the arguments (161001 for a NULL, 161002 for a wrong one; aclGetRecentErrMsg says',
           ' * which) and returns the size of the workspace in bytes and an executor. Phase two queues the work on the',
           ' * stream, with so much device memory, and frees the executor. The arguments may be destroyed when phase',
           ' * two has returned. Any thread. */',
           f'#ifndef {guard}_', f'#define {guard}_', '', '#include "aclnn/aclnn_base.h"', '',
           '#ifndef ACLNN_MAX_SHAPE_RANK', '#  define ACLNN_MAX_SHAPE_RANK 8', '#endif', '',
           '#ifdef __cplusplus', 'extern "C" {', '#endif', '']
    for op in ops:
        one, two = signatures(op, 'ACL_FUNC_VISIBILITY ', ');')
        out += [f'/* {op.schema} */', one, two, '']
    out += [f'ACL_FUNC_VISIBILITY {f}\n' for f in functions]
    return '\n'.join(out + ['#ifdef __cplusplus', '}', '#endif', '', '#endif', ''])


def empty_header_text(header, functions):
    guard = re.sub(r'\W', '_', header).upper()
    return '\n'.join([
        '/* SPDX-License-Identifier: Apache-2.0',
        ' *',
        ' * ' + (', '.join(functions) or 'The contents of this header') + (' are' if len(functions) > 1 else ' is')
        + ' not implemented, and so not declared. The',
        ' * header exists for programs that include it and call none of it. Made by scripts/gen_ops.py. */',
        f'#ifndef {guard}_', f'#define {guard}_', '', '#include "aclnn/aclnn_base.h"', '', '#endif', ''])


def empty_headers(abi, built):
    """{header: functions}, of CANN's headers in aclnnop/ with nothing in them that is built."""
    of = collections.defaultdict(list, {header: [] for header in LATER_HEADERS})
    named = [(r['header'], r['op']) for r in table(abi, 'aclnn_ops.tsv')]
    named += [(header, function) for function, (header, _) in functions_of_headers(abi).items()]
    for header, function in named:
        if '/level2/' not in header:
            of[header].append(function)
    return {h: functions for h, functions in of.items() if h not in built}


def families_text(ops):
    """The prepare functions that schema lines name. Variants are numbered in the order of their first use; those of the
    elementwise engine's functions (EW_...) have their numbers from there."""
    variants = collections.defaultdict(dict)
    for op in ops:
        variants[op.family].setdefault(op.variant)
    out = ['/* Made by scripts/gen_ops.py from ops/: the prepare functions that schema lines name, and the variants',
           ' * that they tell apart by e->op->variant. Arguments come in the order of the schema; null checks are',
           ' * done. */',
           '#ifndef CANNON_KERNEL_FAMILIES_H', '#define CANNON_KERNEL_FAMILIES_H', '',
           '#include "kernel/engine/loops.h"', '#include "op/executor.h"', '']
    for family, names in sorted(variants.items()):
        own = [n for n in names if not n.startswith('EW_') and not n.isdigit()]
        out += [f'enum {{ {", ".join(own)} }};'] if own else []
        out += [f'status prepare_{family}(executor *e, const op_arg *a);']
    return '\n'.join(out + ['', '#endif', ''])


def source_text(path, ops):
    out = [f'/* Made by scripts/gen_ops.py from ops/{os.path.basename(path)}. */',
           '#include "api/api.h"', '#include "kernel/families.h"']
    out += [f'#include "{h}"' for h in sorted({o.header for o in ops})] + ['']
    for op in ops:
        flags = [FLAGS[a.access] + (' | ARG_OPTIONAL' if a.optional else '') for a in op.args]
        out.append(f'static const arg_schema schema_{op.name}[] = {{')
        out += [f'    {{"{a.name}", {TYPES[a.type][0]}, {f}}},' for a, f in zip(op.args, flags)]
        out += ['};', f'static op op_{op.name} = {{.name = "{op.name}", .function = "{op.function}", '
                f'.schema = schema_{op.name},',
                f'    .n_args = {len(op.args)}, .variant = {op.variant}, .prepare = prepare_{op.family}}};']
        one, two = signatures(op, '', ') {')
        members = [(TYPES[a.type][1], a.name) for a in op.args]
        values = ', '.join('{.%s = %s%s}' % (m, '(int64_t)' if m == 'integer' else '', name) for m, name in members)
        last = [re.search(r'\w+$', p.strip()).group() for p in op.c_params.split(',')][-2:]
        out += [one, '  API_ENTER();', f'  const op_arg a[] = {{{values}}};',
                f'  API_RETURN(op_prepare(&op_{op.name}, a, {last[0]}, {last[1]}));', '}',
                two, f'  API(op_launch(&op_{op.name}, workspace, workspaceSize, executor, stream));', '}', '']
    return '\n'.join(out)


def write(path, text):
    if os.path.exists(path) and open(path, encoding='utf-8').read() == text:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--abi', required=True)
    ap.add_argument('--headers', required=True)
    ap.add_argument('--sources', required=True)
    ap.add_argument('files', nargs='+')
    a = ap.parse_args()
    known, known_functions = facts(a.abi), functions_of_headers(a.abi)
    by_header, functions_by_header, all_ops = collections.defaultdict(list), collections.defaultdict(list), []
    for path in a.files:
        ops, functions = parse(path, known, known_functions)
        all_ops += ops
        for op in ops:
            by_header[op.header].append(op)
        for header, declaration in functions:
            functions_by_header[header].append(declaration)
        write(os.path.join(a.sources, os.path.basename(path)[:-4] + '_ops.c'), source_text(path, ops))
    for header, ops in by_header.items():
        write(os.path.join(a.headers, header), header_text(header, ops, functions_by_header[header]))
    for header, functions in empty_headers(a.abi, by_header).items():
        write(os.path.join(a.headers, header), empty_header_text(header, functions))
    write(os.path.join(a.sources, 'kernel', 'families.h'), families_text(all_ops))


if __name__ == '__main__':
    main()
