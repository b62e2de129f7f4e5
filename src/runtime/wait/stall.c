/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wait/stall.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hooks.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/text_append.h"
#include "base/threads.h"
#include "memory/fault.h"
#include "runtime/scheduler.h"
#include "runtime/wait/event.h"
#include "runtime/wait/notify.h"
#include "runtime/wait/value.h"

enum {
  MOST_STREAMS = 64, /* with tasks: where there are more, nothing is told */
  MOST_TOLD = 256,   /* waits that were told; if there are more, older ones may be told again */
  WORDS = 1024,
};

_Atomic int stall_n_waiting;

object_end stall_end_of_object(void *site) {
  return (object_end){.site = site, .thread = (uint32_t)syscall(SYS_gettid)};
}

/* ---- what the streams wait for ----------------------------------------------------------------------------------- */

/* A stream that has tasks. */
typedef struct {
  stream *s; /* with a reference */
  uint64_t submitted, completed;
  bool waits;        /* it is blocked, and what it waits for is not WAIT_OPEN */
  uint64_t position; /* of the task that waits; and a copy of it */
  task front;
  task_wait wait;
  uint64_t ended_by; /* the streams that have tasks which would end the wait: a bit each */
  int64_t n_ends;    /* the number of these tasks */
} stalled;

typedef struct {
  int n;
  uint64_t stuck; /* the streams that cannot go on: a bit each */
  stalled at[MOST_STREAMS];
} stall_view;

/* For the holder of the run lock of a blocked stream. */
static void describe_front(stalled *n) {
  stream *s = n->s;
  if (!stream_is_blocked(s) || atomic_load(&s->released) || s->q.next >= stream_submitted(s)) return;
  const task *t = queue_front(&s->q);
  if (!t->kind->awaits) return;
  n->position = s->q.next;
  n->front = *t;
  t->kind->awaits(t, s, &n->wait);
  n->waits = n->wait.state != WAIT_OPEN;
}

/* Releases the run lock, which other threads may have found taken meanwhile. */
static void release_stream(stream *s) {
  spin_unlock_fence(&s->run_lock);
  scheduler_rouse();
  if (atomic_load(&s->sleepers)) stream_wake(s);
}

/* Fills in the streams that have tasks. False if there are too many. */
static bool view_streams(stall_view *v) {
  bool fits = true;
  v->n = 0;
  for (stream *s = NULL; (s = object_next(OBJECT_STREAM, s)); stream_unref(s)) {
    const uint64_t completed = stream_completed(s), submitted = stream_submitted(s);
    if (completed >= submitted || !fits) continue;
    fits = v->n < MOST_STREAMS;
    if (!fits) continue;
    object_ref(&s->o);
    v->at[v->n++] = (stalled){.s = s, .submitted = submitted, .completed = completed};
  }
  for (int i = 0; i < v->n && fits; ++i) {
    stalled *n = &v->at[i];
    if (!spin_trylock(&n->s->run_lock)) continue;
    describe_front(n);
    release_stream(n->s);
  }
  return fits;
}

static void leave_streams(stall_view *v) {
  for (int i = 0; i < v->n; ++i) {
    if (v->at[i].wait.source) stream_unref(v->at[i].wait.source);
    stream_unref(v->at[i].s);
  }
}

/* Looks through the tasks of stream k for such as end waits of others, or its own. The run lock is held. */
static void find_ends(stall_view *v, int k) {
  queue *q = &v->at[k].s->q;
  const segment *segment = q->head;
  uint32_t i = q->head_index;
  for (uint64_t position = q->next; position < v->at[k].submitted; ++position, ++i) {
    if (i == SEGMENT_TASKS) {
      segment = segment->next;
      i = 0;
    }
    for (int w = 0; w < v->n; ++w) {
      stalled *n = &v->at[w];
      if (!n->waits || !n->wait.ends || !n->wait.ends(&segment->tasks[i], &n->front)) continue;
      n->ended_by |= UINT64_C(1) << k;
      ++n->n_ends;
    }
  }
}

