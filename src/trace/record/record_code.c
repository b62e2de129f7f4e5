/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/record/record_code.h"

#include <string.h>

#include "base/device_number.h"

enum {
  DEVICE = 1,
  STREAM = 2,
  EVENT = 4,
  NUMBER = 8,
  REQUESTED = 16,
  BYTES = 32,
  GENERATION = 64,
  COLLECTIVE = 128, /* communicator, call, count, ranks, peer */
  DURATION = 256,
  ADDRESS = 512,
  SITE = 1024,
  POSITION = 2048,
  VALUE = 4096,
  NAME = 8192,
  SECOND = 16384,
  MODEL = 32768, /* nanoseconds, operations */
  PAYLOAD = 65536,
};

static const uint32_t fields_of[RECORD_N_KINDS] = {
    [RECORD_ALLOC] = DEVICE | STREAM | NUMBER | REQUESTED | BYTES | ADDRESS | SITE,
    [RECORD_FREE] = DEVICE | STREAM | NUMBER | SITE,
    [RECORD_STREAM_CREATED] = DEVICE | STREAM,
    [RECORD_STREAM_DESTROYED] = DEVICE | STREAM,
    [RECORD_EVENT_RECORDED] = DEVICE | STREAM | EVENT,
    [RECORD_EVENT_AWAITED] = DEVICE | STREAM | EVENT,
    [RECORD_STREAM_DONE] = DEVICE | STREAM,
    [RECORD_EVENT_DONE] = DEVICE | EVENT,
    [RECORD_EVENT_REACHED] = DEVICE | STREAM | EVENT | GENERATION,
    [RECORD_EVENT_PASSED] = DEVICE | STREAM | EVENT | GENERATION,
    [RECORD_WORK] = DEVICE | STREAM | DURATION,
    [RECORD_COLLECTIVE] = DEVICE | STREAM | COLLECTIVE | DURATION,
    [RECORD_RUN] = REQUESTED | VALUE,
    [RECORD_TEXT] = PAYLOAD,
    [RECORD_SITE] = SITE | PAYLOAD,
    [RECORD_MODULE] = VALUE | NAME | SECOND,
    [RECORD_TASK] = DEVICE | STREAM | SITE | POSITION | NAME | PAYLOAD,
    [RECORD_ACCESSES] = PAYLOAD,
    [RECORD_TASK_RAN] = DEVICE | STREAM | DURATION | POSITION | MODEL,
    [RECORD_REGION] = DEVICE | BYTES | ADDRESS | SITE,
    [RECORD_REGION_END] = DEVICE | ADDRESS | SITE,
    [RECORD_ENTER] = VALUE,
    [RECORD_LEAVE] = VALUE,
    [RECORD_BACKWARD] = VALUE,
    [RECORD_PHASE] = SITE | VALUE,
    [RECORD_STEP] = 0,
    [RECORD_RANGE] = EVENT | BYTES | ADDRESS | VALUE,
};

static uint32_t fields_in(const record_history *h, record_kind kind) {
  const bool has_sites = !h->version || h->version >= 3;
  return has_sites ? fields_of[kind] : fields_of[kind] & ~(unsigned)(ADDRESS | SITE);
}

/* Differences wrap around. Zigzag encoding makes small differences of either sign short. */
static uint64_t zigzag(uint64_t difference) { return difference << 1 ^ -(difference >> 63); }
static uint64_t unzigzag(uint64_t n) { return n >> 1 ^ -(n & 1); }

static uint8_t *encode_varint(uint8_t *at, uint64_t n) {
  for (; n > 0x7f; n >>= 7) *at++ = (uint8_t)(n | 0x80);
  *at++ = (uint8_t)n;
  return at;
}

enum { WRITTEN_MANAGED = RECORD_MAX_DEVICES + 1 };
static unsigned written_device(int device) { return device == HOST_MANAGED ? WRITTEN_MANAGED : (unsigned)(device + 1); }
static int device_of(unsigned written) { return written == WRITTEN_MANAGED ? HOST_MANAGED : (int)written - 1; }

static uint8_t *encode_collective(uint8_t *at, const record *r) {
  at = encode_varint(at, r->communicator);
  at = encode_varint(at, r->call_kind + (uint64_t)RECORD_MAX_CALL_KINDS * r->dtype_bytes);
  at = encode_varint(at, r->count);
  at = encode_varint(at, r->n_ranks);
  at = encode_varint(at, r->rank);
  return encode_varint(at, r->peer);
}

