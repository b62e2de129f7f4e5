# SPDX-License-Identifier: Apache-2.0
"""Writes the timeline in Chrome's trace event format. Processes, events and flows have CANN's names, since clients such
as torch_npu look for them.

  CANN              threads of the program: calls ("AscendCL@..."), submissions ("Node@launch") and marks
  Ascend Hardware   streams of a device, with their tasks; a flow "HostToDevice" links each submission to its task
  HCCL              per device: communicators, with their collectives, to which the flows from their submissions lead
  Overlap Analysis  per device: when it computed, when it communicated, the part of that in which it did not compute,
                    and when it was free
  NPU MEM           per device: counters of the process's memory, in KB"""
import json

from communication import fields, is_collective, merge, subtract
from units import is_operator, mark_domain, mark_type, task_name, task_type

CANN, HARDWARE, HCCL, OVERLAP, MEMORY = range(5)  # also the order in which viewers show them
HOST = 31                                 # device number that stands for the host


def us(ns):
    return f'{ns // 1000}.{ns % 1000:03d}'


def process_id(timeline, what, device=HOST):
    return timeline.pid << 10 | what << 5 | device


def metadata(name, pid, tid, /, **args):
    return {'name': name, 'ph': 'M', 'pid': pid, 'tid': tid, 'args': args}


def process(pid, name, label, order):
    return [metadata('process_name', pid, 0, name=name), metadata('process_labels', pid, 0, labels=label),
            metadata('process_sort_index', pid, 0, sort_index=order)]


def span(name, pid, tid, start, end, /, **args):
    return {'name': name, 'ph': 'X', 'pid': pid, 'tid': tid, 'ts': us(start), 'dur': (end - start) / 1000,
            'args': args}


def flow(phase, number, pid, tid, ts):
    return {'name': f'HostToDevice{number}', 'cat': 'HostToDevice', 'ph': phase, 'id': str(number), 'bp': 'e',
            'pid': pid, 'tid': tid, 'ts': us(ts)}


def host_events(t):
    pid = process_id(t, CANN)
    threads = {r.thread for r in [*t.calls, *t.marks, *t.submissions.values()]}
    yield from process(pid, 'CANN', 'CPU', CANN)
    for thread in sorted(threads):
        yield metadata('thread_name', pid, thread, name=f'Thread {thread}')
    for r in t.calls:
        yield span(f'AscendCL@{r.name}', pid, r.thread, r.start, r.end, Level='acl')
    for r in t.marks:
        yield span(r.name, pid, r.thread, r.start, r.end, event_type=mark_type(r), domain=mark_domain(r))


def implementation(r):
    return {'Implementation': r.implementation, 'Reason': r.reason} if r.implementation else {}


def task_events(t, device, tasks):
    pid = process_id(t, HARDWARE, device)
    yield from process(pid, 'Ascend Hardware', f'NPU {device}', HARDWARE)
    for stream in sorted({r.stream for r in tasks}):
        yield metadata('thread_name', pid, stream, name=f'Stream {stream}')
        yield metadata('thread_sort_index', pid, stream, sort_index=stream)
    for r in tasks:
        # torch_npu adds up the events of all processes that are named like collectives.
        name = task_type(r) if is_collective(r) else task_name(r)
        yield span(name, pid, r.stream, r.start, r.end, **{
            'Task Type': task_type(r), 'Stream Id': r.stream, 'Task Id': r.task, 'Bytes': r.bytes, **implementation(r)})
        if is_collective(r):
            continue
        yield from launch_events(t, r, pid, r.stream)


def launch_events(t, r, pid, tid):
    """Yields a task's submission, and the flow from there to the task's event in a process and thread."""
    cann = process_id(t, CANN)
    if s := t.submissions.get(r.key):
        number = r.device << 60 | r.stream << 32 | r.task
        yield span('Node@launch', cann, s.thread, s.start, s.end, Level='node', item_id=task_name(r))
        yield flow('s', number, cann, s.thread, s.start)
        yield flow('f', number, pid, tid, r.start)


def communication_events(t, device, tasks):
    """Yields the collectives of a device, in a thread for each communicator."""
    tasks = list(filter(is_collective, tasks))
    if not tasks:
        return
    pid = process_id(t, HCCL, device)
    yield from process(pid, 'HCCL', f'NPU {device}', HCCL)
    groups = {}
    for r in tasks:
        f = fields(r)
        tid = groups.setdefault(f['group'], len(groups))
        yield span(task_name(r), pid, tid, r.start, r.end, data_type=f['dtype'], count=int(f['count']),
                   rank=int(f['rank']), group=f['group'], **{'size(Byte)': int(f['sent']) or int(f['received'])})
        yield from launch_events(t, r, pid, tid)
    for group, tid in groups.items():
        yield metadata('thread_name', pid, tid, name=f'Group {group} Communication')
        yield metadata('thread_sort_index', pid, tid, sort_index=tid)


def overlap_events(t, device, tasks):
    """Yields the spans in which any operator ran, in which any collective did and in which only collectives did, and
    the spans between all of them."""
    pid = process_id(t, OVERLAP, device)
    yield from process(pid, 'Overlap Analysis', f'NPU {device}', OVERLAP)
    computing = merge((r.start, r.end) for r in tasks if is_operator(r))
    communicating = merge((r.start, r.end) for r in tasks if is_collective(r))
    busy = merge((start, end) for start, end in computing + communicating)
    spans = {'Computing': computing, 'Free': [(start, end) for (_, start), (end, _) in zip(busy, busy[1:])]}
    if communicating:
        spans['Communication'] = communicating
        spans['Communication(Not Overlapped)'] = subtract(communicating, computing)
    for tid, (name, of_name) in enumerate(spans.items()):
        yield metadata('thread_name', pid, tid, name=name)
        for start, end in of_name:
            yield span(name, pid, tid, start, end)


def memory_events(t):
    """Yields counters; all memory of a device counts as HBM."""
    for device, memory in t.memory.items():
        pid = process_id(t, MEMORY, device)
        yield from process(pid, 'NPU MEM', f'NPU {device}', MEMORY)
        for time, _, rounded, _ in memory.totals:
            for name, size in (('APP/DDR', 0), ('APP/HBM', rounded), ('APP/Memory', rounded)):
                yield {'name': name, 'ph': 'C', 'pid': pid, 'tid': 0, 'ts': us(time), 'args': {'KB': size / 1024}}


def write(path, t):
    events = list(host_events(t))
    for device, tasks in t.tasks.items():
        events += task_events(t, device, tasks)
        events += communication_events(t, device, tasks)
        events += overlap_events(t, device, tasks)
    events += memory_events(t)
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(events, f)
