/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/implementation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings/variables.h"
#include "base/text_append.h"

static implementation_family *families; /* not changed after main has begun */

void implementation_register(implementation_family *f) {
  for (int i = 0; i < f->n; ++i) f->names[i] = f->list[i].name;
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

/* ---- the reason of a choice -------------------------------------------------------------------------------------- */

/* A choice: which one, and what was found of those before it. */
typedef struct {
  const implementation *chosen, *forced; /* forced: by CANNON_IMPL, or preferred by the thread */
  const char *why;                       /* it is forced */
  uint32_t unfit, slow;                  /* a bit for each implementation that does not fit, or fits and does not pay */
} finding;

struct implementation_choice {
  executor_choice told;
  finding found;
  struct implementation_choice *next;
  char reason[160];
};

/* "a, b do not fit" */
static void add_names(char *text, size_t bytes, const implementation_family *f, uint32_t which, const char *verb) {
  if (!which) return;
  if (*text) text_append(text, bytes, "; ");
  const char *comma = "";
  for (int i = 0; i < f->n; ++i)
    if (which >> i & 1) text_append(text, bytes, "%s%s", comma, f->list[i].name), comma = ", ";
  text_append(text, bytes, " %s not %s", which & (which - 1) ? "do" : "does", verb);
}

static void find_words(const implementation_family *f, const finding *found, char *text, size_t bytes) {
  *text = '\0';
  if (found->chosen == found->forced)
    text_append(text, bytes, "%s", found->why);
  else if (found->forced)
    text_append(text, bytes, "%s, %s, does not fit", found->forced->name, found->why);
  add_names(text, bytes, f, found->unfit & ~(found->forced ? 1u << (found->forced - f->list) : 0), "fit");
  add_names(text, bytes, f, found->slow, "pay");
  if (!*text) text_append(text, bytes, "first of the list");
}

__attribute__((cold)) static void log_choice(const implementation_family *f, const finding *found) {
  char words[sizeof((implementation_choice *)0)->reason];
  find_words(f, found, words, sizeof words);
  log_line(LOG_DEBUG, "%s by %s: %s", f->name, found->chosen->name, words);
}

static bool same_finding(const finding *a, const finding *b) {
  return a->chosen == b->chosen && a->forced == b->forced && a->why == b->why && a->unfit == b->unfit &&
         a->slow == b->slow;
}

/* Returns the record of a choice, which is made at the first one of its kind; NULL if there is no memory. */
static implementation_choice *choice_record(implementation_family *f, const finding *found) {
  implementation_choice *const first = __atomic_load_n(&f->choices, __ATOMIC_ACQUIRE);
  for (implementation_choice *c = first; c; c = c->next)
    if (same_finding(&c->found, found)) return c;
  implementation_choice *const made = malloc(sizeof *made);
  if (!made) return NULL;
  *made = (implementation_choice){.told = {.family = f->name,
                                           .name = found->chosen->name,
                                           .reason = made->reason,
                                           .names = f->names,
                                           .n_names = f->n},
                                  .found = *found,
                                  .next = first};
  find_words(f, found, made->reason, sizeof made->reason);
  implementation_choice *expected = first;
  if (__atomic_compare_exchange_n(&f->choices, &expected, made, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return made;
  free(made);
  return choice_record(f, found); /* another thread was first, maybe with the same choice */
}

/* Tells the executor, and the log. Makes the record the latest one, at which implementation_plan() looks first; but not
 * while the log wants a line for each choice. */
__attribute__((noinline)) static void tell_choice(implementation_family *f, const finding *found, executor *e) {
  implementation_choice *const c = choice_record(f, found);
  if (log_wanted(LOG_DEBUG))
    log_choice(f, found);
  else if (c)
    __atomic_store_n(&f->latest[found->chosen - f->list], c, __ATOMIC_RELEASE);
  if (c) executor_chose(e, &c->told);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static bool implementation_fits(const implementation *i, void *plan) { return !i->fits || i->fits(plan); }

/* Returns the index of the first implementation from `first` on that fits and pays. In phase one of many operators, so
 * it is inlined: some 7 instructions for each that is asked. */
__attribute__((always_inline)) static inline int implementation_first(const implementation_family *f, void *plan,
                                                                      int first, uint32_t *slow) {
  const implementation *i = &f->list[first];
  uint32_t found = 0;
  for (int n = first;; ++i, ++n) {
    if (i->fits && !i->fits(plan)) continue;
    if (!i->pays || i->pays(plan)) {
      *slow = found;
      return n;
    }
    found |= 1u << n;
  }
}

/* The implementation that is forced or preferred, and why; NULL: none of this family. */
static const implementation *implementation_wanted(const implementation_family *f, const char **why) {
  const executor_preference *const p = executor_preferred;
  *why = "forced by CANNON_IMPL";
  if (f->forced || !p || strcmp(p->family, f->name) != 0) return f->forced;
  *why = p->reason;
  for (int i = 0; i < f->n; ++i)
    if (strcmp(f->list[i].name, p->name) == 0) return &f->list[i];
  return NULL;
}

static finding find(const implementation_family *f, void *plan, int first) {
  finding found = {.forced = implementation_wanted(f, &found.why)};
  if (found.forced < f->list + first) found.forced = NULL;
  if (!found.forced) found.why = NULL;
  found.chosen = found.forced;
  if (found.chosen && implementation_fits(found.chosen, plan)) return found;
  const int i = implementation_first(f, plan, first, &found.slow);
  found.chosen = &f->list[i];
  found.unfit = ((1u << i) - (1u << first)) & ~found.slow;
  return found;
}

const implementation *implementation_choose(const implementation_family *f, void *plan, int first) {
  const finding found = find(f, plan, first);
  if (unlikely(log_wanted(LOG_DEBUG))) log_choice(f, &found);
  return found.chosen;
}

__attribute__((noinline)) static const implementation *plan_forced(implementation_family *f, void *plan, executor *e) {
  const finding found = find(f, plan, 0);
  tell_choice(f, &found, e);
  if (found.chosen->init) found.chosen->init(plan, e);
  return found.chosen;
}

const implementation *implementation_plan(implementation_family *f, void *plan, executor *e) {
  uint32_t slow;
  if (unlikely(f->forced || executor_preferred)) return plan_forced(f, plan, e);
  const int i = implementation_first(f, plan, 0, &slow);
  const implementation_choice *const latest = __atomic_load_n(&f->latest[i], __ATOMIC_ACQUIRE);
  const implementation *const chosen = &f->list[i];
  if (likely(latest && latest->found.slow == slow)) /* the others before it do not fit */
    executor_chose(e, &latest->told);
  else
    tell_choice(f, &(finding){.chosen = chosen, .unfit = ((1u << i) - 1) & ~slow, .slow = slow}, e);
  if (chosen->init) chosen->init(plan, e);
  return chosen;
}