/* The fields that version 3 has added. */
static uint8_t *encode_more(record_history *h, unsigned fields, const record *r, uint8_t *at) {
  if (fields & ADDRESS) at = encode_varint(at, zigzag(r->address - h->address));
  if (fields & ADDRESS) h->address = r->address;
  if (fields & SITE) at = encode_varint(at, r->site);
  if (fields & POSITION) at = encode_varint(at, r->position);
  if (fields & VALUE) at = encode_varint(at, r->value);
  if (fields & NAME) at = encode_varint(at, r->name);
  if (fields & SECOND) at = encode_varint(at, r->second);
  if (fields & MODEL) at = encode_varint(encode_varint(at, r->model_ns), r->operations);
  if (!(fields & PAYLOAD)) return at;
  at = encode_varint(at, r->payload_bytes);
  if (r->payload_bytes) memcpy(at, r->payload, r->payload_bytes);
  return at + r->payload_bytes;
}

size_t record_encode(record_history *h, const record *r, uint8_t out[RECORD_MAX_BYTES]) {
  const unsigned fields = fields_in(h, r->kind), device = written_device(r->device);
  uint64_t *last = &h->number[device];
  uint8_t *at = out;
  *at++ = (uint8_t)r->kind;
  at = encode_varint(at, r->time_ns - h->time_ns);
  if (fields & DEVICE) at = encode_varint(at, device);
  if (fields & STREAM) at = encode_varint(at, (uint64_t)r->stream + 1);
  if (fields & EVENT) at = encode_varint(at, r->event);
  if (fields & NUMBER) at = encode_varint(at, zigzag(r->number - *last));
  if (fields & REQUESTED) at = encode_varint(at, r->requested);
  if (fields & BYTES) at = encode_varint(at, zigzag(r->bytes - r->requested));
  if (fields & GENERATION) at = encode_varint(at, r->generation);
  if (fields & COLLECTIVE) at = encode_collective(at, r);
  if (fields & DURATION) at = encode_varint(at, r->duration_ns);
  at = encode_more(h, fields, r, at);
  h->time_ns = r->time_ns;
  if (r->kind == RECORD_ALLOC) *last = r->number;
  return (size_t)(at - out);
}

typedef struct {
  const uint8_t *at, *end;
  const char *wrong;
} input;

/* Decodes a number; 0 if this or an earlier number is wrong (in->wrong). */
static uint64_t decode_varint(input *in) {
  uint64_t n = 0;
  for (unsigned shift = 0; !in->wrong; shift += 7) {
    if (in->at == in->end) {
      in->wrong = "the record is cut short";
      break;
    }
    const uint64_t bits = *in->at & 0x7f;
    if (shift > 63 || bits << shift >> shift != bits) {
      in->wrong = "a number has more than 64 bits";
      break;
    }
    n |= bits << shift;
    if (!(*in->at++ & 0x80)) return n;
  }
  return 0;
}

/* Decodes a number of at most `most`. */
static uint64_t get_up_to(input *in, uint64_t most, const char *wrong) {
  const uint64_t n = decode_varint(in);
  if (in->wrong || n <= most) return n;
  in->wrong = wrong;
  return 0;
}

static void decode_collective(input *in, record *r) {
  r->communicator = decode_varint(in);
  const uint64_t call = get_up_to(in, UINT32_MAX, "the collective is out of range");
  r->call_kind = (uint32_t)(call % RECORD_MAX_CALL_KINDS);
  r->dtype_bytes = (uint32_t)(call / RECORD_MAX_CALL_KINDS);
  r->count = decode_varint(in);
  r->n_ranks = (uint32_t)get_up_to(in, UINT32_MAX, "the number of ranks is out of range");
  r->rank = (uint32_t)get_up_to(in, UINT32_MAX, "the rank is out of range");
  r->peer = (uint32_t)get_up_to(in, UINT32_MAX, "the peer is out of range");
}

static void decode_payload(input *in, record *r) {
  r->payload_bytes = (uint32_t)get_up_to(in, RECORD_MAX_PAYLOAD, "the payload is too long");
  if (!in->wrong && r->payload_bytes > (size_t)(in->end - in->at)) in->wrong = "the record is cut short";
  if (in->wrong) return;
  r->payload = in->at;
  in->at += r->payload_bytes;
}

