/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom: tasks of communicators that wait for another rank publish that in the file that the processes of
 * a machine share (memory/share/machine.h). So a process that waits too long, `cannon top`, and a process that gets a
 * signal can say which ranks wait, and whether they wait for each other in a cycle. Where a process shares nothing
 * with others, its own tasks are all there is to see. Ranks on other hosts are not seen. Called by the rest of
 * src/comm and, for its words, by src/cli. Thread-safe. */
#ifndef CANNON_COMM_WAITS_H
#define CANNON_COMM_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/share/machine.h"

enum {
  WAITS_MOST = 1024,       /* entries that are read at most: the cycle's search takes time by its square */
  WAITS_WORDS = 200,       /* of one entry */
  WAITS_CYCLE_WORDS = 512, /* of a cycle; a longer one is cut */
};

/* How old each wait of a cycle must be to be told without a timeout: ranks that use several communicators at once are
 * in a cycle for a moment now and then. */
#define WAITS_OLD_NS UINT64_C(1000000000)

/* ---- words: waits_words.c, which src/cli uses too ---------------------------------------------------------------- */

/* Reads an entry; false if the slot is unused, or is written all the time. */
bool waits_read_slot(machine_wait_slot *slot, machine_wait *out);

/* "rank 0 (process 812) waits in AllReduce #5 of 'A' for rank 1" */
void waits_describe(const machine_wait *w, char *words, size_t bytes);

/* The same for `cannon top`: with the number of ranks, for how long, and the other's process. */
void waits_describe_long(const machine_wait *w, uint64_t now_ns, char *words, size_t bytes);

/* Finds entries that wait for each other in a cycle, none of which is younger than least_ns: each waits for a rank
 * whose device is where the next one waits. With `first`, an index, the search begins there, and the cycle must have
 * it; SIZE_MAX: any cycle. Several streams of a device may wait, and another task of the rank may be on its way, so a
 * cycle is what is seen at this time, not a proof. *words: the descriptions of its entries, with semicolons. */
bool waits_describe_cycle(const machine_wait *waits, size_t n, size_t first, uint64_t now_ns, uint64_t least_ns,
                          char *words, size_t bytes);

/* Reads "signal=USR2", the value of CANNON_COMM_REPORT; false for anything else. *signal is 0 for "none". */
bool waits_parse_report(const char *text, int *signal);

/* ---- publishing: waits.c ----------------------------------------------------------------------------------------- */

/* Publishes w in *slot, which is taken if it is NULL; it stays NULL if none is free, and the wait is not seen then. */
void waits_publish(machine_wait_slot **slot, const machine_wait *w);

/* Frees the slot, if there is one. */
void waits_end(machine_wait_slot **slot);

/* Reads what the tasks of all processes of the machine wait for; with own_only, of this process. Returns their number,
 * up to `most`. */
size_t waits_read(machine_wait *out, size_t most, bool own_only);

/* ---- reports: waits_report.c ------------------------------------------------------------------------------------- */

/* To be called when the process has a communicator: reports are written on the signal of CANNON_COMM_REPORT from now
 * on. */
void waits_report_start(void);

#endif
