/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/limits.h"

#include "memory/space.h"
#include "runtime/device.h"

enum { TIME_STEPS = 254 };
static const uint64_t TIME_STEP_NS = 1ull << 32;

static _Atomic uint32_t device_cores[SPACE_MAX_DEVICES][N_CORE_LIMITS]; /* 0: not set */
static _Atomic uint64_t operator_time_steps = TIME_STEPS;
static _Thread_local struct {
  const stream *stream;
  uint64_t serial; /* by which a slot is recognised that was reused since */
} used;

static status limits_check_type(int type) {
  if (type >= 0 && type < N_CORE_LIMITS) return ST_OK;
  return fail(ST_INVALID_PARAM, "type is %d, expected 0 (cube cores) or 1 (vector cores)", type);
}

static uint32_t cores_there(int type) {
  const device_profile *p = device_profile_of_all();
  return (uint32_t)(type == LIMIT_CUBE_CORES ? p->cube_cores : p->vector_cores);
}

static status check_cores(int type, uint32_t cores) {
  TRY(limits_check_type(type));
  if (cores && cores <= cores_there(type)) return ST_OK;
  return fail(ST_INVALID_VALUE, "value is %u, expected 1 to %u, the number of cores", cores, cores_there(type));
}

status limits_set_device_cores(int device, int type, uint32_t cores) {
  TRY(device_check(device, "deviceId"));
  TRY(check_cores(type, cores));
  atomic_store(&device_cores[device][type], cores);
  return ST_OK;
}

status limits_device_cores(int device, int type, uint32_t *cores) {
  TRY(device_check(device, "deviceId"));
  TRY(limits_check_type(type));
  const uint32_t set = atomic_load(&device_cores[device][type]);
  *cores = set ? set : cores_there(type);
  return ST_OK;
}

status limits_reset_device_cores(int device) {
  TRY(device_check(device, "deviceId"));
  for (int type = 0; type < N_CORE_LIMITS; ++type) atomic_store(&device_cores[device][type], 0);
  return ST_OK;
}

status limits_set_stream_cores(stream *s, int type, uint32_t cores) {
  TRY(check_cores(type, cores));
  atomic_store(&s->core_limit[type], cores);
  return ST_OK;
}

status limits_stream_cores(const stream *s, int type, uint32_t *cores) {
  TRY(limits_check_type(type));
  const uint32_t set = atomic_load(&s->core_limit[type]);
  if (!set) return limits_device_cores(s->device, type, cores);
  *cores = set;
  return ST_OK;
}

void limits_reset_stream_cores(stream *s) {
  for (int type = 0; type < N_CORE_LIMITS; ++type) atomic_store(&s->core_limit[type], 0);
}

void limits_use_stream(const stream *s) {
  used.stream = s;
  used.serial = s ? s->o.serial : 0;
}

status limits_thread_cores(int device, int type, uint32_t *cores) {
  stream *s = object_acquire(OBJECT_STREAM, used.stream);
  const bool valid = s && s->o.serial == used.serial;
  const status st = valid ? limits_stream_cores(s, type, cores) : limits_device_cores(device, type, cores);
  if (s) stream_unref(s);
  return st;
}

uint64_t limits_set_operator_time_us(uint64_t time_us) {
  const uint64_t steps =
      time_us < TIME_STEPS * TIME_STEP_NS / 1000 ? (time_us * 1000 + TIME_STEP_NS - 1) / TIME_STEP_NS : TIME_STEPS;
  atomic_store(&operator_time_steps, steps ? steps : TIME_STEPS);
  return limits_operator_time_us();
}

uint64_t limits_operator_time_us(void) { return atomic_load(&operator_time_steps) * TIME_STEP_NS / 1000; }
