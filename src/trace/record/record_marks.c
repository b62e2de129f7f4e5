/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/record/record_marks.h"

#include "trace/record/record_names.h"
#include "trace/record/record_private.h"

uint32_t record_mark_module(const char *name, const char *type, uint32_t parent) {
  static uint32_t n_modules; /* guarded by the recorder's lock */
  if (!record_is_on()) return 0;
  record_lock();
  const uint32_t text = record_text(name), second = record_text(type), number = ++n_modules;
  record_put(&(record){.kind = RECORD_MODULE, .name = text, .second = second, .value = parent});
  record_unlock();
  return number;
}

void record_mark(record_kind kind, uint64_t value) {
  if (record_is_on()) record_write(&(record){.kind = kind, .value = value});
}

void record_mark_phase(record_phase phase) {
  if (!record_is_on()) return;
  const uint32_t site = record_site();
  record_write(&(record){.kind = RECORD_PHASE, .value = phase, .site = site});
}

void record_mark_memory(record_use use, uint64_t address, uint64_t bytes, uint32_t module) {
  if (!record_is_on()) return;
  record_write(&(record){.kind = RECORD_RANGE, .event = use, .address = address, .bytes = bytes, .value = module});
}
