/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/dry/dry.h"

#include <string.h>

#include "base/lock.h"
#include "base/settings/variables.h"
#include "memory/memory.h"
#include "memory/real_ranges.h"
#include "runtime/device.h"
#include "runtime/dry/dry_clock.h"
#include "runtime/dry/dry_values.h"
#include "trace/stats_write.h"
#include "trace/timeline.h"

bool dry_on;
static dry_options chosen;

static struct {
  mutex lock;
  real_ranges ranges; /* of device memory, by the addresses that kernels use */
  real_ranges truth;  /* bytes that count as ones; none of them are in `ranges` */
} real = {.lock = MUTEX_INITIALIZER(DRY),
          .ranges = {.item_bytes = sizeof(interval)},
          .truth = {.item_bytes = sizeof(interval)}};

const dry_options *dry_chosen(void) { return &chosen; }

void dry_configure(void) {
  const char *text = variable_text(VARIABLE_DRY);
  char bad[DRY_OPTIONS_BAD];
  if (!text) return;
  if (!dry_options_parse(text, &chosen, bad)) variable_reject(VARIABLE_DRY, bad);
  if (chosen.on && *chosen.values && !dry_values_start(chosen.values)) variable_reject(VARIABLE_DRY, chosen.values);
  if (!chosen.on) return;
  dry_on = true;
  timeline_want_always(TIMELINE_WANTS_DRY);
  atomic_store(&trace_stats()->dry.on, 1);
  atomic_store(&trace_stats()->dry.host, (uint64_t)chosen.host);
}

/* ---- real bytes -------------------------------------------------------------------------------------------------- */

static bool is_on_device(const void *view) { return memory_device_of_view(view) >= 0; }

bool dry_is_real(const void *view, uint64_t bytes) {
  if (!is_on_device(view)) return true;
  mutex_lock(&real.lock);
  const bool covered = real_ranges_cover(&real.ranges, (uintptr_t)view, bytes);
  mutex_unlock(&real.lock);
  return covered;
}

void dry_set_real(const void *view, uint64_t bytes, bool is_real) {
  if (!is_on_device(view)) return;
  mutex_lock(&real.lock);
  if (is_real)
    (void)real_ranges_add(&real.ranges, (uintptr_t)view, bytes);
  else
    real_ranges_remove(&real.ranges, (uintptr_t)view, bytes);
  if (real.truth.n) real_ranges_remove(&real.truth, (uintptr_t)view, bytes);
  mutex_unlock(&real.lock);
}

bool dry_is_true(const void *view, uint64_t bytes) {
  mutex_lock(&real.lock);
  const bool covered = real.truth.n && real_ranges_cover(&real.truth, (uintptr_t)view, bytes);
  mutex_unlock(&real.lock);
  return covered;
}

void dry_set_true(void *view, uint64_t bytes) {
  const bool is_real = bytes <= DRY_SMALL_BYTES || !is_on_device(view);
  if (is_real) memset(view, 1, bytes);
  dry_set_real(view, bytes, is_real);
  if (is_real) return;
  mutex_lock(&real.lock);
  (void)real_ranges_add(&real.truth, (uintptr_t)view, bytes);
  mutex_unlock(&real.lock);
}

/* The length of the first stretch of the range that is real or not. */
static uint64_t dry_stretch(const char *view, uint64_t bytes, bool *is_real) {
  mutex_lock(&real.lock);
  const uint64_t length = real_ranges_stretch(&real.ranges, (uintptr_t)view, bytes, is_real);
  mutex_unlock(&real.lock);
  return length;
}

void dry_zero_unreal(void *view, uint64_t bytes) {
  if (!is_on_device(view)) return;
  bool is_real;
  for (uint64_t at = 0, length; at < bytes; at += length) {
    length = dry_stretch((char *)view + at, bytes - at, &is_real);
    if (!is_real) memset((char *)view + at, 0, length);
  }
}

/* ---- time of copies and fills ------------------------------------------------------------------------------------ */

static uint64_t ns_of(uint64_t bytes, uint64_t per_s, uint64_t latency_ns) {
  return latency_ns + (per_s ? (uint64_t)((double)bytes / (double)per_s * 1e9) : 0);
}

static void spend_on_link(uint64_t bytes) {
  const device_profile *p = device_profile_of_all();
  dry_spend(ns_of(bytes, p->host_link_bandwidth_bytes_per_s, p->host_link_latency_ns), 0);
}

static void spend_on_memory(uint64_t bytes) {
  const device_profile *p = device_profile_of_all();
  dry_spend(p->hbm_bytes ? ns_of(bytes, p->hbm_bandwidth_bytes_per_s, p->hbm_latency_ns)
                         : ns_of(bytes, p->ddr_bandwidth_bytes_per_s, p->ddr_latency_ns),
            0);
}

void dry_model_copy(const void *dst, const void *src, uint64_t bytes) {
  const bool from_device = is_on_device(src), to_device = is_on_device(dst);
  if (from_device && to_device)
    spend_on_memory(2 * bytes);
  else if (from_device || to_device)
    spend_on_link(bytes);
}

void dry_model_fill(const void *view, uint64_t bytes) {
  if (is_on_device(view)) spend_on_memory(bytes);
}

/* ---- copies and fills -------------------------------------------------------------------------------------------- */

/* Copies what is real; elsewhere the host gets zeros, ones or the value, and device memory is unreal from now on. */
static void dry_copy_row(char *dst, const char *src, uint64_t bytes, const dry_element *value) {
  const bool to_device = is_on_device(dst);
  bool is_real;
  for (uint64_t at = 0, length; at < bytes; at += length) {
    length = dry_stretch(src + at, bytes - at, &is_real);
    if (is_real)
      memmove(dst + at, src + at, length);
    else if (!to_device && value->bytes)
      dry_values_fill(value, dst, at, length);
    else if (!to_device)
      memset(dst + at, dry_is_true(src + at, length), length);
    if (to_device) dry_set_real(dst + at, length, is_real);
  }
}

static void dry_copy_from_host(const fault_copy *c, size_t row) {
  char *const dst = (char *)c->dst + row * c->dst_pitch;
  const bool is_real = c->width * c->height <= DRY_SMALL_BYTES;
  if (is_real) memmove(dst, (const char *)c->src + row * c->src_pitch, c->width);
  dry_set_real(dst, c->width, is_real);
}

bool dry_copy(const fault_copy *c) {
  if (!c->width || !c->height) return false;
  const bool from_device = is_on_device(c->src), to_device = is_on_device(c->dst);
  const uint64_t bytes = c->width * c->height;
  if (!from_device && !to_device) return false;
  dry_model_copy(c->dst, c->src, bytes);
  dry_element value = {0};
  if (c->value && from_device && !to_device && !dry_is_real(c->src, c->width))
    value = dry_values_take(c->value, c->width);
  for (size_t row = 0; row < c->height; ++row)
    if (from_device)
      dry_copy_row((char *)c->dst + row * c->dst_pitch, (const char *)c->src + row * c->src_pitch, c->width, &value);
    else
      dry_copy_from_host(c, row);
  return true;
}

bool dry_fill(void *view, uint64_t bytes) {
  if (!is_on_device(view)) return false;
  spend_on_memory(bytes);
  dry_set_real(view, bytes, bytes <= DRY_SMALL_BYTES);
  return bytes > DRY_SMALL_BYTES;
}
