/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/history.h"

#include <stdlib.h>

const char *history_class_words(history_class class) {
  static const char *const words[] = {
#define HISTORY_CLASS_WORDS(name, text) text,
      HISTORY_CLASSES(HISTORY_CLASS_WORDS)
#undef HISTORY_CLASS_WORDS
  };
  return words[class];
}

const char *history_phase_words(history_phase phase) {
  static const char *const words[] = {"outside of steps", "forward", "backward", "update"};
  return words[phase];
}

uint32_t history_numbered_site(const history *h, uint32_t number) {
  return number < h->n_numbers ? h->site_of_number[number] : HISTORY_NONE;
}

size_t history_first_task(const history *h, uint64_t moment) {
  size_t low = 0, high = h->n_tasks;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (h->tasks[middle].moment < moment)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void history_free(history *h) {
  if (!h) return;
  free(h->lines);
  free(h->sites);
  free(h->site_of_number);
  free(h->modules);
  free(h->blocks);
  free(h->tasks);
  free(h->accesses);
  free(h->uses);
  free(h->steps);
  free(h->texts);
  for (size_t i = 0; i < h->n_found; ++i) free(h->found[i]);
  free(h->found);
  free(h);
}
