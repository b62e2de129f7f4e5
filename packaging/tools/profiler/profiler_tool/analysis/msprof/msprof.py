#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a program under Cannon's profiler, or turn what it has recorded into a timeline and tables, as the tool of this
name of CANN does.

  msprof [--output=FOLDER] PROGRAM [ARGUMENTS]
                                         run PROGRAM, put a PROF_... of each of its processes that uses a device into
                                         FOLDER (default: the working folder), and export them; its exit status
  msprof --export=on --output=FOLDER     write FOLDER/mindstudio_profiler_output/:
                                           msprof_<time>.json          timeline, for Chrome's or Perfetto's viewer
                                           op_summary_<time>.csv       each operator's task
                                           op_statistic_<time>.csv     operators by type
                                           task_time_<time>.csv        every task
                                           api_statistic_<time>.csv    calls by name
                                           step_trace_<time>.csv       steps, where the program marks them
                                           msprof_tx_<time>.csv        marks, where the program makes them
  msprof --analyze=on --output=FOLDER    write FOLDER/analyze/: nothing as yet, there is no communication

FOLDER is a PROF_... that aclprofInit's path has got, or a folder with some of them."""
import argparse, errno, os, re, shutil, subprocess, sys, time

import chrome_trace, tables
from timeline import Timeline

OUTPUT = 'mindstudio_profiler_output'
# torch_npu looks for tables every 0.1 s while this runs, and leaves its own half made when this ends before it has seen them.
SEEN_SECONDS = 1
# Of a session that can't be read or a disk that is full.
UNUSABLE = (OSError, ValueError, KeyError)


def sessions(folder):
    """The PROF_... folders meant by a folder: itself, or those in it."""
    is_session = lambda path: re.match(r'PROF_', os.path.basename(path)) and os.path.isdir(os.path.join(path, 'host'))
    path = os.path.realpath(folder)
    if is_session(path):
        return [path]
    inside = [os.path.join(path, name) for name in sorted(os.listdir(path))] if os.path.isdir(path) else []
    return [p for p in inside if is_session(p)]


def remove_export(folder):
    """What an earlier export has written. Other files are the user's: OSError, and nothing is removed."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    made = '|'.join(['msprof', *tables.ALL])
    for name in names:
        if not re.fullmatch(rf'(?:{made})_\d{{14}}\.(?:json|csv)', name):
            raise FileExistsError(errno.EEXIST, 'it is not of an export, which would replace the folder',
                                  os.path.join(folder, name))
    for name in names:
        os.remove(os.path.join(folder, name))


def export(session):
    """The folder comes into being with all its files: torch_npu reads them as soon as it sees one."""
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
    os.makedirs(os.path.join(session, 'analyze'), mode=0o750, exist_ok=True)


def run(program, folder):
    """The program's exit status; after a signal as shells have it; 1 for 0 where something can't be exported."""
    try:
        os.makedirs(folder, mode=0o750, exist_ok=True)
    except OSError as e:
        sys.exit(f'msprof: {folder} cannot be made: {e.strerror}')
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
                                           '       msprof [--output=FOLDER] PROGRAM [ARGUMENTS]',
                                     description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--export', choices=('on', 'off'), default='off', help=argparse.SUPPRESS)
    parser.add_argument('--analyze', choices=('on', 'off'), default='off', help=argparse.SUPPRESS)
    parser.add_argument('--output', default='.', metavar='FOLDER', help=argparse.SUPPRESS)
    parser.add_argument('program', nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.program:
        sys.exit(run(a.program, a.output))
    if a.export == a.analyze == 'off':
        parser.error('nothing to do, expected --export=on, --analyze=on or a program')
    found = sessions(a.output)
    if not found:
        sys.exit(f'msprof: {a.output} is no PROF_... folder, and has none')
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
