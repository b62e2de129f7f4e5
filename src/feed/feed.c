/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "feed/feed_private.h"
#include "memory/memory.h"
#include "memory/registered.h"
#include "runtime/device.h"
#include "runtime/graph/capture.h"
#include "runtime/scheduler.h"
#include "runtime/task_tell.h"
#include "trace/stats_write.h"
#include "trace/timeline.h"

enum { ALIGNMENT = 64, PIECES_PER_WORKER = 4, MOST_AHEAD = 1024, MOST_WORKERS = 256, AHEAD_BYTES = 32 << 20 };

static mutex list_lock = MUTEX_INITIALIZER(FEEDS); /* guards the list */
static feed *feeds;

/* ---- configuration ----------------------------------------------------------------------------------------------- */

static status feed_check_numbers(const cannon_feed_config *c) {
  const size_t length = c->name ? strnlen(c->name, 32) : 0;
  if (!length || length > 31) return fail(ST_INVALID_VALUE, "name has %zu characters, expected 1 to 31", length);
  if (!c->batch || c->batch > 1u << 24) return fail(ST_INVALID_VALUE, "batch is %u, expected 1 to 2^24", c->batch);
  if (!c->ahead || c->ahead > MOST_AHEAD)
    return fail(ST_INVALID_VALUE, "ahead is %u, expected 1 to %d", c->ahead, MOST_AHEAD);
  if (!c->workers || c->workers > MOST_WORKERS)
    return fail(ST_INVALID_VALUE, "workers is %u, expected 1 to %d", c->workers, MOST_WORKERS);
  if (!c->block) return fail(ST_INVALID_VALUE, "block is 0, expected 1 or more records");
  if (!c->window || c->window > 1u << 24) return fail(ST_INVALID_VALUE, "window is %u, expected 1 to 2^24", c->window);
  if (!c->n_ranks || c->rank >= c->n_ranks)
    return fail(ST_INVALID_VALUE, "rank is %u and n_ranks %u, expected a rank below the number of ranks", c->rank,
                c->n_ranks);
  if (c->n_fields > CANNON_FEED_MAX_FIELDS)
    return fail(ST_INVALID_VALUE, "n_fields is %zu, expected at most %d", c->n_fields, CANNON_FEED_MAX_FIELDS);
  if (c->n_fields && !c->field_bytes)
    return fail(ST_INVALID_PARAM, "field_bytes is NULL, expected the bytes of %zu fields", c->n_fields);
  if (c->decode && !c->n_fields) return fail(ST_INVALID_VALUE, "n_fields is 0, expected the fields that decode writes");
  if (!c->decode && c->n_fields > 1)
    return fail(ST_INVALID_VALUE, "n_fields is %zu, expected at most 1 without a decoder", c->n_fields);
  return ST_OK;
}

/* The size of all records of a reader whose configuration tells it, or of the first one; 0: the reader is streamed. */
static status feed_record_bytes(reader *r, uint64_t *bytes) {
  reader_scratch scratch = {0};
  record_view v = {0};
  *bytes = r->format == CANNON_READER_FIXED ? r->record_bytes : 0;
  if (*bytes || r->streamed || !r->n_records) return ST_OK;
  const status st = reader_find(r, 0, &scratch, &v);
  *bytes = v.bytes;
  free(scratch.data);
  return st;
}

