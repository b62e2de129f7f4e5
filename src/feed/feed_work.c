/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a feed do: claim a piece of a batch, get its records, decode them, and hand over the batches that
 * are whole and next in the order. Their copies are submitted in that order: a copy waits until the program's stream
 * has left the slot, and nothing that is due earlier may be queued behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "feed/feed_private.h"
#include "memory/huge.h"
#include "runtime/memory/copy.h"
#include "trace/stats_write.h"
#include "trace/timeline.h"

/* What a thread has for itself. */
typedef struct {
  feed *f;
  reader_scratch scratch;
  record_view *views;  /* of the piece, `piece` of them */
  record_blob **blobs; /* likewise, of a streamed reader */
} feed_worker;

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Keeps the pending message of fail(), unless an earlier record has failed. */
static void feed_keep_failure(feed *f, status st, uint64_t sequence, uint32_t index) {
  const char *words = fail_take();
  mutex_lock(&f->lock);
  const bool earlier = f->failure.st == ST_OK || sequence < f->failure.sequence ||
                       (sequence == f->failure.sequence && index < f->failure.index);
  if (earlier) {
    f->failure.st = st;
    f->failure.sequence = sequence;
    f->failure.index = index;
    snprintf(f->failure.words, sizeof f->failure.words, "%s", words);
  }
  mutex_unlock(&f->lock);
}

/* Whether a record of the batch, or of one before, has failed. */
static bool feed_has_failed(feed *f, uint64_t sequence) {
  mutex_lock(&f->lock);
  const bool failed = f->failure.st != ST_OK && f->failure.sequence <= sequence;
  mutex_unlock(&f->lock);
  return failed;
}

/* ---- which records ----------------------------------------------------------------------------------------------- */

/* Records in the batch, of a reader that is not streamed. */
static uint32_t feed_batch_count(const feed *f, uint64_t sequence) {
  const uint64_t left = f->n_in_epoch - sequence % f->n_batches * f->batch;
  return left < f->batch ? (uint32_t)left : f->batch;
}

static uint64_t feed_record_at(const feed *f, uint64_t sequence, uint32_t index) {
  return shuffle_record(&f->order, sequence / f->n_batches, sequence % f->n_batches * f->batch + index);
}

