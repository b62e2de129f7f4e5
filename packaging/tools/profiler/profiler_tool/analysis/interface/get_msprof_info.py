#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints, as JSON, what MindSpore's profiler asks of a recording:

  get_msprof_info.py -dir PROF_.../host     "Frequency": of the processor's counter, in MHz; "drv_version": one that has
                                            the export of all at once"""
import argparse
import configparser
import json
import os

DRIVER = 467732  # any from 467473 on


def moment(host, name):
    """(nanoseconds, counter) of a file that the profiler wrote (src/trace/profiler_folder.c)."""
    file = configparser.ConfigParser()
    file.read(os.path.join(host, name))
    return file.getint('Host', 'clock_monotonic_raw'), file.getint('Host', 'cntvct')


def frequency(host):
    """What the counter counted between the recording's begin and end; without an end, what info.json has."""
    try:
        (t0, n0), (t1, n1) = moment(host, 'host_start.log'), moment(host, 'host_end.log')
        return f'{(n1 - n0) * 1000 / (t1 - t0):.6f}'
    except (configparser.Error, ValueError, ZeroDivisionError):
        with open(os.path.join(host, 'info.json'), encoding='utf-8') as f:
            return json.load(f)['CPU'][0]['Frequency']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-dir', required=True, metavar='FOLDER')
    host = parser.parse_args().dir
    try:
        data = {'host_info': {'cpu_info': [{'Frequency': frequency(host)}]}, 'version_info': {'drv_version': DRIVER}}
        print(json.dumps({'status': 0, 'info': '', 'data': data}))
    except (OSError, ValueError, KeyError) as error:
        print(json.dumps({'status': 1, 'info': str(error), 'data': {}}))


if __name__ == '__main__':
    main()
