/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/callback.h"

#include <pthread.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "runtime/fpmode.h"
#include "runtime/scheduler.h"
#include "runtime/task_tell.h"

/* ---- host functions ---------------------------------------------------------------------------------------------- */

/* All kinds of tasks in this file order the host with the stream: the host's threads see what the stream has done, and
 * the stream sees what they do. */
static void host_orders(const task *t, hook_order *out) {
  (void)t;
  out->kind = HOOK_AWAITS;
  out->object = HOOK_BY_HOST;
}

static status run_host(task *t, stream *s) {
  lock_expect_none(NULL);
  if (hooks_tasks_wanted()) task_tell_step(HOOK_ENTERS, s);
  t->host.function(t->host.argument);
  task_tell_passed(s);
  fp_mode_enter(); /* the user's code may have changed the mode */
  return ST_OK;
}

static const task_kind host_kind = {
    .name = "host function", .run = run_host, .user_code = true, .again = true, .orders = host_orders};

static status run_library(task *t, stream *s) {
  if (hooks_tasks_wanted()) task_tell_step(HOOK_ENTERS, s);
  const status st = t->library.function(t->library.argument, false);
  task_tell_passed(s);
  return st;
}

static void drop_library(task *t, stream *s) {
  (void)s;
  (void)t->library.function(t->library.argument, true);
}

/* It may wait as long as a user's function. */
static const task_kind library_kind = {.name = "function of the library",
                                       .run = run_library,
                                       .drop = drop_library,
                                       .user_code = true,
                                       .orders = host_orders};

status library_function_submit(stream *s, library_function *function, void *argument) {
  task *t;
  TRY(stream_new_task(s, &library_kind, &t));
  t->cost_ns = TASK_COST_UNKNOWN;
  t->library.function = function;
  t->library.argument = argument;
  stream_submit(s, t);
  return ST_OK;
}

status host_function_submit(stream *s, void (*function)(void *), void *argument) {
  task *t;
  TRY(stream_new_task(s, &host_kind, &t));
  t->cost_ns = TASK_COST_UNKNOWN;
  t->host.function = function;
  t->host.argument = argument;
  stream_submit(s, t);
  return ST_OK;
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

/* A callback that its stream has reached and that has not returned. In a mailbox, then in the
 * list of those being called. */
typedef struct report {
  struct report *next;
  void (*function)(void *);
  void *argument;
  stream *blocked;  /* the stream to unblock afterwards, with a reference; or NULL. Guarded by the lock */
  hook_order order; /* the step of the stream that begins with it */
} report;

/* A subscription. There are few, and they change rarely, so that a list with one lock is sufficient. */
typedef struct subscription {
  struct subscription *next;
  uint64_t thread;
  stream *stream; /* without a reference: callback_forget() removes the entry when the stream is destroyed */
} subscription;

/* The callbacks that have arrived for a thread. There is one for each thread that is
 * subscribed or still has callbacks. */
typedef struct mailbox {
  struct mailbox *next;
  uint64_t thread;
  int device;
  unsigned n_streams;
  bool in_use; /* the thread waits in callback_process(), which frees the mailbox if it is not needed any more */
  pthread_cond_t arrived;
  report *first, **last;
} mailbox;

static mutex lock = MUTEX_INITIALIZER(CALLBACK); /* guards the three lists below */
static subscription *subscriptions;
static mailbox *mailboxes;
static report *being_called; /* the list of callbacks that threads are calling now */

static subscription **find_subscription(const stream *s) {
  subscription **link = &subscriptions;
  while (*link && (*link)->stream != s) link = &(*link)->next;
  return link;
}

static mailbox **find_mailbox(uint64_t thread) {
  mailbox **link = &mailboxes;
  while (*link && (*link)->thread != thread) link = &(*link)->next;
  return link;
}

#ifdef CANNON_INVARIANTS
static bool mailbox_is_valid(const mailbox *box) {
  unsigned n_streams = 0;
  for (const subscription *p = subscriptions; p; p = p->next)
    if (p->thread == box->thread && (++n_streams, p->stream->device != box->device)) return false;
  report *const *last = &box->first;
  for (; *last; last = &(*last)->next)
    if (!(*last)->function || ((*last)->blocked && !atomic_load(&(*last)->blocked->o.refs))) return false;
  return n_streams == box->n_streams && last == (report *const *)box->last && (n_streams || box->first || box->in_use);
}

/* Each subscribed thread has one mailbox, and each mailbox has a subscription, a report, or
 * a thread that looks at it. */
bool callbacks_are_valid(void) {
  for (const subscription *p = subscriptions; p; p = p->next)
    if (!*find_mailbox(p->thread)) return false;
  for (mailbox *box = mailboxes; box; box = box->next)
    if (*find_mailbox(box->thread) != box || !mailbox_is_valid(box)) return false;
  return true;
}
#endif

static mailbox *new_mailbox(uint64_t thread, int device) {
  mailbox *box = malloc(sizeof *box);
  if (!box) return NULL;
  *box = (mailbox){.next = mailboxes, .thread = thread, .device = device, .last = &box->first};
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&box->arrived, &attributes);
  pthread_condattr_destroy(&attributes);
  return mailboxes = box;
}

