#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bindings of pyACL's module `acl` (python/acl), and the table of its names in docs/python/pyacl.md.

    gen_pyacl.py --out FILE.c             the C source: a function for each C function of include/acl that a rule fits;
                                          and weak.h beside it
    gen_pyacl.py --table FILE.md          rewrites the table of names between the marks in FILE.md
    gen_pyacl.py --table FILE.md --check  exits with 1 if that would change the file

The facts are in abi/: prototypes, enums, structs, macros, and in pyacl.tsv the names and calls of CANN's pages. The
C functions that exist are those that a header in include/acl declares. python/acl/hand.def lists the bindings that are
written by hand.

The rule. A name is the C name without its prefix, in snake case, in the submodule of the prefix. Integers, enums,
handles and pointers are int, and so is a struct by address where it has no form as a dict; `const char *` is str, a
struct is a dict, an array with its length is a list. Pointers to values that are not const are results; the results
come first, in the order of the parameters, the error code last."""
import argparse
import collections
import csv
import glob
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The submodule of each prefix of C names; the first that fits.
PREFIXES = (('aclrt', 'acl.rt.'), ('aclmdlRI', 'acl.mdl.ri_'), ('aclmdl', 'acl.mdl.'), ('aclop', 'acl.op.'),
            ('aclprof', 'acl.prof.'), ('acltdt', 'acl.tdt.'), ('acldump', 'acl.mdl.dump_'),
            ('acldvpp', 'acl.media.dvpp_'), ('aclvdec', 'acl.media.vdec_'), ('aclvenc', 'acl.media.venc_'),
            ('aclfv', 'acl.fv.'), ('aclblas', 'acl.blas.'), ('aclsys', 'acl.sys_'), ('acl', 'acl.'))

# Words of C names that are one word in Python.
WORDS = {'UnSubscribe': 'Unsubscribe', 'UnRegister': 'Unregister', 'UnLoad': 'Unload', 'P2P': 'P2p',
         'L2Cache': 'L2cache'}

# Functions with arrays: {function: {parameter with the number: arrays of so many elements}}.
ARRAYS = {
    'aclCreateTensorDesc': {'numDims': ['dims']},
    'aclSetTensorShape': {'numDims': ['dims']},
    'aclSetTensorOriginShape': {'numDims': ['dims']},
    'aclSetTensorStorageShape': {'numDims': ['dims']},
    'aclSetTensorShapeRange': {'dimsCount': ['dimsRange']},
    'aclSetTensorValueRange': {'valueCount': ['valueRange']},
    'aclopSetAttrListBool': {'numValues': ['values']},
    'aclopSetAttrListDataType': {'numValues': ['values']},
    'aclopSetAttrListFloat': {'numValues': ['values']},
    'aclopSetAttrListInt': {'numValues': ['values']},
    'aclopSetAttrListString': {'numValues': ['values']},
    'aclopExecuteV2': {'numInputs': ['inputDesc', 'inputs'], 'numOutputs': ['outputDesc', 'outputs']},
    'aclopCompileAndExecute': {'numInputs': ['inputDesc', 'inputs'], 'numOutputs': ['outputDesc', 'outputs']},
    'aclopCompileAndExecuteV2': {'numInputs': ['inputDesc', 'inputs'], 'numOutputs': ['outputDesc', 'outputs']},
    'aclprofCreateConfig': {'deviceNums': ['deviceIdList']},
    'aclrtCheckMemType': {'size': ['addrList']},
    'aclrtIpcMemImportPidInterServer': {'num': ['serverPids']},
    'aclrtIpcMemSetImportPid': {'num': ['pid']},
    'aclrtMemManagedGetAttrs': {'numAttributes': ['attributes', 'data', 'dataSizes']},
    'aclrtMemManagedPrefetchBatchAsync': {'count': ['ptrs', 'sizes'],
                                          'numPrefetchLocs': ['prefetchLocs', 'prefetchLocIdxs']},
    'aclrtMemSetAccess': {'count': ['desc']},
    'aclrtMemSetPidToShareableHandle': {'pidNum': ['pid']},
    'aclrtMemSetPidToShareableHandleV2': {'pidNum': ['pid']},
    'aclrtMemUceRepair': {'arraySize': ['memUceInfoArray']},
    'aclrtMemcpyBatch': {'numBatches': ['dsts', 'destMaxs', 'srcs', 'sizes'], 'numAttrs': ['attrs', 'attrsIndexes']},
    'aclrtMemcpyBatchAsync': {'numBatches': ['dsts', 'destMaxs', 'srcs', 'sizes'],
                              'numAttrs': ['attrs', 'attrsIndexes']},
    'aclrtMemcpyBatchAsyncV2': {'numBatches': ['dsts', 'destMaxs', 'srcs', 'sizes'],
                                'numAttrs': ['attrs', 'attrsIndexes']},
    'aclrtMemcpyBatchV2': {'numBatches': ['dsts', 'destMaxs', 'srcs', 'sizes'], 'numAttrs': ['attrs', 'attrsIndexes']},
    'aclrtNotifyBatchReset': {'num': ['notifies']},
    'aclrtNotifySetImportPid': {'num': ['pid']},
    'aclrtNotifySetImportPidInterServer': {'num': ['serverPids']},
}

# Arrays that the function fills: {function: {array: (parameter with its size, result with the number filled or None)}}.
FILLED = {
    'aclGetTensorDescDimRange': {'dimRange': ('dimRangeNum', None)},
    'aclrtGetMemUceInfo': {'memUceInfoArray': ('arraySize', 'retSize')},
    'aclrtGetMemUsageInfo': {'memUsageInfo': ('inputNum', 'outputNum')},
}

# Text that the function writes: {function: {parameter: the parameter with its size, or the size}}.
TEXTS = {
    'aclGetCompileopt': {'value': 'length'},
    'aclrtIpcMemGetExportKey': {'key': 'len'},
    'aclrtNotifyGetExportKey': {'key': 'len'},
    'aclsysGetVersionStr': {'versionStr': 128},
}

# The length of a str argument, which Python's callers do not pass: {function: {length: str}}.
LENGTHS = {
    'aclprofInit': {'length': 'profilerResultPath'},
    'aclprofMarkEx': {'msgLen': 'msg'},
    'aclprofSetConfig': {'configLength': 'config'},
}

# Text that may be absent: None in Python, NULL in C.
OPTIONAL = {'aclopCompileAndExecute': ['opPath'], 'aclopCompileAndExecuteV2': ['opPath']}

# Parameters that are read though their type is not const, and those that are read and written.
READ = {
    'aclrtCmoWaitBarrier': ['taskInfo'], 'aclrtCntNotifyRecord': ['info'], 'aclrtCntNotifyWaitWithTimeout': ['info'],
    'aclrtMallocForTaskScheduler': ['cfg'], 'aclrtMallocHostWithCfg': ['cfg'], 'aclrtMallocWithCfg': ['cfg'],
    'aclrtMemGetAccess': ['location'], 'aclrtMemGetAllocationGranularity': ['prop'],
    'aclrtMemcpyAsyncWithOffset': ['dst', 'src'], 'aclsysGetVersionNum': ['pkgName'],
    'aclsysGetVersionStr': ['pkgName'],
}
CHANGED = {'aclmdlRICaptureThreadExchangeMode': ['mode']}

# Declared functions without a binding, and why.
ALLOCATOR = 'only models of dynamic shape would call an allocator in Python, and models are not built yet'
UNBOUND = {
    'aclrtAllocatorSetAllocAdviseFuncToDesc': ALLOCATOR,
    'aclrtAllocatorSetAllocFuncToDesc': ALLOCATOR,
    'aclrtAllocatorSetFreeFuncToDesc': ALLOCATOR,
    'aclrtAllocatorSetGetAddrFromBlockFuncToDesc': ALLOCATOR,
    'aclrtSetDeviceTaskAbortCallback': 'it takes a C callback, and no page shows a form in Python',
}

# Why C functions are absent, by a part of their names; the first that fits.
ABSENT = (
    (r'^aclmdl(?!RI)|^acldump|^aclopInferShape|^aclprof.*(Subscribe|GetOp|GetModel)', 'models are not built yet'),
    (r'^acldvpp|^aclvdec|^aclvenc', 'there is no media hardware; the C functions only refuse'),
    (r'^aclfv', 'feature retrieval is hardware of other products'),
    (r'^aclblas', 'they run operators compiled ahead of time for an NPU; use `acl.op.execute_v2`'),
    (r'^acltdt|Buf', 'queues between host and device are not built yet'),
    (r'Kernel|Binary|Function|FuncBySymbol|Symbol|CpuFunc|^aclopRegister|^aclopUnregister|^aclopCompile$|UpdateParams',
     'kernels that users load are not built yet'),
    (r'^aclop|GraphDump|GenGraph', 'they run operators compiled ahead of time for an NPU; use `acl.op.execute_v2`'),
    (r'ExceptionInfo|Error(Verbose|Info)|RepairError', 'they describe faults of AI cores'),
    (r'^aclrtGetDeviceCapability|Overflow|OverFlow|PCIBus|L2Cache|Topo|Uuid|PhyDev|LogicDev|UserDev|HardwareSync|Atomic'
     r'|Arch', 'they describe or set hardware that is not there'),
)
NOT_YET = 'the C function is not built yet'

# Functions that only touch an object of the caller, and so keep the GIL; those of acl_base.h do, too.
QUICK = re.compile(r'aclop(SetAttr|CreateAttr|DestroyAttr)')

RANGES = {'int8_t': ('INT8_MIN', 'INT8_MAX'), 'int16_t': ('INT16_MIN', 'INT16_MAX'),
          'int32_t': ('INT32_MIN', 'INT32_MAX'), 'int64_t': ('INT64_MIN', 'INT64_MAX'), 'int': ('INT_MIN', 'INT_MAX'),
          'uint8_t': 'UINT8_MAX', 'uint16_t': 'UINT16_MAX', 'uint32_t': 'UINT32_MAX', 'uint64_t': 'UINT64_MAX',
          'size_t': 'SIZE_MAX', 'bool': '1', 'unsigned char': 'UINT8_MAX'}


def table(name):
    with open(os.path.join(ROOT, 'abi', name), encoding='utf-8', newline='') as f:
        return list(csv.DictReader(f, delimiter='\t', quoting=csv.QUOTE_NONE))


def snake(name):
    for word, one in WORDS.items():
        name = name.replace(word, one)
    name = re.sub(r'([A-Z]+)([A-Z][a-z])', r'\1_\2', name)
    name = re.sub(r'([a-z0-9])([A-Z])', r'\1_\2', name).lower()
    return re.sub(r'^(memcpy|memset|malloc)_(?=2d)', r'\1', name)


def python_name(function):
    return next(into + snake(function[len(prefix):]) for prefix, into in PREFIXES if function.startswith(prefix))


class Types:
    """What the ABI's tables say of C types."""

    def __init__(self):
        self.enums = {r['enum'] for r in table('enums.tsv')}
        self.alias = {r['typedef']: r['definition'] for r in table('typedefs.tsv')}
        self.structs = collections.OrderedDict()
        self.used = set()  # structs of which a binding makes or reads a dict
        for r in table('structs.tsv'):
            if r['kind'] == 'struct' and r['header'].startswith('acl/'):
                self.structs.setdefault(r['struct'], []).append((r['type'], r['field']))
        self.unions = {r['struct'] for r in table('structs.tsv') if r['kind'] == 'union'}

    def plain(self, t):
        """The type that a typedef stands for, as far as it matters here: int32_t and so on, void * or itself."""
        while t in self.alias and '(*)' not in self.alias[t]:
            t = self.alias[t]
        return 'int32_t' if t in self.enums or t.startswith('enum ') else t

    def is_callback(self, t):
        return '(*)' in self.alias.get(t, '')

    def is_handle(self, t):
        return self.plain(t) == 'void *'

    def has_dict(self, struct, read):
        """Whether a struct has a form as a dict. Pointers in it only where it is a result."""
        for t, field in self.structs[struct]:
            base = t.split(' [')[0]
            if base in self.unions or base == 'union' or '.' in field or t.count('[') > 1:
                return False
            if base.endswith('*') and read:
                return False
            if base in self.structs and not self.has_dict(base, read):
                return False
        return True


