/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of this host that have ranks (neighbours), and this process among them. What a process offers to the
 * others:
 *
 *   page     a page of memory that all of them map. It has the bell: a futex on which the process's listener sleeps, a
 *            thread that looks at the collectives that wait
 *   memory   its devices' files, which are mapped whole, once for each neighbour and device. So a neighbour's block is
 *            found by its place in the file, and nothing is registered or copied
 *
 * Processes open each other's files through /proc/<pid>/fd, as memory/share/exchange.h does. Whether a process is alive
 * is told by a descriptor of it (pidfd). Called by the rest of src/comm. Thread-safe. */
#ifndef CANNON_COMM_NEIGHBOUR_H
#define CANNON_COMM_NEIGHBOUR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* A file of a process, as others find it. */
typedef struct {
  int32_t pid, file;
  uint64_t filesystem, inode; /* to recognise it */
  uint64_t bytes;
} neighbour_file;

/* What identifies a process of this host. */
typedef struct {
  uint64_t unique; /* a random number */
  neighbour_file page;
} neighbour_card;

typedef struct {
  _Atomic uint32_t bell;    /* grows with each ring */
  _Atomic uint32_t waiting; /* 1: a stream of the process waits for other processes; ring the bell */
  uint64_t unique;
} neighbour_page;

typedef struct neighbour {
  neighbour_page *page;
  neighbour_card card;
  int alive_file; /* a pidfd; -1: none, or the own process */
  uint32_t refs;
  struct neighbour_mapping *mappings;
  struct neighbour *next;
} neighbour;

/* This process's card; the first call makes the page and starts the listener. */
status neighbour_own_card(neighbour_card *out);

/* The process with that card, with a reference. ST_COMM_REMOTE where it has ended; ST_NOT_SUPPORTED with the reason
 * where its page can't be opened. */
status neighbour_find(const neighbour_card *card, neighbour **out);
void neighbour_drop(neighbour *n);

bool neighbour_is_self(const neighbour *n);

/* Whether the process has not ended; a system call. */
bool neighbour_is_alive(const neighbour *n);

/* The address at which a device's file of the neighbour is mapped here; it stays as long as the neighbour. */
status neighbour_map(neighbour *n, const neighbour_file *file, char **out);

/* Describes a file of this process for others, and opens a file that another process has described. */
status neighbour_describe(int file, neighbour_file *out);
status neighbour_open(const neighbour_file *file, int *out);

/* Wakes the listener of a process in which a stream waits. The caller has published before what that stream waits for.
 * No barrier is needed between the two: the process that begins to wait has all processors of all ranks' processes pass
 * one (neighbour_expect). */
void neighbour_wake(neighbour *n);
static inline void neighbour_ring(neighbour *n) {
  if (unlikely(atomic_load_explicit(&n->page->waiting, memory_order_relaxed))) neighbour_wake(n);
}

/* A stream of this process waits from now on; the caller then checks once more what it waits for. Where the kernel has
 * no barrier for other processes (membarrier), a ring may be missed, and the stream goes on at the scheduler's next
 * tick. */
void neighbour_expect(void);

/* Sets what the listener calls ten times a second while streams wait. Set once, before neighbour_own_card(). */
void neighbour_on_watch(void (*watch)(void));

#endif
