/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/parallel.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sync.h"
#include "runtime/bank.h"
#include "runtime/scheduler.h"

_Static_assert((int)PARALLEL_LEAST_NS == (int)SCHEDULER_LONG_NS, "a loop that is worth a team is a long task");

enum {
  MOST_THREADS = 255,
  PARTS_PER_THREAD = 4, /* of parallel_ranges(): if a thread is late, so much less is lost */
  PART_NS = 8 * 1000,   /* the shortest chunks, as some loop bodies have set-up work */
  /* How long a thread spins for the next loop, and the caller for the last chunks of others, before it sleeps.
   * Gradients of convolutions, which are loops with other work in between, take 2 % longer with 200 us. */
  THREAD_SPIN_NS = 500 * 1000,
  BUSY_SPIN_NS = 20 * 1000,  /* while the bank does not trust teams */
  YIELD_NS = 20 * 1000,      /* a spinning thread yields its processor after this time, and whenever it has spun for
                               twice as long */
  PREEMPTED_NS = 100 * 1000, /* so much between two looks at the clock shows that the thread had no processor */
  SPIN_GROWTH = 16,          /* after so many loops, a thread that had lost its processor spins as long as before */
  WAKE_NS = 100 * 1000,      /* loops of this length are worth waking threads for, which takes 5 to 11 us each */
  LOOKS = 32,                /* reads of a word between two looks at the clock */
};

/* The chunks that a thread takes first; when it has none left, it takes those of other threads. They are one word that
 * is replaced as a whole, so a thread that takes a chunk knows that it belongs to the current loop, and that the loop
 * has a place for the thread. */
typedef union {
  uint64_t word;
  struct {
    uint64_t next : 28, end : 28, n_threads : 8;
  };
} share;
enum { MOST_PARTS = 1 << 28 };

static struct {
  spinlock lock; /* held from parallel_take() to parallel_give(); guards the other fields */
  bank bank;
  int n_started; /* threads that were started, plus one for the caller; 0: none yet */
  bool refused;  /* the host has refused a thread */
  bool watches_forks;
  uint64_t end_ns; /* when the last loop ended */

  /* The current loop: written before its chunks are published, read by threads that have taken one. */
  parallel_body *body;
  const void *job;
  _Atomic int n_threads;
  _Atomic uint32_t spin_ns;                 /* how long threads may spin for the next loop */
  _Alignas(64) _Atomic uint32_t unfinished; /* number of chunks that are not done; the caller sleeps on it */
  _Atomic bool caller_sleeps;
  _Alignas(64) _Atomic uint32_t calls; /* number of loops that were published */
  struct {
    _Alignas(64) _Atomic uint64_t share;
    _Atomic uint32_t asleep; /* futex: 1 while the thread sleeps */
  } at[MOST_THREADS];
} team;

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static bool take_part(int from, int thread, int64_t *part) {
  share s, taken;
  s.word = atomic_load_explicit(&team.at[from].share, memory_order_relaxed);
  do {
    if (s.next >= s.end || thread >= s.n_threads) return false;
    *part = s.next;
    taken = s;
    ++taken.next;
  } while (!atomic_compare_exchange_weak_explicit(&team.at[from].share, &s.word, taken.word, memory_order_acq_rel,
                                                  memory_order_relaxed));
  return true;
}

static void finish_part(void) {
  const uint32_t before = atomic_fetch_sub(&team.unfinished, 1);
  INVARIANT(before >= 1);
  if (before == 1 && atomic_load(&team.caller_sleeps)) futex_wake(&team.unfinished, 1);
}

/* Runs chunks until none is left, the thread's own first, since their memory may be in its caches. Returns how many it
 * ran. *longest, unless NULL (the caller's): the time of the longest one. */
static uint32_t parallel_run_chunks(int thread, uint64_t *longest) {
  uint32_t n_run = 0;
  uint64_t last = longest ? now_ns() : 0;
  const int n_threads = atomic_load_explicit(&team.n_threads, memory_order_relaxed);
  for (int k = 0, from = thread; k < n_threads; ++k, from = (from + 1) % n_threads) {
    for (int64_t part; take_part(from, thread, &part); ++n_run) {
      team.body(team.job, part, thread);
      finish_part();
      if (!longest) continue;
      const uint64_t now = now_ns();
      if (now - last > *longest) *longest = now - last;
      last = now;
    }
  }
  return n_run;
}

/* looked_ns: how long the thread has been spinning; *last, 0 at first: how long it had when it last yielded. */
static void yield_at_times(uint64_t looked_ns, uint64_t *last) {
  if (looked_ns < YIELD_NS || looked_ns < 2 * *last) return;
  *last = looked_ns;
  sched_yield();
}

