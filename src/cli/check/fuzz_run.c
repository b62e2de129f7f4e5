/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check/fuzz_run.h"

#include "base/settings/variables.h"
#include "cli/check/faults_help.h"
#include "cli/figures.h"
#include "cli/report/stats_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LEDGER_BYTES = 96 };

uint64_t fuzz_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void fuzz_specs(const fuzz_case *c, char text[FUZZ_SPEC_BYTES]) {
  size_t n = 0;
  text[0] = '\0';
  for (int i = 0; i < c->n_faults; i++)
    n += (size_t)snprintf(text + n, FUZZ_SPEC_BYTES - n, "%s%s:%" PRIu64, n ? "," : "", fault_word(c->fault[i].place),
                          c->fault[i].number);
  for (fault_place p = 0; c->probability > 0 && p < N_FAULT_PLACES; p++)
    if (c->places >> p & 1) /* seeds differ, so that places fail independently */
      n += (size_t)snprintf(text + n, FUZZ_SPEC_BYTES - n, "%s%s:p=%.9f,seed=%" PRIu64, n ? "," : "", fault_word(p),
                            c->probability, c->seed * N_FAULT_PLACES + p);
}

/* The file through which the program's processes share devices' memory: one for each run, since the memory that
 * another process takes would be missing here. Its name is that of files which the library removes when no process uses
 * them (memory/share/machine.h). */
static void ledger_path(const fuzz_slot *slot, char path[LEDGER_BYTES]) {
  const char *name = strrchr(slot->folder.path, '/');
  snprintf(path, LEDGER_BYTES, "/dev/shm/cannon-%ju-%.32s", (uintmax_t)geteuid(), name ? name + 1 : "fuzz");
}

static void set_environment(const fuzz_slot *slot, const fuzz_case *c) {
  char text[FUZZ_SPEC_BYTES], seed[24], ledger[LEDGER_BYTES];
  fuzz_specs(c, text);
  snprintf(seed, sizeof seed, "%" PRIu64, c->schedule);
  setenv(variable_name(VARIABLE_FAIL), *text ? text : "count", 1);
  if (c->schedule)
    setenv(variable_name(VARIABLE_SCHEDULE_SEED), seed, 1);
  else
    unsetenv(variable_name(VARIABLE_SCHEDULE_SEED));
  ledger_path(slot, ledger);
  setenv(variable_name(VARIABLE_LEDGER), ledger, 1);
  setenv(variable_name(VARIABLE_STATS_DIR), slot->folder.path, 1);
  setenv(variable_name(VARIABLE_CHECKED), "1", 1);
}

bool fuzz_start(fuzz_slot *slot, char *const argv[], const fuzz_case *c) {
  if (!stats_folder_make(&slot->folder)) return false;
  slot->out = memfd_create("stdout", MFD_CLOEXEC);
  slot->err = memfd_create("stderr", MFD_CLOEXEC);
  slot->started_ns = fuzz_now_ns();
  fflush(NULL);
  slot->pid = slot->out < 0 || slot->err < 0 ? -1 : fork();
  if (slot->pid < 0) {
    fprintf(stderr, "cannon fuzz: cannot start a process: %s\n", strerror(errno));
    stats_folder_remove(&slot->folder);
    return false;
  }
  if (slot->pid > 0) return true;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0); /* so that all of the program's processes can be ended */
  set_environment(slot, c);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(slot->out, STDOUT_FILENO);
  dup2(slot->err, STDERR_FILENO);
  execvp(argv[0], argv);
  _exit(127);
}

/* FNV-1a, over the whole file. */
static uint64_t hash_file(int fd) {
  unsigned char bytes[4096];
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  off_t at = 0;
  for (ssize_t n; (n = pread(fd, bytes, sizeof bytes, at)) > 0; at += n)
    for (ssize_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static void read_last_line(int fd, char words[FUZZ_WORDS_BYTES]) {
  char text[1024];
  const off_t bytes = lseek(fd, 0, SEEK_END),
              from = bytes > (off_t)sizeof text - 1 ? bytes - (off_t)sizeof text + 1 : 0;
  ssize_t n = pread(fd, text, sizeof text - 1, from);
  while (n > 0 && strchr("\n\r ", text[n - 1])) n--;
  text[n > 0 ? n : 0] = '\0';
  const char *line = strrchr(text, '\n');
  snprintf(words, FUZZ_WORDS_BYTES, "%s", format_text(line ? line + 1 : text));
}

static void add_process(const stats_file *p, pid_t program, fuzz_result *r) {
  for (fault_place i = 0; i < N_FAULT_PLACES; i++)
    if (p->fault_events[i] > r->events[i]) r->events[i] = p->fault_events[i]; /* numbers count in each process */
  if (stats_process_state(p, program) == PROCESS_ENDED)
    r->n_leaks += p->n_leaks;
  else
    r->leaks_known = false;
  if (!p->n_faults) return;
  r->one_process = !r->n_injected && p->n_faults <= FUZZ_MAX_FAULTS;
  r->n_injected += p->n_faults;
  for (unsigned i = 0; r->one_process && i < faults_listed(p); i++)
    r->injected[i] = (fuzz_fault){(fault_place)(p->faults[i].place % N_FAULT_PLACES), p->faults[i].number};
}

bool fuzz_ended(fuzz_slot *slot, uint64_t timeout_ns, fuzz_result *out) {
  const uint64_t wall_ns = fuzz_now_ns() - slot->started_ns;
  int status;
  bool hung = false;
  if (waitpid(slot->pid, &status, WNOHANG) != slot->pid) {
    if (wall_ns < timeout_ns) return false;
    hung = true;
    kill(-slot->pid, SIGKILL);
    while (waitpid(slot->pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  kill(-slot->pid, SIGKILL); /* what the program has left behind */
  *out = (fuzz_result){.status = status, .hung = hung, .wall_ns = wall_ns, .leaks_known = true};
  out->output = hash_file(slot->out);
  read_last_line(slot->err, out->words);
  stats_list stats = *slot->folder.path ? stats_read_folder(slot->folder.path) : (stats_list){0};
  for (size_t i = 0; i < stats.count; i++) add_process(stats.process[i], slot->pid, out);
  stats_list_free(&stats);
  char ledger[LEDGER_BYTES];
  ledger_path(slot, ledger);
  unlink(ledger); /* a program that was killed leaves it */
  stats_folder_remove(&slot->folder);
  close(slot->out);
  close(slot->err);
  slot->pid = 0;
  return true;
}
