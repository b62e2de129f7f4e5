/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check/faults_help.h"

#include <inttypes.h>
#include <string.h>

enum { MARGIN = 19, COLUMN = MARGIN + 9, WIDTH = 80, MOST_SHOWN = 8 };

/* Prints words from column COLUMN on, in lines of at most WIDTH characters; at: where the line stands. */
static void print_wrapped(FILE *out, int at, const char *text) {
  while (*text) {
    const int n = (int)strcspn(text, " ");
    if (at > COLUMN && at + 1 + n > WIDTH) {
      fprintf(out, "\n%*s", COLUMN, "");
      at = COLUMN;
    } else if (at > COLUMN) {
      fputc(' ', out);
      ++at;
    }
    fprintf(out, "%.*s", n, text);
    at += n;
    text += n + (text[n] == ' ');
  }
  fputc('\n', out);
}

void faults_help(FILE *out) {
  for (fault_place p = 0; p < N_FAULT_PLACES; p++) {
    char text[256];
    snprintf(text, sizeof text, "%s%s (%s)", fault_takes_name(p) ? "NAME: " : "", fault_counted(p), fault_failure(p));
    fprintf(out, "%*s%-*s", MARGIN, "", COLUMN - MARGIN, fault_word(p));
    print_wrapped(out, COLUMN, text);
  }
}

void faults_print(FILE *out, const stats_file *p) {
  const uint64_t n = p->n_faults;
  uint64_t events = 0;
  for (fault_place i = 0; i < N_FAULT_PLACES; i++) events += p->fault_events[i];
  if (!events) return;
  fprintf(out, "  injected    %" PRIu64 " failure%s of", n, n == 1 ? "" : "s");
  const char *comma = "";
  for (fault_place i = 0; i < N_FAULT_PLACES; i++) {
    if (!p->fault_events[i]) continue;
    fprintf(out, "%s %s %" PRIu64, comma, fault_word(i), (uint64_t)p->fault_events[i]);
    comma = ",";
  }
  fputc('\n', out);
  for (unsigned i = 0; i < faults_listed(p) && i < MOST_SHOWN; i++) {
    const stats_fault *f = &p->faults[i];
    if (f->place >= N_FAULT_PLACES) continue;
    fprintf(out, "              %s %" PRIu64 "%s%s, by %s\n", fault_word(f->place), f->number, *f->name ? ", " : "",
            f->name, f->spec);
  }
  if (n > MOST_SHOWN) fprintf(out, "              %" PRIu64 " more\n", n - MOST_SHOWN);
}