Parameter = collections.namedtuple('Parameter', 'type name stars const array')


def parameters(text):
    """The parameters of a prototype: the base type, the name, how many pointers, whether the target is const."""
    if text in ('void', ''):
        return []
    out = []
    for p in re.split(r',(?![^(]*\))', text):
        if '...' in p or '(*' in p:
            return None
        m = re.fullmatch(r'(.*?)(\w+)\s*((?:\[\d*\])*)', p.strip())
        declared, name, array = m[1], m[2], m[3]
        base = re.sub(r'\bconst\b|\*', ' ', declared)
        out.append(Parameter(' '.join(base.split()), name, declared.count('*') + array.count('[]'),
                             declared.strip().startswith('const'), array))
    return out


class Unfit(Exception):
    """No rule fits the function."""


class Binding:
    """One function of the module: what it takes, what it gives, and its C source."""

    def __init__(self, types, name, function, returns, params, call=''):
        self.t, self.name, self.function, self.returns = types, name, function, returns
        self.taken, self.given = [], []  # names for Python
        self.lines, self.result, self.last = [], {}, None
        arrays = ARRAYS.get(function, {})
        self.count_of = {a: n for n, many in arrays.items() for a in many}
        self.first_of = {n: many[0] for n, many in arrays.items()}
        filled = FILLED.get(function, {})
        texts = TEXTS.get(function, {})
        lengths = LENGTHS.get(function, {})
        skip = {n for _, n in filled.values() if n}
        for n in arrays:
            self.lines.append(f'size_t {n} = 0;')
        page = call and re.match(r'(?:(.*?) ?= ?)?acl\.[\w.]+\((.*)\)', call)
        names = iter([a.strip() for a in page[2].split(',') if a.strip()] if page else [])
        self.page_given = [g.strip() for g in (page[1] or '').split(',') if g.strip()] if page else None
        sizes = {size for size, _ in filled.values()} | {s for s in texts.values() if isinstance(s, str)}
        ordered = [p for p in params if p.name in sizes] + [p for p in params if p.name not in sizes]
        position = {}
        for p in params:  # arguments have their order by the C parameters; sizes are read before what they measure
            if self.is_taken(p, arrays, filled, texts, lengths, skip):
                position[p.name] = len(position)
                self.taken.append(next(names, None) or snake(p.name))
        if page and next(names, None) is not None:
            raise Unfit(f'the page has more arguments: {call}')
        for p in ordered:
            self.parameter(p, position.get(p.name), arrays, filled, texts, lengths, skip)
        self.call_args = [self.passed(p, arrays, lengths) for p in params]
        self.results = [r for p in params for r in [self.result.get(p.name)] if r]
        order = {p.name: i for i, p in enumerate(params)}
        self.given = [snake(n) for n in sorted(self.result, key=order.get)]
        if self.page_given is not None:
            self.page_names()

    def page_names(self):
        given = self.page_given
        wanted = len(self.results) + (self.returns != 'void')
        if len(given) == wanted + 1 and given[0] in self.taken:  # the page's function returns an argument once more
            i = self.taken.index(given[0])
            self.results.insert(0, f'call_argument(&c, {i})')
            wanted += 1
        values = given[:-1]
        if values != self.given and sorted(values) == sorted(self.given):  # in another order than in C
            self.results = [self.results[self.given.index(v)] for v in values]
        if len(given) != wanted:
            raise Unfit(f'{self.name} has {wanted} results, and the page {len(given)}')
        self.given = given if self.returns == 'void' else given[:-1]
        self.last = given[-1] if given and self.returns != 'void' else None

    def is_taken(self, p, arrays, filled, texts, lengths, skip):
        if p.name in arrays or p.name in lengths or p.name in skip or p.name in texts or p.name in filled:
            return False
        return not self.is_result(p)

    def is_result(self, p):
        if p.name in self.count_of or p.name in READ.get(self.function, ()) or p.name in CHANGED.get(self.function, ()):
            return False
        if p.stars == 0 or (p.const and p.stars == 1):
            return False
        if p.stars == 1:
            opaque = self.t.alias.get(p.type, '').startswith('struct ') and p.type not in self.t.structs
            return p.type not in ('void', 'char') and not opaque
        return True

    def need(self, line):
        self.lines.append(line)

    def parameter(self, p, i, arrays, filled, texts, lengths, skip):
        label = f'"{self.taken[i]}"' if i is not None else ''
        t = self.t
        if p.name in arrays or p.name in lengths:
            return
        if p.name in filled:
            size, number = filled[p.name]
            self.need(f'{p.type} *{p.name} = call_memory(&c, {size}, sizeof(*{p.name}));')
            if number:
                self.need(f'size_t {number} = 0;')
            self.result[p.name] = self.list_result(p, f'({number})' if number else size, size)
        elif p.name in texts:
            size = texts[p.name]
            self.need(f'char *{p.name} = call_memory(&c, (size_t){size} + 1, 1);')
            self.result[p.name] = f'result_text({p.name})'
        elif p.name in skip:
            return
        elif p.name in self.count_of:
            self.array(p, i, label)
        elif p.name in CHANGED.get(self.function, ()):
            self.need(f'{p.type} {p.name} = ({p.type}){self.integer(p.type, i, label)};')
            self.result[p.name] = self.value(p.type, p.name)
        elif self.is_result(p):
            self.output(p)
        elif p.stars == 0:
            if t.is_callback(p.type):
                raise Unfit('takes a callback')
            plain = t.plain(p.type)
            if plain in ('float', 'double'):
                self.need(f'const {p.type} {p.name} = ({p.type})call_float(&c, {i}, {label});')
            elif plain == 'void *':
                self.need(f'{p.type} const {p.name} = call_pointer(&c, {i}, {label});')
            elif p.type in t.structs:
                self.struct_in(p, i, label, '')
            else:
                self.need(f'const {p.type} {p.name} = ({p.type}){self.integer(p.type, i, label)};')
        elif p.type == 'char':
            reader = 'call_optional_text' if p.name in OPTIONAL.get(self.function, ()) else 'call_text'
            self.need(f'char *const {p.name} = {reader}(&c, {i}, {label});')
        elif p.type in t.structs and t.has_dict(p.type, True):
            self.struct_in(p, i, label, '&')
        else:
            stars = '*' * p.stars
            const = 'const ' if p.const else ''
            self.need(f'{const}{p.type} {stars}{p.name} = call_pointer(&c, {i}, {label});')

    def integer(self, ctype, i, label):
        limits = RANGES.get(self.t.plain(ctype))
        if limits is None:
            raise Unfit(f'no rule for {ctype}')
        if isinstance(limits, tuple):
            return f'call_signed(&c, {i}, {label}, {limits[0]}, {limits[1]})'
        return f'call_unsigned(&c, {i}, {label}, {limits})'

    def struct_in(self, p, i, label, _by):
        self.t.used.add(p.type)
        self.need(f'{p.type} {p.name};')
        self.need(f'call_record(&c, {i}, {label}, &record_{p.type}, &{p.name});')

    def array(self, p, i, label):
        count, t = self.count_of[p.name], self.t
        arguments = f'&c, {i}, {label}, &{count}, {int(self.first_of[count] == p.name)}'
        if '[2]' in p.array:
            self.need(f'int64_t(*{p.name})[2] = call_pairs({arguments});')
        elif p.type == 'char':
            self.need(f'const char **{p.name} = call_texts({arguments});')
        elif p.type in t.structs and t.has_dict(p.type, True):
            self.t.used.add(p.type)
            self.need(f'{p.type} *{p.name} = call_records({arguments}, &record_{p.type});')
        elif p.type in t.structs and p.stars == 1:
            self.need(f'{p.type} *{p.name} = call_blocks({arguments}, sizeof({p.type}));')
        elif p.stars == 2 or t.is_handle(p.type):
            self.need(f'void *{p.name} = call_pointers({arguments});')
        elif t.plain(p.type) == 'float':
            self.need(f'float *{p.name} = call_floats({arguments});')
        else:
            limits = RANGES[t.plain(p.type)]
            kind = 'INT' if isinstance(limits, tuple) else 'UINT'
            self.need(f'void *{p.name} = call_integers({arguments}, sizeof({p.type}), {int(kind == "INT")});')

    def output(self, p):
        t, stars = self.t, p.stars
        if p.type in t.structs and stars == 1:
            if not t.has_dict(p.type, False):
                raise Unfit(f'gives {p.type}')
            self.t.used.add(p.type)
            self.need(f'{p.type} {p.name};')
            self.need(f'memset(&{p.name}, 0, sizeof({p.name}));')
            self.result[p.name] = f'record_to_dict(&record_{p.type}, &{p.name})'
            return
        if t.is_callback(p.type) and stars == 1:
            self.need(f'{p.type} {p.name} = NULL;')
            self.result[p.name] = f'result_pointer((void *)(uintptr_t){p.name})'
            return
        inner = p.type + ' ' + '*' * (stars - 1)
        if p.const:
            inner = 'const ' + inner
        if stars > 1 or t.is_handle(p.type):
            self.need(f'{inner}{p.name} = NULL;')
            self.result[p.name] = f'result_pointer({p.name})'
        else:
            self.need(f'{inner}{p.name} = ({p.type})0;')
            self.result[p.name] = self.value(p.type, p.name)

    def list_result(self, p, number, size):
        if p.type in self.t.structs:
            self.t.used.add(p.type)
            return f'record_to_list(&record_{p.type}, {p.name}, {number} < {size} ? {number} : {size})'.replace(
                f'{size} < {size} ? {size} : {size}', size)
        return f'result_integers({p.name}, {number})'

    def value(self, ctype, expression):
        plain = self.t.plain(ctype)
        if plain in ('float', 'double'):
            return f'PyFloat_FromDouble({expression})'
        if plain == 'void *':
            return f'result_pointer({expression})'
        limits = RANGES.get(plain)
        if limits is None:
            raise Unfit(f'gives {ctype}')
        return f'PyLong_From{"" if isinstance(limits, tuple) else "Unsigned"}LongLong({expression})'

    def passed(self, p, arrays, lengths):
        if p.name in arrays:
            return f'({p.type}){p.name}'
        if p.name in lengths:
            return f'strlen({lengths[p.name]})' if p.type == 'size_t' else f'({p.type})strlen({lengths[p.name]})'
        if p.name in self.count_of or p.name in FILLED.get(self.function, ()) or p.name in TEXTS.get(self.function, ()):
            return p.name
        by_address = (self.is_result(p) or p.name in CHANGED.get(self.function, ())
                      or (p.stars and p.type in self.t.structs and self.t.has_dict(p.type, True)))
        if any(number == p.name for _, number in FILLED.get(self.function, {}).values()):
            by_address = True
        return '&' + p.name if by_address else p.name

    def signature(self):
        given = list(self.given) + ([self.last or 'ret'] if self.returns != 'void' else [])
        if self.page_given:
            given = self.page_given
        elif self.returns not in ('aclError', 'void') and not self.given:
            given = [result_word(self.function)]
        left = ', '.join(given)
        return (left + ' = ' if left else '') + f'{self.name}({", ".join(self.taken)})'

    def source(self, holds_gil):
        c = [f'static PyObject *bind_{ident(self.name)}(PyObject *self, PyObject *args) {{', '  (void)self;',
             f'  call c = CALL("{self.name}", args, {len(self.taken)}, "{", ".join(self.taken)}");']
        c += ['  ' + line for line in self.lines]
        c.append('  if (c.failed) return call_end(&c, 0);')
        call = f'{self.function}({", ".join(self.call_args)})'
        results = list(self.results)
        if self.returns != 'void':
            returned = self.returns.replace('const ', '')
            if returned == 'char *':
                c.append('  const char *ret = NULL;')
                results.append('result_text(ret)')
            elif returned.endswith('*') or self.t.is_handle(returned):
                c.append(f'  {self.returns} ret = NULL;')
                results.append('result_pointer(ret)')
            else:
                c.append(f'  {returned} ret = ({returned})0;')
                results.append(self.value(returned, 'ret'))
            call = 'ret = ' + call
        c.append(f'  {call};' if holds_gil else f'  WITHOUT_GIL({call});')
        c.append('  return call_end(&c, ' + ', '.join([str(len(results))] + results) + ');')
        return '\n'.join(c) + '\n}\n'


