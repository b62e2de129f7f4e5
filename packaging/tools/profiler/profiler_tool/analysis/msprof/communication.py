# SPDX-License-Identifier: Apache-2.0
"""Communication: the collectives among the tasks, and what `msprof --analyze=on` writes of them, in the files and with
the keys that torch_npu's profiler reads.

The time of a collective is that from its begin on the stream to its end: waiting for other ranks is not told apart from
moving data, so "Wait Time(ms)" is 0. Sizes are those of the program's buffers."""
import collections, json, os

MB = 1e6
FIELDS = ('group', 'rank', 'ranks', 'number', 'dtype', 'count', 'sent', 'received', 'peer')
PAIRWISE = ('hcom_send_', 'hcom_receive_', 'hcom_batchSendRecv_')
# What a rank sends to each other rank is the whole of its send buffer; otherwise it is a slice for each rank.
WHOLE = ('hcom_allGather_', 'hcom_allGatherV_', 'hcom_broadcast_')


def is_collective(record):
    return record.type == 'hccl'


def fields(record):
    """What the task's detail says (src/comm/account.h): texts by name."""
    return dict(zip(FIELDS, record.detail.rsplit('|', len(FIELDS) - 1)))


def group_number(group):
    """Which number stands for a group's name, as text. msprof-analyze finds by it which of the groups that torch_npu
    tells of (profiler_metadata.json) a call belongs to: two polynomials over the characters, of 32 bits each."""
    high, low = 0, 0
    for c in group.encode():
        high, low = (high * 29 + c) % 2**32, (low * 131 + c) % 2**32
    return str(high << 32 | low)


def name_all(tasks):
    """Gives the collectives of a device their names, "hcom_allReduce__<group>_<number>_1": a call of all ranks has the
    communicator's number, which is the same in all ranks, and a transfer the number of its kind."""
    counts = collections.Counter()
    for r in filter(is_collective, tasks):
        f = fields(r)
        group, number = f['group'], int(f['number']) - 1
        if r.name in PAIRWISE:
            number = counts[r.name, group]
            counts[r.name, group] += 1
        r.full_name = f'{r.name}_{group_number(group)[-3:]}_{number}_1'


def merge(spans):
    """Sorts spans of time and joins those that meet."""
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def subtract(spans, others):
    """Yields the parts of merged spans that are in none of the other merged spans."""
    for start, end in spans:
        for other_start, other_end in others:
            if other_end <= start or other_start >= end:
                continue
            if other_start > start:
                yield start, other_start
            start = max(start, other_end)
        if start < end:
            yield start, end


def _bandwidth(size, ms):
    return round(size / MB / ms, 4) if ms else 0


def _operation(r):
    f, ms = fields(r), (r.end - r.start) / 1e6
    size = int(f['sent']) or int(f['received'])
    times = {'Start Timestamp(us)': r.start / 1000, 'Elapse Time(ms)': ms, 'Transit Time(ms)': ms, 'Wait Time(ms)': 0,
             'Synchronization Time(ms)': 0, 'Idle Time(ms)': 0, 'Wait Time Ratio': 0, 'Synchronization Time Ratio': 0}
    link = {'Transit Size(MB)': size / MB, 'Transit Time(ms)': ms, 'Bandwidth(GB/s)': _bandwidth(size, ms),
            'Large Packet Ratio': 0, 'Size Distribution': {str(size / MB): [1, ms]}}
    return {'Communication Time Info': times, 'Communication Bandwidth Info': {'HCCS': link}}


def _links(r):
    """Yields the ranks to which this rank sends in a call, with itself, and the bytes. By the latter, msprof-analyze
    knows which rank of the group it is."""
    f = fields(r)
    n, sent, peer = int(f['ranks']), int(f['sent']), int(f['peer'])
    for rank in [peer] if peer >= 0 else range(n):
        if rank != int(f['rank']) or peer < 0:
            yield rank, sent if r.name in WHOLE or peer >= 0 else sent // n


def _matrix(r):
    ms = (r.end - r.start) / 1e6
    own = int(fields(r)['rank'])
    return {f'{own}-{rank}': {'Transport Type': 'LOCAL' if rank == own else 'HCCS', 'Transit Size(MB)': size / MB,
                              'Transit Time(ms)': ms, 'Bandwidth(GB/s)': _bandwidth(size, ms)}
            for rank, size in _links(r) if size}


def write(folder, timeline):
    """Writes communication.json and communication_matrix.json, or nothing if there was no communication."""
    found = {f'{r.full_name}@{group_number(fields(r)["group"])}': r
             for tasks in timeline.tasks.values() for r in tasks if is_collective(r)}
    if not found:
        return
    for name, describe in ('communication', _operation), ('communication_matrix', _matrix):
        with open(os.path.join(folder, f'{name}.json'), 'w', encoding='utf-8') as f:
            json.dump({op: describe(r) for op, r in found.items()}, f)
