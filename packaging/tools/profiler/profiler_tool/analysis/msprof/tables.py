# SPDX-License-Identifier: Apache-2.0
"""Writes the tables. Files and columns have CANN's names; N/A stands for what was not recorded. Times are in
microseconds; a tab after a number makes spreadsheets treat it as text."""
import collections, csv, math

from timeline import MARK_EX
from chrome_trace import us
from communication import is_collective
from units import is_operator, mark_domain, mark_type, task_name, task_type

NA = 'N/A'
TENSOR_COLUMNS = ('Input Shapes', 'Input Data Types', 'Input Formats', 'Output Shapes', 'Output Data Types',
                  'Output Formats')


def write_csv(path, header, rows):
    with open(path, 'w', newline='', encoding='utf-8') as f:
        out = csv.writer(f)
        out.writerow(header)
        out.writerows(rows)


def duration(r):
    return (r.end - r.start) / 1000


def op_summary(path, t):
    header = ['Device_id', 'Model ID', 'Task ID', 'Stream ID', 'Op Name', 'OP Type', 'OP State', 'Task Type',
              'Task Start Time(us)', 'Task Duration(us)', 'Task Wait Time(us)', 'Block Dim', 'Mix Block Dim',
              'HF32 Eligible', *TENSOR_COLUMNS, 'Context ID']
    rows = []
    for device, tasks in t.tasks.items():
        ended = None
        for r in tasks:
            if not is_operator(r) and not is_collective(r):
                continue
            wait = max(0, r.start - ended) / 1000 if ended else 0
            ended = max(ended or 0, r.end)
            tensors = r.detail.split('|') if r.detail and is_operator(r) else [NA] * len(TENSOR_COLUMNS)
            rows.append([device, NA, r.task, r.stream, task_name(r), r.name, NA, task_type(r), us(r.start) + '\t',
                         duration(r), wait, NA, NA, NA, *tensors, NA])
    write_csv(path, header, rows)


def task_time(path, t):
    header = ['Device_id', 'kernel_name', 'kernel_type', 'stream_id', 'task_id', 'task_time(us)', 'task_start(us)',
              'task_stop(us)']
    write_csv(path, header, ([device, task_name(r), task_type(r), r.stream, r.task, duration(r), us(r.start) + '\t',
                              us(r.end) + '\t'] for device, tasks in t.tasks.items() for r in tasks))


def statistic_rows(t, wanted, key):
    """Yields a row for each device and key: the key, then the number and times of its tasks, longest first."""
    for device, tasks in t.tasks.items():
        times = collections.defaultdict(list)
        for r in filter(wanted, tasks):
            times[key(r)].append(duration(r))
        total = math.fsum(map(math.fsum, times.values()))
        for names, d in sorted(times.items(), key=lambda item: -math.fsum(item[1])):
            of_op = math.fsum(d)
            yield [device, *names, len(d), round(of_op, 3), min(d), round(of_op / len(d), 3), max(d),
                   round(100 * of_op / total, 3) if total else 0]


def op_statistic(path, t):
    header = ['Device_id', 'OP Type', 'Core Type', 'Count', 'Total Time(us)', 'Min Time(us)', 'Avg Time(us)',
              'Max Time(us)', 'Ratio(%)']
    write_csv(path, header, statistic_rows(t, is_operator, lambda r: (r.name, task_type(r))))


def communication_statistic(path, t):
    header = ['Device_id', 'OP Type', 'Count', 'Total Time(us)', 'Min Time(us)', 'Avg Time(us)', 'Max Time(us)',
              'Ratio(%)']
    rows = list(statistic_rows(t, is_collective, lambda r: (r.name,)))
    if rows:
        write_csv(path, header, rows)


