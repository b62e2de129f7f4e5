# SPDX-License-Identifier: Apache-2.0
"""The table of operators that are called by name (for src/op/aclop.c), from ops/*.aclop. The first lines of
ops/graph.aclop explain the format. For gen_ops.py."""
import collections
import json
import re
import sys

from families import FLAGS, Fillers, add_names, parse_names, role_flags

# type: (arg_kind, member of op_arg's union), for inputs and outputs, and for attributes
OPERANDS = {'Tensor': ('ARG_TENSOR', 'tensor'), 'TensorList': ('ARG_TENSOR_LIST', 'tensors'),
            'ints': ('ARG_INT_ARRAY', 'ints'), 'any': ('ARG_ANY', None)}
ATTRIBUTES = {'ints': ('ARG_INT_ARRAY', 'ints'), 'int': ('ARG_INT', 'integer'), 'float': ('ARG_FLOAT', 'real'),
              'bool': ('ARG_BOOL', 'boolean'), 'string': ('ARG_STRING', 'string'), 'any': ('ARG_ANY', None)}
LINE = re.compile(r'(\w+)\((.*)\)\s+(\w+)(?:\s+([A-Z]\w*))?(\s+any_format)?$')
CALL = re.compile(r'(\w+)\((.*)\)\s+= (\w+)\((.*)\)$')
OPERAND = re.compile(r'(stored )?(\w+)(!?)(\??)(?:@(\w+))? (\w+)$')
ATTRIBUTE = re.compile(r'([\w|]+) \.(\w+)(?:=(\S*))?$')

# args are in the order of the family's operator; caller: those of the caller, in the order of the line. Both are the
# same for lines that name a family. target: the operator that another line calls, and sources its arguments.
Op = collections.namedtuple('Op', 'name args family variant any_format caller target sources place',
                            defaults=[None])
Arg = collections.namedtuple('Arg', 'name kind field flags default words')
Source = collections.namedtuple('Source', 'given copied constant')  # two of the caller's arguments, or a literal

# The kinds that the caller's argument may have for an argument of each kind, besides its own kind.
CONVERSIONS = {'ARG_SCALAR': {'ARG_INT', 'ARG_FLOAT', 'ARG_BOOL'}, 'ARG_FLOAT': {'ARG_INT'},
               'ARG_INT': {'ARG_INT_ARRAY', 'ARG_BOOL'}, 'ARG_INT_ARRAY': {'ARG_INT'}}


def operand(text):
    m = OPERAND.match(text)
    if not m or m[2] not in OPERANDS:
        raise ValueError(f'{text!r}: expected one of {", ".join(OPERANDS)}, ! and ? where they apply, and a name')
    kind, field = OPERANDS[m[2]]
    flags = FLAGS[m[3]] + (' | ARG_OPTIONAL' if m[4] else '') + (' | ARG_STORED' if m[1] else '')
    return Arg(m[6], kind, field, flags + role_flags(m[2], m[3], m[5], False), None, None)


def attribute(text):
    m = ATTRIBUTE.match(text)
    words = m[1].split('|') if m and '|' in m[1] else None
    if not m or not (words or m[1] in ATTRIBUTES):
        raise ValueError(f'{text!r}: expected one of {", ".join(ATTRIBUTES)}, a name, and an optional default value')
    kind, field = ATTRIBUTES['string' if words else m[1]]
    optional = m[3] is not None or m[1] == 'any'
    flags = 'ARG_ATTRIBUTE' + (' | ARG_OPTIONAL' if optional else '')
    return Arg(m[2], kind, field, flags, json.dumps(m[3]) if words and m[3] is not None else m[3], words)


def parse_line(text):
    """An operator; target and sources of one that calls another are still texts."""
    m, call = LINE.match(text), CALL.match(text)
    if not m and not call:
        raise ValueError('expected: Name(Type name, ..., type .attribute, ...)  family [VARIANT] [any_format], or '
                         'instead of a family: = Operator(argument, ...)')
    args = [attribute(p) if ' .' in p else operand(p) for p in (m or call)[2].split(', ')]
    if call:
        return Op(call[1], None, None, None, False, args, call[3], call[4].split(', '))
    if any(a.words for a in args):
        raise ValueError('an attribute of certain words needs a line that calls another operator')
    return Op(m[1], args, m[3], m[4] or '0', bool(m[5]), args, None, None)


