/* SPDX-License-Identifier: Apache-2.0 */
/* The memory debugger (CANNON_LEAKS, check/leaks/leaks_options.h). It remembers every block and its stack. It reports
 * which blocks are live at the end of the process and on a signal, and every free of an address that is not a live
 * block.
 *
 * The hooks run under a lock of the memory, so nothing is written there: the signal handler and the check of the number
 * of blocks post a semaphore, and a thread writes the report. */
#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/settings/variables.h"
#include "base/sync.h"
#include "check/block_table.h"
#include "check/leaks/leaks_options.h"
#include "check/leaks/leaks_report.h"
#include "memory/fault.h"
#include "memory/memory.h"
#include "trace/stack.h"
#include "trace/stats_write.h"

enum {
  MAX_BAD_FREES = 64,
  OWN_FRAMES = 16, /* at most so many frames of this library and of sanitizers lie between a hook and the program */
};

static leaks_options options;
static char report_path[PATH_MAX];
static bool is_of_articles; /* ACL_MEM_DEBUG turned it on: nobody else tells its users that there is a report */
static pid_t owner;
static sem_t wanted;
static struct sigaction previous;
static _Atomic bool report_wanted, warning_wanted;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static mutex report_lock = MUTEX_INITIALIZER(LEAK_REPORT); /* guards the file, n_reports and the warning; taken first */
static unsigned n_reports;

/* Held only while the list is copied: to write a report, the loader is asked for names, and the loader runs
 * constructors that may free memory. */
static mutex bad_lock = MUTEX_INITIALIZER(BAD_FREES); /* guards the variables below */
static bad_free_record bad_frees[MAX_BAD_FREES];
static uint64_t n_bad_frees;

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* Puts the report's path into the counters, for `cannon run`. Not done before it is needed: a process that uses no
 * device has no counters. */
static void tell_report_path(void) {
  snprintf(trace_stats()->leak_report, sizeof trace_stats()->leak_report, "%.255s", report_path);
}

/* Opens the report's file. A process's first report replaces an empty file or one with earlier reports; its later
 * reports are appended. A file with other contents, or of another user, is left alone. NULL, and the reason in *why, if
 * there can't be a report. */
static FILE *open_report(const char **why) {
  struct stat s;
  const int fd = file_open_own(report_path, 0666);
  *why = fd < 0 ? file_error(errno) : NULL;
  if (fd >= 0 && file_descriptor_of(report_path) < 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode)) {
    if (n_reports)
      lseek(fd, 0, SEEK_END);
    else if (s.st_size && !file_begins(fd, LEAKS_REPORT_BEGINS))
      *why = "it is there already, and is no such report";
    else if (ftruncate(fd, 0))
      *why = strerror(errno);
  }
  FILE *f = *why ? NULL : fdopen(fd, "w");
  if (!f && !*why) *why = strerror(errno);
  if (!f && fd >= 0) close(fd);
  return f;
}

static void write_report(const char *occasion) {
  bad_free_record bad[MAX_BAD_FREES];
  mutex_lock(&report_lock);
  mutex_lock(&bad_lock);
  const uint64_t n_bad = n_bad_frees;
  memcpy(bad, bad_frees, sizeof bad);
  mutex_unlock(&bad_lock);
  tell_report_path();
  const char *why;
  FILE *f = open_report(&why);
  if (f) {
    leaks_report_write(f, occasion, bad, n_bad < MAX_BAD_FREES ? n_bad : MAX_BAD_FREES, n_bad);
    ++n_reports;
    if (fclose(f)) why = strerror(errno);
  }
  if (why) fprintf(stderr, "cannon: the memory report %s can't be written: %s\n", report_path, why);
  mutex_unlock(&report_lock);
}

/* Writes the warning if it is due. Under the lock, so that a process that ends waits for a warning that is being
 * written. */
static void warn_of_many(void) {
  mutex_lock(&report_lock);
  if (atomic_exchange(&warning_wanted, false)) {
    fprintf(stderr, "cannon: warning: %ju blocks were live at once (CANNON_LEAKS has max=%ju)\n",
            (uintmax_t)options.max_blocks, (uintmax_t)options.max_blocks);
    log_line(LOG_WARNING, "%ju blocks were live at once (CANNON_LEAKS has max=%ju)", (uintmax_t)options.max_blocks,
             (uintmax_t)options.max_blocks);
  }
  mutex_unlock(&report_lock);
}

static void *serve_reports(void *unused) {
  (void)unused;
  for (;;) {
    while (sem_wait(&wanted)) {
    }
    warn_of_many();
    if (atomic_exchange(&report_wanted, false)) write_report("on a signal");
  }
  return NULL;
}

static void start_report_thread(void) {
  pthread_t thread;
  sigset_t all, before;
  tell_report_path();
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread, NULL, serve_reports, NULL);
  if (!error)
    pthread_detach(thread);
  else
    fprintf(stderr, "cannon: warning: live blocks are listed at the end only, since no thread can be started: %s\n",
            strerror(error));
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void on_signal(int number, siginfo_t *info, void *context) {
  const int saved = errno;
  atomic_store(&report_wanted, true);
  sem_post(&wanted);
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(number, info, context);
  else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    previous.sa_handler(number);
  errno = saved;
}

static void tell_result(void) {
  const block_counts c = block_table_counts();
  mutex_lock(&bad_lock);
  const uint64_t n_bad = n_bad_frees;
  mutex_unlock(&bad_lock);
  fprintf(stderr, "cannon: ACL_MEM_DEBUG: %ju of %ju blocks left, %ju bytes; %ju wrong frees; the report is %s\n",
          (uintmax_t)c.n_live, (uintmax_t)c.n_allocs, (uintmax_t)c.live_bytes, (uintmax_t)n_bad, report_path);
}