static status feed_lay_out(feed *f, const cannon_feed_config *c) {
  uint64_t record_bytes = 0, bytes;
  f->n_fields = c->n_fields ? (uint32_t)c->n_fields : 1;
  if (!c->n_fields) TRY(feed_record_bytes(f->source, &record_bytes));
  for (uint32_t i = 0; i < f->n_fields; ++i) {
    f->field_bytes[i] = c->n_fields ? c->field_bytes[i] : record_bytes;
    if (!f->field_bytes[i] || f->field_bytes[i] > UINT64_C(1) << 40)
      return fail(ST_INVALID_VALUE, "field_bytes[%u] is %ju, expected 1 to 2^40 bytes", i,
                  (uintmax_t)f->field_bytes[i]);
    f->field_offset[i] = f->slot_bytes;
    if (__builtin_mul_overflow(f->field_bytes[i], (uint64_t)f->batch, &bytes) || bytes > UINT64_C(1) << 46)
      return fail(ST_INVALID_VALUE, "field %u has %ju bytes for each of %u records, expected at most 2^46 in a batch",
                  i, (uintmax_t)f->field_bytes[i], f->batch);
    f->slot_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  return ST_OK;
}

static status feed_check_in_place(const feed *f) {
  const reader *r = f->source;
  if (f->decode || r->streamed || r->format == CANNON_READER_FILES || r->n_files != 1)
    return fail(ST_INVALID_VALUE, "in_place is true, expected a reader of one mapped file, and no decoder");
  if ((f->order.shuffle || f->order.n_ranks > 1) && f->order.block % f->batch)
    return fail(ST_INVALID_VALUE, "in_place is true and block is %ju, expected a multiple of batch, %u",
                (uintmax_t)f->order.block, f->batch);
  return ST_OK;
}

static status feed_configure(feed *f, const cannon_feed_config *c) {
  const reader *r = f->source;
  snprintf(f->name, sizeof f->name, "%s", c->name);
  f->batch = c->batch;
  f->n_slots = c->ahead + 1;
  f->drop_last = c->drop_last;
  f->epochs = c->epochs;
  f->decode = c->decode;
  f->argument = c->argument;
  f->order = (shuffle_plan){r->n_records, c->block, c->seed, c->shuffle, c->rank, c->n_ranks};
  f->way = c->decode || r->streamed || r->format == CANNON_READER_FILES ? FEED_STAGED
           : c->in_place                                                ? FEED_IN_PLACE
                                                                        : FEED_DIRECT;
  if (c->in_place) TRY(feed_check_in_place(f));
  const uint32_t wanted = c->workers * PIECES_PER_WORKER;
  f->piece = f->way == FEED_STAGED ? (f->batch + wanted - 1) / wanted : f->batch;
  f->n_pieces = (f->batch + f->piece - 1) / f->piece;
  f->n_in_epoch = f->n_batches = UINT64_MAX;
  if (r->streamed) return feed_lay_out(f, c);
  f->n_in_epoch = shuffle_count(&f->order);
  f->n_batches = f->n_in_epoch / f->batch + (!f->drop_last && f->n_in_epoch % f->batch);
  if (!f->n_batches)
    return fail(ST_INVALID_VALUE, "there are %ju records for this rank, expected enough for a batch",
                (uintmax_t)f->n_in_epoch);
  return feed_lay_out(f, c);
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static status feed_make_slot(feed *f, context *c, feed_slot *slot, void *site) {
  TRY(event_create(c, EVENT_EX, EVENT_SYNC, &slot->ready));
  TRY(event_create(c, EVENT_EX, EVENT_SYNC, &slot->passed));
  slot->records = calloc(f->batch, sizeof *slot->records);
  slot->views = f->way == FEED_STAGED ? NULL : calloc(f->batch, sizeof *slot->views);
  if (!slot->records || (f->way != FEED_STAGED && !slot->views))
    return fail(ST_NO_HOST_MEMORY, "no host memory for a batch of %u records", f->batch);
  if (f->way == FEED_STAGED)
    TRY(memory_alloc(-1, &alloc_rules[RULE_MALLOC_HOST], POLICY_HUGE_FIRST, f->slot_bytes, site, &slot->host));
  if (slot->host) memset(slot->host, 0, f->slot_bytes); /* what is copied is never what others have left there */
  if (f->way == FEED_IN_PLACE) return ST_OK;
  TRY(memory_alloc(c->device, &alloc_rules[RULE_MALLOC], POLICY_HUGE_FIRST, f->slot_bytes, site, &slot->device));
  return memory_view(slot->device, f->slot_bytes, VMM_WRITE, "batch", &slot->view);
}

/* Registers the mapping for kernels. */
static status feed_register(feed *f) {
  const mapped_file *m = &f->source->files[0].data;
  TRY(registered_add((uintptr_t)m->data, m->bytes, REGISTERED_MAPPED | REGISTERED_PINNED));
  f->registered = true;
  return ST_OK;
}

/* Has the kernel read so far ahead that the disk has AHEAD_BYTES to do, if batches have the size of the first record.
 * Not where records come in the order of the file: the kernel reads ahead by itself then, in larger pages. For a file
 * of 2 GiB in records of 1 MiB that made 1550 MiB/s of 850, and asking made 860 of 130 in random order (bench/feed). */
static status feed_plan_ahead(feed *f) {
  uint64_t bytes;
  if (!f->order.shuffle && f->order.n_ranks == 1) return ST_OK;
  TRY(feed_record_bytes(f->source, &bytes));
  const uint64_t n = AHEAD_BYTES / (bytes * f->batch + 1) + 1;
  f->n_wanted = n < f->n_slots ? f->n_slots : n < MOST_AHEAD ? (uint32_t)n : MOST_AHEAD;
  return ST_OK;
}

static status feed_prepare(feed *f, context *c, const cannon_feed_config *config, void *site) {
  TRY(feed_configure(f, config));
  if (f->source->streamed && atomic_exchange(&f->source->in_use, true))
    return fail(ST_INVALID_VALUE, "the reader is streamed and feeds another feed already");
  f->has_source = f->source->streamed;
  if (f->source->streamed) TRY(record_stream_create(f->source, &f->order, config->window, config->epochs, &f->records));
  TRY(ring_create(f->n_slots, f->n_pieces, &f->ring));
  TRY(meter_open(f->name, c->device, &f->meter));
  TRY(stream_create(c, 0, 0, &f->copies));
  f->slots = calloc(f->n_slots, sizeof *f->slots);
  if (!f->slots) return fail(ST_NO_HOST_MEMORY, "no host memory for %u batches", f->n_slots);
  for (uint32_t i = 0; i < f->n_slots; ++i) TRY(feed_make_slot(f, c, &f->slots[i], site));
  if (f->way == FEED_IN_PLACE) TRY(feed_register(f));
  if (!f->source->streamed) TRY(feed_plan_ahead(f));
  if (!f->source->streamed && f->epochs && f->epochs < UINT64_MAX / f->n_batches)
    ring_end(f->ring, f->epochs * f->n_batches);
  return ST_OK;
}

static void feed_free_slot(feed_slot *slot) {
  if (slot->lent_to) stream_unref(slot->lent_to);
  if (slot->device) memory_free(slot->device, FREE_DEVICE, NULL);
  if (slot->host) memory_free(slot->host, FREE_HOST, NULL);
  if (slot->ready) event_unref(slot->ready);
  if (slot->passed) event_unref(slot->passed);
  free(slot->records);
  free(slot->views);
}

/* No thread uses the feed any more. */
static void feed_free(feed *f) {
  meter_forget(atomic_exchange(&f->arrived, NULL));
  if (f->copies) stream_destroy(f->copies, true);
  for (uint32_t i = 0; f->slots && i < f->n_slots; ++i) feed_free_slot(&f->slots[i]);
  if (f->registered) registered_remove((uintptr_t)f->source->files[0].data.data);
  record_stream_free(f->records);
  if (f->has_source) atomic_store(&f->source->in_use, false);
  if (f->meter) meter_close(f->meter);
  ring_free(f->ring);
  reader_unref(f->source);
  free(f->slots);
  pthread_cond_destroy(&f->ends);
  mutex_destroy(&f->lock);
  free(f);
}

/* Waits until all threads have ended; with `decoders_stay`, but those that are inside decoders. */
static void feed_await_threads(feed *f, bool decoders_stay) {
  mutex_lock(&f->lock);
  while (f->n_alive > (decoders_stay ? f->n_decoding : 0)) mutex_wait(&f->lock, &f->ends, NULL);
  mutex_unlock(&f->lock);
}

static status feed_start_threads(feed *f, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    mutex_lock(&f->lock);
    ++f->n_alive;
    mutex_unlock(&f->lock);
    const int error = scheduler_start_thread(feed_work, f);
    if (!error) continue;
    mutex_lock(&f->lock);
    --f->n_alive;
    mutex_unlock(&f->lock);
    return fail(ST_NO_HOST_MEMORY, "thread %u of %u can't be started: %s", i + 1, n, strerror(error));
  }
  return ST_OK;
}

/* ---- the process's end ------------------------------------------------------------------------------------------- */

/* Ends the threads of feeds that the program has not destroyed, before what they use is taken down. Those inside
 * decoders stay there until the process is gone. */
static void feed_at_exit(void) {
  if (atomic_load(&device_is_child)) return;
  mutex_lock(&list_lock);
  feed *first = feeds;
  feeds = NULL;
  mutex_unlock(&list_lock);
  for (feed *f = first; f; f = f->next) {
    feed_stop(f);
    stream_discard(f->copies);
  }
  for (feed *f = first; f; f = f->next) feed_await_threads(f, true);
}

static void feed_watch_exit(void) { atexit(feed_at_exit); }

static void feed_enlist(feed *f) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, feed_watch_exit); /* behind the device's own exit handler, and so called before it */
  mutex_lock(&list_lock);
  f->next = feeds;
  feeds = f;
  mutex_unlock(&list_lock);
}

