/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/marked_ranges.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "base/lock.h"
#include "base/store/handles.h"

typedef struct {
  handle h;
  char name[];
} domain;

typedef struct range {
  struct range *next;
  uint64_t id, started_ns;
  const void *domain;
  void *stream;
  char *message; /* as text, since the numbers of names are valid for one session only */
} range;

static mutex lock = MUTEX_INITIALIZER(MARKED_RANGES); /* guards the list and the last id */
FORK_RENEWS(lock)
static range *open_ranges; /* latest first */
static uint64_t last_id;

/* ---- domains ----------------------------------------------------------------------------------------------------- */

status range_domain_create(const char *name, void **out) {
  size_t n = 0;
  while (isalnum((unsigned char)name[n]) || name[n] == '_') ++n;
  if (name[n] || n < 1 || n > RANGE_MAX_DOMAIN)
    return fail(ST_INVALID_PARAM, "name is %.80s, expected 1 to %d letters, digits and underscores", name,
                RANGE_MAX_DOMAIN);
  domain *d = handle_new(HANDLE_DOMAIN, sizeof *d + n + 1);
  if (!d) return fail(ST_NO_HOST_MEMORY, "no host memory for a domain");
  memcpy(d->name, name, n + 1);
  *out = d;
  return ST_OK;
}

status range_domain_destroy(void *pointer) {
  if (handle_free(HANDLE_DOMAIN, pointer)) return ST_OK;
  return fail(ST_INVALID_PARAM, "domain is %p, no domain (destroyed?)", pointer);
}

static status check_domain(const void *pointer, const char *message, const domain **out) {
  *out = pointer ? handle_live(HANDLE_DOMAIN, pointer) : NULL;
  if (pointer && !*out) return fail(ST_INVALID_PARAM, "domain is %p, no domain (destroyed?)", pointer);
  const size_t n = strnlen(message, RANGE_MAX_MESSAGE + 1);
  if (n >= 1 && n <= RANGE_MAX_MESSAGE) return ST_OK;
  return fail(ST_INVALID_PARAM, "message has %s%zu bytes, expected 1 to %d", n ? "at least " : "", n,
              RANGE_MAX_MESSAGE);
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

status range_record(void *pointer, const char *message, timeline_record *r) {
  const domain *d;
  TRY(check_domain(pointer, message, &d));
  *r = (timeline_record){.kind = TIMELINE_MARK,
                         .name = timeline_name(message, strlen(message)),
                         .bytes = d ? timeline_name(d->name, strlen(d->name)) : 0,
                         .device = -1};
  return ST_OK;
}

status range_start(void *pointer, const char *message, void *stream, uint64_t *id) {
  const domain *d;
  TRY(check_domain(pointer, message, &d));
  range *r = malloc(sizeof *r);
  char *copy = strdup(message);
  if (!r || !copy) {
    free(r);
    free(copy);
    return fail(ST_NO_HOST_MEMORY, "no host memory for a range");
  }
  mutex_lock(&lock);
  *id = ++last_id;
  *r = (range){.next = open_ranges, .id = *id, .domain = pointer, .stream = stream, .message = copy};
  r->started_ns = timeline_now();
  open_ranges = r;
  mutex_unlock(&lock);
  return ST_OK;
}

/* Removes the open range from the list. NULL if the domain (or, with `any`, every domain) has none of that id. */
static range *take_range(const void *pointer, bool any, uint64_t id) {
  mutex_lock(&lock);
  range **link = &open_ranges;
  while (*link && ((*link)->id != id || (!any && (*link)->domain != pointer))) link = &(*link)->next;
  range *r = *link;
  if (r) *link = r->next;
  mutex_unlock(&lock);
  return r;
}

void range_cancel(uint64_t id) {
  range *r = take_range(NULL, true, id);
  if (r) free(r->message);
  free(r);
}

status range_end(void *pointer, uint64_t id, char **message, void **stream) {
  const uint64_t now = timeline_now();
  timeline_record record;
  range *r = take_range(pointer, false, id);
  if (!r)
    return fail(ST_INVALID_PARAM, "id is %ju, expected that of a range that is open in the domain", (uintmax_t)id);
  const status st = range_record(pointer, r->message, &record);
  if (st == ST_OK) {
    record.type = timeline_name("start/end", strlen("start/end"));
    record.detail = (uint32_t)id;
    record.start_ns = r->started_ns;
    record.end_ns = now;
    timeline_add(&record);
  }
  if (st == ST_OK) {
    *message = r->message;
    *stream = r->stream;
  } else {
    free(r->message);
  }
  free(r);
  return st;
}