def result_word(function):
    word = re.sub(r'^acl(rt|op|prof|mdl)?(Get|Create)?', '', function)
    return snake(word) or 'value'


def ident(name):
    return name[len('acl.'):].replace('.', '_')


def hand_written():
    """{name: (C function or '', call)} of python/acl/hand.def"""
    with open(os.path.join(ROOT, 'python/acl/hand.def'), encoding='utf-8') as f:
        text = f.read()
    found = re.findall(r'^BINDING(_OURS)?\((\w+), "(acl\.[\w.]+)", (?:(\w+), )?(\d+), (\d+),\s*"([^"]*)"\)', text, re.M)
    if len(found) != text.count('\nBINDING'):
        sys.exit('python/acl/hand.def: a line is not BINDING(name, "acl.name", function, least, most, "call")')
    return {name: (function, call) for _, _, name, function, _, _, call in found}


def declared():
    text = ''
    for path in sorted(glob.glob(os.path.join(ROOT, 'include/acl/*.h'))):
        with open(path, encoding='utf-8') as f:
            text += f.read()
    return set(re.findall(r'\b(acl\w+)\(', text))


class Module:
    """All functions of CANN's headers: what of them is bound, how, and why not."""

    def __init__(self):
        self.types = Types()
        pages = table('pyacl.tsv')
        named = {r['function']: r for r in pages if r['function']}
        self.pages = {r['name'] for r in pages}
        exists, hand = declared(), hand_written()
        by_hand = self.by_hand = {function for function, _ in hand.values() if function}
        self.bound, self.rows = [], {}
        for name, (function, call) in hand.items():
            self.rows[name] = (function, call, '')
        for r in pages:
            if not r['function'] and r['name'] not in hand:
                sys.exit(f"abi/pyacl.tsv: {r['name']} has no C function, and python/acl/hand.def lacks it")
        for r in table('functions.tsv'):
            f = r['function']
            if not r['header'].startswith('acl/') or f in by_hand:
                continue
            name = named[f]['name'] if f in named else python_name(f)
            if name in self.rows:
                continue
            if '/ops/' in r['header'] or f not in exists:
                self.rows[name] = (f, '', next((why for p, why in ABSENT if re.search(p, f)), NOT_YET))
            elif f in UNBOUND:
                self.rows[name] = (f, '', UNBOUND[f])
            else:
                self.bind(r, name, named.get(f, {}).get('call', ''))
        unknown = set(UNBOUND) - {f for f, _, _ in self.rows.values()}
        if unknown:
            sys.exit(f'scripts/gen_pyacl.py: UNBOUND has {unknown}, which no table has')

    def bind(self, r, name, call):
        params = parameters(r['params'])
        try:
            if params is None:
                raise Unfit('takes a callback')
            b = Binding(self.types, name, r['function'], r['return_type'], params, call)
            self.bound.append((b, b.source(r['header'] == 'acl/acl_base.h' or bool(QUICK.match(b.function)))))
        except Unfit as why:
            sys.exit(f"scripts/gen_pyacl.py: no rule fits {r['function']}({r['params']}): {why}; write it by hand "
                     "(python/acl/hand.def), or give the reason for leaving it out in UNBOUND")
        self.rows[name] = (b.function, b.signature(), '')


