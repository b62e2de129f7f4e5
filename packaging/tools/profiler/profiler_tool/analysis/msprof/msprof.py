#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""msprof: runs a program under Cannon's profiler, or converts a recording into a timeline and tables, like CANN's tool
of the same name. HELP describes its use. Clients such as torch_npu call it, too."""
import argparse, errno, os, re, shutil, subprocess, sys, time

import chrome_trace, communication, tables
from timeline import Timeline

HELP = """\
Usage: msprof [--output=FOLDER] PROGRAM [ARGUMENT]...
       msprof [--export=on] [--analyze=on] --output=FOLDER

Runs a program under Cannon's profiler, or converts a recording into a timeline and tables.

The first form runs PROGRAM, creates a folder PROF_... in FOLDER for each of its
processes that uses a device, and exports each of these. The second form exports
FOLDER, which is a PROF_... folder, as the profiler (aclprofInit) creates them, or
contains some.

Options:
  --output=FOLDER  folder of the recordings (default: the working folder)
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


def remove_export(folder):
    """Removes what an earlier export wrote. Other files are the user's: raises OSError, and removes nothing."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    made = '|'.join(['msprof', *tables.ALL])
    for name in names:
        if not re.fullmatch(rf'(?:{made})_\d{{14}}\.(?:json|csv)', name):
            raise FileExistsError(errno.EEXIST, 'the file was not written by an export, which would replace the folder',
                                  os.path.join(folder, name))
    for name in names:
        os.remove(os.path.join(folder, name))


def export(session):
    """Exports a recording. The folder appears with all its files at once, since torch_npu reads them as soon as it sees
    one."""
    timeline = Timeline(session)
    folder = os.path.join(session, OUTPUT)
    growing = f'{folder}.{os.getpid()}'
    os.makedirs(growing, mode=0o750)
    try:
        stamp = time.strftime('%Y%m%d%H%M%S')
        chrome_trace.write(os.path.join(growing, f'msprof_{stamp}.json'), timeline)
        for name, write in tables.ALL.items():
            write(os.path.join(growing, f'{name}_{stamp}.csv'), timeline)
        remove_export(folder)
        os.rename(growing, folder)
    finally:
        shutil.rmtree(growing, ignore_errors=True)


def analyze(session):
    folder = os.path.join(session, 'analyze')
    os.makedirs(folder, mode=0o750, exist_ok=True)
    communication.write(folder, Timeline(session))


def run(program, folder):
    """Runs a program and exports its recordings. Returns its exit status, 128 + the number of the signal that ended it,
    or 1 in place of 0 if an export failed."""
    try:
        os.makedirs(folder, mode=0o750, exist_ok=True)
    except OSError as e:
        sys.exit(f'msprof: cannot create {folder}: {e.strerror}')
    if not os.access(folder, os.W_OK | os.X_OK):
        sys.exit(f'msprof: {folder} cannot be written to')
    before = set(sessions(folder))
    try:
        status = subprocess.run(program, env=dict(os.environ, CANNON_PROFILE=os.path.realpath(folder))).returncode
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


def main():
    parser = argparse.ArgumentParser(prog='msprof', usage='msprof [--export=on] [--analyze=on] --output=FOLDER\n'
                                           '       msprof [--output=FOLDER] PROGRAM [ARGUMENT]...',
                                     allow_abbrev=False)
    parser.format_help = lambda: HELP
    parser.add_argument('--export', choices=('on', 'off'), default='off')
    parser.add_argument('--analyze', choices=('on', 'off'), default='off')
    parser.add_argument('--rule')  # of CANN's: which analyses; all that there are come at once
    parser.add_argument('--output', default='.', metavar='FOLDER')
    parser.add_argument('program', nargs=argparse.REMAINDER)
    a = parser.parse_args()
    if a.program:
        sys.exit(run(a.program, a.output))
    if a.export == a.analyze == 'off':
        parser.error('nothing to do, expected --export=on, --analyze=on or a program')
    found = sessions(a.output)
    if not found:
        sys.exit(f'msprof: {a.output} is not a PROF_... folder and contains none')
    for session in found:
        try:
            if a.export == 'on':
                export(session)
            if a.analyze == 'on':
                analyze(session)
        except UNUSABLE as e:
            sys.exit(f'msprof: {session} cannot be exported: {e}')
    if a.export == 'on':
        time.sleep(SEEN_SECONDS)


if __name__ == '__main__':
    main()