def numbered_lines(paths):
    for path in paths:
        with open(path, encoding='utf-8') as f:
            for number, line in enumerate(f, 1):
                yield path, number, line


def parse(paths):
    """The operators, ordered by name, and the names that lines give to arguments, {family: {argument: member}}."""
    ops, names = [], {}
    for path, number, line in numbered_lines(paths):
        text = line.split('#')[0].strip()
        if text:
            try:
                if text.startswith('names '):
                    add_names(names, parse_names(text))
                else:
                    ops.append(parse_line(text)._replace(place=f'{path}:{number}'))
            except ValueError as error:
                sys.exit(f'{path}:{number}: {error}')
    return sorted(ops, key=lambda o: o.name), names


# ---- lines that call another operator ----

NUMBER = r'-?[\d.]+(e-?\d+)?'
LITERALS = {'ARG_SCALAR': NUMBER, 'ARG_FLOAT': NUMBER, 'ARG_INT': r'-?\d+', 'ARG_BOOL': 'true|false',
            'ARG_STRING': r'"\w*"', 'ARG_INT_ARRAY': r'\[(-?\d+(\|-?\d+)*)?\]', 'ARG_BOOL_ARRAY': r'\[\w+(\|\w+)*\]'}


def source_of(text, to, caller):
    """Where the argument `to` of the called operator comes from: `name`, `written:=copied`, `none` or a literal."""
    index = {a.name: i for i, a in enumerate(caller)}
    name, _, copied = text.partition(':=')
    if name in index:
        a = caller[index[name]]
        fits = a.kind == to.kind or a.kind in CONVERSIONS.get(to.kind, ()) or a.words and to.kind == 'ARG_INT'
        if not fits or (a.words and to.kind != 'ARG_INT') or (copied and copied not in index):
            raise ValueError(f'{text} ({a.kind}) cannot be {to.name} ({to.kind})')
        return Source(index[name], index.get(copied), None)
    if text == 'none' or re.fullmatch(LITERALS.get(to.kind, 'none'), text):
        return Source(None, None, text)
    raise ValueError(f'{text} is neither an argument nor a value for {to.name} ({to.kind})')


def resolve_line(op, target):
    if not target or target.args is None:
        raise ValueError(f'there is no operator {op.target} to call')
    taken = [a for a in target.args if a.kind != 'ARG_ANY']
    if len(op.sources) != len(taken):
        raise ValueError(f'{len(op.sources)} arguments, {op.target} has {len(taken)}')
    texts = iter(op.sources)
    sources = [source_of('none' if to.kind == 'ARG_ANY' else next(texts), to, op.caller) for to in target.args]
    used = {i for s in sources for i in (s.given, s.copied) if i is not None}
    caller = []
    for i, a in enumerate(op.caller):
        if i not in used and a.kind != 'ARG_ANY':
            if a.default is None:
                raise ValueError(f'{a.name} is not used: its type should be any')
            a = a._replace(flags=a.flags + ' | ARG_FIXED')
        caller.append(a)
    args = []
    for s, to in zip(sources, target.args):
        name = to.name if s.given is None else caller[s.given].name
        args.append(Arg(name, to.kind, to.field, to.flags, None, None))
    return op._replace(args=args, family=target.family, variant=target.variant, caller=caller, target=target,
                       sources=sources, any_format=getattr(target, 'any_format', False))


def resolve(ops, others):
    """The operators, once those that call another have its arguments, family and variant. others: operators of other
    schemas, which are called by their functions."""
    known = {o.function: o for o in others} | {o.name: o for o in ops}
    resolved = []
    for op in ops:
        try:
            resolved.append(resolve_line(op, known.get(op.target)) if op.target else op)
        except ValueError as error:
            sys.exit(f'{op.place}: {op.name}: {error}')
    return resolved