FIELD_KINDS = {True: 'FIELD_SIGNED', False: 'FIELD_UNSIGNED'}


def record_source(types, used):
    """The descriptions of structs, inner ones first."""
    done, out = [], []

    def visit(struct):
        if struct in done:
            return
        fields = []
        for t, field in types.structs[struct]:
            base, _, number = t.partition(' [')
            count = number.rstrip(']') or '0'
            inner = 'NULL'
            if base in types.structs:
                visit(base)
                kind, inner = 'FIELD_RECORD', f'&record_{base}'
            elif base == 'char' and number:
                kind = 'FIELD_TEXT'
            elif base.endswith('*') or types.is_handle(base):
                kind = 'FIELD_POINTER'
            else:
                kind = FIELD_KINDS[isinstance(RANGES[types.plain(base)], tuple)]
            size = f'sizeof({base})' if kind != 'FIELD_TEXT' else count
            count = '0' if kind == 'FIELD_TEXT' else count
            fields.append(f'        {{"{field}", {kind}, offsetof({struct}, {field}), {size}, {count}, {inner}}},')
        done.append(struct)
        out.extend([f'static const record record_{struct} = {{',
                    f'    "{struct}", sizeof({struct}), {len(fields)}, (const field[]){{',
                    *fields, '    }', '};'])
    for struct in sorted(used):
        visit(struct)
    return out