/* False if the process ends, and the exit handler has the feed. */
static bool feed_delist(feed *f) {
  mutex_lock(&list_lock);
  feed **link = &feeds;
  while (*link && *link != f) link = &(*link)->next;
  const bool found = *link;
  if (found) *link = f->next;
  mutex_unlock(&list_lock);
  return found;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

status feed_create(reader *r, const cannon_feed_config *config, void *site, feed **out) {
  context *c;
  TRY(feed_check_numbers(config));
  TRY(context_current(&c));
  TRY(device_open(c->device));
  feed *f = calloc(1, sizeof *f);
  if (!f) return fail(ST_NO_HOST_MEMORY, "no host memory for a feed");
  mutex_init(&f->lock, LOCK_FEED);
  pthread_cond_init(&f->ends, NULL);
  f->source = r;
  reader_ref(r);
  status st = feed_prepare(f, c, config, site);
  /* Copies from mappings run one after the other, in the order of the file, which keeps the kernel reading ahead. */
  if (st == ST_OK) st = feed_start_threads(f, f->way == FEED_STAGED ? config->workers : 1);
  if (st == ST_OK) {
    feed_enlist(f);
    *out = f;
    return ST_OK;
  }
  if (f->ring) feed_stop(f);
  feed_await_threads(f, false);
  feed_free(f);
  return st;
}

void feed_stop(feed *f) {
  mutex_lock(&f->lock); /* a thread that enters a decoder looks under it */
  atomic_store(&f->stopping, true);
  mutex_unlock(&f->lock);
  ring_stop(f->ring);
  if (f->records) record_stream_stop(f->records);
}

/* Waits until the program's tasks have left the mapping, which may go with the feed. */
static void feed_await_passing(feed *f) {
  for (uint32_t i = 0; i < f->n_slots; ++i) {
    feed_slot *slot = &f->slots[i];
    mutex_lock(&f->lock);
    stream *lent_to = slot->lent_to;
    if (lent_to) object_ref(&lent_to->o);
    mutex_unlock(&f->lock);
    if (lent_to) {
      stream_wait(lent_to, stream_submitted(lent_to), 0);
      task_tell_waited(lent_to, false);
      stream_unref(lent_to);
    }
    event_reach(slot->passed, 0);
  }
}

void feed_destroy(feed *f) {
  const bool ours = feed_delist(f);
  feed_stop(f);
  mutex_lock(&f->lock);
  const uint64_t lent = f->lent_position;
  mutex_unlock(&f->lock);
  stream_wait(f->copies, lent, 0);
  if (f->way == FEED_IN_PLACE) feed_await_passing(f);
  stream_discard(f->copies); /* ends the waits of the feed's threads */
  feed_await_threads(f, false);
  if (ours) feed_free(f);
}

/* ---- the program's side ------------------------------------------------------------------------------------------ */

static status feed_tell_end(feed *f, ring_result result, cannon_feed_batch *out) {
  if (result == RING_STOPPED) return fail(ST_INVALID_VALUE, "the feed was stopped");
  if (result == RING_HELD)
    return fail(ST_INVALID_VALUE, "all %u batches are lent, expected cannon_feed_release before the next", f->n_slots);
  char words[sizeof f->failure.words];
  mutex_lock(&f->lock);
  const status st = f->failure.st;
  memcpy(words, f->failure.words, sizeof words);
  mutex_unlock(&f->lock);
  if (result == RING_ENDED && st != ST_OK) return fail(st, "%s", words);
  out->state = result == RING_ENDED ? CANNON_FEED_END : CANNON_FEED_NOT_YET;
  return ST_OK;
}

/* Takes the next batch that the program shall have. */
static ring_result feed_take(feed *f, uint64_t timeout_ns, uint64_t *sequence) {
  for (;;) {
    const ring_result result = ring_take(f->ring, timeout_ns, sequence);
    feed_slot *slot = feed_slot_of(f, *sequence);
    if (result != RING_OK || !slot->skipped) return result;
    atomic_store(&slot->count, 0);
    ring_release(f->ring, *sequence);
  }
}

static void feed_describe(const feed *f, feed_slot *slot, uint64_t sequence, cannon_feed_batch *out) {
  out->number = sequence;
  out->epoch = slot->epoch;
  out->count = atomic_load(&slot->count);
  out->n_fields = f->n_fields;
  out->records = slot->records;
  for (uint32_t i = 0; i < f->n_fields; ++i)
    out->field[i] = f->way == FEED_IN_PLACE ? slot->data : (char *)slot->device + f->field_offset[i];
}

/* Takes note that the batch is not lent any more. NULL if it is not lent. */
static stream *feed_end_loan(feed *f, feed_slot *slot, uint64_t batch) {
  stream *s = NULL;
  mutex_lock(&f->lock);
  if (slot->lent_to && slot->lent_number == batch) {
    s = slot->lent_to;
    slot->lent_to = NULL;
  }
  mutex_unlock(&f->lock);
  return s;
}

static void feed_begin_loan(feed *f, feed_slot *slot, uint64_t batch, stream *s) {
  mutex_lock(&f->lock);
  slot->lent_to = s;
  slot->lent_number = batch;
  if (f->lent_position < slot->position) f->lent_position = slot->position;
  mutex_unlock(&f->lock);
}

/* Lends a slot that was taken. */
static status feed_lend(feed *f, stream *s, uint64_t sequence, meter_wait **wait) {
  feed_slot *slot = feed_slot_of(f, sequence);
  TRY(event_submit_wait(slot->ready, s, 0));
  meter_wait *const passes = *wait;
  *wait = NULL;
  TRY(meter_pass(passes, s));
  object_ref(&s->o);
  feed_begin_loan(f, slot, sequence, s);
  return ST_OK;
}

static void feed_give_back(feed *f, feed_slot *slot, uint64_t sequence) {
  atomic_store(&slot->count, 0);
  const bool was_taken = ring_release(f->ring, sequence);
  INVARIANT(was_taken);
}

status feed_next(feed *f, stream *s, uint64_t timeout_ns, cannon_feed_batch *out) {
  uint64_t sequence = 0;
  *out = (cannon_feed_batch){.state = CANNON_FEED_BATCH};
  TRY(capture_refuse_stream(s));
  meter_wait *wait = atomic_exchange(&f->arrived, NULL);
  if (!wait) TRY(meter_arrive(f->meter, s, &wait));
  stats_feed *counts = meter_counts(f->meter);
  const uint64_t start_ns = timeline_now();
  const ring_result result = feed_take(f, timeout_ns, &sequence);
  trace_add(&counts->host_ns, timeline_now() - start_ns);
  status st = result == RING_OK ? feed_lend(f, s, sequence, &wait) : feed_tell_end(f, result, out);
  if (st == ST_OK && result == RING_OK) {
    feed_describe(f, feed_slot_of(f, sequence), sequence, out);
    trace_add(&counts->n_batches, 1);
  } else if (result == RING_OK) {
    feed_give_back(f, feed_slot_of(f, sequence), sequence);
  }
  if (result == RING_TIMEOUT) wait = atomic_exchange(&f->arrived, wait);
  meter_forget(wait);
  return st;
}

/* The slot may be filled again when the stream has done what it has so far. A stream that was destroyed takes no record
 * any more. */
static status feed_leave(feed_slot *slot, stream *s) {
  if (!atomic_load(&s->context)) return stream_wait(s, stream_submitted(s), 0);
  return event_submit_record(slot->passed, s);
}

status feed_release(feed *f, uint64_t batch, stream *s) {
  feed_slot *slot = feed_slot_of(f, batch);
  stream *const lent_to = feed_end_loan(f, slot, batch);
  if (!lent_to) return fail(ST_INVALID_VALUE, "batch is %ju, which is not lent", (uintmax_t)batch);
  const status st = feed_leave(slot, s ? s : lent_to);
  if (st != ST_OK) {
    feed_begin_loan(f, slot, batch, lent_to);
    return st;
  }
  stream_unref(lent_to);
  feed_give_back(f, slot, batch);
  return ST_OK;
}

void feed_measure(feed *f, cannon_feed_stats *out) {
  const stats_feed *counts = meter_counts(f->meter);
  *out = (cannon_feed_stats){.n_batches = counts->n_batches,
                             .n_records = counts->n_records,
                             .record_bytes = counts->record_bytes,
                             .decode_ns = counts->decode_ns,
                             .full_ns = counts->full_ns,
                             .host_ns = counts->host_ns,
                             .device_ns = counts->device_ns};
}