def constant_text(op, arg, text, out):
    """The initialiser of an argument that the line gives; the object of an array or a scalar is appended to out."""
    if text == 'none':
        return '.pointer = NULL'
    if arg.kind == 'ARG_SCALAR':
        integer = re.fullmatch(r'-?\d+', text)
        what = f'ACL_INT64, {{.integer = {text}}}' if integer else f'ACL_FLOAT, {{.real = {text}}}'
        out.append(f'static const aclScalar {op.name}_{arg.name} = {{MAGIC_SCALAR, {what}, 0}};')
        return f'.scalar = &{op.name}_{arg.name}'
    if arg.kind in ('ARG_INT_ARRAY', 'ARG_BOOL_ARRAY'):
        values = text[1:-1].split('|') if text != '[]' else []
        what = 'INT' if arg.kind == 'ARG_INT_ARRAY' else 'BOOL'
        out.append(f'static const acl{what.title()}Array {op.name}_{arg.name} = '
                   f'{{MAGIC_{what}_ARRAY, {len(values)}, {{{", ".join(values)}}}}};')
        return f'.{arg.field} = &{op.name}_{arg.name}'
    return f'.{arg.field} = {text}'


def source_text(op, arg, source, out):
    """The initialiser of an aclop_source."""
    if source.given is None:
        return f'{{-1, -1, NULL, {{{constant_text(op, arg, source.constant, out)}}}}}'
    words = op.caller[source.given].words
    copied = -1 if source.copied is None else source.copied
    return f'{{{source.given}, {copied}, {json.dumps("|".join(words)) if words else "NULL"}, {{0}}}}'


# ---- output ----

def default_text(op, arg, out):
    """The initialiser of an attribute's default; the object of an array is appended to out."""
    if arg.kind != 'ARG_INT_ARRAY':
        return arg.default
    values = arg.default.split('|') if arg.default else []
    out.append(f'static const aclIntArray {op.name}_{arg.name} = '
               f'{{MAGIC_INT_ARRAY, {len(values)}, {{{", ".join(values)}}}}};')
    return f'&{op.name}_{arg.name}'


def defaults_text(ops):
    """Lines DEFAULT(operator, attribute, kind, value), for the graph engine's store of attributes (src/ge)."""
    types = {'ARG_INT': 'integer', 'ARG_FLOAT': 'number', 'ARG_BOOL': 'bool', 'ARG_STRING': 'text'}
    return ''.join(f'DEFAULT("{op.name}", "{a.name}", {types[a.kind]}, {a.default})\n' for op in ops for a in op.caller
                   if a.default is not None and a.kind in types)


def schema_text(name, args):
    lines = [f'    {{"{a.name}", {a.kind}, {a.flags}}},' for a in args]
    return [f'static const arg_schema {name}[] = {{', *lines, '};']


def table_text(ops, by_name):
    fillers, out = Fillers(by_name), []
    head = ['/* Generated by scripts/gen_ops.py from the files .aclop in ops. */',
            '#include "kernel/families.h"', '#include "op/aclop.h"', '']
    for op in ops:
        defaults = [f'    [{i}] = {{.{a.field} = {default_text(op, a, out)}}},'
                    for i, a in enumerate(op.caller) if a.default is not None]
        sources = [f'    {source_text(op, a, s, out)},' for a, s in zip(op.args, op.sources or ())]
        out += schema_text(f'schema_{op.name}', op.args)
        out += schema_text(f'given_{op.name}', op.caller) if op.target else []
        out += [f'static const aclop_source sources_{op.name}[] = {{', *sources, '};'] if op.target else []
        out += [f'static const op_arg defaults_{op.name}[{len(op.caller)}] = {{', *defaults, '};']
    out.append('aclop aclop_table[] = {')
    for op in ops:
        out.append(f'    {{.op = {{.name = "{op.name}", .function = "{op.name}", .schema = schema_{op.name},')
        out.append(f'            .n_args = {len(op.args)}, .variant = {op.variant},')
        out.append(f'            .prepare = {fillers.prepare(op)}}},')
        out.append(f'     .given = {"given" if op.target else "schema"}_{op.name}, .n_given = {len(op.caller)},')
        out.append(f'     .sources = {f"sources_{op.name}" if op.target else "NULL"},')
        out.append(f'     .defaults = defaults_{op.name}, .any_format = {str(op.any_format).lower()}}},')
    out += ['};', 'const size_t aclop_count = sizeof aclop_table / sizeof aclop_table[0];', '']
    return '\n'.join(head + fillers.text + out)
