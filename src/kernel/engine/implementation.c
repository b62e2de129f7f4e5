/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/implementation.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/variables.h"

static implementation_family *families; /* not changed after main has begun */

void implementation_register(implementation_family *f) {
  f->next = families;
  families = f;
}

/* Forces an implementation in the families that `item`, NAME or FAMILY=NAME, is meant for. Returns whether there is
 * one. */
static bool force_item(const char *item) {
  const char *const equals = strchr(item, '='), *const name = equals ? equals + 1 : item;
  bool found = false;
  for (implementation_family *f = families; f; f = f->next) {
    if (equals && (strlen(f->name) != (size_t)(equals - item) || memcmp(f->name, item, strlen(f->name)) != 0)) continue;
    for (int i = 0; i < f->n; ++i)
      if (strcmp(f->list[i].name, name) == 0) f->forced = &f->list[i], found = true;
  }
  return found;
}

/* Writes all names, for a message about an unknown one: "conv=direct|reference, ...". */
static void list_names(char *text, size_t bytes) {
  size_t n = 0;
  for (const implementation_family *f = families; f; f = f->next)
    for (int i = 0; i < f->n && n < bytes; ++i)
      n += (size_t)(i ? snprintf(text + n, bytes - n, "|%s", f->list[i].name)
                      : snprintf(text + n, bytes - n, "%s%s=%s", n ? ", " : "", f->name, f->list[i].name));
}

__attribute__((constructor)) static void read_forced(void) {
  static char names[512];
  char text[256], *rest = text;
  const char *const value = variable_text(VARIABLE_IMPL);
  if (!value) return;
  list_names(names, sizeof names);
  variable_expect(VARIABLE_IMPL, names);
  if ((size_t)snprintf(text, sizeof text, "%s", value) >= sizeof text) variable_reject(VARIABLE_IMPL, value);
  for (char *item; (item = strsep(&rest, ","));)
    if (!force_item(item)) variable_reject(VARIABLE_IMPL, item);
}

static bool implementation_fits(const implementation *i, void *plan) { return !i->fits || i->fits(plan); }

__attribute__((cold)) static void log_choice(const implementation_family *f, const implementation *i,
                                             const implementation *forced) {
  if (!forced)
    log_line(LOG_DEBUG, "%s by %s", f->name, i->name);
  else if (i == forced)
    log_line(LOG_DEBUG, "%s by %s, which CANNON_IMPL forces", f->name, i->name);
  else
    log_line(LOG_DEBUG, "%s by %s, as %s, which CANNON_IMPL forces, does not fit", f->name, i->name, forced->name);
}

const implementation *implementation_choose(const implementation_family *f, void *plan, int first) {
  const implementation *const forced = f->forced && f->forced >= f->list + first ? f->forced : NULL;
  const implementation *i = forced;
  if (likely(!forced) || !implementation_fits(i, plan))
    for (i = f->list + first;; ++i)
      if (implementation_fits(i, plan) && (!i->pays || i->pays(plan))) break;
  if (unlikely(log_wanted(LOG_DEBUG))) log_choice(f, i, forced);
  return i;
}