static status subscribe_locked(uint64_t thread, stream *s) {
  if (!atomic_load(&s->context)) return fail(ST_INVALID_VALUE, "stream %u was destroyed by another thread", s->id);
  if (*find_subscription(s)) return fail(ST_STREAM_SUBSCRIBED, "stream %u is subscribed already", s->id);
  mailbox *box = *find_mailbox(thread);
  if (box && box->device != s->device)
    return fail(ST_THREAD_SUBSCRIBED, "thread %ju serves device %d already, stream %u is of device %d",
                (uintmax_t)thread, box->device, s->id, s->device);
  subscription *added = malloc(sizeof *added);
  if (!added || (!box && !(box = new_mailbox(thread, s->device)))) {
    free(added);
    return fail(ST_NO_HOST_MEMORY, "no host memory for a subscription");
  }
  *added = (subscription){.next = subscriptions, .thread = thread, .stream = s};
  subscriptions = added;
  ++box->n_streams;
  INVARIANT_WALK(callbacks_are_valid());
  return ST_OK;
}

status callback_subscribe(uint64_t thread, stream *s) {
  mutex_lock(&lock);
  const status st = subscribe_locked(thread, s);
  mutex_unlock(&lock);
  return st;
}

static void drop_mailbox(mailbox **link) {
  mailbox *gone = *link;
  *link = gone->next;
  pthread_cond_destroy(&gone->arrived);
  free(gone);
}

/* Frees a mailbox to which no callback will come any more, or leaves that to the thread that waits for it. */
static void drop_if_done(mailbox **link) {
  mailbox *box = *link;
  if (box->n_streams || box->first) return;
  if (box->in_use)
    pthread_cond_signal(&box->arrived);
  else
    drop_mailbox(link);
}

static void drop_subscription(subscription **link) {
  subscription *gone = *link;
  mailbox **box_link = find_mailbox(gone->thread);
  *link = gone->next;
  free(gone);
  INVARIANT(*box_link && (*box_link)->n_streams);
  --(*box_link)->n_streams;
  drop_if_done(box_link);
  INVARIANT_WALK(callbacks_are_valid());
}

status callback_unsubscribe(uint64_t thread, stream *s) {
  mutex_lock(&lock);
  subscription **link = find_subscription(s);
  const bool found = *link && (*link)->thread == thread;
  if (found) drop_subscription(link);
  mutex_unlock(&lock);
  return found ? ST_OK
               : fail(ST_THREAD_SUBSCRIBED, "thread %ju is not subscribed for stream %u", (uintmax_t)thread, s->id);
}

void callback_forget(stream *s) {
  mutex_lock(&lock);
  subscription **link = find_subscription(s);
  if (*link) drop_subscription(link);
  mutex_unlock(&lock);
}

static status run_callback(task *t, stream *s) {
  if (atomic_exchange(&s->called, false)) {
    task_tell_passed(s);
    return ST_OK;
  }
  report *r = malloc(sizeof *r);
  if (!r) return fail(ST_NO_HOST_MEMORY, "no host memory for a callback");
  *r = (report){.function = t->host.function,
                .argument = t->host.argument,
                .order = {.kind = HOOK_ENTERS, .device = s->device, .stream = s->id, .position = s->q.next}};
  stream_await_unblock(s);
  mutex_lock(&lock);
  subscription *to = *find_subscription(s);
  mailbox *box = to ? *find_mailbox(to->thread) : NULL;
  if (box) {
    if (t->host.blocks) {
      object_ref(&s->o);
      r->blocked = s;
      atomic_store(&s->blocked, true);
    }
    *box->last = r;
    box->last = &r->next;
    pthread_cond_signal(&box->arrived);
  }
  INVARIANT_WALK(callbacks_are_valid());
  const bool blocks = t->host.blocks;
  mutex_unlock(&lock);
  if (!blocks) task_tell_passed(s);
  if (!box) {
    free(r);
    return fail(ST_NO_CALLBACK_THREAD, "stream %u has no subscribed thread any more", s->id);
  }
  return blocks ? TASK_BLOCKED : ST_OK;
}

static void report_free(report *r) {
  if (r->blocked) stream_unref(r->blocked);
  free(r);
}

