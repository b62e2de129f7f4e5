/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/record_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "feed/byte_stream.h"

/* A length may be hostile: memory grows as bytes arrive. */
enum { FIRST_ROOM = 1 << 20 };

struct record_stream {
  mutex lock; /* guards turn and stopped */
  pthread_cond_t turns;
  uint64_t turn; /* the piece whose turn it is: its thread owns all fields below */
  bool stopped;
  int stop; /* an eventfd, readable after record_stream_stop() */
  reader *source;
  shuffle_plan plan;
  uint64_t epochs; /* 0: without end */
  uint32_t window; /* the size of `held`; 0: not shuffled */
  uint32_t n_held;
  record_blob **held;
  byte_stream *bytes;              /* of the file that is read; NULL: none is open */
  size_t file;                     /* its index */
  uint64_t at;                     /* byte in it */
  uint64_t epoch, number, n_given; /* n_given: in this epoch */
  bool closed;                     /* the epoch has ended in this batch */
  bool over;                       /* there are no more records */
};

/* ---- records as they come ---------------------------------------------------------------------------------------- */

static const char *record_stream_path(const record_stream *s) { return s->source->files[s->file].path; }

static status record_stream_read(record_stream *s, void *to, uint64_t bytes, uint64_t *got) {
  const status st = byte_stream_read(s->bytes, to, bytes, got);
  s->at += *got;
  return st;
}

static status record_stream_short(const record_stream *s, uint64_t got, uint64_t bytes) {
  return fail(ST_FAILURE, "the file ends at byte %ju, after %ju of %ju bytes of it", (uintmax_t)s->at, (uintmax_t)got,
              (uintmax_t)bytes);
}

/* Opens the file whose turn it is, and reads its header. */
static status record_stream_open(record_stream *s) {
  uint64_t got;
  char skipped[4096];
  TRY(byte_stream_open(record_stream_path(s), s->source->gzip, s->stop, &s->bytes));
  s->at = 0;
  for (uint64_t left = s->source->format == CANNON_READER_FIXED ? s->source->header_bytes : 0; left; left -= got) {
    const uint64_t n = left < sizeof skipped ? left : sizeof skipped;
    TRY(record_stream_read(s, skipped, n, &got));
    if (got < n) return fail(ST_FAILURE, "the file ends inside of its header, at byte %ju", (uintmax_t)s->at);
  }
  return ST_OK;
}

/* Reads the length of the next record; *end: the file is over. */
static status record_stream_length(record_stream *s, uint64_t *bytes, bool *end) {
  unsigned char head[RECORD_PREFIX_MOST];
  const record_prefix p = s->source->prefix;
  const uint64_t start = s->at, n = record_prefix_bytes(p);
  uint64_t got;
  TRY(record_stream_read(s, head, n, &got));
  *end = !got;
  if (*end) return ST_OK;
  return got < n ? record_stream_short(s, got, n) : record_prefix_length(p, head, record_stream_path(s), start, bytes);
}

static status record_stream_room(record_blob **blob, uint64_t bytes) {
  record_blob *grown = realloc(*blob, sizeof *grown + bytes);
  if (!grown) return fail(ST_NO_HOST_MEMORY, "no host memory for %ju bytes", (uintmax_t)bytes);
  *blob = grown;
  return ST_OK;
}

/* Reads the data of a record. Records of fixed size have no length before them, so that the file may end here. */
static status record_stream_data(record_stream *s, uint64_t bytes, record_blob **blob, bool *end) {
  uint64_t done = 0, got;
  for (uint64_t room = bytes < FIRST_ROOM ? bytes : FIRST_ROOM;; room = bytes < room * 2 ? bytes : room * 2) {
    TRY(record_stream_room(blob, room));
    TRY(record_stream_read(s, (*blob)->data + done, room - done, &got));
    done += got;
    if (done < room) break;
    if (done == bytes) return ST_OK;
  }
  *end = !done && s->source->format == CANNON_READER_FIXED;
  return *end ? ST_OK : record_stream_short(s, done, bytes);
}

static status record_stream_parse(record_stream *s, record_blob **blob, bool *end) {
  unsigned char suffix[4];
  uint64_t bytes = s->source->record_bytes, got;
  const uint32_t behind = record_suffix_bytes(s->source->prefix);
  if (!s->bytes) TRY(record_stream_open(s));
  if (s->source->format != CANNON_READER_FIXED) TRY(record_stream_length(s, &bytes, end));
  if (*end) return ST_OK;
  TRY(record_stream_data(s, bytes, blob, end));
  if (*end) return ST_OK;
  TRY(record_stream_read(s, suffix, behind, &got));
  if (got < behind) return record_stream_short(s, got, behind);
  (*blob)->bytes = bytes;
  (*blob)->number = s->number;
  (*blob)->file = record_stream_path(s);
  return ST_OK;
}

/* The next record of all files; *out NULL: the epoch is over. */
static status record_stream_raw(record_stream *s, record_blob **out) {
  *out = NULL;
  while (s->file < s->source->n_files) {
    record_blob *blob = NULL;
    bool end = false;
    const status st = record_stream_parse(s, &blob, &end);
    if (st == ST_OK && !end) {
      ++s->number;
      *out = blob;
      return ST_OK;
    }
    free(blob);
    if (st != ST_OK) return reader_blame(st, s->number, record_stream_path(s));
    byte_stream_close(s->bytes);
    s->bytes = NULL;
    ++s->file;
  }
  return ST_OK;
}