def constants():
    """{name: (value or text)} of include/acl's enums and macros"""
    out = {}
    for r in table('enums.tsv'):
        if r['header'].startswith('acl/') and not r['constant'].startswith('HI_'):
            out.setdefault(r['constant'], int(r['value']))
    for r in table('macros.tsv'):
        if r['header'].startswith('acl/') and r['value']:
            out.setdefault(r['macro'], r['value'] if r['type'] == 'string' else int(r['value']))
    return dict(sorted(out.items()))


def write_source(module, path):
    used = module.types.used
    out = ['/* Generated by scripts/gen_pyacl.py: the bindings of C functions to which its rule applies. */',
           '#include "bindings.h"', '#include "call.h"', '#include "record.h"', '#include <limits.h>',
           '#include <stddef.h>', '#include <string.h>', '']
    out += record_source(module.types, used)
    out.append('')
    for _, source in module.bound:
        out.append(source)
    out.append('const binding generated_bindings[] = {')
    for b, _ in module.bound:
        short = b.name.rpartition('.')[2]
        doc = f'{short}({", ".join(b.taken)})\\n--\\n\\n{b.signature()}\\nC: {b.function}'
        out += [f'    {{"{b.name}", (binding_address)&{b.function},',
                f'     {{"{short}", bind_{ident(b.name)}, METH_VARARGS, "{doc}"}}}},']
    out += ['    {NULL, NULL, {NULL, NULL, 0, NULL}},', '};', '', 'const constant generated_constants[] = {']
    for name, value in constants().items():
        if isinstance(value, str):
            out.append(f'    {{"{name}", 0, false, {value}}},')
        else:
            out.append(f'    {{"{name}", {value % 2**64}ull, {str(value < 0).lower()}, NULL}},')
    out += ['    {NULL, 0, false, NULL},', '};', '']
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join(out))
    weak = sorted({b.function for b, _ in module.bound} | module.by_hand)
    with open(os.path.join(os.path.dirname(path), 'weak.h'), 'w', encoding='utf-8') as f:
        f.write('/* Generated by scripts/gen_pyacl.py: the functions that a library may lack. */\n#pragma once\n')
        f.writelines(f'#pragma weak {name}\n' for name in weak)