/* Takes the callback that blocks the stream out of a mailbox; NULL if there is none in it. */
static report *callback_take_back(mailbox *box, const stream *s) {
  report **link = &box->first;
  while (*link && (*link)->blocked != s) link = &(*link)->next;
  report *r = *link;
  if (r && !(*link = r->next)) box->last = link;
  return r;
}

/* A callback that waits in a mailbox is not called any more. One that is being called goes on, but unblocks nothing. */
static void drop_callback(task *t, stream *s) {
  (void)t;
  report *r = NULL;
  mutex_lock(&lock);
  for (mailbox **link = &mailboxes; *link; link = &(*link)->next) {
    if (!(r = callback_take_back(*link, s))) continue;
    drop_if_done(link);
    break;
  }
  report *running = being_called;
  while (running && running->blocked != s) running = running->next;
  if (running) running->blocked = NULL;
  atomic_store(&s->called, false);
  atomic_store(&s->blocked, false);
  mutex_unlock(&lock);
  if (r) report_free(r);
  if (running) stream_unref(s);
}

static const task_kind callback_kind = {
    .name = "callback", .run = run_callback, .drop = drop_callback, .again = true, .orders = host_orders};

status callback_submit(stream *s, void (*function)(void *), void *argument, bool blocks) {
  mutex_lock(&lock);
  const bool served = *find_subscription(s);
  mutex_unlock(&lock);
  if (!served)
    return fail(ST_NO_CALLBACK_THREAD, "stream %u has no subscribed thread, expected aclrtSubscribeReport before",
                s->id);
  task *t;
  TRY(stream_new_task(s, &callback_kind, &t));
  t->cost_ns = TASK_COST_UNKNOWN;
  t->host.function = function;
  t->host.argument = argument;
  t->host.blocks = blocks;
  stream_submit(s, t);
  return ST_OK;
}

/* Waits for a callback until the deadline (0: none); false when that has passed. The lock is held on entry and return.
 * If the library lacks threads, it is released while this thread runs the streams that callbacks come from. */
static bool await_report(mailbox *box, uint64_t deadline_ns) {
  uint64_t end_ns = deadline_ns;
  if (unlikely(scheduler_lacks_threads())) {
    mutex_unlock(&lock);
    const bool went_on = scheduler_stand_in(deadline_ns);
    mutex_lock(&lock);
    if (box->first || !box->n_streams) return true;
    const uint64_t next_ns = now_ns() + (went_on ? 0 : SCHEDULER_TICK_NS);
    if (!end_ns || next_ns < end_ns) end_ns = next_ns;
  }
  const struct timespec end = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
  const int late = mutex_wait(&lock, &box->arrived, end_ns ? &end : NULL);
  return !late || end_ns != deadline_ns;
}

/* Moves the first callback for the thread to the list of those being called and returns it; NULL, and *st, if
 * none comes. The lock is held. */
static report *receive(uint64_t timeout_ns, status *st) {
  const uint64_t thread = (uint64_t)pthread_self(), deadline_ns = timeout_ns ? now_ns() + timeout_ns : 0;
  mailbox **link = find_mailbox(thread), *box = *link;
  if (!box) {
    *st = fail(ST_THREAD_SUBSCRIBED, "this thread is not subscribed, expected aclrtSubscribeReport before");
    return NULL;
  }
  box->in_use = true;
  while (!box->first && box->n_streams && await_report(box, deadline_ns)) continue;
  box->in_use = false;
  report *r = box->first;
  if (!r)
    *st = fail(ST_REPORT_TIMEOUT, "no callback arrived within %ju ms", (uintmax_t)(timeout_ns / 1000000));
  else if (!(box->first = r->next))
    box->last = &box->first;
  if (!box->first && !box->n_streams) drop_mailbox(find_mailbox(thread));
  if (!r) return NULL;
  r->next = being_called;
  return being_called = r;
}

/* Called when the user function has returned. */
static void callback_finish(report *r) {
  mutex_lock(&lock);
  report **link = &being_called;
  while (*link != r) link = &(*link)->next;
  *link = r->next;
  if (r->blocked) {
    atomic_store(&r->blocked->called, true);
    atomic_store(&r->blocked->released, true);
  }
  mutex_unlock(&lock);
  if (r->blocked) stream_unblock(r->blocked);
  report_free(r);
}

status callback_process(uint64_t timeout_ns) {
  status st = ST_OK;
  mutex_lock(&lock);
  report *r = receive(timeout_ns, &st);
  mutex_unlock(&lock);
  if (!r) return st;
  if (hooks_tasks_wanted()) hooks_order(r->order);
  r->function(r->argument);
  callback_finish(r);
  return ST_OK;
}