/* The next record of this rank: one of each n_ranks, if all of these exist. */
static status record_stream_own(record_stream *s, record_blob **out) {
  record_blob *own = NULL, *blob;
  for (uint32_t i = 0; i < s->plan.n_ranks; ++i) {
    const status st = record_stream_raw(s, &blob);
    if (st != ST_OK || !blob) {
      free(own);
      *out = NULL;
      return st;
    }
    if (i == s->plan.rank)
      own = blob;
    else
      free(blob);
  }
  *out = own;
  return ST_OK;
}

/* The next record in the shuffled order. */
static status record_stream_next(record_stream *s, record_blob **out) {
  if (!s->window) return record_stream_own(s, out);
  while (s->n_held < s->window) {
    record_blob *blob;
    TRY(record_stream_own(s, &blob));
    if (!blob) break;
    s->held[s->n_held++] = blob;
  }
  *out = NULL;
  if (!s->n_held) return ST_OK;
  const uint64_t at = shuffle_key(shuffle_key(s->plan.seed, s->epoch), s->n_given) % s->n_held;
  *out = s->held[at];
  s->held[at] = s->held[--s->n_held];
  return ST_OK;
}

/* ---- epochs and turns -------------------------------------------------------------------------------------------- */

static void record_stream_next_epoch(record_stream *s) {
  s->closed = false;
  s->over = s->over || !s->n_given || (s->epochs && s->epoch + 1 == s->epochs);
  if (s->over) return;
  ++s->epoch;
  s->file = 0;
  s->number = s->n_given = 0;
}

/* The turn is the caller's. */
static status record_stream_fill(record_stream *s, bool begins_batch, uint32_t most, record_blob **out, uint32_t *n) {
  if (begins_batch && s->closed) record_stream_next_epoch(s);
  while (*n < most && !s->closed && !s->over) {
    record_blob *blob;
    TRY(record_stream_next(s, &blob));
    s->closed = !blob;
    if (blob) out[(*n)++] = blob;
    s->n_given += blob != NULL;
    /* The batch before has ended with the epoch, exactly. */
    if (s->closed && begins_batch && !*n) record_stream_next_epoch(s);
  }
  return ST_OK;
}

/* Waits for the turn of the piece. False if the stream was stopped. */
static bool record_stream_await(record_stream *s, uint64_t piece) {
  mutex_lock(&s->lock);
  while (s->turn != piece && !s->stopped) mutex_wait(&s->lock, &s->turns, NULL);
  const bool mine = s->turn == piece && !s->stopped;
  mutex_unlock(&s->lock);
  return mine;
}

status record_stream_take(record_stream *s, uint64_t piece, bool begins_batch, uint32_t most, record_blob **out,
                          uint32_t *n, uint64_t *epoch) {
  *n = 0;
  if (!record_stream_await(s, piece)) return fail(ST_FAILURE, "the feed was stopped");
  const status st = record_stream_fill(s, begins_batch, most, out, n);
  *epoch = s->epoch;
  if (st != ST_OK) {
    s->over = true;
    while (*n) free(out[--*n]);
  }
  mutex_lock(&s->lock);
  ++s->turn;
  pthread_cond_broadcast(&s->turns);
  mutex_unlock(&s->lock);
  return st;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static status record_stream_check_epochs(const reader *r, uint64_t epochs) {
  struct stat found;
  for (size_t i = 0; epochs != 1 && i < r->n_files; ++i)
    if (stat(r->files[i].path, &found) == 0 && !S_ISREG(found.st_mode))
      return fail(ST_INVALID_VALUE, "epochs is %ju, but %s can be read only once", (uintmax_t)epochs, r->files[i].path);
  return ST_OK;
}

status record_stream_create(reader *r, const shuffle_plan *plan, uint32_t window, uint64_t epochs,
                            record_stream **out) {
  TRY(record_stream_check_epochs(r, epochs));
  record_stream *s = calloc(1, sizeof *s);
  const uint32_t n_held = plan->shuffle ? window : 0;
  record_blob **held = n_held ? calloc(n_held, sizeof *held) : NULL;
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (!s || (n_held && !held) || stop < 0) {
    const int error = errno;
    free(s);
    free(held);
    if (stop >= 0) close(stop);
    return fail(ST_NO_HOST_MEMORY, "a streamed reader can't be set up: %s", strerror(error));
  }
  mutex_init(&s->lock, LOCK_RECORD_STREAM);
  pthread_cond_init(&s->turns, NULL);
  s->stop = stop;
  s->source = r;
  s->plan = *plan;
  s->epochs = epochs;
  s->window = n_held;
  s->held = held;
  reader_ref(r);
  *out = s;
  return ST_OK;
}

void record_stream_stop(record_stream *s) {
  const uint64_t one = 1;
  mutex_lock(&s->lock);
  s->stopped = true;
  pthread_cond_broadcast(&s->turns);
  mutex_unlock(&s->lock);
  if (write(s->stop, &one, sizeof one) < 0) return; /* the counter is full: it is readable */
}

void record_stream_free(record_stream *s) {
  if (!s) return;
  byte_stream_close(s->bytes);
  while (s->n_held) free(s->held[--s->n_held]);
  free(s->held);
  close(s->stop);
  reader_unref(s->source);
  pthread_cond_destroy(&s->turns);
  mutex_destroy(&s->lock);
  free(s);
}