BEGIN, END = '<!-- names: written by scripts/gen_pyacl.py -->', '<!-- end of names -->'


def table_text(module):
    groups = collections.OrderedDict()
    for name in sorted(module.rows):
        groups.setdefault(name.rpartition('.')[0], []).append(name)
    out = []
    built = sum(1 for f, call, why in module.rows.values() if not why)
    pages = [n for n in module.rows if n in module.pages]
    on_pages = sum(1 for n in pages if not module.rows[n][2])
    out.append(f'{built} functions are built. CANN\'s pages or public samples show {len(pages)} names, of which '
               f'{on_pages} are built.\nThe others have their names by the rule; pages may call them otherwise.\n')
    for group, names in groups.items():
        out.append(f'### {group}\n')
        made = [n for n in names if not module.rows[n][2]]
        if made:
            out.append('| call | C function | name from |\n|---|---|---|')
            for n in made:
                function, call, _ = module.rows[n]
                out.append(f'| `{call}` | {function or "none"} | {"page" if n in module.pages else "rule"} |')
            out.append('')
        reasons = collections.OrderedDict()
        for n in names:
            if module.rows[n][2]:
                reasons.setdefault(module.rows[n][2], []).append(n)
        for why, missing in reasons.items():
            out += [absent(why, missing, module.pages), '']
    return '\n'.join(out)


