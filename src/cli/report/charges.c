/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/charges.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "comm/waits.h"

/* Returns the process that holds the lock of a place, or 0 if none does. The number that it claims is used only if
 * the kernel has no number for us, as for a process in another container. */
static pid_t owner_of(int fd, uint32_t place, pid_t claimed) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = MACHINE_PLACE_BYTE + (off_t)place, .l_len = 1};
  if (fcntl(fd, F_GETLK, &l) || l.l_type == F_UNLCK) return 0;
  return l.l_pid > 0 ? l.l_pid : claimed;
}

static void charge_list_add(charge_list *list, const charge *c) {
  list->charge = realloc(list->charge, (list->count + 1) * sizeof *list->charge);
  if (!list->charge) abort();
  list->charge[list->count++] = *c;
}

/* Reads the slots of a place twice: of a slot that is being written, the copies differ at least in the version. */
static void read_waits(int fd, uint32_t place, charge_list *list) {
  machine_wait_slot slots[2][MACHINE_WAITS];
  const off_t at = (off_t)(offsetof(machine_file, waits) + place * sizeof slots[0]);
  for (int i = 0; i < 2; i++)
    if (pread(fd, slots[i], sizeof slots[i], at) != (ssize_t)sizeof slots[i]) return;
  for (int i = 0; i < MACHINE_WAITS; i++) {
    machine_wait w;
    const void *before = &slots[0][i], *after = &slots[1][i]; /* as bytes, which have no padding between them */
    if (memcmp(before, after, sizeof slots[0][i]) != 0 || !waits_read_slot(&slots[1][i], &w)) continue;
    list->waits = realloc(list->waits, (list->n_waits + 1) * sizeof *list->waits);
    if (!list->waits) abort();
    list->waits[list->n_waits++] = w;
  }
}

static void read_places(int fd, uint64_t size_bytes, charge_list *list) {
  static machine_file file; /* the exports after the places are not read, the waits by read_waits */
  const size_t bytes = offsetof(machine_file, exports);
  struct stat is;
  if (fstat(fd, &is) || !S_ISREG(is.st_mode) || pread(fd, &file, bytes, 0) != (ssize_t)bytes) return;
  if (file.head.magic != MACHINE_MAGIC || file.head.version != MACHINE_VERSION) return;
  for (uint32_t i = 0; i < MACHINE_PLACES; i++) {
    charge c = {.size_bytes = size_bytes};
    if (!file.places[i].pid || !(c.pid = owner_of(fd, i, file.places[i].pid))) continue;
    for (int d = 0; d < SPACE_MAX_DEVICES; d++) c.charged_bytes[d] = file.places[i].charged_bytes[d];
    charge_list_add(list, &c);
    read_waits(fd, i, list);
  }
}

static void read_file(int folder, const char *path, uint64_t size_bytes, charge_list *list) {
  const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  read_places(fd, size_bytes, list);
  close(fd);
}

/* Returns the size at the end of a machine's name, such as "cannon-0-Ascend910B3-512M". */
static uint64_t size_of_name(const char *name) {
  uint64_t bytes = 0;
  const char *dash = strrchr(name, '-');
  return dash && size_parse(dash + 1, 1, INT64_MAX, &bytes) == SIZE_OK ? bytes : 0;
}

charge_list charges_read(void) {
  charge_list list = {0};
  const char *given = variable_text(VARIABLE_LEDGER);
  if (given) read_file(AT_FDCWD, given, 0, &list);
  if (given || variable_text(VARIABLE_STATS_DIR)) return list;
  DIR *dir = opendir(MACHINE_FOLDER);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (!strncmp(entry->d_name, MACHINE_PREFIX, strlen(MACHINE_PREFIX)))
      read_file(dirfd(dir), entry->d_name, size_of_name(entry->d_name), &list);
  if (dir) closedir(dir);
  return list;
}

void charges_free(charge_list *list) {
  free(list->charge);
  free(list->waits);
  *list = (charge_list){0};
}
