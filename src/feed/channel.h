/* SPDX-License-Identifier: Apache-2.0 */
/* Named queues of messages between threads: acl/acl_tdt.h's channels. A channel belongs to a device and exists while it
 * has ends. Each end is one handle of the program, which may send and receive. Capacity is back-pressure: a sender
 * waits while the channel holds that many messages.
 *
 * Called by src/api/tdt.c. Thread-safe, but an end must not be closed twice or used after channel_close() began. */
#ifndef CANNON_FEED_CHANNEL_H
#define CANNON_FEED_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct channel_end channel_end;

/* First member of what is sent. Whoever holds a message may call `destroy`, once; a channel does it to messages that
 * are dropped. */
typedef struct channel_message {
  struct channel_message *next; /* the channel's */
  void (*destroy)(struct channel_message *);
} channel_message;

/* Opens the channel of the device and name, and makes it if there is none; only then the capacity, 1 or more, counts.
 * ST_NO_HOST_MEMORY. */
status channel_open(int device, const char *name, size_t capacity, channel_end **out);

/* Stops the end, waits until no thread is inside it, and frees it. The last end of a channel drops its messages. */
void channel_close(channel_end *end);

/* Ends the waits by this end, now and later, with ST_FAILURE. Messages in the channel stay. */
void channel_stop(channel_end *end);

/* timeout_ms: -1 waits without limit, 0 does not wait. ST_QUEUE_FULL or ST_QUEUE_EMPTY, without a message, when the
 * time is over: programs poll. ST_FAILURE when the end was stopped. A message that was sent is the channel's, one that
 * was received the caller's. */
status channel_send(channel_end *end, channel_message *message, int32_t timeout_ms);
status channel_receive(channel_end *end, int32_t timeout_ms, channel_message **out);

size_t channel_size(channel_end *end);

/* Destroys all messages in the channel. */
void channel_clean(channel_end *end);

const char *channel_name(const channel_end *end);

#endif
