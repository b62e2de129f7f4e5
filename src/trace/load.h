/* SPDX-License-Identifier: Apache-2.0 */
/* How busy a device's units are. Nothing is timed before somebody asks; from then on each operator's task is. A task
 * that runs on the host's processors counts for the unit on which a device would run it: matrix products for the cube
 * units, all other operators for the vector units. Any thread. */
#ifndef CANNON_TRACE_LOAD_H
#define CANNON_TRACE_LOAD_H

#include <stdint.h>

typedef enum { LOAD_CUBE, LOAD_VECTOR, LOAD_N_UNITS } load_unit;

/* To be called before and after a task while timeline_wants(TIMELINE_WANTS_LOAD). now_ns is timeline_now's. */
void load_begin(int device, load_unit unit, uint64_t now_ns);
void load_end(int device, load_unit unit, uint64_t began_ns, uint64_t now_ns);

/* percent[unit]: the share of time in which a task of the unit was running, since the last call for the device. The
 * shares of tasks that ran at the same time add up, to at most 100. If the last call was less than LOAD_SAMPLE_MS ago,
 * it sleeps until then. The first call always sleeps, and does not see tasks that began before it. */
enum { LOAD_SAMPLE_MS = 20 };
void load_sample(int device, unsigned percent[LOAD_N_UNITS]);

#endif
