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
ALLOCATOR = 'only models of dynamic shape would call an allocator in Python, and none does yet'
UNBOUND = {
    'aclblasHgemm': '`acl.blas.gemm_ex` takes float16, too',
    'aclblasHgemv': '`acl.blas.gemv_ex` takes float16, too',
    'aclrtAllocatorSetAllocAdviseFuncToDesc': ALLOCATOR,
    'aclrtAllocatorSetAllocFuncToDesc': ALLOCATOR,
    'aclrtAllocatorSetFreeFuncToDesc': ALLOCATOR,
    'aclrtAllocatorSetGetAddrFromBlockFuncToDesc': ALLOCATOR,
    'aclrtGetStreamAttribute': 'the value is a union; attributes have functions of their own',
    'aclrtSetStreamAttribute': 'the value is a union; attributes have functions of their own',
    'aclrtGetErrorVerbose': 'it only says that there is no error',
    'aclrtRepairError': 'there is no error to repair',
    'aclrtIpcGetEventHandle': 'the handle is a structure, and no page shows a form in Python',
    'aclrtIpcOpenEventHandle': 'the handle is a structure, and no page shows a form in Python',
    'aclmdlCreateAndGetOpDesc': 'the C function only says that it is not supported',
    'aclrtSetExceptionInfoCallback': 'it takes a C callback; threads of the library would call into Python',
    'aclrtSetDeviceTaskAbortCallback': 'it takes a C callback, and no page shows a form in Python',
}

