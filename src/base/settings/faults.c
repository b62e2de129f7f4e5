/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings/faults.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/settings/variables.h"

bool faults_on;
static fault_list faults; /* fixed before main() */
static _Atomic uint64_t matches[FAULT_MAX_SPECS], counted[N_FAULT_PLACES];
static fault_listener *_Atomic listener;

void fault_listen(fault_listener *added) { atomic_store(&listener, added); }

/* Every specification counts for itself, also behind one that has chosen the event already. */
const char *fault_count(fault_place place, const char *name) {
  const char *chosen = NULL;
  const uint64_t number = atomic_fetch_add(&counted[place], 1) + 1;
  for (int i = 0; i < faults.n; ++i) {
    const fault_spec *s = &faults.spec[i];
    if (s->place != place || (*s->name && (!name || strcmp(s->name, name) != 0))) continue;
    if (fault_chooses(s, atomic_fetch_add(&matches[i], 1) + 1) && !chosen) chosen = s->text;
  }
  fault_listener *const told = atomic_load(&listener);
  if (told) told(place, name, number, chosen);
  if (chosen)
    log_line(LOG_WARNING, "%s %ju%s%s fails, injected by CANNON_FAIL (%s)", fault_word(place), (uintmax_t)number,
             name ? ", " : "", name ? name : "", chosen);
  return chosen;
}

__attribute__((constructor)) static void faults_start(void) {
  const char *text = variable_text(VARIABLE_FAIL);
  char bad[FAULT_BAD_BYTES];
  if (!text) return;
  if (!fault_parse(text, &faults, bad)) variable_reject(VARIABLE_FAIL, bad);
  faults_on = true;
}
