#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""msprof: runs a program under Cannon's profiler, or converts a recording into a timeline and tables, like CANN's tool
of the same name. HELP describes its use. Clients such as torch_npu call it, too."""
import contextlib, errno, json, os, re, shutil, subprocess, sys, time, zlib

import chrome_trace, communication, options, tables
from timeline import Timeline

HELP = """\
Usage: msprof [OPTION]... PROGRAM [ARGUMENT]...
       msprof [OPTION]... --application="PROGRAM [ARGUMENT]..."
       msprof [--export=on] [--analyze=on] [--parse=on] --output=FOLDER

Runs a program under Cannon's profiler, or converts a recording into a timeline and tables.

The first two forms run PROGRAM, create a folder PROF_... in FOLDER for each of its
processes that uses a device, and export each of these. The third exports FOLDER,
which is a PROF_... folder, as the profiler (aclprofInit) creates them, or contains
some.

CANN's other options, which select counters of an NPU (--aic-metrics, --sys-... and
so on), are accepted without effect. Options that are unknown, or have no effect
here though they would need no NPU, are told on stderr.

Options:
  --output=FOLDER  folder of the recordings (default: the working folder)
  --application=TEXT
                   the program and its arguments, in place of PROGRAM
  --ascendcl=off   record no calls, unless with --runtime-api=on (default: on)
  --runtime-api=on record calls (default: off, which leaves it to --ascendcl)
  --task-time=MODE record tasks: off; l0 without shapes; on, l1, l2, l3 with them
                   (default: on)
  --task-memory=off
                   record no device memory (default: on)
  --msproftx=off   record no marks (default: on)
  --storage-limit=NUMBERMB
                   end each recording at that size, from 200MB on (default: none)
  --export=on      write FOLDER/mindstudio_profiler_output/ (default: off), with
                     msprof_<time>.json         timeline, for the trace viewers of
                                                Chrome and Perfetto
                     op_summary_<time>.csv      task of each operator
                     op_statistic_<time>.csv    operators by type
                     task_time_<time>.csv       all tasks
                     communication_statistic_<time>.csv
                                                collectives by kind, if there are any
                     api_statistic_<time>.csv   calls by name
                     step_trace_<time>.csv      steps, if the program marks them
                     msprof_tx_<time>.csv       marks, if the program makes any
                     operator_memory_<time>.csv blocks of device memory
                     memory_record_<time>.csv   how much there was, over time
                     npu_mem_<time>.csv         the same, by kind of memory
                     npu_module_mem_<time>.csv  the same, by component
                   memory only where msprof ran the program
  --parse=on       check that recordings can be read; writes nothing (default: off)
  --analyze=on     write FOLDER/analyze/ (default: off), with, if there was
                   communication,
                     communication.json         time and size of each collective
                     communication_matrix.json  the same between each two ranks
  -h, --help       print this help and exit

Exit status:
  That of PROGRAM; 128 + the number of the signal that ended it. Without PROGRAM:
  0  success
  1  a recording cannot be exported; also in place of PROGRAM's 0
  2  the command line is wrong; nothing was done

Examples:
  msprof --output=profiles ./train
  msprof --application="./train data" --output=profiles --task-time=l0
  msprof --export=on --output=profiles