static void wait_for_others(void) {
  const uint64_t begin = now_ns(), spin_ns = atomic_load_explicit(&team.spin_ns, memory_order_relaxed);
  uint64_t yielded = 0;
  while (atomic_load_explicit(&team.unfinished, memory_order_acquire)) {
    for (int i = 0; i < LOOKS && atomic_load_explicit(&team.unfinished, memory_order_relaxed); ++i) cpu_relax();
    const uint64_t now = now_ns();
    yield_at_times(now - begin, &yielded); /* perhaps to the thread that it waits for */
    if (now - begin < spin_ns) continue;
    atomic_store(&team.caller_sleeps, true);
    const uint32_t left = atomic_load(&team.unfinished);
    if (left) futex_wait(&team.unfinished, left, 0);
    atomic_store(&team.caller_sleeps, false);
  }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Spins for up to *spin_ns until a loop newer than number `seen` is published; whether one was. A thread
 * that loses its processor meanwhile does not spin the next times, since others need the processor, and then
 * a little longer each time. */
static bool sees_call(uint32_t seen, uint64_t *spin_ns) {
  const uint64_t begin = now_ns(), allowed = atomic_load_explicit(&team.spin_ns, memory_order_relaxed);
  uint64_t yielded = 0;
  for (uint64_t now = begin, last; now - begin < *spin_ns && now - begin < allowed;) {
    for (int i = 0; i < LOOKS; ++i, cpu_relax())
      if (atomic_load_explicit(&team.calls, memory_order_relaxed) != seen) return true;
    last = now;
    now = now_ns();
    if (now - last > PREEMPTED_NS) *spin_ns = 0;
    yield_at_times(now - begin, &yielded);
  }
  return false;
}

static void *thread_main(void *number) {
  const int thread = (int)(intptr_t)number;
  _Atomic uint32_t *const asleep = &team.at[thread].asleep;
  uint64_t spin_ns = THREAD_SPIN_NS;
  for (;;) {
    const uint32_t seen = atomic_load(&team.calls);
    const bool had_part = parallel_run_chunks(thread, NULL) > 0;
    if (had_part && sees_call(seen, &spin_ns)) continue;
    atomic_store(asleep, 1);
    while (atomic_load(&team.calls) == seen && atomic_load(asleep)) futex_wait(asleep, 1, 0);
    atomic_store(asleep, 0);
    if (spin_ns < THREAD_SPIN_NS) spin_ns += THREAD_SPIN_NS / SPIN_GROWTH;
  }
  return NULL;
}

/* The child of a fork has no threads. The thread that forked ran no loop, but another thread may have. */
static void parallel_in_child(void) {
  spin_unlock(&team.lock);
  team.n_started = 0;
  team.refused = false;
  atomic_store(&team.unfinished, 0);
  for (int t = 0; t < MOST_THREADS; ++t) {
    atomic_store(&team.at[t].share, 0);
    atomic_store(&team.at[t].asleep, 0);
  }
}

/* Starts threads until there are n, with the caller. Returns how many of n there are. */
static int start_threads(int n) {
  if (!team.watches_forks && pthread_atfork(NULL, NULL, parallel_in_child)) return 1;
  team.watches_forks = true;
  if (!team.n_started) team.n_started = 1;
  for (; team.n_started < n && !team.refused; ++team.n_started) {
    const int error = scheduler_start_thread(thread_main, (void *)(intptr_t)team.n_started);
    if (!error) continue;
    log_line(LOG_WARNING, "no thread %d for parallel loops can be started (error %d)", team.n_started + 1, error);
    team.refused = true;
    break;
  }
  return n < team.n_started ? n : team.n_started;
}

/* ---- the caller -------------------------------------------------------------------------------------------------- */

/* The bound of OMP_NUM_THREADS (the first number of a list), affinity and quotas. */
static int allowed_threads(void) {
  static _Atomic int allowed;
  int n = atomic_load_explicit(&allowed, memory_order_relaxed);
  if (n) return n;
  const char *set = getenv("OMP_NUM_THREADS");
  const long wanted = set ? strtol(set, NULL, 10) : 0;
  n = scheduler_n_cores() < MOST_THREADS ? scheduler_n_cores() : MOST_THREADS;
  if (wanted > 0 && wanted < n) n = (int)wanted;
  atomic_store_explicit(&allowed, n, memory_order_relaxed);
  return n;
}

int parallel_max_threads(uint64_t cost_ns) {
  if (likely(cost_ns < PARALLEL_LEAST_NS)) return 1;
  const uint64_t worth = cost_ns / (PARALLEL_LEAST_NS / 2), most = (uint64_t)allowed_threads();
  return (int)(worth < most ? worth : most);
}

/* Reduces n to the threads that need not be woken, for a single short loop. */
static int awake_threads(int n) {
  while (n > 1 && atomic_load_explicit(&team.at[n - 1].asleep, memory_order_relaxed)) --n;
  return n;
}

parallel_team parallel_take(uint64_t cost_ns) {
  parallel_team t = {.n_threads = parallel_max_threads(cost_ns), .cost_ns = cost_ns};
  /* The calling task is one of the long ones itself if its estimate says so. */
  if (t.n_threads == 1 || scheduler_n_long() > 1 || !spin_trylock(&team.lock)) return (parallel_team){.n_threads = 1};
  t.is_held = true;
  t.n_threads = bank_threads(&team.bank, t.n_threads);
  if (t.n_threads > 1) t.n_threads = start_threads(t.n_threads);
  t.begin_ns = now_ns();
  INVARIANT(t.n_threads >= 1 && t.n_threads <= MOST_THREADS);
  if (cost_ns < WAKE_NS && t.begin_ns - team.end_ns > THREAD_SPIN_NS) t.n_threads = awake_threads(t.n_threads);
  return t;
}

void parallel_give(const parallel_team *t) {
  INVARIANT(t->is_held && spin_is_held(&team.lock, memory_order_relaxed));
  INVARIANT(!atomic_load_explicit(&team.unfinished, memory_order_relaxed));
  team.end_ns = now_ns();
  bank_pass(&team.bank, team.end_ns - t->begin_ns);
  spin_unlock(&team.lock);
}

static void parallel_publish(int n_threads, int64_t n_parts) {
  INVARIANT(n_threads > 1 && n_threads <= team.n_started && !atomic_load(&team.unfinished));
  atomic_store_explicit(&team.n_threads, n_threads, memory_order_relaxed);
  atomic_store_explicit(&team.spin_ns, bank_trusts(&team.bank) ? THREAD_SPIN_NS : BUSY_SPIN_NS, memory_order_relaxed);
  atomic_store_explicit(&team.unfinished, (uint32_t)n_parts, memory_order_relaxed);
  for (int t = 0; t < n_threads; ++t) {
    const share s = {.next = (uint64_t)(n_parts * t / n_threads),
                     .end = (uint64_t)(n_parts * (t + 1) / n_threads),
                     .n_threads = (uint64_t)n_threads};
    atomic_store_explicit(&team.at[t].share, s.word, memory_order_release);
  }
  atomic_fetch_add(&team.calls, 1);
  for (int t = 1; t < n_threads; ++t)
    if (atomic_load(&team.at[t].asleep) && atomic_exchange(&team.at[t].asleep, 0)) futex_wake(&team.at[t].asleep, 1);
}

/* What the other threads' chunks would have taken the caller is estimated from its own chunks, without the longest,
 * during which it may have lost its processor. That is a little too much if threads share caches or a core; but
 * counting half of it gave up teams that shortened training steps of torch_npu by 14 %. */
void parallel_run(const parallel_team *t, parallel_body *body, const void *job, int64_t n_parts) {
  const int n_threads = t->n_threads < n_parts ? t->n_threads : (int)n_parts;
  INVARIANT(n_parts >= 0 && n_parts < MOST_PARTS);
  INVARIANT(n_threads <= 1 || (t->is_held && spin_is_held(&team.lock, memory_order_relaxed)));
  if (n_threads <= 1) {
    for (int64_t part = 0; part < n_parts; ++part) body(job, part, 0);
    return;
  }
  team.body = body;
  team.job = job;
  const uint64_t begin = now_ns();
  parallel_publish(n_threads, n_parts);
  const uint64_t published = now_ns();
  uint64_t longest = 0;
  const uint32_t n_run = parallel_run_chunks(0, &longest);
  const uint64_t alone = now_ns();
  wait_for_others();
  INVARIANT(n_run <= n_parts);
  const uint64_t end = now_ns();
  const uint64_t part_ns = n_run > 1 ? (alone - published - longest) / (n_run - 1) : t->cost_ns / (uint64_t)n_parts;
  bank_settle(&team.bank, n_threads, part_ns * ((uint64_t)n_parts - n_run), published - begin + end - alone);
}

typedef struct {
  parallel_range *body;
  const void *job;
  int64_t total, grain, n_parts;
} ranges;

static void parallel_run_range(const void *job, int64_t part, int thread) {
  (void)thread;
  const ranges *r = job;
  int64_t begin, end;
  parallel_share(r->total, r->grain, part, r->n_parts, &begin, &end);
  INVARIANT(begin >= 0 && begin <= end && end <= r->total);
  if (begin < end) r->body(r->job, begin, end);
}

void parallel_ranges(const parallel_team *t, parallel_range *body, const void *job, int64_t total, int64_t grain) {
  INVARIANT(grain >= 1 && total >= 0 && t->n_threads >= 1);
  const int64_t grains = (total + grain - 1) / grain, worth = (int64_t)(t->cost_ns / PART_NS);
  int64_t n_parts = (int64_t)t->n_threads * PARTS_PER_THREAD;
  if (n_parts > worth) n_parts = worth > t->n_threads ? worth / t->n_threads * t->n_threads : t->n_threads;
  if (n_parts > grains) n_parts = grains;
  parallel_run(t, parallel_run_range, &(ranges){body, job, total, grain, n_parts}, n_parts);
}
