/* The temporary folder in which the processes of a run keep their statistics. It is locked while its `cannon run` lives, so
 * that the next one can tell and remove what a killed one left. */
#ifndef CANNON_CLI_STATS_FOLDER_H
#define CANNON_CLI_STATS_FOLDER_H

#include <limits.h>
#include <stdbool.h>

typedef struct {
  char path[PATH_MAX];
  int lock;
} stats_folder;

/* In $TMPDIR or /tmp. False, and why is on stderr, where it can't be made. */
bool stats_folder_make(stats_folder *folder);
void stats_folder_remove(stats_folder *folder);

#endif
