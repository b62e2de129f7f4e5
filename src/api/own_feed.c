/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for feeds of data (include/cannon/feed.h). */
#include "cannon/feed.h"

#include <string.h>

#include "api/api.h"
#include "base/store/handles.h"
#include "feed/feed.h"
#include "feed/meter.h"
#include "feed/reader.h"
#include "runtime/context.h"
#include "runtime/device.h"

struct cannon_reader {
  handle h;
  reader *reader;
};

struct cannon_feed {
  handle h;
  feed *feed;
};

struct cannon_meter {
  handle h;
  meter *meter;
};

static status own_reader_find(const void *given, reader **out) {
  const cannon_reader *r = handle_live(HANDLE_READER, given);
  if (!r) return fail(ST_INVALID_VALUE, "reader %p is no reader (closed?)", given);
  *out = r->reader;
  return ST_OK;
}

static status own_feed_find(const void *given, feed **out) {
  TRY(device_check_child());
  const cannon_feed *f = handle_live(HANDLE_FEED, given);
  if (!f) return fail(ST_INVALID_VALUE, "feed %p is no feed (destroyed?)", given);
  *out = f->feed;
  return ST_OK;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static status own_reader_open(cannon_reader **out, const cannon_reader_config *config) {
  reader *r;
  TRY(reader_open(config, &r));
  cannon_reader *made = handle_new(HANDLE_READER, sizeof *made);
  if (!made) {
    reader_unref(r);
    return fail(ST_NO_HOST_MEMORY, "no host memory for a reader");
  }
  made->reader = r;
  *out = made;
  return ST_OK;
}

aclError cannon_reader_open(cannon_reader **reader, const cannon_reader_config *config) {
  API_ENTER();
  NEED(reader);
  NEED(config);
  NEED(config->paths);
  API_RETURN(own_reader_open(reader, config));
}

aclError cannon_reader_count(cannon_reader *handle, uint64_t *count) {
  API_ENTER();
  reader *r;
  NEED(handle);
  NEED(count);
  NEED_OK(own_reader_find(handle, &r));
  *count = r->n_records;
  return ACL_SUCCESS;
}

static status own_reader_read(reader *r, uint64_t number, void *buffer, size_t capacity, size_t *bytes) {
  reader_scratch scratch = {0};
  record_view v;
  size_t bad;
  status st = reader_find(r, number, &scratch, &v);
  if (st == ST_OK) {
    if (v.bytes && v.bytes <= capacity) memcpy(buffer, v.data, v.bytes);
    reader_used(&v);
    st = reader_check(&v, 1, &bad);
    *bytes = v.bytes;
  }
  free(scratch.data);
  return st;
}

aclError cannon_reader_read(cannon_reader *handle, uint64_t number, void *buffer, size_t capacity, size_t *bytes) {
  API_ENTER();
  reader *r;
  NEED(handle);
  NEED(bytes);
  if (capacity) NEED(buffer);
  NEED_OK(own_reader_find(handle, &r));
  API_RETURN(own_reader_read(r, number, buffer, capacity, bytes));
}

aclError cannon_reader_close(cannon_reader *handle) {
  API_ENTER();
  reader *r;
  NEED(handle);
  NEED_OK(own_reader_find(handle, &r));
  handle_free(HANDLE_READER, handle);
  reader_unref(r);
  return ACL_SUCCESS;
}

/* ---- feeds ------------------------------------------------------------------------------------------------------- */

cannon_feed_config cannon_feed_default_config(void) {
  API_ENTER();
  return (cannon_feed_config){
      .name = "feed", .batch = 1, .ahead = 2, .workers = 2, .block = 1, .window = 1024, .epochs = 1, .n_ranks = 1};
}

static status own_feed_create(cannon_feed **out, cannon_reader *reader_handle, const cannon_feed_config *config,
                              void *site) {
  reader *r;
  TRY(device_check_child());
  TRY(own_reader_find(reader_handle, &r));
  cannon_feed *made = handle_new(HANDLE_FEED, sizeof *made);
  if (!made) return fail(ST_NO_HOST_MEMORY, "no host memory for a feed");
  const status st = feed_create(r, config, site, &made->feed);
  if (st == ST_OK)
    *out = made;
  else
    handle_free(HANDLE_FEED, made);
  return st;
}

aclError cannon_feed_create(cannon_feed **feed, cannon_reader *reader, const cannon_feed_config *config) {
  API_ENTER();
  NEED(feed);
  NEED(reader);
  NEED(config);
  API_RETURN(own_feed_create(feed, reader, config, CALLER));
}

static status own_feed_next(cannon_feed *handle, aclrtStream stream_handle, int32_t timeout_ms,
                            cannon_feed_batch *batch) {
  feed *f;
  stream *s;
  uint64_t ns;
  TRY(own_feed_find(handle, &f));
  TRY(api_timeout_ns(timeout_ms, &ns));
  TRY(context_stream(stream_handle, &s));
  return feed_next(f, s, ns, batch);
}

aclError cannon_feed_next(cannon_feed *feed, aclrtStream stream, int32_t timeout_ms, cannon_feed_batch *batch) {
  API_ENTER();
  NEED(feed);
  NEED(batch);
  API_RETURN(own_feed_next(feed, stream, timeout_ms, batch));
}

static status own_feed_release(cannon_feed *handle, uint64_t batch, aclrtStream stream_handle) {
  feed *f;
  stream *s = NULL;
  TRY(own_feed_find(handle, &f));
  if (stream_handle) TRY(context_stream(stream_handle, &s));
  return feed_release(f, batch, s);
}

aclError cannon_feed_release(cannon_feed *feed, uint64_t batch, aclrtStream stream) {
  API_ENTER();
  NEED(feed);
  API_RETURN(own_feed_release(feed, batch, stream));
}

aclError cannon_feed_stop(cannon_feed *handle) {
  API_ENTER();
  feed *f;
  NEED(handle);
  NEED_OK(own_feed_find(handle, &f));
  feed_stop(f);
  return ACL_SUCCESS;
}

aclError cannon_feed_destroy(cannon_feed *handle) {
  API_ENTER();
  feed *f;
  NEED(handle);
  NEED_OK(own_feed_find(handle, &f));
  feed_destroy(f);
  handle_free(HANDLE_FEED, handle);
  return ACL_SUCCESS;
}

aclError cannon_feed_get_stats(cannon_feed *handle, cannon_feed_stats *stats) {
  API_ENTER();
  feed *f;
  NEED(handle);
  NEED(stats);
  NEED_OK(own_feed_find(handle, &f));
  feed_measure(f, stats);
  return ACL_SUCCESS;
}

/* ---- meters ------------------------------------------------------------------------------------------------------ */

static status own_meter_find(const void *given, meter **out) {
  TRY(device_check_child());
  const cannon_meter *m = handle_live(HANDLE_METER, given);
  if (!m) return fail(ST_INVALID_VALUE, "meter %p is no meter (destroyed?)", given);
  *out = m->meter;
  return ST_OK;
}

static status own_meter_create(cannon_meter **out, const char *name) {
  context *c;
  const size_t length = strnlen(name, 32);
  if (!length || length > 31) return fail(ST_INVALID_VALUE, "name has %zu characters, expected 1 to 31", length);
  TRY(context_current(&c));
  cannon_meter *made = handle_new(HANDLE_METER, sizeof *made);
  if (!made) return fail(ST_NO_HOST_MEMORY, "no host memory for a meter");
  const status st = meter_open(name, c->device, &made->meter);
  if (st == ST_OK)
    *out = made;
  else
    handle_free(HANDLE_METER, made);
  return st;
}

aclError cannon_meter_create(cannon_meter **meter, const char *name) {
  API_ENTER();
  NEED(meter);
  NEED(name);
  API_RETURN(own_meter_create(meter, name));
}

static status own_meter_of(const void *handle, aclrtStream stream_handle, meter **m, stream **s) {
  TRY(own_meter_find(handle, m));
  return context_stream(stream_handle, s);
}

aclError cannon_meter_ask(cannon_meter *handle, aclrtStream stream_handle) {
  API_ENTER();
  meter *m;
  stream *s;
  NEED(handle);
  NEED_OK(own_meter_of(handle, stream_handle, &m, &s));
  API_RETURN(meter_ask(m, s));
}

aclError cannon_meter_got(cannon_meter *handle, aclrtStream stream_handle, uint64_t records, uint64_t bytes) {
  API_ENTER();
  meter *m;
  stream *s;
  NEED(handle);
  NEED_OK(own_meter_of(handle, stream_handle, &m, &s));
  API_RETURN(meter_got(m, s, records, bytes));
}

aclError cannon_meter_destroy(cannon_meter *handle) {
  API_ENTER();
  meter *m;
  NEED(handle);
  NEED_OK(own_meter_find(handle, &m));
  handle_free(HANDLE_METER, handle);
  meter_close(m);
  return ACL_SUCCESS;
}
