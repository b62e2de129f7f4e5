#!/usr/bin/env python3
"""Operators that are called by name (ops/graph.aclop, which explains its lines) -> the table that op/aclop.c looks them up in.

usage: gen_aclops.py --sources OUT FILE.aclop

Writes OUT/aclop_table.c and OUT/kernel/graph_families.h; files that would not change are left alone."""
import argparse
import collections
import os
import re
import sys

from gen_ops import FLAGS, write

# type: (arg_kind, union member) of an input or output, of an attribute
OPERANDS = {'Tensor': ('ARG_TENSOR', 'tensor'), 'TensorList': ('ARG_TENSOR_LIST', 'tensors'), 'ints': ('ARG_INT_ARRAY', 'ints')}
ATTRIBUTES = {'ints': ('ARG_INT_ARRAY', 'ints'), 'int': ('ARG_INT', 'integer'), 'float': ('ARG_FLOAT', 'real'),
              'bool': ('ARG_BOOL', 'boolean'), 'string': ('ARG_STRING', 'string'), 'any': ('ARG_ANY', 'pointer')}
LINE = re.compile(r'(\w+)\((.*)\)\s+(\w+)(?:\s+([A-Z]\w*))?(\s+any_format)?$')
OPERAND = re.compile(r'(stored )?(\w+)(!?)(\??) (\w+)$')
ATTRIBUTE = re.compile(r'(\w+) \.(\w+)(?:=(\S*))?$')

Op = collections.namedtuple('Op', 'name args family variant any_format')
Arg = collections.namedtuple('Arg', 'name kind member flags default')


def operand(text):
    m = OPERAND.match(text)
    if not m or m[2] not in OPERANDS:
        raise ValueError(f'{text!r}: expected one of {", ".join(OPERANDS)}, ! and ? where they apply, a name')
    kind, member = OPERANDS[m[2]]
    flags = FLAGS[m[3]] + (' | ARG_OPTIONAL' if m[4] else '') + (' | ARG_STORED' if m[1] else '')
    return Arg(m[5], kind, member, flags, None)


def attribute(text):
    m = ATTRIBUTE.match(text)
    if not m or m[1] not in ATTRIBUTES:
        raise ValueError(f'{text!r}: expected one of {", ".join(ATTRIBUTES)}, a name, and a value where it has one')
    kind, member = ATTRIBUTES[m[1]]
    optional = m[3] is not None or m[1] == 'any'
    return Arg(m[2], kind, member, 'ARG_ATTRIBUTE' + (' | ARG_OPTIONAL' if optional else ''), m[3])


def parse_line(text):
    m = LINE.match(text)
    if not m:
        raise ValueError('expected: Name(Type name, ..., type .attribute, ...)  family [VARIANT] [any_format]')
    args = [attribute(p) if '.' in p else operand(p) for p in m[2].split(', ')]
    return Op(m[1], args, m[3], m[4] or '0', bool(m[5]))


def parse(path):
    ops = []
    with open(path, encoding='utf-8') as f:
        for number, line in enumerate(f, 1):
            text = line.split('#')[0].strip()
            if text:
                try:
                    ops.append(parse_line(text))
                except ValueError as error:
                    sys.exit(f'{path}:{number}: {error}')
    return sorted(ops, key=lambda o: o.name)


def families_text(ops):
    variants = collections.defaultdict(dict)
    for op in ops:
        variants[op.family].setdefault(op.variant)
    out = ['/* Made by scripts/gen_aclops.py from ops/graph.aclop: the prepare functions of operators that are called by name, and',
           ' * the variants that they tell apart by e->op->variant (EW_...: functions of the elementwise engine). */',
           '#ifndef CANNON_KERNEL_GRAPH_FAMILIES_H', '#define CANNON_KERNEL_GRAPH_FAMILIES_H', '',
           '#include "kernel/engine/loops.h"', '#include "op/executor.h"', '']
    for family, names in sorted(variants.items()):
        own = [n for n in names if n != '0' and not n.startswith('EW_')]
        out += [f'enum {{ {", ".join(own)} }};'] if own else []
        out += [f'status prepare_{family}(executor *e, const op_arg *a);']
    return '\n'.join(out + ['', '#endif', ''])


def default_text(op, arg, out):
    """The initialiser of a default; an array's object goes to out."""
    if arg.kind != 'ARG_INT_ARRAY':
        return arg.default
    values = arg.default.split('|') if arg.default else []
    out.append(f'static const aclIntArray {op.name}_{arg.name} = '
               f'{{MAGIC_INT_ARRAY, {len(values)}, {{{", ".join(values)}}}}};')
    return f'&{op.name}_{arg.name}'


def table_text(ops):
    out = ['/* Made by scripts/gen_aclops.py from ops/graph.aclop. */', '#include "kernel/graph_families.h"', '#include "op/aclop.h"', '']
    for op in ops:
        defaults = [f'    [{i}] = {{.{a.member} = {default_text(op, a, out)}}},'
                    for i, a in enumerate(op.args) if a.default is not None]
        out.append(f'static const arg_schema schema_{op.name}[] = {{')
        out += [f'    {{"{a.name}", {a.kind}, {a.flags}}},' for a in op.args]
        out += ['};', f'static const op_arg defaults_{op.name}[{len(op.args)}] = {{', *defaults, '};']
    out.append('aclop aclop_table[] = {')
    for op in ops:
        out.append(f'    {{.op = {{.name = "{op.name}", .function = "{op.name}", .schema = schema_{op.name}, .n_args = {len(op.args)},')
        out.append(f'            .variant = {op.variant}, .prepare = prepare_{op.family}}},')
        out.append(f'     .defaults = defaults_{op.name}, .any_format = {str(op.any_format).lower()}}},')
    return '\n'.join(out + ['};', 'const size_t aclop_count = sizeof aclop_table / sizeof aclop_table[0];', ''])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--sources', required=True)
    ap.add_argument('file')
    a = ap.parse_args()
    ops = parse(a.file)
    write(os.path.join(a.sources, 'aclop_table.c'), table_text(ops))
    write(os.path.join(a.sources, 'kernel', 'graph_families.h'), families_text(ops))


if __name__ == '__main__':
    main()