def absent(why, names, pages):
    """A paragraph on names that are not there for one reason."""
    words = {True: [], False: []}
    for n in names:
        words[n in pages].append(n.rpartition('.')[2])
    parts = [f'{label}: {", ".join(words[on_page])}'
             for on_page, label in ((True, 'names of the pages'), (False, 'names by the rule')) if words[on_page]]
    return textwrap.fill(f'Absent ({why}); {"; ".join(parts)}.', width=118, break_long_words=False,
                         break_on_hyphens=False)


def write_table(module, path, check):
    with open(path, encoding='utf-8') as f:
        old = f.read()
    before, mark, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        sys.exit(f'{path}: has not the marks {BEGIN} and {END}')
    new = before + BEGIN + '\n\n' + table_text(module).rstrip() + '\n\n' + END + after
    if new == old:
        return
    if check:
        sys.exit(f'{path}: the table of names is not up to date; run scripts/gen_pyacl.py --table {path}')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(new)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--out', metavar='FILE.c')
    ap.add_argument('--table', metavar='FILE.md')
    ap.add_argument('--check', action='store_true')
    a = ap.parse_args()
    module = Module()
    if a.out:
        write_source(module, a.out)
    if a.table:
        write_table(module, a.table, a.check)


if __name__ == '__main__':
    main()
