/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/waits_list.h"

#include <stdint.h>

#include "base/sync.h"
#include "comm/waits.h"

void waits_list_print(FILE *out, const charge_list *charges, pid_t pid) {
  const uint64_t now = now_ns();
  bool any = false;
  for (size_t i = 0; i < charges->n_waits; i++) {
    char words[2 * WAITS_WORDS];
    const machine_wait *w = &charges->waits[i];
    if (pid && w->pid != pid) continue;
    if (!any) fprintf(out, "communication that waits:\n");
    any = true;
    waits_describe_long(w, now, words, sizeof words);
    fprintf(out, "%8d  %s\n", w->pid, words);
  }
  char cycle[WAITS_CYCLE_WORDS];
  if (any && waits_describe_cycle(charges->waits, charges->n_waits, SIZE_MAX, now, WAITS_OLD_NS, cycle, sizeof cycle))
    fprintf(out, "ranks wait for each other: %s\n", cycle);
}
