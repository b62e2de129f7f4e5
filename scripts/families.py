# SPDX-License-Identifier: Apache-2.0
"""Families of operators, for gen_ops.py and gen_aclops.py: the header in which prepare functions find their arguments
by name, and the functions that fill these structs.

A family's struct has a member for each argument of its operators, in snake case, without the endings Optional and Ref.
A line `names FAMILY member = argument...` of a schema file gives other arguments the name of a member. Where arguments
of one name have several types in a family, each type has a member, whose name ends in the type."""
import collections
import re

FLAGS = {'': 'ARG_READ', '!': 'ARG_WRITTEN', '&': 'ARG_READ | ARG_WRITTEN'}
# What is read of an operand: the words after @ (ops/README.md).
ROLES = {'all': '', 'part': ' | ARG_READ_IN_PART', 'none': ' | ARG_READ_PERHAPS', 'moved': ' | ARG_MOVED',
         'moved_in_order': ' | ARG_MOVED | ARG_IN_ORDER'}
# member of op_arg's union: (C type, ending of the member's name if an argument has several types)
FIELDS = {'tensor': ('const tensor *', 'tensor'), 'tensors': ('const aclTensorList *', 'list'),
          'scalar': ('const scalar *', 'scalar'), 'scalars': ('const aclScalarList *', 'scalars'),
          'ints': ('const aclIntArray *', 'ints'), 'bools': ('const aclBoolArray *', 'bools'),
          'floats': ('const aclFloatArray *', 'floats'), 'integer': ('int64_t ', 'int'), 'real': ('double ', 'float'),
          'boolean': ('bool ', 'bool'), 'string': ('const char *', 'string'), 'pointer': ('const void *', 'pointer')}
# Families whose arguments are told apart by their place: the engines of hundreds of operators.
POSITIONAL = {'elementwise', 'foreach'}

# An argument of an operator. operand: for a tensor or a list, its number among the executor's operands, as a C
# expression, since that of a tensor behind a list depends on the call.
Place = collections.namedtuple('Place', 'member field index operand name')


def parse_names(text):
    """{family: {argument: member}} of a line "names FAMILY  member = argument argument, member = argument"."""
    m = re.match(r'names (\w+)\s+((\w+ =( \w+)+(, )?)+)$', text)
    if not m:
        raise ValueError('expected: names FAMILY  member = argument argument, member = argument')
    parts = [p.split(' = ') for p in m[2].split(', ')]
    return {m[1]: {argument: member for member, arguments in parts for argument in arguments.split()}}


def role_flags(kind, access, role, whole):
    """Text of the flags for what is read of an operand. whole: the operator computes element by element, so that each
    element of an operand that is read and written is read."""
    if not role:
        if access == '&' and not whole:
            raise ValueError(f'after {kind}& a word is missing that says what is read of it: @{", @".join(ROLES)}')
        return ''
    if role not in ROLES or not kind.startswith('Tensor') or access == '!':
        raise ValueError(f'{kind}{access}@{role}: expected @{", @".join(ROLES)}, and a tensor or a list that is read')
    return ROLES[role]


def add_names(names, more):
    """Adds the names of other lines to those that are known: a family may have lines in several files."""
    for family, members in more.items():
        names.setdefault(family, {}).update(members)


def snake_case(name):
    words = re.sub(r'(_?[oO]ptional|Ref)+$', '', name)
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])', '_', words).lower()


