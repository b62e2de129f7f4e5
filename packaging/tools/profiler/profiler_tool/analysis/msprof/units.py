# SPDX-License-Identifier: Apache-2.0
"""CANN's names for the unit that runs a task. The profiler records "cube" or "vector" for an operator, by the cores
that it would run on, "hccl" for a collective, and the kind of any other task."""

_TYPES = {'cube': 'AI_CORE', 'vector': 'AI_VECTOR_CORE', 'memcpy': 'MEMCPY_ASYNC', 'memset': 'MEMSET_ASYNC',
          'event record': 'EVENT_RECORD', 'event wait': 'EVENT_WAIT', 'mark': 'PROFILER_TRACE_EX'}
OPERATORS = ('AI_CORE', 'AI_VECTOR_CORE')


def task_type(record):
    return _TYPES.get(record.type) or record.type.upper().replace(' ', '_')


def is_operator(record):
    return task_type(record) in OPERATORS


def task_name(record):
    """Returns the task's name; that of an operator is the call that launched it."""
    return f'aclnn{record.name}' if is_operator(record) else record.full_name or task_type(record)


def mark_type(record):
    return record.type or 'marker_ex'


def mark_domain(record):
    return record.domain or 'default'
