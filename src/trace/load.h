/* How busy a device's units are. Nothing is timed before somebody asks; from then on each operator's task is. What runs
 * on a host's cores is put down to the unit that a device would run it on: products to the cube units, all other
 * operators to the vector units. All calls from any thread. */
#ifndef CANNON_TRACE_LOAD_H
#define CANNON_TRACE_LOAD_H

#include <stdint.h>

typedef enum { LOAD_CUBE, LOAD_VECTOR, LOAD_N_UNITS } load_unit;

/* Around a task, while timeline_wants(TIMELINE_WANTS_LOAD); times are timeline_now's. */
void load_begin(int device, load_unit unit, uint64_t now_ns);
void load_end(int device, load_unit unit, uint64_t began_ns, uint64_t now_ns);

/* Of the time since the last such call for the device, LOAD_SAMPLE_MS at least, of which it sleeps through the rest:
 * percent[unit] had a task of the unit running; tasks that ran at once add up, to 100 at most. The first call sleeps,
 * and does not see what began before it. */
enum { LOAD_SAMPLE_MS = 20 };
void load_sample(int device, unsigned percent[LOAD_N_UNITS]);

#endif
