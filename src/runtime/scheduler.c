/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/scheduler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/settings/variables.h"
#include "base/store/quota.h"
#include "base/threads.h"
#include "runtime/wait/event_share.h"
#include "runtime/wait/notify_share.h"
#include "runtime/wait/outside.h"
#include "runtime/wait/value.h"
#include "trace/stats_write.h"

enum {
  RANDOM_TICK_S = 1, /* longer than what a test does between two waits */
  IDLE_TICKS = 20,   /* a stream that has been idle for so many ticks leaves the list */
  MAX_WORKERS = 256, /* those beyond the number of cores are inside user functions */
};

static struct {
  mutex lock; /* guards the list and the counts of threads */
  pthread_cond_t work;
  stream *first, *last;
  _Atomic int n_workers;
  int n_idle;
  _Atomic bool ticker_started, stopped;
  _Atomic bool none_can_start; /* the latest attempt to start a thread has failed */
  _Atomic uint32_t tick;       /* futex of the ticker */
  _Atomic bool ticker_sleeps;  /* without a time limit, until scheduler_rouse() */
} scheduler = {.lock = MUTEX_INITIALIZER(SCHEDULER), .work = PTHREAD_COND_INITIALIZER};

_Atomic int scheduler_n_listed;
static _Atomic int n_long, n_long_waiters, n_in_user_code, n_running_workers;

int scheduler_n_cores(void) {
  static _Atomic int cores;
  int n = atomic_load_explicit(&cores, memory_order_relaxed);
  if (!n) {
    cpu_set_t set;
    const int quota = quota_processors("/proc/self/mountinfo", "/proc/self/cgroup");
    n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    if (quota < n) n = quota;
    atomic_store_explicit(&cores, n, memory_order_relaxed);
  }
  return n;
}

int scheduler_n_long(void) { return atomic_load_explicit(&n_long, memory_order_relaxed); }

bool scheduler_should_yield(void) {
  return atomic_load_explicit(&n_long_waiters, memory_order_relaxed) >= scheduler_n_cores() ||
         atomic_load_explicit(&scheduler.stopped, memory_order_relaxed);
}

/* User code that a waiting thread runs for lack of workers is not counted: it occupies no worker. */
void scheduler_enter_long(bool as_waiter, bool user_code) {
  if (as_waiter && user_code) return;
  atomic_fetch_add(user_code ? &n_in_user_code : &n_long, 1);
  if (as_waiter) atomic_fetch_add(&n_long_waiters, 1);
}

void scheduler_leave_long(bool as_waiter, bool user_code) {
  if (as_waiter && user_code) return;
  const int before = atomic_fetch_sub(user_code ? &n_in_user_code : &n_long, 1);
  INVARIANT(before >= 1);
  if (as_waiter) {
    const int waiters = atomic_fetch_sub(&n_long_waiters, 1);
    INVARIANT(waiters >= 1);
  }
}

bool scheduler_lacks_threads(void) {
  return atomic_load(&scheduler.stopped) || atomic_load(&scheduler.none_can_start) ||
         !atomic_load(&scheduler.ticker_started);
}