/* Fills in which streams would end which waits. */
static void connect_streams(stall_view *v) {
  bool searches = false;
  for (int w = 0; w < v->n; ++w) {
    stalled *n = &v->at[w];
    searches |= n->waits && n->wait.ends;
    for (int k = 0; k < v->n && n->wait.source; ++k)
      if (v->at[k].s == n->wait.source) n->ended_by = UINT64_C(1) << k;
  }
  for (int k = 0; k < v->n && searches; ++k) {
    stream *s = v->at[k].s;
    if (!v->at[k].waits || !spin_trylock(&s->run_lock)) continue;
    if (s->q.next == v->at[k].position) find_ends(v, k);
    release_stream(s);
  }
}

/* Whether something ends the wait, while the streams of `stuck` do not go on. */
static bool will_end(const stall_view *v, const stalled *n, uint64_t stuck, bool calls_may) {
  if (!n->waits || (calls_may && n->wait.state == WAIT_UNSIGNALED)) return true;
  if (n->ended_by & ~stuck) return true;
  if (n->wait.source) return !n->ended_by; /* if it has no tasks left, the wait is just over */
  if (!n->wait.ends) return false;
  if (n->wait.n_ends >= 0) return n->n_ends < n->wait.n_ends; /* others are in a graph, or in a stream that goes on */
  return stuck != (v->n == 64 ? UINT64_MAX : (UINT64_C(1) << v->n) - 1);
}

/* The streams that never go on. calls_may: calls of the program do what is possible. */
static uint64_t find_stuck(const stall_view *v, bool calls_may) {
  uint64_t stuck = v->n == 64 ? UINT64_MAX : (UINT64_C(1) << v->n) - 1, before;
  do {
    before = stuck;
    for (int i = 0; i < v->n; ++i)
      if (will_end(v, &v->at[i], stuck, calls_may)) stuck &= ~(UINT64_C(1) << i);
  } while (stuck != before);
  return stuck;
}

