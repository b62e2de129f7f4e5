# SPDX-License-Identifier: Apache-2.0
"""CANN's names for what runs a task. The profiler says "cube" and "vector" of operators, by the cores that they would
run on, and the kind of other tasks."""

_TYPES = {'cube': 'AI_CORE', 'vector': 'AI_VECTOR_CORE', 'memcpy': 'MEMCPY_ASYNC', 'memset': 'MEMSET_ASYNC',
          'event record': 'EVENT_RECORD', 'event wait': 'EVENT_WAIT', 'mark': 'PROFILER_TRACE_EX'}
OPERATORS = ('AI_CORE', 'AI_VECTOR_CORE')


def task_type(record):
    return _TYPES.get(record.type) or record.type.upper().replace(' ', '_')


def is_operator(record):
    return task_type(record) in OPERATORS


def task_name(record):
    """An operator's is that of the call which launched it."""
    return f'aclnn{record.name}' if is_operator(record) else task_type(record)


def mark_type(record):
    return record.type or 'marker_ex'


def mark_domain(record):
    return record.domain or 'default'
