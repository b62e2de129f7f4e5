/* SPDX-License-Identifier: Apache-2.0 */
/* The report on a signal (CANNON_COMM_REPORT): what the ranks of this process wait for, and which ranks of the machine
 * wait for each other. The handler only wakes a thread, which writes to stderr. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "base/sync.h"
#include "comm/waits.h"
#include "runtime/scheduler.h"

static struct {
  int signal; /* 0: none */
  struct sigaction previous;
  sem_t wanted;
} report;

static void waits_print_own(FILE *out, const machine_wait *waits, size_t n) {
  const uint64_t now = now_ns();
  int own = 0;
  for (size_t i = 0; i < n; ++i) {
    char words[2 * WAITS_WORDS];
    if (waits[i].pid != getpid()) continue;
    waits_describe_long(&waits[i], now, words, sizeof words);
    fprintf(out, "cannon:   %s\n", words);
    ++own;
  }
  if (!own) fprintf(out, "cannon:   no rank waits for another\n");
}

/* Writes the report by one call, so that those of several processes on one terminal are not mixed. */
static void waits_write_report(void) {
  char *text = NULL, cycle[WAITS_CYCLE_WORDS];
  size_t bytes = 0;
  machine_wait *waits = malloc(WAITS_MOST * sizeof *waits);
  FILE *out = waits ? open_memstream(&text, &bytes) : NULL;
  if (out) {
    const size_t n = waits_read(waits, WAITS_MOST, false);
    fprintf(out, "cannon: process %d, communication:\n", (int)getpid());
    waits_print_own(out, waits, n);
    if (waits_describe_cycle(waits, n, SIZE_MAX, now_ns(), WAITS_OLD_NS, cycle, sizeof cycle))
      fprintf(out, "cannon: ranks wait for each other: %s\n", cycle);
  }
  if (!out || fclose(out))
    fprintf(stderr, "cannon: process %d: no memory for the report of CANNON_COMM_REPORT\n", (int)getpid());
  else
    fwrite(text, 1, bytes, stderr);
  free(text);
  free(waits);
}

static void *waits_serve(void *unused) {
  (void)unused;
  for (;;) {
    while (sem_wait(&report.wanted)) {
    }
    waits_write_report();
  }
  return NULL;
}

static void waits_on_signal(int number, siginfo_t *info, void *context) {
  const int saved = errno;
  sem_post(&report.wanted);
  if (report.previous.sa_flags & SA_SIGINFO)
    report.previous.sa_sigaction(number, info, context);
  else if (report.previous.sa_handler != SIG_DFL && report.previous.sa_handler != SIG_IGN)
    report.previous.sa_handler(number);
  errno = saved;
}

static void waits_listen(void) {
  if (!report.signal) return;
  const int error = scheduler_start_thread(waits_serve, NULL);
  if (error) {
    fprintf(stderr, "cannon: warning: CANNON_COMM_REPORT is ignored, since no thread can be started: %s\n",
            strerror(error));
    return;
  }
  struct sigaction action = {.sa_sigaction = waits_on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigfillset(&action.sa_mask);
  sigaction(report.signal, &action, &report.previous);
}

void waits_report_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, waits_listen);
}

/* Reads the variable before main, since variables_report tells wrong values at the library's first use. */
__attribute__((constructor)) static void waits_read_variable(void) {
  const char *text = variable_text(VARIABLE_COMM_REPORT);
  if (!text) return;
  sem_init(&report.wanted, 0, 0);
  if (!waits_parse_report(text, &report.signal)) variable_reject(VARIABLE_COMM_REPORT, text);
}