/* Whether nothing has changed since the streams were looked at, so that the view was true at one time. */
static bool view_is_true(const stall_view *v) {
  for (int i = 0; i < v->n; ++i) {
    stream *s = v->at[i].s;
    if (stream_completed(s) != v->at[i].completed || stream_submitted(s) != v->at[i].submitted) return false;
    if (v->at[i].waits && (!stream_is_blocked(s) || atomic_load(&s->released))) return false;
  }
  return true;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Whether each thread of the program, this one included, waits for a stream without a limit. A thread that is not known
 * counts as one of the program. */
static bool all_threads_wait(void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return false;
  for (const struct dirent *entry; (entry = readdir(tasks));) n += entry->d_name[0] != '.';
  closedir(tasks);
  return n == atomic_load(&stall_n_waiting) + atomic_load(&threads_of_library);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static struct { uint64_t serial, position; } told[MOST_TOLD];
static spinlock told_lock = SPINLOCK_INITIALIZER(STALLS); /* guards told */

/* Notes that the wait is told. Whether it was not told before. */
static bool is_first_time(const stalled *n) {
  const uint64_t serial = n->s->o.serial;
  spin_lock(&told_lock);
  const bool before = told[serial % MOST_TOLD].serial == serial && told[serial % MOST_TOLD].position == n->position;
  told[serial % MOST_TOLD].serial = serial;
  told[serial % MOST_TOLD].position = n->position;
  spin_unlock(&told_lock);
  return !before;
}

static void stall_say_wait(char *words, const stalled *n) {
  text_append(words, WORDS, "stream %u of device %d waits, at its task %u (%s), for %s", n->s->id, n->s->device,
              n->front.id, n->front.kind->name, n->wait.what);
}

static void stall_say_end(char *words, const stalled *n) {
  char site[128];
  if (n->wait.state != WAIT_ORPHANED || !n->wait.ended.thread) return;
  fault_describe_site(n->wait.ended.site, site, sizeof site);
  text_append(words, WORDS, ", which thread %u has destroyed (%s)", n->wait.ended.thread, site);
}

/* A chain of waits from one stream: `first`, and each next one has a task that would end the wait before. */
typedef struct {
  int n, index[MOST_STREAMS];
  int again; /* the chain ends in a cycle that begins at this place; -1: at a wait that no task ends */
} stall_chain;

static stall_chain stall_follow(const stall_view *v, int first) {
  stall_chain c = {.again = -1};
  for (int i = first;;) {
    for (int k = 0; k < c.n; ++k)
      if (c.index[k] == i) c.again = k;
    if (c.again >= 0) return c;
    c.index[c.n++] = i;
    if (!v->at[i].ended_by) return c;
    i = __builtin_ctzll(v->at[i].ended_by);
  }
}

/* Where the chain ends: the wait from which all others hang. */
static const stalled *root_of(const stall_view *v, const stall_chain *c) {
  return &v->at[c->index[c->again >= 0 ? c->again : c->n - 1]];
}

static void say_cycle(char *words, const stall_view *v, const stall_chain *c) {
  if (c->n - c->again > 1) text_append(words, WORDS, "streams wait for each other: ");
  for (int i = c->again; i < c->n; ++i) {
    const stalled *next = &v->at[c->index[i + 1 < c->n ? i + 1 : c->again]];
    stall_say_wait(words, &v->at[c->index[i]]);
    text_append(words, WORDS, ", of which stream %u has the task, behind that wait%s", next->s->id,
                i + 1 < c->n ? "; " : "");
  }
  text_append(words, WORDS, ". ");
}

typedef enum { STALL_FOR_EVER, STALL_ALL_WAIT, STALL_LONG } stall_certainty;

static void say_root(char *words, const stalled *root, stall_certainty certainty) {
  stall_say_wait(words, root);
  stall_say_end(words, root);
  switch (certainty) {
  case STALL_FOR_EVER: text_append(words, WORDS, ". No task that is queued ends this wait, and no call can. "); break;
  case STALL_ALL_WAIT:
    text_append(words, WORDS, ". No task that is queued ends this wait, and each thread of the program waits. ");
    break;
  case STALL_LONG:
    text_append(words, WORDS,
                ", since 2 s or more. No task that is queued ends this wait: a call of the program must. ");
    break;
  }
}

static void tell(const stall_view *v, int index, stall_certainty certainty) {
  const stall_chain c = stall_follow(v, index);
  const stalled *root = root_of(v, &c);
  char words[WORDS] = "";
  bool is_new = is_first_time(root);
  for (int i = c.again + 1; c.again >= 0 && i < c.n; ++i) is_new &= is_first_time(&v->at[c.index[i]]);
  if (!is_new) return;
  if (c.again >= 0)
    say_cycle(words, v, &c);
  else
    say_root(words, root, certainty);
  if (root != &v->at[index] && c.again < 0) text_append(words, WORDS, "Stream %u waits for that. ", v->at[index].s->id);
  text_append(words, WORDS, "%s",
              c.again >= 0 ? "Submit a task before the waits that it ends."
                           : "Submit what a stream waits for first, and destroy it after the wait.");
  log_line(LOG_WARNING, "%s", words);
  fprintf(stderr, "cannon: %s (The program goes on waiting, as on a device.)\n", words);
  if (certainty == STALL_LONG || !hooks_any()) return;
  hooks_use((hook_use){.kind = HOOK_USE_ENDLESS_WAIT,
                       .device = root->s->device,
                       .stream = root->s->id,
                       .text = words,
                       .handle = (uintptr_t)root->wait.handle,
                       .handle_kind = (hook_handle_kind)root->wait.handle_kind});
}

/* ---- the look ---------------------------------------------------------------------------------------------------- */

static int stall_index(const stall_view *v, const stream *s) {
  for (int i = 0; i < v->n; ++i)
    if (v->at[i].s == s) return i;
  return -1;
}

/* For how long the stream has hung from this wait. */
static uint64_t age_of(stall_watch *watch, const stalled *root, uint64_t now) {
  if (watch->serial != root->s->o.serial || watch->position != root->position) watch->since_ns = now;
  watch->serial = root->s->o.serial;
  watch->position = root->position;
  return now - watch->since_ns;
}

/* Whether nothing goes on, and nobody is there who could change that: no stream, no thread and no other process. */
static bool none_runs(const stall_view *v, uint64_t stuck) {
  if (__builtin_popcountll(stuck) != v->n) return false;
  for (int i = 0; i < v->n; ++i)
    if (v->at[i].wait.others_may) return false;
  return all_threads_wait();
}

static void stall_judge(const stall_view *v, int index, stall_watch *watch, uint64_t now) {
  const uint64_t own = UINT64_C(1) << index, stuck = find_stuck(v, false);
  if (!(stuck & own)) {
    watch->serial = 0;
    return;
  }
  const stall_chain c = stall_follow(v, index);
  const bool is_old = age_of(watch, root_of(v, &c), now) >= STALL_NS, for_ever = find_stuck(v, true) & own;
  const bool all_wait = !for_ever && none_runs(v, stuck);
  if ((!for_ever && !all_wait && !is_old) || !view_is_true(v)) return;
  tell(v, index, for_ever ? STALL_FOR_EVER : all_wait ? STALL_ALL_WAIT : STALL_LONG);
}

/* Whether the blocked stream waits for nothing that this file tells of, but for a collective or a function of the
 * program. */
static bool waits_otherwise(stream *s) { return !atomic_load(&s->waits_for) && !value_any() && !notify_any(); }

/* The usual cases, for which not all streams are looked at: s waits for an event, and the stream that is to record it
 * is not blocked itself, or waits otherwise, or waits likewise for one that is not. */
static bool will_surely_go_on(stream *s) {
  enum { MOST_STEPS = 8 };
  bool surely = false;
  object_ref(&s->o);
  for (int i = 0; s && !surely && i < MOST_STEPS; ++i) {
    uint64_t position;
    stream *source = event_source_of_wait(s, &position);
    surely = source ? !stream_is_blocked(source) : waits_otherwise(s);
    stream_unref(s);
    s = source;
  }
  if (s) stream_unref(s);
  return surely;
}

static void stall_look_at_all(stream *s, stall_watch *watch, uint64_t now) {
  stall_view *v = malloc(sizeof *v);
  if (!v) return;
  if (view_streams(v)) {
    connect_streams(v);
    const int index = stall_index(v, s);
    if (index >= 0) stall_judge(v, index, watch, now);
  }
  leave_streams(v);
  free(v);
}

__attribute__((cold)) uint64_t stall_look(stream *s, stall_watch *watch) {
  enum {
    FIRST_NS = 10 * 1000 * 1000
  }; /* other streams, which nobody waits for, may have come to their waits by then */
  const uint64_t now = now_ns();
  if (now < watch->next_ns) return watch->next_ns - now;
  watch->period_ns = watch->period_ns ? 4 * watch->period_ns : FIRST_NS;
  if (watch->period_ns > STALL_NS) watch->period_ns = STALL_NS;
  if (will_surely_go_on(s))
    watch->serial = 0;
  else
    stall_look_at_all(s, watch, now);
  watch->next_ns = now + watch->period_ns;
  const uint64_t due_ns = watch->since_ns + STALL_NS; /* when it is told of a wait that a call may still end */
  if (watch->serial && now < due_ns && due_ns < watch->next_ns) watch->next_ns = due_ns;
  return watch->next_ns - now;
}
