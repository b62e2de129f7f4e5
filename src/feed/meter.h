/* SPDX-License-Identifier: Apache-2.0 */
/* What a feed tells of itself: counters (trace/stats.h), and rows of the profiler's timeline.
 *
 * How long the device waited for data: two tasks in the stream that uses the data note when the stream comes to the
 * point at which data was asked for, and when it has passed the wait for the copy. The second one is a row of the
 * timeline, from one time to the other. Both are left out while nobody wants to know.
 *
 * Called by the other files of src/feed, and by src/api. Thread-safe. */
#ifndef CANNON_FEED_METER_H
#define CANNON_FEED_METER_H

#include "runtime/stream.h"
#include "trace/stats.h"

/* Counted references: the feed has one, and so has each wait. */
typedef struct meter meter;

/* A wait of a stream, with a reference of the caller. */
typedef struct meter_wait meter_wait;

status meter_open(const char *name, int device, meter **out);

/* The counters, which stay until the last reference is dropped. */
stats_feed *meter_counts(meter *m);

/* The feed is over: drops its reference. */
void meter_close(meter *m);

/* Work of a thread on a batch, in the timeline and in the sum of decode_ns. what: "prepare". */
void meter_work(meter *m, const char *what, uint64_t batch, uint64_t start_ns, uint64_t end_ns);

/* The stream asks for data from here on. *out is NULL if nobody wants to know. */
status meter_arrive(meter *m, stream *s, meter_wait **out);

/* The stream has submitted the wait for the data. Drops the caller's reference. w may be NULL. */
status meter_pass(meter_wait *w, stream *s);

/* As meter_arrive() and meter_pass(), for a program that brings data itself, a batch at a time: the meter keeps the
 * wait between the calls. The second counts a batch. */
status meter_ask(meter *m, stream *s);
status meter_got(meter *m, stream *s, uint64_t records, uint64_t bytes);

/* No data comes. Drops the caller's reference. w may be NULL. */
void meter_forget(meter_wait *w);

#endif