"""
OUTPUT = 'mindstudio_profiler_output'
# While this tool runs, torch_npu looks for its tables every 0.1 s. If it ends before they were seen, torch_npu's own
# output remains incomplete.
SEEN_SECONDS = 1
# Errors of a recording that cannot be read, or of a full disk.
UNUSABLE = (OSError, ValueError, KeyError)


def sessions(folder):
    """Returns the PROF_... folders that a folder stands for: itself, or those in it."""
    is_session = lambda path: re.match(r'PROF_', os.path.basename(path)) and os.path.isdir(os.path.join(path, 'host'))
    path = os.path.realpath(folder)
    if is_session(path):
        return [path]
    inside = [os.path.join(path, name) for name in sorted(os.listdir(path))] if os.path.isdir(path) else []
    return [p for p in inside if is_session(p)]


def remove_former(folder, made):
    """Removes what an earlier call wrote, whose names match a pattern. Other files are the user's: raises OSError, and
    removes nothing."""
    if os.path.islink(folder):
        raise FileExistsError(errno.EEXIST, 'it is a symbolic link, which is not followed', folder)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in names:
        if not re.fullmatch(made, name):
            raise FileExistsError(errno.EEXIST, 'the file was not written by msprof, which would replace the folder',
                                  os.path.join(folder, name))
    for name in names:
        os.remove(os.path.join(folder, name))


def replace(folder, made, write):
    """Makes a folder, in which write(folder) makes the files. It appears with all its files at once, since torch_npu
    reads them as soon as it sees one."""
    growing = f'{folder}.{os.getpid()}'
    os.makedirs(growing, mode=0o750)
    try:
        write(growing)
        remove_former(folder, made)
        os.rename(growing, folder)
    finally:
        shutil.rmtree(growing, ignore_errors=True)


def describe_devices(session, timeline):
    """Writes device_N/info.json.N of the devices that were used, unless it is there: msprof-analyze asks it which
    device and host a recording is of, and what the device has. Its ranks follow from the former, since rank_id -1 says
    that there is none."""
    for device, tasks in timeline.tasks.items():
        if not tasks and device not in timeline.memory:
            continue
        uid = str(zlib.crc32(timeline.host.encode()))
        text = {'DeviceInfo': [{'id': device, **timeline.device_info}], 'devices': str(device), 'hostUid': uid,
                'hostname': timeline.host, 'pid': str(timeline.pid), 'pid_name': timeline.program, 'rank_id': -1}
        path = os.path.join(session, f'device_{device}', f'info.json.{device}')
        with contextlib.suppress(FileExistsError), open(path, 'x', encoding='utf-8', opener=private) as f:
            json.dump(text, f)


def private(path, flags):
    return os.open(path, flags, 0o640)  # clients refuse files that others may write


def export(session):
    timeline, stamp = Timeline(session), time.strftime('%Y%m%d%H%M%S')

    def write(folder):
        chrome_trace.write(os.path.join(folder, f'msprof_{stamp}.json'), timeline)
        for name, write_table in tables.ALL.items():
            write_table(os.path.join(folder, f'{name}_{stamp}.csv'), timeline)
    made = '|'.join(['msprof', *tables.ALL])
    describe_devices(session, timeline)
    replace(os.path.join(session, OUTPUT), rf'(?:{made})_\d{{14}}\.(?:json|csv)', write)


def analyze(session):
    timeline = Timeline(session)
    replace(os.path.join(session, 'analyze'), r'communication(?:_matrix)?\.json',
            lambda folder: communication.write(folder, timeline))


def environment(o, folder):
    """The program's environment: what the library shall record, and where."""
    limit = {'CANNON_PROFILE_LIMIT': o.limit} if o.limit else {}
    return dict(os.environ, CANNON_PROFILE=os.path.realpath(folder), CANNON_PROFILE_SWITCHES=str(o.switches), **limit)


def run(o):
    """Runs a program and exports its recordings. Returns its exit status, 128 + the number of the signal that ended it,
    or 1 in place of 0 if an export failed."""
    program, folder = o.program, o.output
    try:
        os.makedirs(folder, mode=0o750, exist_ok=True)
    except OSError as e:
        sys.exit(f'msprof: cannot create {folder}: {e.strerror}')
    if not os.access(folder, os.W_OK | os.X_OK):
        sys.exit(f'msprof: {folder} cannot be written to')
    before = set(sessions(folder))
    try:
        status = subprocess.run(program, env=environment(o, folder)).returncode
    except OSError as e:
        sys.exit(f'msprof: {program[0]}: {e.strerror}')
    made = [s for s in sessions(folder) if s not in before]
    failed = False
    for session in made:
        try:
            export(session)
            print(f'msprof: {session}', file=sys.stderr)
        except UNUSABLE as e:
            print(f'msprof: {session} cannot be exported: {e}', file=sys.stderr)
            failed = True
    if not made:
        print('msprof: no process used a device', file=sys.stderr)
    return int(failed) if status == 0 else status if status > 0 else 128 - status


def work_on(session, o):
    if o.is_on('parse') and not o.is_on('export') and not o.is_on('analyze'):
        Timeline(session)
    if o.is_on('export'):
        export(session)
    if o.is_on('analyze'):
        analyze(session)


def parse():
    try:
        o = options.parse(sys.argv[1:])
    except options.Wrong as e:
        print(f'msprof: {e}', file=sys.stderr)
        sys.exit(2)
    for words in o.warnings:
        print(f'msprof: {words}', file=sys.stderr)
    if o.help:
        print(HELP, end='')
        sys.exit(0)
    return o


def main():
    o = parse()
    if o.program:
        sys.exit(run(o))
    if not any(map(o.is_on, ('export', 'analyze', 'parse'))):
        print('msprof: nothing to do, expected --export=on, --analyze=on, --parse=on or a program', file=sys.stderr)
        sys.exit(2)
    found = sessions(o.output)
    if not found:
        sys.exit(f'msprof: {o.output} is not a PROF_... folder and contains none')
    for session in found:
        try:
            work_on(session, o)
        except UNUSABLE as e:
            sys.exit(f'msprof: {session} cannot be exported: {e}')
    if o.is_on('export'):
        time.sleep(SEEN_SECONDS)


if __name__ == '__main__':
    main()