# Why C functions are absent, by a part of their names; the first that fits.
ABSENT = (
    (r'^aclmdl(?!RI)|^acldump|^aclopInferShape|^aclprof.*(Subscribe|GetOp|GetModel)',
     'dumps and subscriptions are not built yet'),
    (r'^acldvpp|^aclvdec|^aclvenc', 'there is no media hardware'),
    (r'^aclfv', 'feature retrieval is hardware of other products'),
    (r'^aclblas', 'they run operators compiled ahead of time for an NPU; use `acl.op.execute_v2`'),
    (r'^acltdt|Buf', 'queues of buffers are not built yet'),
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

# The least and the greatest value of the integer types, or only the greatest of unsigned ones.
RANGES = {'bool': ('1',), 'int': ('INT_MIN', 'INT_MAX'), 'size_t': ('SIZE_MAX',), 'unsigned char': ('UINT8_MAX',)}
for bits in (8, 16, 32, 64):
    RANGES[f'int{bits}_t'] = (f'INT{bits}_MIN', f'INT{bits}_MAX')
    RANGES[f'uint{bits}_t'] = (f'UINT{bits}_MAX',)


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
        self.enums = {r['enum'].removeprefix('enum ') for r in table('enums.tsv')}
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

    def limits(self, t):
        """The least and the greatest value of an integer type, or only the greatest of an unsigned one."""
        plain = self.plain(t)
        if plain not in RANGES:
            raise Unfit(f'no rule for {t}')
        return RANGES[plain]

    def is_opaque(self, t):
        return self.alias.get(t, '').startswith('struct ') and t not in self.structs

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
    """One function of the module: what it takes, what it gives, and its C source.

    Each parameter of the C function has a role:
      argument   Python passes it, an array as a list
      changed    Python passes it and gets the new value
      result     the C function writes it
      text       the C function writes a string of bounded size into it
      filled     the C function writes an array of bounded size into it
      count      how many elements the lists have
      length     how long a str is
      number     how many elements of the filled array are there"""

    def __init__(self, types, name, function, returns, params, call=''):
        self.types, self.name, self.function, self.returns, self.params = types, name, function, returns, params
        self.count_of = {array: count for count, arrays in ARRAYS.get(function, {}).items() for array in arrays}
        self.filled, self.texts = FILLED.get(function, {}), TEXTS.get(function, {})
        self.roles = {p.name: self.role(p) for p in params}
        page = re.match(r'(?:(?P<results>.*?) ?= ?)?acl\.[\w.]+\((?P<arguments>.*)\)', call) if call else None
        self.page_results = split(page['results']) if page else None
        self.place = {}  # of each argument, by the C name
        for p in params:
            if self.roles[p.name] in ('argument', 'changed'):
                self.place[p.name] = len(self.place)
        self.taken = split(page['arguments']) if page else [snake(name) for name in self.place]
        if len(self.taken) != len(self.place):
            raise Unfit(f'it has {len(self.place)} arguments, and the page {call}')
        self.lines = [f'size_t {count} = 0;' for count in ARRAYS.get(function, {})]
        self.results = {}  # {name: a C expression that makes the Python object}, by the C names, in C's order
        sizes = {size for size, _ in self.filled.values()} | set(self.texts.values())
        for p in sorted(params, key=lambda p: p.name not in sizes):  # what has the size of another is read first
            getattr(self, 'declare_' + self.roles[p.name], lambda p: None)(p)
        self.results = {snake(p.name): self.results[p.name] for p in params if p.name in self.results}
        if self.page_results is not None:
            self.order_as_the_page()

    def role(self, p):
        if p.name in ARRAYS.get(self.function, {}):
            return 'count'
        if p.name in LENGTHS.get(self.function, {}):
            return 'length'
        if p.name in self.filled:
            return 'filled'
        if any(number == p.name for _, number in self.filled.values()):
            return 'number'
        if p.name in self.texts:
            return 'text'
        if p.name in CHANGED.get(self.function, ()):
            return 'changed'
        if p.name in self.count_of or p.name in READ.get(self.function, ()) or p.stars == 0:
            return 'argument'
        if p.stars == 1 and (p.const or p.type in ('void', 'char') or self.types.is_opaque(p.type)):
            return 'argument'
        return 'result'

    def order_as_the_page(self):
        """The page's names for the results, and its order where that differs from C's."""
        values = self.page_results if self.returns == 'void' else self.page_results[:-1]
        if len(values) == len(self.results) + 1 and values[0] in self.taken:  # an argument comes back
            self.results = {values[0]: f'call_argument(&c, {self.taken.index(values[0])})', **self.results}
        if sorted(values) == sorted(self.results):
            self.results = {v: self.results[v] for v in values}
        elif len(values) != len(self.results):
            raise Unfit(f'it has {len(self.results)} results besides the code, and the page {values}')

    # ---- declarations: C lines that read an argument or make room for a result ------------------------------------

    def reader(self, p):
        """The beginning of a reader's arguments: the call, the argument's place, its name for messages."""
        i = self.place[p.name]
        return f'&c, {i}, "{self.taken[i]}"'

    def declare_argument(self, p):
        read, plain = self.reader(p), self.types.plain(p.type)
        if p.name in self.count_of:
            self.lines.append(self.array(p))
        elif p.type in self.types.structs and p.stars <= 1 and self.types.has_dict(p.type, True):
            self.types.used.add(p.type)
            self.lines += [f'{p.type} {p.name};', f'call_record({read}, &record_{p.type}, &{p.name});']
        elif p.stars == 1 and p.type == 'char':
            reader = 'call_optional_text' if p.name in OPTIONAL.get(self.function, ()) else 'call_text'
            self.lines.append(f'char *const {p.name} = {reader}({read});')
        elif p.stars or plain == 'void *':
            stars, const = '*' * p.stars, 'const ' if p.const else ''
            self.lines.append(f'{const}{p.type} {stars}{p.name} = call_pointer({read});')
        elif plain in ('float', 'double'):
            self.lines.append(f'const {p.type} {p.name} = ({p.type})call_float({read});')
        else:
            self.lines.append(f'const {p.type} {p.name} = {self.integer(p)};')

    def declare_changed(self, p):
        self.lines.append(f'{p.type} {p.name} = {self.integer(p)};')
        self.results[p.name] = self.value(p.type, p.name)

    def integer(self, p):
        limits = self.types.limits(p.type)
        reader = 'call_signed' if len(limits) == 2 else 'call_unsigned'
        return f'({p.type}){reader}({", ".join([self.reader(p), *limits])})'

    def array(self, p):
        types, count = self.types, self.count_of[p.name]
        read = f'{self.reader(p)}, &{count}, {int(ARRAYS[self.function][count][0] == p.name)}'
        if '[2]' in p.array:
            return f'int64_t(*{p.name})[2] = call_pairs({read});'
        if p.type == 'char':
            return f'const char **{p.name} = call_texts({read});'
        if p.type in types.structs and types.has_dict(p.type, True):
            types.used.add(p.type)
            return f'{p.type} *{p.name} = call_records({read}, &record_{p.type});'
        if p.type in types.structs and p.stars == 1:
            return f'{p.type} *{p.name} = call_blocks({read}, sizeof({p.type}));'
        if p.stars == 2 or types.is_handle(p.type):
            return f'void *{p.name} = call_pointers({read});'
        if types.plain(p.type) == 'float':
            return f'float *{p.name} = call_floats({read});'
        return f'void *{p.name} = call_integers({read}, sizeof({p.type}), {int(len(types.limits(p.type)) == 2)});'

    def declare_text(self, p):
        self.lines.append(f'char *{p.name} = call_memory(&c, (size_t){self.texts[p.name]} + 1, 1);')
        self.results[p.name] = f'result_text({p.name})'

    def declare_number(self, p):
        self.lines.append(f'size_t {p.name} = 0;')

    def declare_filled(self, p):
        size, number = self.filled[p.name]
        self.lines.append(f'{p.type} *{p.name} = call_memory(&c, {size}, sizeof(*{p.name}));')
        n = f'{number} < {size} ? {number} : {size}' if number else size
        if p.type in self.types.structs:
            self.types.used.add(p.type)
            self.results[p.name] = f'record_to_list(&record_{p.type}, {p.name}, {n})'
        else:
            self.results[p.name] = f'result_integers({p.name}, {n})'

    def declare_result(self, p):
        types = self.types
        if p.type in types.structs and p.stars == 1:
            if not types.has_dict(p.type, False):
                raise Unfit(f'gives {p.type}')
            types.used.add(p.type)
            self.lines += [f'{p.type} {p.name};', f'memset(&{p.name}, 0, sizeof({p.name}));']
            self.results[p.name] = f'record_to_dict(&record_{p.type}, &{p.name})'
        elif p.stars > 1 or types.is_handle(p.type) or types.is_callback(p.type):
            const, stars = 'const ' if p.const else '', '*' * (p.stars - 1)
            self.lines.append(f'{const}{p.type} {stars}{p.name} = NULL;')
            cast = '(void *)(uintptr_t)' if types.is_callback(p.type) else ''
            self.results[p.name] = f'result_pointer({cast}{p.name})'
        else:
            self.lines.append(f'{p.type} {p.name} = ({p.type})0;')
            self.results[p.name] = self.value(p.type, p.name)

    def value(self, ctype, expression):
        plain = self.types.plain(ctype)
        if plain in ('float', 'double'):
            return f'PyFloat_FromDouble({expression})'
        if plain == 'void *':
            return f'result_pointer({expression})'
        return f'PyLong_From{"" if len(self.types.limits(ctype)) == 2 else "Unsigned"}LongLong({expression})'

    # ---- the whole ------------------------------------------------------------------------------------------------

    def passed(self, p):
        """What the C function gets for a parameter."""
        role = self.roles[p.name]
        if role == 'count':
            return f'({p.type}){p.name}'
        if role == 'length':
            return f'({p.type})strlen({LENGTHS[self.function][p.name]})'
        is_record = (role == 'argument' and p.stars == 1 and p.name not in self.count_of
                     and p.type in self.types.structs and self.types.has_dict(p.type, True))
        return '&' + p.name if role in ('result', 'changed', 'number') or is_record else p.name

    def signature(self):
        given = self.page_results
        if given is None:
            given = list(self.results)
            if self.returns == 'aclError' or given and self.returns != 'void':
                given.append('ret')
            elif self.returns != 'void':
                given = [result_word(self.function)]
        return (', '.join(given) + ' = ' if given else '') + f'{self.name}({", ".join(self.taken)})'

    def source(self, holds_gil):
        c = [f'static PyObject *bind_{ident(self.name)}(PyObject *self, PyObject *args) {{', '  (void)self;',
             f'  call c = CALL("{self.name}", args, {len(self.taken)}, "{", ".join(self.taken)}");']
        c += ['  ' + line for line in self.lines]
        c.append('  if (c.failed) return call_end(&c, 0);')
        call = f'{self.function}({", ".join(self.passed(p) for p in self.params)})'
        results = list(self.results.values())
        returned = self.returns.replace('const ', '')
        if returned == 'char *':
            results.append('result_text(ret)')
        elif returned.endswith('*'):
            results.append('result_pointer(ret)')
        elif returned != 'void':
            results.append(self.value(returned, 'ret'))
        if returned != 'void':
            c.append(f'  {self.returns} ret;')
            call = 'ret = ' + call
        c.append(f'  {call};' if holds_gil else f'  WITHOUT_GIL({call});')
        c.append('  return call_end(&c, ' + ', '.join([str(len(results))] + results) + ');')
        return '\n'.join(c) + '\n}\n'


def split(names):
    return [n.strip() for n in (names or '').split(',') if n.strip()]


def result_word(function):
    word = re.sub(r'^acl(rt|op|prof|mdl)?(Get|Create)?', '', function)
    return snake(word) or 'value'


def ident(name):
    return name[len('acl.'):].replace('.', '_')


def hand_written():
    """{name: (C function or '', call)} of python/acl/hand.def"""
    with open(os.path.join(ROOT, 'python/acl/hand.def'), encoding='utf-8') as f:
        text = f.read()
    found = re.findall(r'^BINDING(?:_OURS)?\(\w+, "(acl\.[\w.]+)",(?: (\w+),)?\s*"([^"]*)"\)', text, re.M)
    if len(found) != text.count('\nBINDING'):
        sys.exit('python/acl/hand.def: a line is not BINDING(name, "acl.name", function, "call")')
    return {name: (function, call) for name, function, call in found}


def declared():
    text = ''
    for path in sorted(glob.glob(os.path.join(ROOT, 'include/acl/**/*.h'), recursive=True)):
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
            if f not in exists:
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
            elif base == 'float':
                kind = 'FIELD_FLOAT'
            else:
                kind = 'FIELD_SIGNED' if len(types.limits(base)) == 2 else 'FIELD_UNSIGNED'
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