/* Whether no worker will run anything: there are none besides those inside user code, and none can be started. */
static bool lacks_workers(void) {
  return atomic_load(&scheduler.stopped) ||
         (atomic_load(&scheduler.none_can_start) && atomic_load(&scheduler.n_workers) <= atomic_load(&n_in_user_code));
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void scheduler_list_push(stream *s) {
  s->next_listed = NULL;
  s->previous_listed = scheduler.last;
  *(scheduler.last ? &scheduler.last->next_listed : &scheduler.first) = s;
  scheduler.last = s;
}

static void scheduler_list_remove(stream *s) {
  *(s->previous_listed ? &s->previous_listed->next_listed : &scheduler.first) = s->next_listed;
  *(s->next_listed ? &s->next_listed->previous_listed : &scheduler.last) = s->previous_listed;
}

#ifdef CANNON_INVARIANTS
/* The list is linked in both directions; its streams are marked as listed, and have a reference. */
bool scheduler_is_valid(void) {
  int n = 0;
  const stream *previous = NULL;
  for (const stream *s = scheduler.first; s; previous = s, s = s->next_listed, ++n)
    if (s->previous_listed != previous || !atomic_load(&s->listed) || !atomic_load(&s->o.refs)) return false;
  return scheduler.last == previous && n == atomic_load(&scheduler_n_listed) && scheduler.n_idle >= 0 &&
         scheduler.n_idle <= atomic_load(&scheduler.n_workers) && atomic_load(&scheduler.n_workers) <= MAX_WORKERS;
}
#endif

static bool has_work(stream *s) { return stream_completed(s) < stream_submitted(s); }

static bool is_runnable(stream *s) {
  return has_work(s) && !stream_is_blocked(s) && !spin_is_held(&s->run_lock, memory_order_relaxed) &&
         !atomic_load_explicit(&s->wanted, memory_order_relaxed);
}

/* A listed stream that a worker can run, with a further reference. It is moved to the end of the list, for fairness. */
static stream *scheduler_pick(void) {
  for (stream *s = scheduler.first; s; s = s->next_listed) {
    if (!is_runnable(s)) continue;
    scheduler_list_remove(s);
    scheduler_list_push(s);
    object_ref(&s->o);
    return s;
  }
  return NULL;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Wakes all threads that sleep until a library thread wakes them, since there will be none. The lock is held. */
static void wake_waiters(void) {
  for (stream *s = scheduler.first; s; s = s->next_listed) stream_wake(s);
}

/* Reports that no thread can be started: in the log whenever that begins, on stderr once. The lock is held. */
static void tell_none_can_start(int error) {
  static bool told;
  if (atomic_exchange(&scheduler.none_can_start, true)) return;
  log_line(LOG_ERROR, "no library thread can be started (%s): threads that wait run all tasks", strerror(error));
  if (!told)
    fprintf(stderr,
            "cannon: warning: no thread of the library's can be started (%s; ulimit -u, or pids.max?): tasks, and host "
            "functions too, run only while a thread of the program waits for a stream, or asks about it\n",
            strerror(error));
  told = true;
  wake_waiters();
}

typedef struct {
  void *(*body)(void *);
  void *argument;
} thread_start;

static void *run_thread(void *started) {
  const thread_start t = *(thread_start *)started;
  free(started);
  t.body(t.argument);
  atomic_fetch_sub(&threads_of_library, 1);
  return NULL;
}

/* Signals are blocked in library threads, since they are for the program's own threads. Signals for faults are not: a
 * fault with its signal blocked ends the program without calling any handler. */
int scheduler_start_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, old;
  thread_start *started = malloc(sizeof *started);
  if (!started) return ENOMEM;
  *started = (thread_start){body, argument};
  static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
  sigfillset(&all);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const int error = pthread_create(&thread, &attributes, run_thread, started);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (error) {
    free(started);
    return error;
  }
  atomic_fetch_add(&threads_of_library, 1);
  trace_add(&trace_stats()->n_threads, 1);
  return 0;
}

/* Starts a worker or the ticker. The lock is held. */
static bool scheduler_start_helper(void *(*body)(void *)) {
  const int error = scheduler_start_thread(body, NULL);
  if (error)
    tell_none_can_start(error);
  else
    atomic_store(&scheduler.none_can_start, false);
  return !error;
}

static void *worker(void *unused) {
  (void)unused;
  bool rest = false; /* waiting threads use all cores: sleep until the ticker's next look */
  mutex_lock(&scheduler.lock);
  for (;;) {
    stream *s;
    while (rest || scheduler.stopped || !(s = scheduler_pick())) {
      rest = false;
      ++scheduler.n_idle;
      mutex_wait(&scheduler.lock, &scheduler.work, NULL);
      --scheduler.n_idle;
    }
    atomic_fetch_add(&n_running_workers, 1);
    mutex_unlock(&scheduler.lock);
    stream_run(s, UINT64_MAX, 0, RUN_AS_WORKER);
    stream_unref(s);
    const int running = atomic_fetch_sub(&n_running_workers, 1);
    INVARIANT(running >= 1);
    rest = scheduler_should_yield();
    mutex_lock(&scheduler.lock);
  }
  return NULL;
}

/* Wakes or starts up to n workers. The lock is held. */
static void wake_workers(int n) {
  for (int idle = scheduler.n_idle; n > 0 && idle > 0; --n, --idle) pthread_cond_signal(&scheduler.work);
  const int useful = scheduler_n_cores() + atomic_load(&n_in_user_code);
  while (n-- > 0 && scheduler.n_workers < useful && scheduler.n_workers < MAX_WORKERS && !scheduler.stopped)
    if (scheduler_start_helper(worker))
      ++scheduler.n_workers;
    else
      break;
}

bool scheduler_kick(stream *s) {
  if (is_runnable(s) && !atomic_exchange(&s->kicked, true)) {
    scheduler_list(s);
    mutex_lock(&scheduler.lock);
    wake_workers(1);
    mutex_unlock(&scheduler.lock);
  }
  return !lacks_workers();
}

/* Takes a stream without work off the list; true if it did, and then the list's reference is the caller's. A concurrent
 * submission that still saw the stream listed is noticed here: each side first writes and then reads what the other
 * writes, with a full barrier in between. */
static bool scheduler_unlist(stream *s) {
  atomic_store(&s->listed, false);
  atomic_thread_fence(memory_order_seq_cst);
  if (has_work(s)) {
    atomic_store(&s->listed, true);
    return false;
  }
  scheduler_list_remove(s);
  const int before = atomic_fetch_sub(&scheduler_n_listed, 1);
  INVARIANT(before >= 1);
  return true;
}

void scheduler_forget(stream *s) {
  if (!atomic_load(&s->listed)) return;
  mutex_lock(&scheduler.lock);
  const bool gone = atomic_load(&s->listed) && scheduler_unlist(s);
  INVARIANT_WALK(scheduler_is_valid());
  mutex_unlock(&scheduler.lock);
  if (gone) stream_unref(s);
}

enum { MAX_GONE = 64 };

/* Looks at all listed streams; returns how many can run. Streams that leave the list are returned in gone[], for the
 * caller to drop their references without the lock, since that may free them. */
static int scheduler_look(stream *gone[MAX_GONE], int *n_gone) {
  int runnable = 0;
  for (stream *s = scheduler.first, *next; s; s = next) {
    next = s->next_listed;
    const uint64_t submitted = stream_submitted(s), deadline = atomic_load(&s->wait_deadline_ns);
    if (has_work(s) && atomic_load(&s->blocked) && deadline && now_ns() >= deadline) atomic_store(&s->blocked, false);
    if (is_runnable(s)) {
      ++runnable;
    } else if (submitted == s->idle_seen && !has_work(s)) {
      const bool is_destroyed = !atomic_load(&s->context); /* with tasks, which are done now */
      if ((++s->idle_ticks >= IDLE_TICKS || is_destroyed) && *n_gone < MAX_GONE && scheduler_unlist(s))
        gone[(*n_gone)++] = s;
      continue;
    }
    s->idle_seen = submitted;
    s->idle_ticks = 0;
  }
  INVARIANT(*n_gone <= MAX_GONE);
  INVARIANT_WALK(scheduler_is_valid());
  return runnable;
}

/* What ends waits without a message, so that the ticker must look: how many streams wait for it, and the look. */
static const struct {
  const _Atomic int *n_waiting;
  void (*look)(void);
} wait_sources[] = {
    {&value_waiters.n, value_look},
    {&outside_waiters.n, outside_look},
    {&notify_n_shared_waiting, notify_look},
    {&event_n_shared_waiting, event_look},
};
enum { N_WAIT_SOURCES = sizeof wait_sources / sizeof wait_sources[0] };

/* Whether something may change without a call of scheduler_rouse(): a value that is waited for, or a stream that can
 * run, is about to leave the list, or waits with a deadline. Streams that wait only for events are unblocked by these;
 * who runs a stream rouses the ticker at the end. (Ticks during a run of 20 ms took 3 to 8 % of its processor time on a
 * virtual machine.) */
static bool must_tick(void) {
  for (size_t i = 0; i < N_WAIT_SOURCES; ++i)
    if (atomic_load(wait_sources[i].n_waiting)) return true;
  for (stream *s = scheduler.first; s; s = s->next_listed) {
    if (spin_is_held(&s->run_lock, memory_order_seq_cst)) continue;
    if (!has_work(s) || !stream_is_blocked(s) || atomic_load(&s->wait_deadline_ns)) return true;
  }
  return false;
}

/* Checks everything that may have changed, and wakes workers for streams that can run. */
static void tick(void) {
  stream *gone[MAX_GONE];
  int n_gone = 0;
  for (size_t i = 0; i < N_WAIT_SOURCES; ++i)
    if (atomic_load(wait_sources[i].n_waiting)) wait_sources[i].look();
  mutex_lock(&scheduler.lock);
  const int runnable = scheduler_look(gone, &n_gone);
  if (runnable) wake_workers(runnable);
  mutex_unlock(&scheduler.lock);
  while (n_gone) stream_unref(gone[--n_gone]);
}

static void *ticker(void *unused) {
  (void)unused;
  for (;;) {
    const uint32_t seen = atomic_load(&scheduler.tick);
    /* Even if it was woken early: what workers run depends on chance and not on the seed. */
    if (scheduler_is_random) clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = RANDOM_TICK_S}, NULL);
    if (!atomic_load(&scheduler.stopped)) tick();
    mutex_lock(&scheduler.lock);
    /* Sets the flag first and then looks, as a thread that calls scheduler_rouse() first
     * writes and then reads the flag. */
    atomic_store(&scheduler.ticker_sleeps, true);
    atomic_thread_fence(memory_order_seq_cst);
    const bool sleep = scheduler.stopped || !must_tick();
    if (!sleep) atomic_store(&scheduler.ticker_sleeps, false);
    mutex_unlock(&scheduler.lock);
    lock_expect_none(NULL);
    futex_wait(&scheduler.tick, seen, sleep ? 0 : SCHEDULER_TICK_NS);
  }
  return NULL;
}

