/* SPDX-License-Identifier: Apache-2.0 */
/* The temporary folder in which the processes of a `cannon run` keep their statistics. A file in it, named after the
 * folder, is locked while that `cannon run` lives, so that a later one can detect and remove a folder that a killed
 * one left. Of such a folder only files that cannon created are removed, and the folder itself if it is empty then. */
#ifndef CANNON_CLI_REPORT_STATS_FOLDER_H
#define CANNON_CLI_REPORT_STATS_FOLDER_H

#include <limits.h>
#include <stdbool.h>

typedef struct {
  char path[PATH_MAX]; /* empty: there is none */
  int lock;
} stats_folder;

/* Creates the folder in $TMPDIR or /tmp. Returns false, after a message, if that fails; but if the disk is full, it
 * prints a message and returns true, and path is empty. */
bool stats_folder_make(stats_folder *folder);

/* Removes the folder and the statistics in it, if there is one. */
void stats_folder_remove(stats_folder *folder);

#endif
