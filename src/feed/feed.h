/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds: batches of records that are decoded by threads and copied to a device ahead of the program; see
 * include/cannon/feed.h for what exists and who owns what. A feed consists of
 *
 *   reader          records by number (reader.h), or in order (record_stream.h)
 *   shuffle_plan    which record stands where in the order (shuffle.h)
 *   ring            who fills which slot, and when it may be taken (ring.h)
 *   slots           the memory of batches, on the host and on the device, with two events each: `ready`, recorded
 *                   behind the copy in the feed's stream; `passed`, recorded in the program's stream when it gives the
 *                   batch back. The next copy into the slot waits for that one, in the feed's stream
 *   meter           counters, rows of the timeline (meter.h)
 *
 * feed.c has the life of a feed and what the program calls; feed_work.c what its threads do. Called by src/api.
 * Thread-safe, but that a feed must not be used while it is destroyed. */
#ifndef CANNON_FEED_FEED_H
#define CANNON_FEED_FEED_H

#include "feed/reader.h"
#include "runtime/stream.h"

typedef struct feed feed;

/* The device is that of the current context. site: the caller's return address, for reports of memory. */
status feed_create(reader *r, const cannon_feed_config *config, void *site, feed **out);

/* See cannon_feed_stop(), cannon_feed_destroy(), cannon_feed_next(), cannon_feed_release(). timeout_ns 0: no limit.
 * s NULL in feed_release: the stream of feed_next. */
void feed_stop(feed *f);
void feed_destroy(feed *f);
status feed_next(feed *f, stream *s, uint64_t timeout_ns, cannon_feed_batch *out);
status feed_release(feed *f, uint64_t batch, stream *s);
void feed_measure(feed *f, cannon_feed_stats *out);

#endif
