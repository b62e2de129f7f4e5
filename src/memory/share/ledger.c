/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/share/ledger.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/sync.h"
#include "base/threads.h"
#include "memory/share/machine.h"

enum { PATIENCE_MS = 200 };

static uint64_t
    own_bytes[SPACE_MAX_DEVICES]; /* charged by this process, per device; guarded by machine_enter and machine_look */
static int physical_of[SPACE_MAX_DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

void ledger_set_devices(const int *physical, int n) {
  for (int d = 0; d < n; ++d) physical_of[d] = physical[d];
}

/* Writes this process's charge to the file, if there is one. */
static void ledger_publish(machine_file *file, int device) {
  if (!file) return;
  atomic_store(&file->places[machine_own_place()].charged_bytes[physical_of[device]], own_bytes[device]);
}

/* Sum of the other processes' charges: of all places, or only of those whose processes live, which takes a system call
 * for each. The charges of dead processes may be cleared only while the file is locked, since a new process may just be
 * taking the place. */
enum { SUM_ALL, SUM_LIVING, SUM_AND_DROP };
static uint64_t sum_others(machine_file *file, int device, int how) {
  uint64_t sum = 0;
  for (uint32_t i = 0; file && i < MACHINE_PLACES; ++i) {
    _Atomic uint64_t *charged = &file->places[i].charged_bytes[physical_of[device]];
    const uint64_t bytes = i == machine_own_place() ? 0 : atomic_load(charged);
    if (bytes && how != SUM_ALL && !machine_is_alive(i)) {
      if (how == SUM_AND_DROP) atomic_store(charged, 0);
    } else if (__builtin_add_overflow(sum, bytes, &sum)) {
      return UINT64_MAX;
    }
  }
  return sum;
}

static bool ledger_fits(uint64_t own, uint64_t others, uint64_t bytes, uint64_t limit) {
  return own <= limit && others <= limit - own && bytes <= limit - own - others;
}

bool ledger_charge(int device, uint64_t bytes, uint64_t limit_bytes) {
  machine_file *file = machine_enter();
  const uint64_t own = own_bytes[device];
  const bool granted =
      !machine_busy() && (ledger_fits(own, sum_others(file, device, SUM_ALL), bytes, limit_bytes) ||
                          ledger_fits(own, sum_others(file, device, SUM_AND_DROP), bytes, limit_bytes));
  if (granted) own_bytes[device] += bytes;
  ledger_publish(file, device);
  machine_leave();
  return granted;
}

void ledger_return(int device, uint64_t bytes) {
  machine_file *file = machine_look();
  INVARIANT(own_bytes[device] >= bytes);
  own_bytes[device] -= bytes;
  ledger_publish(file, device);
  machine_leave();
}

bool ledger_is_busy(char *words, size_t bytes) {
  machine_look();
  const char *why = machine_busy();
  if (why) snprintf(words, bytes, "%s", why);
  machine_leave();
  return why;
}

uint64_t ledger_others(int device) {
  const uint64_t sum = sum_others(machine_look(), device, SUM_LIVING);
  machine_leave();
  return sum;
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

/* futex_wait and futex_wake of base/sync.h work within a process; these work between processes. */
static void wait_while(_Atomic uint32_t *word, uint32_t seen, const struct timespec *timeout) {
  syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout, NULL, 0);
}
static void wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

static void (*give_back)(void);

static void *ledger_serve_loop(void *argument) {
  machine_place *own = argument;
  for (uint32_t seen = 0;;) {
    const uint32_t asked = atomic_load(&own->asked);
    if (asked == seen) {
      wait_while(&own->asked, seen, NULL);
      continue;
    }
    give_back();
    seen = asked;
    atomic_store(&own->answered, asked);
    wake_all(&own->answered);
  }
  return NULL;
}

/* The thread blocks all signals, so that it handles none of the program's. */
static void start_serving(machine_place *own) {
  pthread_t thread;
  sigset_t all, before;
  atomic_store(&own->asked, 0);
  atomic_store(&own->answered, 0);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread, NULL, ledger_serve_loop, own);
  if (!error) {
    atomic_fetch_add(&threads_of_library, 1);
    pthread_detach(thread);
  } else {
    log_line(LOG_WARNING,
             "memory that is only kept is not given to other processes, since no thread can be started: %s",
             strerror(error));
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ledger_serve(void (*function)(void)) {
  machine_file *file = machine_look();
  const bool first = file && !give_back;
  if (first) give_back = function;
  if (first) start_serving(&file->places[machine_own_place()]);
  machine_leave();
}

/* Waits until the process has answered, or until the deadline. */
static void ledger_await(machine_place *place, uint32_t asked, uint64_t deadline_ns) {
  for (uint32_t answered; (int32_t)((answered = atomic_load(&place->answered)) - asked) < 0;) {
    const uint64_t now = now_ns();
    if (now >= deadline_ns) return;
    wait_while(&place->answered, answered, &(struct timespec){.tv_nsec = (long)(deadline_ns - now)});
  }
}

bool ledger_ask_others(int device) {
  machine_place *places[MACHINE_PLACES];
  uint32_t asked[MACHINE_PLACES], n = 0;
  bool any = false;
  machine_file *file = machine_look();
  for (uint32_t i = 0; file && i < MACHINE_PLACES; ++i) {
    machine_place *place = &file->places[i];
    if (i == machine_own_place() || !atomic_load(&place->pid) || !machine_is_alive(i)) continue;
    any = true;
    if (!atomic_load(&place->charged_bytes[physical_of[device]])) continue;
    asked[n] = atomic_fetch_add(&place->asked, 1) + 1;
    places[n++] = place;
    wake_all(&place->asked);
  }
  machine_leave();
  const uint64_t deadline_ns = now_ns() + PATIENCE_MS * UINT64_C(1000000);
  for (uint32_t i = 0; i < n; ++i) ledger_await(places[i], asked[i], deadline_ns);
  return any;
}