/* Has the kernel read the piece of the next batch ahead. */
static void feed_want(feed *f, uint64_t sequence, uint32_t first) {
  if (f->epochs && sequence >= f->epochs * f->n_batches) return;
  const uint32_t n = feed_batch_count(f, sequence), end = first + f->piece < n ? first + f->piece : n;
  for (uint32_t i = first, run; i < end; i += run) {
    const uint64_t number = feed_record_at(f, sequence, i);
    for (run = 1; i + run < end && feed_record_at(f, sequence, i + run) == number + run;) ++run;
    reader_want(f->source, number, run);
  }
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Enters code of the user's; false if the feed is stopped. */
static bool feed_enter_decoder(feed *f) {
  mutex_lock(&f->lock);
  const bool enters = !atomic_load(&f->stopping);
  f->n_decoding += enters;
  mutex_unlock(&f->lock);
  return enters;
}

static void feed_leave_decoder(feed *f) {
  mutex_lock(&f->lock);
  --f->n_decoding;
  if (atomic_load(&f->stopping)) pthread_cond_broadcast(&f->ends);
  mutex_unlock(&f->lock);
}

/* Decodes a record to its place in the slot's pinned memory. */
static status feed_decode(feed *f, feed_slot *slot, uint32_t index, const cannon_feed_record *record) {
  void *fields[CANNON_FEED_MAX_FIELDS];
  for (uint32_t i = 0; i < f->n_fields; ++i)
    fields[i] = (char *)slot->host + f->field_offset[i] + index * f->field_bytes[i];
  if (f->decode) {
    const int result = f->decode(f->argument, record, fields);
    return result ? fail(ST_FAILURE, "the decoder has returned %d", result) : ST_OK;
  }
  if (record->bytes != f->field_bytes[0])
    return fail(ST_FAILURE, "it has %zu bytes, expected the field's %ju, or a decoder", record->bytes,
                (uintmax_t)f->field_bytes[0]);
  if (record->bytes) memcpy(fields[0], record->data, record->bytes);
  return ST_OK;
}

static cannon_feed_record feed_record_of(const feed *f, uint64_t epoch, uint64_t number, const void *data,
                                         uint64_t bytes, const char *file) {
  return (cannon_feed_record){.number = number,
                              .epoch = epoch,
                              .random = shuffle_key(shuffle_key(f->order.seed, epoch), number),
                              .data = data,
                              .bytes = (size_t)bytes,
                              .file = file};
}

static void feed_count_record(feed *f, uint64_t bytes) {
  stats_feed *counts = meter_counts(f->meter);
  trace_add(&counts->n_records, 1);
  trace_add(&counts->record_bytes, bytes);
}

/* Decodes record `index` of the batch, found by number. A record whose file was cut short reads as zeros, so that a
 * decoder's complaint comes second. */
static status feed_stage_found(feed_worker *w, feed_slot *slot, uint64_t sequence, uint32_t index, record_view *v) {
  feed *f = w->f;
  const uint64_t epoch = sequence / f->n_batches;
  size_t bad;
  const uint64_t number = slot->records[index] = feed_record_at(f, sequence, index);
  TRY(reader_find(f->source, number, &w->scratch, v));
  const cannon_feed_record record = feed_record_of(f, epoch, number, v->data, v->bytes, v->file->path);
  const status st = feed_decode(f, slot, index, &record);
  if (st != ST_OK) {
    char words[400];
    snprintf(words, sizeof words, "%s", fail_take());
    TRY(reader_check(v, 1, &bad));
    return reader_blame(fail(st, "%s", words), number, v->file->path);
  }
  reader_used(v);
  feed_count_record(f, v->bytes);
  return ST_OK;
}

static void feed_stage_piece(feed_worker *w, feed_slot *slot, uint64_t sequence, uint32_t first) {
  feed *f = w->f;
  const uint32_t n = feed_batch_count(f, sequence), end = first + f->piece < n ? first + f->piece : n;
  uint32_t done = 0;
  size_t bad;
  status st = ST_OK;
  while (first + done < end && !atomic_load_explicit(&f->stopping, memory_order_relaxed)) {
    st = feed_stage_found(w, slot, sequence, first + done, &w->views[done]);
    if (st != ST_OK) break;
    ++done;
  }
  if (st != ST_OK) feed_keep_failure(f, st, sequence, first + done);
  st = reader_check(w->views, done, &bad);
  if (st != ST_OK) feed_keep_failure(f, st, sequence, first + (uint32_t)bad);
  atomic_fetch_add(&slot->count, done);
}

/* The same for a streamed reader. Takes the records while no decoder runs, since that may wait for other threads. */
static void feed_stage_blobs(feed_worker *w, feed_slot *slot, uint64_t epoch, uint64_t sequence, uint32_t first,
                             uint32_t n) {
  feed *f = w->f;
  status st = ST_OK;
  for (uint32_t i = 0; i < n; ++i) {
    record_blob *b = w->blobs[i];
    if (st == ST_OK && !atomic_load_explicit(&f->stopping, memory_order_relaxed)) {
      const cannon_feed_record record = feed_record_of(f, epoch, b->number, b->data, b->bytes, b->file);
      slot->records[first + i] = b->number;
      st = feed_decode(f, slot, first + i, &record);
      if (st != ST_OK) feed_keep_failure(f, reader_blame(st, b->number, b->file), sequence, first + i);
      feed_count_record(f, b->bytes);
    }
    free(b);
  }
  atomic_fetch_add(&slot->count, n);
}

static void feed_stage(feed_worker *w, uint64_t sequence, uint32_t piece) {
  feed *f = w->f;
  feed_slot *slot = feed_slot_of(f, sequence);
  const uint32_t first = piece * f->piece, most = first + f->piece < f->batch ? f->piece : f->batch - first;
  uint32_t n = 0;
  uint64_t epoch = f->records ? 0 : sequence / f->n_batches;
  if (f->records) {
    const status st =
        record_stream_take(f->records, sequence * f->n_pieces + piece, piece == 0, most, w->blobs, &n, &epoch);
    if (st != ST_OK) feed_keep_failure(f, st, sequence, first);
  }
  if (piece == 0) slot->epoch = epoch;
  if (!feed_enter_decoder(f)) {
    while (n) free(w->blobs[--n]);
    return;
  }
  if (f->records)
    feed_stage_blobs(w, slot, epoch, sequence, first, n);
  else
    feed_stage_piece(w, slot, sequence, first);
  feed_leave_decoder(f);
}

/* ---- mapped records without a decoder ---------------------------------------------------------------------------- */

/* Finds the records of a batch, which is one piece. */
static void feed_gather(feed_worker *w, uint64_t sequence) {
  feed *f = w->f;
  feed_slot *slot = feed_slot_of(f, sequence);
  const uint32_t n = feed_batch_count(f, sequence);
  slot->epoch = sequence / f->n_batches;
  for (uint32_t i = 0; i < n; ++i) {
    record_view *v = &slot->views[i];
    const uint64_t number = slot->records[i] = feed_record_at(f, sequence, i);
    status st = reader_find(f->source, number, &w->scratch, v);
    if (st == ST_OK && v->bytes != f->field_bytes[0])
      st = reader_blame(fail(ST_FAILURE, "it has %ju bytes, expected the field's %ju, or a decoder",
                             (uintmax_t)v->bytes, (uintmax_t)f->field_bytes[0]),
                        number, v->file->path);
    if (st != ST_OK) {
      feed_keep_failure(f, st, sequence, i);
      return;
    }
    feed_count_record(f, v->bytes);
  }
  atomic_store(&slot->count, n);
}

/* Copies all records of a batch; neighbours at once. */
static status feed_run_copy(task *t, stream *s) {
  (void)s;
  const feed_slot *slot = t->host.argument;
  const uint32_t n = atomic_load(&slot->count);
  char *to = slot->view;
  huge_before_write(to, n * slot->views[0].bytes);
  for (uint32_t i = 0, next; i < n; i = next) {
    const char *from = slot->views[i].data;
    uint64_t bytes = slot->views[i].bytes;
    for (next = i + 1; next < n && slot->views[next].data == from + bytes; ++next) bytes += slot->views[next].bytes;
    memcpy(to, from, bytes);
    to += bytes;
  }
  return ST_OK;
}

static void feed_describe_copy(const task *t, task_words *words) {
  const feed_slot *slot = t->host.argument;
  words->bytes = 2 * (uint64_t)atomic_load(&slot->count) * slot->views[0].bytes;
}

static void feed_copy_uses(const task *t, task_use *tell, void *argument) {
  const feed_slot *slot = t->host.argument;
  const uint64_t bytes = (uint64_t)atomic_load(&slot->count) * slot->views[0].bytes;
  tell(argument, &(task_range){.view = slot->view, .bytes = bytes, .access = HOOK_WRITES});
}

static const task_kind feed_copy_kind = {.name = "memcpy",
                                         .tells = TASK_TELLS_WORK,
                                         .run = feed_run_copy,
                                         .describe = feed_describe_copy,
                                         .uses = feed_copy_uses};

static status feed_submit_gathered(feed *f, feed_slot *slot) {
  task *t;
  const uint64_t bytes = atomic_load(&slot->count) * f->field_bytes[0];
  TRY(stream_new_task(f->copies, &feed_copy_kind, &t));
  t->cost_ns = copy_cost_ns(bytes);
  t->host.argument = slot;
  stream_submit(f->copies, t);
  if (!trace_is_on()) return ST_OK;
  stats_copy *c = &trace_stats()->copies[STATS_H2D];
  trace_add(&c->count, 1);
  trace_add(&c->bytes, bytes);
  trace_add(&c->pageable_count, 1);
  trace_add(&c->pageable_bytes, bytes);
  return ST_OK;
}

/* Whether the records of a batch lie side by side, and where. */
static status feed_find_in_place(feed_slot *slot) {
  const uint32_t n = atomic_load(&slot->count);
  for (uint32_t i = 1; i < n; ++i)
    if ((const char *)slot->views[i].data != (const char *)slot->views[i - 1].data + slot->views[i - 1].bytes)
      return fail(ST_INVALID_VALUE, "records %ju and %ju do not lie side by side, which in_place expects",
                  (uintmax_t)slot->records[i - 1], (uintmax_t)slot->records[i]);
  slot->data = (void *)(uintptr_t)slot->views[0].data;
  return ST_OK;
}

/* ---- handing over ------------------------------------------------------------------------------------------------ */

static status feed_submit_copy(feed *f, feed_slot *slot) {
  if (f->way == FEED_IN_PLACE) return feed_find_in_place(slot);
  if (f->way == FEED_DIRECT) return feed_submit_gathered(f, slot);
  const copy_shape shape = {.dst = slot->device, .src = slot->host, .width = f->slot_bytes, .height = 1};
  return copy_in_stream(&shape, COPY_H2D, f->copies);
}

/* Submits the copy behind the point at which the program's stream has left the slot. Where the records are not staged,
 * waits until it is done, and asks whether the files were whole. Only the feed's own stream is waited for, so that
 * dropping its tasks ends each such wait. */
static status feed_bring(feed *f, feed_slot *slot, uint64_t sequence) {
  size_t bad;
  TRY(event_submit_wait(slot->passed, f->copies, 0));
  TRY(feed_submit_copy(f, slot));
  TRY(event_submit_record(slot->ready, f->copies));
  slot->position = stream_submitted(f->copies);
  if (f->way == FEED_STAGED) return ST_OK;
  if (f->way == FEED_DIRECT) TRY(stream_wait(f->copies, slot->position, 0));
  const uint32_t n = atomic_load(&slot->count);
  const status st = reader_check(slot->views, n, &bad);
  if (st != ST_OK) feed_keep_failure(f, st, sequence, (uint32_t)bad);
  for (uint32_t i = 0; st == ST_OK && i < n; ++i) reader_used(&slot->views[i]);
  return ST_OK;
}

/* All pieces of the batch are done, and the batches before it are handed over. */
static void feed_hand_over(feed *f, uint64_t sequence) {
  feed_slot *slot = feed_slot_of(f, sequence);
  const uint32_t n = atomic_load(&slot->count);
  if (atomic_load(&f->stopping)) return;
  slot->skipped = f->drop_last && n < f->batch;
  if (n && !slot->skipped && !feed_has_failed(f, sequence)) {
    const status st = feed_bring(f, slot, sequence);
    if (st != ST_OK) feed_keep_failure(f, st, sequence, 0);
  }
  if (!n || feed_has_failed(f, sequence))
    ring_end(f->ring, sequence);
  else
    ring_publish(f->ring, sequence);
}

static void feed_do_piece(feed_worker *w, uint64_t sequence, uint32_t piece) {
  feed *f = w->f;
  /* The slot's last copy must be done before its pinned memory is written to. */
  const status st = stream_wait(f->copies, feed_slot_of(f, sequence)->position, 0);
  const uint64_t start_ns = timeline_now();
  if (st != ST_OK) feed_keep_failure(f, st, sequence, 0);
  if (f->n_wanted) {
    for (uint64_t next = sequence ? f->n_wanted : 0; next <= f->n_wanted; ++next)
      feed_want(f, sequence + next, piece * f->piece);
  }
  if (f->way == FEED_STAGED)
    feed_stage(w, sequence, piece);
  else
    feed_gather(w, sequence);
  ring_done(f->ring, sequence);
  for (uint64_t next; ring_leave(f->ring, &next);) feed_hand_over(f, next);
  meter_work(f->meter, "prepare", sequence, start_ns, timeline_now());
}

void *feed_work(void *argument) {
  feed *f = argument;
  feed_worker w = {.f = f,
                   .views = calloc(f->piece, sizeof *w.views),
                   .blobs = f->records ? calloc(f->piece, sizeof(record_blob *)) : NULL};
  uint64_t sequence;
  uint32_t piece;
  if (!w.views || (f->records && !w.blobs)) {
    fail(ST_NO_HOST_MEMORY, "no host memory for a thread of the feed");
    feed_keep_failure(f, ST_NO_HOST_MEMORY, 0, 0);
    ring_end(f->ring, 0);
  }
  for (uint64_t waits_ns = timeline_now(); ring_claim(f->ring, &sequence, &piece) == RING_OK;) {
    trace_add(&meter_counts(f->meter)->full_ns, timeline_now() - waits_ns);
    feed_do_piece(&w, sequence, piece);
    waits_ns = timeline_now();
  }
  free(w.scratch.data);
  free(w.views);
  free(w.blobs);
  mutex_lock(&f->lock);
  --f->n_alive;
  pthread_cond_broadcast(&f->ends);
  mutex_unlock(&f->lock);
  return NULL;
}