void scheduler_list(stream *s) {
  mutex_lock(&scheduler.lock);
  /* `listed` is set with the lock held: a thread that sees it set relies on its next fence to include the stream. */
  if (!atomic_load(&s->listed)) {
    object_ref(&s->o);
    s->idle_ticks = 0;
    scheduler_list_push(s);
    atomic_fetch_add(&scheduler_n_listed, 1);
    atomic_store(&s->listed, true);
  }
  INVARIANT_WALK(scheduler_is_valid());
  if (!scheduler.ticker_started) scheduler.ticker_started = scheduler_start_helper(ticker);
  mutex_unlock(&scheduler.lock);
  scheduler_rouse();
}

void scheduler_rouse(void) {
  if (likely(!atomic_load(&scheduler.ticker_sleeps)) || !atomic_exchange(&scheduler.ticker_sleeps, false)) return;
  atomic_fetch_add(&scheduler.tick, 1);
  futex_wake(&scheduler.tick, 1);
}

/* ---- random mode ------------------------------------------------------------------------------------------------- */

bool scheduler_is_random;
static _Atomic uint64_t lot;

__attribute__((constructor)) static void read_seed(void) {
  uint64_t seed = 0;
  variable_read(VARIABLE_SCHEDULE_SEED, &seed);
  lot = seed;
  scheduler_is_random = seed != 0;
}

