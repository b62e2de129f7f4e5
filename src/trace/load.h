/* How busy a device's units are. Nothing is timed before somebody asks; from then on each operator's task is, which costs some
 * 100 ns. What runs on a host's cores is put down to the unit that a device would run it on: products to the cube units, all
 * other operators to the vector units. All calls from any thread. */
#ifndef CANNON_TRACE_LOAD_H
#define CANNON_TRACE_LOAD_H

#include <stdint.h>

typedef enum { LOAD_CUBE, LOAD_VECTOR, LOAD_N_UNITS } load_unit;

/* Around a task, while timeline_wants(TIMELINE_WANTS_LOAD); times are timeline_now's. */
void load_begin(int device, load_unit unit, uint64_t now_ns);
void load_end(int device, load_unit unit, uint64_t began_ns, uint64_t now_ns);

/* Of the next LOAD_SAMPLE_MS, which it sleeps through: percent[unit] of the time had a task of the unit running, or the sum
 * over tasks that ran at once, 100 at most. Tasks that began before the first such call are not seen. */
enum { LOAD_SAMPLE_MS = 20 };
void load_sample(int device, unsigned percent[LOAD_N_UNITS]);

#endif
