/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a profiler's session. */
#ifndef CANNON_TRACE_PROFILER_FOLDER_H
#define CANNON_TRACE_PROFILER_FOLDER_H

#include "trace/profiler.h"

enum { PROFILER_FOLDER_BYTES = PROFILER_MAX_PATH + 96 };

/* Makes a folder and its parents if they are missing; ST_CONFIG_PATH if it can't be made or written to. */
status profiler_make_folder(const char *path);

/* Makes <path>/PROF_... and in it host/, with what is known of the process and the clocks. folder: the new folder's
 * path. */
status profiler_make_session(const char *path, char folder[PROFILER_FOLDER_BYTES]);

/* Notes the clocks at the end of a recording: with those at its begin they tell the frequency of the processor's
 * counter, for get_msprof_info.py. */
status profiler_end_session(const char *folder);

#endif
