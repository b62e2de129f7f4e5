/* The temporary folder in which the processes of a run keep their statistics. A file in it, named after the folder, is
 * locked while the folder's `cannon run` lives, so that the next one can tell and remove what a killed one left. Of
 * such a folder only files that cannon made are ever removed, and the folder if it is empty then. */
#ifndef CANNON_CLI_STATS_FOLDER_H
#define CANNON_CLI_STATS_FOLDER_H

#include <limits.h>
#include <stdbool.h>

typedef struct {
  char path[PATH_MAX]; /* empty: there is none */
  int lock;
} stats_folder;

/* In $TMPDIR or /tmp. False, and why is on stderr, where it can't be made; but with a full disk there is none, which is
 * said, and true. */
bool stats_folder_make(stats_folder *folder);
void stats_folder_remove(stats_folder *folder);

#endif
