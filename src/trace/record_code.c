/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/record_code.h"

#include <stdbool.h>

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
};

static const uint16_t fields_of[RECORD_N_KINDS] = {
    [RECORD_ALLOC] = DEVICE | STREAM | NUMBER | REQUESTED | BYTES,
    [RECORD_FREE] = DEVICE | STREAM | NUMBER,
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
};

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

size_t record_encode(record_history *h, const record *r, uint8_t out[RECORD_MAX_BYTES]) {
  const unsigned fields = fields_of[r->kind], device = written_device(r->device);
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

const char *record_decode(record_history *h, const uint8_t *data, size_t n, record *r, size_t *used) {
  input in = {data, data + n, NULL};
  *used = 0;
  *r = (record){.kind = RECORD_END, .stream = RECORD_NO_STREAM};
  if (!n || *data == RECORD_END) return NULL;
  if (*data >= RECORD_N_KINDS) return "the record's kind is not known";
  r->kind = (record_kind)*in.at++;
  const unsigned fields = fields_of[r->kind];
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
  if (in.wrong) return in.wrong;
  h->time_ns = r->time_ns;
  if (r->kind == RECORD_ALLOC) *last = r->number;
  *used = (size_t)(in.at - data);
  return NULL;
}