static void decode_more(input *in, const record_history *h, unsigned fields, record *r) {
  static const char wrong[] = "a number is out of range";
  if (fields & ADDRESS) r->address = h->address + unzigzag(decode_varint(in));
  if (fields & SITE) r->site = (uint32_t)get_up_to(in, UINT32_MAX, wrong);
  if (fields & POSITION) r->position = decode_varint(in);
  if (fields & VALUE) r->value = decode_varint(in);
  if (fields & NAME) r->name = (uint32_t)get_up_to(in, UINT32_MAX, wrong);
  if (fields & SECOND) r->second = (uint32_t)get_up_to(in, UINT32_MAX, wrong);
  if (fields & MODEL) r->model_ns = decode_varint(in);
  if (fields & MODEL) r->operations = decode_varint(in);
  if (fields & PAYLOAD) decode_payload(in, r);
}

const char *record_decode(record_history *h, const uint8_t *data, size_t n, record *r, size_t *used) {
  input in = {data, data + n, NULL};
  *used = 0;
  *r = (record){.kind = RECORD_END, .stream = RECORD_NO_STREAM};
  if (!n || *data == RECORD_END) return NULL;
  if (*data >= RECORD_N_KINDS) return "the record's kind is not known";
  r->kind = (record_kind)*in.at++;
  const unsigned fields = fields_in(h, r->kind);
  r->time_ns = h->time_ns + decode_varint(&in);
  const unsigned device = fields & DEVICE ? (unsigned)get_up_to(&in, WRITTEN_MANAGED, "the device is out of range") : 0;
  if (fields & DEVICE) r->device = device_of(device);
  if (fields & STREAM) r->stream = (int64_t)get_up_to(&in, INT64_MAX, "the stream is out of range") - 1;
  if (fields & EVENT) r->event = decode_varint(&in);
  uint64_t *last = &h->number[device];
  if (fields & NUMBER) r->number = *last + unzigzag(decode_varint(&in));
  if (fields & REQUESTED) r->requested = decode_varint(&in);
  if (fields & BYTES) r->bytes = r->requested + unzigzag(decode_varint(&in));
  if (fields & GENERATION) r->generation = decode_varint(&in);
  if (fields & COLLECTIVE) decode_collective(&in, r);
  if (fields & DURATION) r->duration_ns = decode_varint(&in);
  decode_more(&in, h, fields, r);
  if (in.wrong) return in.wrong;
  if (fields & ADDRESS) h->address = r->address;
  h->time_ns = r->time_ns;
  if (r->kind == RECORD_ALLOC) *last = r->number;
  *used = (size_t)(in.at - data);
  return NULL;
}

/* ---- payloads ---------------------------------------------------------------------------------------------------- */

enum { MOST_NUMBERS = 3, MOST_VARINT = 10 };

static bool payload_put_numbers(uint8_t *payload, uint32_t *n, const uint64_t number[MOST_NUMBERS]) {
  uint8_t text[MOST_NUMBERS * MOST_VARINT], *end = text;
  for (int i = 0; i < MOST_NUMBERS; ++i) end = encode_varint(end, number[i]);
  const uint32_t bytes = (uint32_t)(end - text);
  if (*n + bytes > RECORD_MAX_PAYLOAD) return false;
  memcpy(payload + *n, text, bytes);
  *n += bytes;
  return true;
}

static bool get_numbers(const record *r, uint32_t *at, uint64_t number[MOST_NUMBERS]) {
  if (*at >= r->payload_bytes) return false;
  input in = {r->payload + *at, r->payload + r->payload_bytes, NULL};
  for (int i = 0; i < MOST_NUMBERS; ++i) number[i] = decode_varint(&in);
  *at = (uint32_t)(in.at - r->payload);
  return !in.wrong;
}

bool record_put_frame(uint8_t *payload, uint32_t *n, record_frame f) {
  return payload_put_numbers(payload, n, (const uint64_t[]){f.file, f.function, f.at});
}

bool record_put_access(uint8_t *payload, uint32_t *n, record_access a, uint64_t last) {
  return payload_put_numbers(payload, n, (const uint64_t[]){zigzag(a.address - last), a.bytes, a.access});
}

bool record_get_frame(const record *r, uint32_t *at, record_frame *f) {
  uint64_t number[MOST_NUMBERS];
  if (!get_numbers(r, at, number) || number[0] > UINT32_MAX || number[1] > UINT32_MAX) return false;
  *f = (record_frame){(uint32_t)number[0], (uint32_t)number[1], number[2]};
  return true;
}

bool record_get_access(const record *r, uint32_t *at, record_access *a, uint64_t last) {
  uint64_t number[MOST_NUMBERS];
  if (!get_numbers(r, at, number) || number[2] > UINT32_MAX) return false;
  *a = (record_access){last + unzigzag(number[0]), number[1], (uint32_t)number[2]};
  return true;
}
