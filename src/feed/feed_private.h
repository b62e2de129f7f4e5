/* SPDX-License-Identifier: Apache-2.0 */
/* What feed.c and feed_work.c share. */
#ifndef CANNON_FEED_FEED_PRIVATE_H
#define CANNON_FEED_FEED_PRIVATE_H

#include "base/lock.h"
#include "feed/feed.h"
#include "feed/meter.h"
#include "feed/record_stream.h"
#include "feed/ring.h"
#include "feed/shuffle.h"
#include "runtime/context.h"
#include "runtime/wait/event.h"

/* How records come to the device. */
typedef enum {
  FEED_STAGED,   /* through pinned memory, into which they are decoded or, from a stream, copied */
  FEED_DIRECT,   /* copied from their mappings */
  FEED_IN_PLACE, /* not at all: they stay in their mapping */
} feed_way;

/* The memory of a batch. Whoever has the slot by the rules of the ring may use its fields. */
typedef struct {
  void *host, *device; /* a block each; NULL: the way does without it */
  void *view;          /* of the device's block, for the thread that copies */
  event *ready, *passed;
  uint64_t position; /* of the feed's stream, behind the record of `ready` */
  uint64_t epoch;
  _Atomic uint32_t count; /* records in it so far */
  bool skipped;           /* the program does not get it, since it is not full */
  uint64_t *records;      /* their numbers */
  record_view *views;     /* of the ways without pinned memory */
  void *data;             /* of FEED_IN_PLACE: the batch */
  stream *lent_to;        /* while it is lent: the stream, with a reference; guarded by the feed's lock, as ... */
  uint64_t lent_number;   /* ... the number of the batch */
} feed_slot;

struct feed {
  mutex lock;             /* guards what is said below */
  pthread_cond_t ends;    /* a thread has ended, or has come back from a decoder */
  feed *next;             /* in the list of feed.c, under its lock */
  _Atomic bool stopping;  /* no decoder is called any more */
  uint32_t n_alive;       /* threads; guarded by lock */
  uint32_t n_decoding;    /* the part of them that is inside decoders; guarded by lock */
  uint64_t lent_position; /* the feed's stream has to come here before its memory is freed; guarded by lock */
  struct {
    status st; /* ST_OK: nothing has failed */
    uint64_t sequence;
    uint32_t index; /* in the batch */
    char words[512];
  } failure; /* of the first record, in the order, that has failed; guarded by lock */
  /* What follows is set when the feed is created. */
  char name[32];
  feed_way way;
  uint32_t batch, n_slots, n_pieces, piece; /* a batch is decoded in n_pieces pieces of `piece` records */
  uint32_t n_wanted;                        /* how many batches ahead the kernel is asked to read; 0: it is not asked */
  bool drop_last;
  uint64_t epochs, n_in_epoch, n_batches; /* records and batches of an epoch; UINT64_MAX for streamed readers */
  cannonFeedDecode decode;
  void *argument;
  uint32_t n_fields;
  uint64_t field_bytes[CANNON_FEED_MAX_FIELDS], field_offset[CANNON_FEED_MAX_FIELDS]; /* per record; in a slot */
  uint64_t slot_bytes;
  shuffle_plan order;
  reader *source;         /* with a reference */
  bool has_source;        /* it is streamed, and this is the feed that uses it */
  record_stream *records; /* NULL: the records are found by number */
  ring *ring;
  meter *meter;
  stream *copies;              /* the feed's own */
  meter_wait *_Atomic arrived; /* of a feed_next() that has found no batch in time */
  bool registered;             /* the mapping is, for FEED_IN_PLACE */
  feed_slot *slots;
};

static inline feed_slot *feed_slot_of(feed *f, uint64_t sequence) { return &f->slots[sequence % f->n_slots]; }

/* The body of the feed's threads; argument is the feed. */
void *feed_work(void *argument);

#endif
