/* SPDX-License-Identifier: Apache-2.0 */
/* Injected failures: CANNON_FAIL in a program's environment, --fail of `cannon run`. fault_specs.h has the grammar, and
 * faults.def the places. A place asks whether it is to fail:
 *
 *   FAULT_TRY(FAULT_FILE, NULL, ST_MODEL_PATH, "%s cannot be read", path);
 *
 * With the variable unset this is a load and a branch. Every message of an injected failure says so, and so does a
 * warning in the log. Any thread. */
#ifndef CANNON_BASE_SETTINGS_FAULTS_H
#define CANNON_BASE_SETTINGS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings/fault_specs.h"
#include "base/status.h"

/* Whether CANNON_FAIL is set. Fixed before main(). */
extern INTERNAL bool faults_on;

/* Counts an event. name: the operator's, or NULL. Returns the specification by which it is to fail, a text that stays,
 * or NULL. Only if faults_on. */
__attribute__((cold)) const char *fault_count(fault_place place, const char *name);

static inline const char *fault_due(fault_place place, const char *name) {
  return unlikely(faults_on) ? fault_count(place, name) : NULL;
}

/* fail() for an injected failure; format is a string literal. */
#define fault_fail(spec, code, format, ...) fail(code, format "; injected by CANNON_FAIL (%s)", ##__VA_ARGS__, spec)

/* Returns the failure from the enclosing function if one is to be injected here. */
#define FAULT_TRY(place, name, code, format, ...)                                                                      \
  do {                                                                                                                 \
    const char *const fault_spec_ = fault_due(place, name);                                                            \
    if (unlikely(fault_spec_)) return fault_fail(fault_spec_, code, format, ##__VA_ARGS__);                            \
  } while (0)

/* Registers the one listener that is told each event; spec: NULL unless it fails. The counters of trace/ register when
 * the library is loaded. */
typedef void fault_listener(fault_place place, const char *name, uint64_t number, const char *spec);
void fault_listen(fault_listener *listener);

#endif
