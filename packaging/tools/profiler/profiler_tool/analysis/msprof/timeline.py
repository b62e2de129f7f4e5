# SPDX-License-Identifier: Apache-2.0
"""Reads what the profiler recorded: the files of a PROF_... folder. Their format is in src/trace/timeline_format.h."""
import dataclasses, json, os, re, struct

import communication, memory

CALL, SUBMISSION, TASK, MARK, MARK_EX, STEP, ALLOC, FREE = range(1, 9)
RECORD = struct.Struct('<5Ii4I3Q')


@dataclasses.dataclass
class Record:
    kind: int
    thread: int
    name: str
    type: str
    detail: str  # for a task, a name; for a range or step, its number as text
    device: int
    stream: int
    task: int
    bytes: int
    start: int   # nanoseconds since 1970
    end: int
    implementation: str = ''  # for an operator that has several; of memory, half of a size (timeline_format.h)
    reason: str = ''     # why this one
    domain: str = ''     # for a mark
    full_name: str = ''  # for a collective (communication.py)

    @property
    def key(self):
        """Identifies a task, and the submission or mark that belongs to it."""
        return self.device, self.stream, self.task


class Timeline:
    """Calls, submissions, marks and steps of the host; tasks by device, in the order of their start."""

    def __init__(self, folder):
        host = os.path.join(folder, 'host')
        with open(os.path.join(host, 'start_info'), encoding='utf-8') as f:
            start = json.load(f)
        with open(os.path.join(host, 'info.json'), encoding='utf-8') as f:
            info = json.load(f)
        self.pid, self.program = int(info['pid']), info['pid_name']
        self.host = info.get('hostname', '')
        self.device_info = next(iter(info.get('DeviceInfo', [])), {})  # of each device: they are alike
        self._shift = int(start['collectionTimeBegin']) * 1000 - int(start['clockMonotonicRaw'])
        self._names = dict(self._read_names(os.path.join(host, 'data', 'names')))
        records = list(self._read(os.path.join(host, 'data', 'calls')))
        self.calls = [r for r in records if r.kind == CALL]
        self.submissions = {r.key: r for r in records if r.kind == SUBMISSION}
        self.marks = [r for r in records if r.kind in (MARK, MARK_EX)]
        self.steps = [r for r in records if r.kind == STEP]
        self.memory = memory.by_device([r for r in records if r.kind in (ALLOC, FREE)], FREE)
        self.tasks = {}
        for name in sorted(os.listdir(folder)):
            if device := re.fullmatch(r'device_(\d+)', name):
                tasks = self._read(os.path.join(folder, name, 'data', 'tasks'))
                self.tasks[int(device[1])] = sorted(tasks, key=lambda r: (r.start, r.stream, r.task))
                communication.name_all(self.tasks[int(device[1])])

    @staticmethod
    def _read_names(path):
        with open(path, 'rb') as f:
            data = f.read()
        at, number = 0, None
        while at + 4 <= len(data):  # a process that was killed may have left an incomplete record
            value, = struct.unpack_from('<I', data, at)
            at += 4
            if number is None:
                number = value
                continue
            yield number, data[at:at + value].decode('utf-8', 'replace')
            at += value
            number += 1

    def _read(self, path):
        with open(path, 'rb') as f:
            data = f.read()
        whole = len(data) // RECORD.size * RECORD.size
        for r in RECORD.iter_unpack(data[:whole]):
            kind, thread, name, kind_name, detail, device, stream, task, way, reason, size, start, end = r
            is_mark = kind in (MARK, MARK_EX)
            yield Record(kind, thread, self._name(name), self._name(kind_name),
                         self._name(detail) if kind == TASK else str(detail), device, stream, task,
                         0 if is_mark else size, start + self._shift, end + self._shift,
                         *((way, reason) if kind in (ALLOC, FREE) else (self._name(way), self._name(reason))),
                         self._name(size) if is_mark else '')

    def _name(self, number):
        return self._names.get(number, '')