class Family:
    """members: {name: field of op_arg}. places: {operator's id: [Place]}. operands, spellings: {member: what operators
    have for it}, an operand and an argument's name."""

    def __init__(self, name, ops, names):
        self.name, self.ops = name, ops
        self.variants = list(dict.fromkeys(op.variant for op in ops))
        self.positional = name in POSITIONAL
        self.places, self.members = {}, {}
        self.operands, self.spellings = collections.defaultdict(set), collections.defaultdict(set)
        if self.positional:
            return
        fields = collections.defaultdict(dict)
        own = [op for op in ops if not getattr(op, 'target', None)]
        for op in own:
            for a in filter(lambda a: a.field, op.args):
                fields[names.get(a.name) or snake_case(a.name)][a.field] = None
        for op in own:
            self.places[id(op)] = places = self.places_of(op, names, fields)
            if len({p.member for p in places}) < len(places):
                raise ValueError(f'{op.name}: two arguments are members of {name}_args with one name')
            for p in places:
                self.members[p.member] = p.field
                self.spellings[p.member].add(p.name)
                if p.operand:
                    self.operands[p.member].add(p.operand)
        for op in ops:  # those that call another of this family have its arguments under other names
            if op not in own:
                self.places[id(op)] = [p._replace(name=op.args[p.index].name) for p in self.places[id(op.target)]]

    @staticmethod
    def places_of(op, names, fields):
        places, tensors, lists = [], 0, ''
        for index, a in enumerate(op.args):
            if not a.field:
                continue  # an ignored attribute
            member = names.get(a.name) or snake_case(a.name)
            if len(fields[member]) > 1:
                member += '_' + FIELDS[a.field][1]
            operand = f'{tensors}{lists}' if a.field in ('tensor', 'tensors') else None
            places.append(Place(member, a.field, index, operand, a.name))
            tensors += a.field == 'tensor'
            if a.field == 'tensors':
                lists += f' + list_size(a[{index}].tensors)'
        return places

    def fixed(self):
        """{member: number} of the operands whose number does not depend on the operator or the call."""
        return {m: min(v) for m, v in self.operands.items() if len(v) == 1 and min(v).isdigit()}

    def varying(self):
        """The members whose operand number, and those whose argument's name, depend on the operator."""
        fixed = self.fixed()
        return [m for m in self.operands if m not in fixed], [m for m, v in self.spellings.items() if len(v) > 1]

    def struct(self):
        """Text of the operands' numbers, and of the struct."""
        views, spellings = self.varying()
        numbers = [f'  {self.name.upper()}_{m.upper()} = {n},' for m, n in self.fixed().items()]
        return [*(['enum {', *numbers, '};'] if numbers else []), 'typedef struct {', '  const op_arg *all;',
                *(f'  {FIELDS[field][0]}{member};' for member, field in self.members.items()),
                *(['  struct {', f'    int {", ".join(views)};', '  } view;'] if views else []),
                *(['  struct {', f'    const char *{", *".join(spellings)};', '  } name;'] if spellings else []),
                f'}} {self.name}_args;']

    def filler(self, op, name):
        """Text of the function that calls the prepare function with the operator's arguments by name."""
        place = {p.member: p for p in self.places[id(op)]}
        views, spellings = self.varying()
        values = [f'.{m} = a[{p.index}].{p.field}' for m, p in place.items()]
        values += [f'.view.{m} = {place[m].operand if m in place else -1}' for m in views]
        values += [f'.name.{m} = "{place[m].name}"' for m in spellings if m in place]
        return [f'static status {name}(executor *e, const op_arg *a) {{',
                f'  const {self.name}_args named = {{.all = a, {", ".join(values)}}};',
                f'  return prepare_{self.name}(e, &named);', '}']


def families(ops, names):
    """{name: Family} of the operators; names: {family: {argument: member}}."""
    of = collections.defaultdict(list)
    for op in ops:
        of[op.family].append(op)
    for name, members in names.items():
        unknown = set(members) - {a.name for op in of[name] for a in op.args}
        if unknown:
            raise ValueError(f'names {name}: no operator of this family has {", ".join(sorted(unknown))}')
    return {name: Family(name, of[name], names.get(name, {})) for name in sorted(of)}


LIST_SIZE = 'static inline int list_size(const aclTensorList *list) { return list ? (int)list->size : 0; }'


class Fillers:
    """The functions that a source file's operator table points to: one for all operators with the same arguments."""

    def __init__(self, by_name):
        self.families, self.names, self.text = by_name, {}, []

    def prepare(self, op):
        """Name of the function for the operator's entry; its text is added to self.text."""
        family = self.families[op.family]
        if family.positional:
            return f'prepare_{op.family}'
        key = (op.family, tuple(family.places[id(op)]))
        if key not in self.names:
            self.names[key] = f'call_{op.family}' + ('' if len(family.ops) == 1 else f'_of_{op.name}')
            text = family.filler(op, self.names[key])
            self.text += [LIST_SIZE] if 'list_size(' in text[1] and LIST_SIZE not in self.text else []
            self.text += text
        return self.names[key]


HEADER = '''\
/* Generated by scripts/gen_ops.py from ops/: the prepare functions that schema lines name, and the variants, which they
 * find in e->op->variant. Arguments have been checked for NULL; those that an operator does not have are NULL or 0.
 * `all` are all of them in the order of the schema. Of a tensor, FAMILY_ARGUMENT is its number among the executor's
 * operands, and that of its address in view[] at a launch. Where operators or calls differ, that number is in `view`
 * (-1: there is no such argument), and the name that the schema has for an argument is in `name`. */
#ifndef CANNON_KERNEL_FAMILIES_H
#define CANNON_KERNEL_FAMILIES_H

#include "kernel/engine/loops.h"
#include "op/executor.h"
'''


def header_text(by_name):
    """Text of families.h. Variants are numbered in the order of their first use, except functions of the elementwise
    engine (EW_...), which are numbered there."""
    out = [HEADER]
    for name, family in by_name.items():
        own = [v for v in family.variants if not v.startswith('EW_') and not v.isdigit()]
        out += [f'enum {{ {", ".join(own)} }};'] if own else []
        out += [] if family.positional else family.struct()
        args = 'op_arg' if family.positional else f'{name}_args'
        out += [f'status prepare_{name}(executor *e, const {args} *a);', '']
    return '\n'.join(out + ['#endif', ''])