/* A pseudo-random number below n (splitmix64). */
static unsigned scheduler_random(unsigned n) {
  INVARIANT(n);
  uint64_t z = atomic_fetch_add(&lot, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (unsigned)((z ^ z >> 31) >> 32) % n;
}

/* A random one of the listed streams that can run, with a reference. */
static stream *pick_any(void) {
  unsigned n = 0;
  stream *chosen = NULL;
  mutex_lock(&scheduler.lock);
  /* Each of the n streams so far is the chosen one with the same probability. */
  for (stream *s = scheduler.first; s; s = s->next_listed)
    if (is_runnable(s) && scheduler_random(++n) == 0) chosen = s;
  if (chosen) object_ref(&chosen->o);
  mutex_unlock(&scheduler.lock);
  return chosen;
}

enum { MOST_TASKS = 4 };

/* Simulates a device that is idle, slow or fast for a while each. */
void scheduler_shuffle(void) {
  enum { MOST_TURNS = 4, CALLS_PER_PACE = 8 };
  enum { IDLE, SLOW, FAST, N_PACES };
  static _Atomic unsigned pace;
  if (scheduler_random(CALLS_PER_PACE) == 0) atomic_store(&pace, scheduler_random(N_PACES));
  const unsigned now = atomic_load(&pace);
  if (now == IDLE || (now == SLOW && scheduler_random(4))) return;
  for (unsigned turns = scheduler_random(MOST_TURNS + 1); turns--;) {
    stream *s = pick_any();
    if (!s) return;
    stream_run(s, stream_completed(s) + 1 + scheduler_random(MOST_TASKS), 0, RUN_AS_WAITER);
    stream_unref(s);
  }
}

static void wake_for_all(void) {
  int runnable = 0;
  mutex_lock(&scheduler.lock);
  for (stream *s = scheduler.first; s; s = s->next_listed) runnable += is_runnable(s);
  wake_workers(runnable);
  mutex_unlock(&scheduler.lock);
}

/* Runs a few tasks of a random stream; whether it made progress. */
static bool run_any(uint64_t deadline_ns, run_mode mode) {
  stream *s = pick_any();
  if (!s) return false;
  const uint64_t before = stream_completed(s);
  stream_run(s, before + 1 + scheduler_random(MOST_TASKS), deadline_ns, mode);
  const bool went_on = stream_completed(s) > before || atomic_load(&s->blocked);
  if (!went_on) scheduler_kick(s); /* its front task is user code, which a worker runs */
  stream_unref(s);
  return went_on;
}

bool scheduler_run_others(void) {
  if (scheduler_is_random) return run_any(0, RUN_AS_WAITER);
  wake_for_all();
  return false;
}

bool scheduler_stand_in(uint64_t deadline_ns) {
  if (!atomic_load(&scheduler.stopped) && !atomic_load(&scheduler.ticker_started)) {
    mutex_lock(&scheduler.lock);
    if (!scheduler.ticker_started) scheduler.ticker_started = scheduler_start_helper(ticker);
    mutex_unlock(&scheduler.lock);
  }
  tick();
  return run_any(deadline_ns, lacks_workers() ? RUN_AS_STAND_IN : RUN_AS_WAITER);
}

/* ---- fences ------------------------------------------------------------------------------------------------------ */

/* A fence: the streams that had pending tasks, all of which are listed, and the positions behind those tasks. */
typedef struct {
  int n;
  struct {
    stream *stream;
    uint64_t position;
  } at[];
} fence;

bool scheduler_has_pending(void) {
  bool pending = false;
  mutex_lock(&scheduler.lock);
  for (stream *s = scheduler.first; s && !pending; s = s->next_listed) pending = has_work(s);
  mutex_unlock(&scheduler.lock);
  return pending;
}

void *scheduler_fence_take(void) {
  int n = 0;
  mutex_lock(&scheduler.lock);
  /* Room for all listed streams, as other ones may have pending tasks when the list is searched again. */
  for (stream *s = scheduler.first; s; s = s->next_listed) ++n;
  fence *f = n ? malloc(sizeof *f + (size_t)n * sizeof f->at[0]) : NULL;
  if (f) {
    f->n = 0;
    for (stream *s = scheduler.first; s; s = s->next_listed) {
      if (!has_work(s)) continue;
      INVARIANT(f->n < n);
      object_ref(&s->o);
      f->at[f->n].stream = s;
      f->at[f->n++].position = stream_submitted(s);
    }
  }
  mutex_unlock(&scheduler.lock);
  return f;
}

bool scheduler_fence_passed(void *taken) {
  fence *f = taken;
  INVARIANT(f->n >= 0);
  while (f->n && stream_completed(f->at[f->n - 1].stream) >= f->at[f->n - 1].position)
    stream_unref(f->at[--f->n].stream);
  if (f->n) return false;
  free(f);
  return true;
}

void scheduler_stop(void) {
  mutex_lock(&scheduler.lock);
  scheduler.stopped = true;
  wake_waiters();
  mutex_unlock(&scheduler.lock);
  while (atomic_load(&n_running_workers) > atomic_load(&n_in_user_code)) sched_yield();
}
