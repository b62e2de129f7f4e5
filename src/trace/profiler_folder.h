/* The folder of a profiler's session. */
#ifndef CANNON_TRACE_PROFILER_FOLDER_H
#define CANNON_TRACE_PROFILER_FOLDER_H

#include "trace/profiler.h"

enum { PROFILER_FOLDER_BYTES = PROFILER_MAX_PATH + 96 };

/* Makes a folder and its parents where they are missing; ST_CONFIG_PATH where it can't be made or written to. */
status profiler_make_folder(const char *path);

/* Makes <path>/PROF_..., its host/ with what is known of the process and the clocks, and puts its name into folder. */
status profiler_make_session(const char *path, char folder[PROFILER_FOLDER_BYTES]);

#endif