def api_statistic(path, t):
    header = ['Device_id', 'Level', 'API Name', 'Time(us)', 'Count', 'Avg(us)', 'Min(us)', 'Max(us)', 'Variance']
    times = collections.defaultdict(list)
    for r in t.calls:
        times['acl', r.name].append(duration(r))
    for r in t.submissions.values():
        times['node', 'launch'].append(duration(r))
    rows = []
    for (level, name), d in sorted(times.items(), key=lambda item: -math.fsum(item[1])):
        mean = math.fsum(d) / len(d)
        rows.append(['host', level, name, round(math.fsum(d), 3), len(d), round(mean, 3), min(d), max(d),
                     round(math.fsum((x - mean) ** 2 for x in d) / len(d), 3)])
    write_csv(path, header, rows)


def step_trace(path, t):
    points = {r.key: r for tasks in t.tasks.values() for r in tasks}
    steps = collections.defaultdict(dict)
    for r in t.steps:
        if point := points.get(r.key):
            steps[r.device, int(r.detail)][r.type] = point.start
    rows = [[device, step, us(at['end']) + '\t', (at['end'] - at['start']) / 1000]
            for (device, step), at in sorted(steps.items()) if len(at) == 2]
    if rows:
        write_csv(path, ['Device_id', 'Iteration ID', 'Iteration End(us)', 'Iteration Time(us)'], rows)


def msprof_tx(path, t):
    if not t.marks:
        return
    points = {r.key: r for tasks in t.tasks.values() for r in tasks}
    rows = []
    for r in t.marks:
        point = points.get(r.key) if r.kind == MARK_EX else None
        rows.append([t.pid, r.thread, mark_type(r), us(r.start) + '\t', us(r.end) + '\t', r.name,
                     us(point.start) + '\t' if point else NA, mark_domain(r)])
    write_csv(path, ['pid', 'tid', 'event_type', 'start_time(us)', 'end_time(us)', 'message', 'device_time(us)',
                     'domain'], rows)


def kb(size):
    return round(size / 1024, 3)


def operator_memory(path, t):
    """Of blocks that were not freed, the release is empty, as in CANN's table."""
    header = ['Device_id', 'Name', 'Size(KB)', 'Allocation Time(us)', 'Duration(us)', 'Allocation Total Allocated(KB)',
              'Allocation Total Reserved(KB)', 'Release Total Allocated(KB)', 'Release Total Reserved(KB)', 'Device']
    rows = [[number, b.name, kb(b.requested), us(b.start) + '\t', (b.end - b.start) / 1000 if b.end else '',
             *map(kb, b.at_start), *(map(kb, b.at_end) if b.at_end else ('', '')), f'NPU:{number}']
            for number, device in t.memory.items() for b in device.blocks]
    if rows:
        write_csv(path, header, rows)


def memory_record(path, t):
    """Reserved is what the allocation rules made of the requests. CANN's only component in this table is GE, which
    stands for the whole process here."""
    header = ['Device_id', 'Component', 'Timestamp(us)', 'Total Allocated(KB)', 'Total Reserved(KB)', 'Device']
    rows = [[number, 'GE', us(time) + '\t', kb(requested), kb(rounded), f'NPU:{number}']
            for number, device in t.memory.items() for time, requested, rounded, _ in device.totals]
    if rows:
        write_csv(path, header, rows)


def npu_mem(path, t):
    """The process's memory; that of other processes, which CANN shows as the event Device, is not recorded."""
    rows = [[number, 'APP', 0, kb(rounded), kb(rounded), us(time) + '\t']
            for number, device in t.memory.items() for time, _, rounded, _ in device.totals]
    if rows:
        write_csv(path, ['Device_id', 'event', 'ddr(KB)', 'hbm(KB)', 'memory(KB)', 'timestamp(us)'], rows)


def npu_module_mem(path, t):
    rows = []
    for number, device in t.memory.items():
        before = {}
        for time, _, _, parts in device.totals:
            rows += [[number, name, us(time) + '\t', kb(size), f'NPU:{number}'] for name, size in parts.items()
                     if before.get(name) != size]
            before = parts
    if rows:
        write_csv(path, ['Device_id', 'Component', 'Timestamp(us)', 'Total Reserved(KB)', 'Device'], rows)


ALL = {f.__name__: f for f in (op_summary, task_time, op_statistic, communication_statistic, api_statistic, step_trace,
                               msprof_tx, operator_memory, memory_record, npu_mem, npu_module_mem)}
