# SPDX-License-Identifier: Apache-2.0
"""msprof's command line: CANN's options, of which some mean something here, some mean something on an NPU only, and
the rest is unknown.

Source of the names: CANN's documentation of msprof, "Profiling AI Tasks When They Are Running", "Collecting Ascend AI
Processor System Data", "Profile Data Parsing and Export"."""
import dataclasses, re, shlex

# Switches of acl/acl_prof.h
_CALLS, _TASKS, _MARKS, _TASKS_ONLY, _MEMORY = 0x1, 0x2, 0x80, 0x800, 0x1000
_TASK_TIME = {'on': _TASKS, 'l0': _TASKS_ONLY, 'l1': _TASKS, 'l2': _TASKS, 'l3': _TASKS, 'off': 0}
_LEVELS = tuple(_TASK_TIME)
_ON_OFF = ('on', 'off')
_CHOICES = {'ascendcl': _ON_OFF, 'runtime-api': _ON_OFF, 'task-time': _LEVELS, 'msproftx': _ON_OFF,
            'task-memory': _ON_OFF, 'export': _ON_OFF, 'analyze': _ON_OFF, 'parse': _ON_OFF}
_TEXTS = ('output', 'application', 'storage-limit')
# What selects counters and sensors of an NPU, or files that are always written here.
_OF_HARDWARE = frozenset('''
    ai-core aic-freq aic-metrics aic-mode aicpu dvpp-freq dvpp-profiling ge-api hccl host-sys host-sys-pid
    host-sys-usage host-sys-usage-freq instr-profiling instr-profiling-freq l2 llc-profiling model-execution op-attr
    rule scale sys-cpu-freq sys-cpu-profiling sys-devices sys-hardware-mem sys-hardware-mem-freq
    sys-interconnection-freq sys-interconnection-profiling sys-io-profiling sys-io-sampling-freq sys-lp sys-lp-freq
    sys-period sys-pid-profiling sys-pid-sampling-freq sys-profiling sys-sampling-freq'''.split())
# What CANN's tool does and this one does not, whether the program is on an NPU or not.
_MISSING = frozenset('''
    clear delay duration dynamic environment iteration-id model-id mstx-domain-exclude mstx-domain-include pid
    python-path query reports summary-format type'''.split())
_HARMLESS = {('type', 'text'), ('summary-format', 'csv'), ('dynamic', 'off'), ('clear', 'off'), ('query', 'off')}


class Wrong(Exception):
    """The command line is wrong."""


@dataclasses.dataclass
class Options:
    values: dict = dataclasses.field(default_factory=dict)
    program: list = dataclasses.field(default_factory=list)
    warnings: list = dataclasses.field(default_factory=list)
    help: bool = False

    def is_on(self, name):
        return self.values.get(name) == 'on'

    @property
    def output(self):
        return self.values.get('output', '.')

    @property
    def switches(self):
        """What the program records, for CANNON_PROFILE_SWITCHES. Without options that is everything."""
        calls = self.values.get('ascendcl', 'on') == 'on' or self.is_on('runtime-api')
        return (calls * _CALLS | _TASK_TIME[self.values.get('task-time', 'on')] |
                (self.values.get('msproftx', 'on') == 'on') * _MARKS |
                (self.values.get('task-memory', 'on') == 'on') * _MEMORY)

    @property
    def limit(self):
        """For CANNON_PROFILE_LIMIT: '500M'; None without one."""
        text = self.values.get('storage-limit')
        return text[:-1] if text else None

    def _set(self, name, value):
        if value not in _CHOICES.get(name, (value,)):
            raise Wrong(f"--{name} is '{value}', expected {', '.join(_CHOICES[name][:-1])} or {_CHOICES[name][-1]}")
        if name == 'storage-limit' and not (re.fullmatch(r'\d{3,10}MB', value) and 200 <= int(value[:-2]) < 1 << 32):
            raise Wrong(f"--storage-limit is '{value}', expected 200MB to 4294967295MB")
        if not value:
            raise Wrong(f'--{name} has no value')
        self.values[name] = value


def parse(arguments):
    """Parses the words behind the program's name. The first that is no option begins the program to be run."""
    o, words = Options(), list(arguments)
    while words and words[0].startswith('-'):
        word = words.pop(0)
        if word == '--':
            break
        if word in ('-h', '--help'):
            o.help = True
            return o
        name, given, value = word.lstrip('-').partition('=')
        if name in _TEXTS or name in _CHOICES:
            if not given:
                if not words:
                    raise Wrong(f'--{name} has no value')
                value = words.pop(0)
            o._set(name, value)
        elif name in _MISSING and (name, value) not in _HARMLESS:
            o.warnings.append(f'{word} has no effect here')
        elif name not in _OF_HARDWARE and name not in _MISSING:
            o.warnings.append(f'{word} is not known to Cannon, and has no effect')
    o.program = words
    if 'application' in o.values:
        if words:
            raise Wrong(f'--application and {words[0]} are two programs, expected one')
        try:
            o.program = shlex.split(o.values['application'])
        except ValueError as e:
            raise Wrong(f'--application: {e}') from e
    return o