static void leaks_at_exit(void) {
  if (getpid() != owner) return; /* a forked child has none of the parent's device memory */
  warn_of_many();
  mutex_lock(&bad_lock);
  const bool has_bad_frees = n_bad_frees;
  mutex_unlock(&bad_lock);
  if (!block_table_counts().n_allocs && !has_bad_frees) return;
  write_report("at exit");
  if (is_of_articles) tell_result();
}

/* ---- what the memory tells --------------------------------------------------------------------------------------- */

/* Stores the stack from `site` on, at least `site` itself. Returns the number of frames. */
static unsigned stack_from(void *site, void *frame[BLOCK_FRAMES]) {
  void *raw[OWN_FRAMES + BLOCK_FRAMES];
  const int most = OWN_FRAMES + (int)options.frames;
  int n = options.frames > 1 ? backtrace(raw, most) : 0, first = 0;
  if (n < most) n = (int)stack_without_start(raw, (uint32_t)n);
  while (first < n && raw[first] != site) ++first;
  frame[0] = site;
  unsigned found = 1;
  while (found < options.frames && first + (int)found < n) {
    frame[found] = raw[first + (int)found];
    ++found;
  }
  return found;
}

static void leaks_on_alloc(const hook_block *b) {
  void *frame[BLOCK_FRAMES];
  pthread_once(&thread_once, start_report_thread);
  block_table_add(b, frame, stack_from(b->site, frame), now_ns());
  static _Atomic bool warned;
  if (!options.max_blocks || block_table_counts().n_live < options.max_blocks || atomic_exchange(&warned, true)) return;
  atomic_store(&warning_wanted, true);
  sem_post(&wanted);
}

/* Writes what is known of the address. */
static void explain_bad_free(const bad_free_record *bad, char *words, size_t bytes) {
  const freed_record *r = &bad->before;
  char at_alloc[96], at_free[96];
  switch (bad->kind) {
  case BAD_FREE_LIVE: words[0] = '\0'; break; /* the free's own message says so already */
  case BAD_FREE_UNKNOWN: snprintf(words, bytes, "nothing there was freed before"); break;
  case BAD_FREE_FREED:
    fault_describe_site(r->alloc_site, at_alloc, sizeof at_alloc);
    fault_describe_site(r->free_site, at_free, sizeof at_free);
    snprintf(words, bytes, "%s freed by %s (allocation %ju, %ju bytes, by %s from %s)",
             bad->address == r->address ? "it was" : "it lies in what was", at_free, (uintmax_t)r->number,
             (uintmax_t)r->bytes, r->call, at_alloc);
  }
}

static void on_bad_free(uintptr_t address, void *site, char *words, size_t bytes) {
  bad_free_record bad = {.address = address, .site = site};
  if (memory_find((void *)address) || vmm_device_of(address) >= VMM_HOST)
    bad.kind = BAD_FREE_LIVE;
  else if (block_table_find_freed(address, &bad.before))
    bad.kind = BAD_FREE_FREED;
  explain_bad_free(&bad, words, bytes);
  trace_add(&trace_stats()->n_bad_frees, 1);
  mutex_lock(&bad_lock);
  if (n_bad_frees < MAX_BAD_FREES) bad_frees[n_bad_frees] = bad;
  ++n_bad_frees;
  mutex_unlock(&bad_lock);
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

/* Sets the path of the report: %p becomes the process id; a relative path starts at the program's initial working
 * folder. */
static void set_report_path(void) {
  char name[PATH_MAX] = "", folder[PATH_MAX] = "";
  const char *mark = strstr(options.report, "%p");
  if (mark)
    snprintf(name, sizeof name, "%.*s%d%s", (int)(mark - options.report), options.report, (int)owner, mark + 2);
  else
    snprintf(name, sizeof name, "%s", options.report);
  if (name[0] == '/' || !getcwd(folder, sizeof folder))
    snprintf(report_path, sizeof report_path, "%s", name);
  else if (snprintf(report_path, sizeof report_path, "%s/%s", folder, name) >= (int)sizeof report_path)
    report_path[0] = '\0'; /* opening the empty path fails with a message */
}

/* A child that was forked before anything was allocated may use devices, and gets a report of its own. */
static void leaks_in_child(void) {
  if (block_table_counts().n_allocs) return;
  owner = getpid();
  set_report_path();
}

/* The options as text: those of CANNON_LEAKS, or none where ACL_MEM_DEBUG=1, a name from articles, turns it on. */
static const char *options_text(void) {
  const char *text = variable_text(VARIABLE_LEAKS), *debug = getenv("ACL_MEM_DEBUG");
  is_of_articles = !text && debug && strcmp(debug, "1") == 0;
  return is_of_articles ? "1" : text;
}

__attribute__((constructor)) static void leaks_start(void) {
  static const hooks listener = {.alloc = leaks_on_alloc, .free = block_table_remove, .bad_free = on_bad_free};
  const char *text = options_text();
  char bad[LEAKS_OPTIONS_BAD];
  void *frame[1];
  if (!text || !strcmp(text, "0")) return;
  if (!leaks_options_parse(text, &options, bad)) variable_reject(VARIABLE_LEAKS, bad);
  owner = getpid();
  set_report_path();
  pthread_atfork(NULL, NULL, leaks_in_child);
  sem_init(&wanted, 0, 0);
  stack_start();
  backtrace(frame, 1); /* the first call of backtrace loads a library, which must not happen in a hook */
  if (options.signal) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(options.signal, &action, &previous);
  }
  atexit(leaks_at_exit);
  hooks_add(&listener);
}
