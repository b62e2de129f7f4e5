/* SPDX-License-Identifier: Apache-2.0 */
#include "check/order_state.h"

#include <stdlib.h>
#include <string.h>

enum {
  MARKS = 4,            /* of an object, that are known apart: waits are for the latest one, or a few before */
  MAX_QUEUED = 1 << 16, /* of one stream; it is taken to have passed its wait then */
  SLOTS = 1 << 10
};

/* What the host knew when something was submitted. */
typedef struct {
  uint32_t refs;
  uint64_t version;
  vclock clock;
} host_view;

/* What waits in the queue of a stalled stream. */
typedef struct item {
  struct item *next;
  enum { ITEM_USES, ITEM_FREE, ITEM_STEP } kind;
  host_view *view; /* with a reference */
  hook_order step;
  uint32_t what, n;
  order_use uses[]; /* of a free, one: the block */
} item;

struct order_stream_state {
  order_stream_state *next; /* in its slot */
  order_stream_state *next_stalled;
  int device;
  uint32_t number;
  component c;
  uint64_t seen;         /* the version of the host's clock that its own has */
  uint64_t passed_below; /* the stream is known to have passed all waits at lower positions */
  item *first, **last;   /* the queue: empty, or the first item is a wait that is not over */
  uint32_t n_queued;
  bool is_stalled; /* it is in the list */
};

typedef struct {
  uint64_t generation;
  vclock clock;
} object_mark;

typedef struct object {
  struct object *next;
  hook_object kind;
  uint64_t number;
  unsigned n_marks, room;
  object_mark *marks;
  uint64_t told_through; /* all marks up to this generation were told; those that are not in `marks` are in `old` */
  vclock old;            /* of all signals that are not in `marks` */
} object;

static component host;
static uint64_t host_version = 1; /* raised whenever the host's clock changes */
static host_view *latest_view;    /* with a reference; NULL, or that of a version */

static order_stream_state *streams[SLOTS], *stalled;
static uint32_t n_components = 1, *free_components, n_free_components, room_free_components;
static object *objects[SLOTS];
static bool has_signalled; /* since stalled streams were looked at */

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static void host_learns(const vclock *clock) {
  if (vclock_join(&host.clock, clock)) ++host_version;
}

static void view_release(host_view *v) {
  if (!v || --v->refs) return;
  vclock_free(&v->clock);
  free(v);
}

/* The host's present clock, with a reference; NULL without memory. */
static host_view *view_take(void) {
  if (!latest_view || latest_view->version != host_version) {
    view_release(latest_view);
    latest_view = calloc(1, sizeof *latest_view);
    if (!latest_view) return NULL;
    latest_view->refs = 1;
    latest_view->version = host_version;
    vclock_copy(&latest_view->clock, component_pass(&host));
  }
  ++latest_view->refs;
  return latest_view;
}

void order_host_uses(const order_use *uses, uint32_t n, uint32_t what) {
  const uint64_t before = vclock_at(&host.clock, ORDER_HOST);
  if (component_stamp(&host) != before) ++host_version;
  order_run_uses(&host, uses, n, what);
}

void order_host_free(history_block *b, uint32_t what) { order_run_free(&host, b, b->serial, what); }

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static order_stream_state **order_find_stream(int device, uint32_t number) {
  order_stream_state **link = &streams[(number * 31 + (uint32_t)device) % SLOTS];
  while (*link && !((*link)->number == number && (*link)->device == device)) link = &(*link)->next;
  return link;
}

order_stream_state *order_stream(int device, uint32_t number) {
  order_stream_state **link = order_find_stream(device, number);
  if (*link) return *link;
  order_stream_state *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->device = device;
  s->number = number;
  s->last = &s->first;
  s->c.number = n_free_components ? free_components[--n_free_components] : n_components++;
  s->c.has_passed = true; /* the stamps of the component's former stream */
  vclock_copy(&s->c.clock, component_pass(&host));
  s->seen = host_version;
  return *link = s;
}

static void give_component(uint32_t number) {
  if (n_free_components == room_free_components) {
    const uint32_t room = 2 * room_free_components + 16;
    uint32_t *more = realloc(free_components, room * sizeof *more);
    if (!more) return;
    free_components = more;
    room_free_components = room;
  }
  free_components[n_free_components++] = number;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static object **find_object(hook_object kind, uint64_t number) {
  object **link = &objects[((number ^ number >> 3) * 5 + kind) % SLOTS];
  while (*link && !((*link)->number == number && (*link)->kind == kind)) link = &(*link)->next;
  return link;
}

/* Between processes and ranks, order passes on ways that are unseen: they are one object. */
static uint64_t object_number(const hook_order *o) { return o->object == HOOK_BY_OUTSIDE ? 0 : o->number; }

static object *object_of(const hook_order *o) {
  object **link = find_object(o->object, object_number(o));
  if (*link) return *link;
  object *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return NULL;
  fresh->kind = o->object;
  fresh->number = object_number(o);
  return *link = fresh;
}

static void object_remove(object **link) {
  object *gone = *link;
  *link = gone->next;
  for (unsigned i = 0; i < gone->room; ++i) vclock_free(&gone->marks[i].clock);
  free(gone->marks);
  vclock_free(&gone->old);
  free(gone);
}

static object_mark *object_find_mark(const object *x, uint64_t generation) {
  for (object_mark *m = x->marks; m < x->marks + x->n_marks; ++m)
    if (m->generation == generation) return m;
  return NULL;
}

/* The place for a mark: a new one, or that of the oldest. That is kept if an earlier one is still to be told: records
 * in stalled streams are told late. NULL without memory. */
static object_mark *object_new_mark(object *x) {
  object_mark *oldest = x->marks;
  for (object_mark *m = x->marks; m < x->marks + x->n_marks; ++m)
    if (m->generation < oldest->generation) oldest = m;
  if (x->n_marks >= MARKS && oldest->generation <= x->told_through) {
    vclock_join(&x->old, &oldest->clock);
    return oldest;
  }
  if (x->n_marks == x->room) {
    const unsigned room = x->room ? 2 * x->room : MARKS;
    object_mark *more = realloc(x->marks, room * sizeof *more);
    if (!more) return NULL;
    memset(more + x->room, 0, (room - x->room) * sizeof *more);
    x->marks = more;
    x->room = room;
  }
  return &x->marks[x->n_marks++];
}

static void object_signal(const hook_order *o, const vclock *clock) {
  object *x = object_of(o);
  has_signalled = true;
  if (!x) return;
  if (!o->generation) {
    vclock_join(&x->old, clock);
    return;
  }
  object_mark *m = object_new_mark(x);
  if (!m) return;
  m->generation = o->generation;
  vclock_copy(&m->clock, clock);
  while (object_find_mark(x, x->told_through + 1)) ++x->told_through;
}

/* Joins the clock of the mark; false if it was not told yet. */
static bool object_join_mark(const object *x, uint64_t generation, vclock *to) {
  const object_mark *m = object_find_mark(x, generation);
  if (!m && generation > x->told_through) return false;
  vclock_join(to, m ? &m->clock : &x->old);
  return true;
}

static void object_join_all(const object *x, vclock *to) {
  for (unsigned i = 0; i < x->n_marks; ++i) vclock_join(to, &x->marks[i].clock);
  vclock_join(to, &x->old);
}

/* ---- running what is submitted ----------------------------------------------------------------------------------- */

static component *find_component(uint32_t number) {
  if (number == ORDER_HOST) return &host;
  for (int i = 0; i < SLOTS; ++i)
    for (order_stream_state *s = streams[i]; s; s = s->next)
      if (s->c.number == number) return &s->c;
  return NULL;
}

/* What lets a stream pass besides marks: somebody who has written the word by a copy or a kernel, and the host, which
 * may have told another process to record. */
static void join_unmarked(order_stream_state *s, const hook_order *o) {
  const touch *writer = o->object == HOOK_BY_WORD ? order_writer((uintptr_t)o->number) : NULL;
  component *by = writer ? find_component(writer->component) : NULL;
  if (o->object == HOOK_BY_OUTSIDE && o->number) by = &host;
  if (by && by != &s->c) vclock_join(&s->c.clock, component_pass(by));
}

/* Joins what the wait brings; false if the stream is stalled by it. */
static bool try_wait(order_stream_state *s, const hook_order *o) {
  const bool passed = o->position < s->passed_below;
  if (o->object == HOOK_BY_HOST) {
    if (passed) vclock_join(&s->c.clock, component_pass(&host));
    return passed;
  }
  if (o->object == HOOK_BY_EVENT && !o->generation) return true;
  const object *x = *find_object(o->object, object_number(o));
  if (x && o->generation && object_join_mark(x, o->generation, &s->c.clock)) return true;
  if (x && passed) object_join_all(x, &s->c.clock);
  if (passed) join_unmarked(s, o);
  return passed;
}

/* False if it is a wait that is not over. */
static bool run_step(order_stream_state *s, const hook_order *o) {
  if (o->kind == HOOK_AWAITS) return try_wait(s, o);
  object_signal(o, component_pass(&s->c));
  return true;
}

static bool run_item(order_stream_state *s, const item *i) {
  if (i->view) vclock_join(&s->c.clock, &i->view->clock);
  switch (i->kind) {
  case ITEM_USES: order_run_uses(&s->c, i->uses, i->n, i->what); break;
  case ITEM_FREE: order_run_free(&s->c, i->uses[0].block, i->uses[0].serial, i->what); break;
  case ITEM_STEP: return run_step(s, &i->step);
  }
  return true;
}

static void run_queue(order_stream_state *s) {
  item *i;
  while ((i = s->first) && run_item(s, i)) {
    s->first = i->next;
    if (!s->first) s->last = &s->first;
    --s->n_queued;
    view_release(i->view);
    free(i);
  }
}

/* Lets streams go on whose waits are over, until there is none. */
static void order_settle(void) {
  do {
    has_signalled = false;
    for (order_stream_state **link = &stalled, *s; (s = *link);) {
      run_queue(s);
      if (s->first) {
        link = &s->next_stalled;
        continue;
      }
      *link = s->next_stalled;
      s->is_stalled = false;
    }
  } while (has_signalled && stalled);
}

/* The stream has passed all that is queued, whatever is known of it. */
static void force(order_stream_state *s) {
  if (!s->first) return;
  const uint64_t before = s->passed_below;
  s->passed_below = UINT64_MAX;
  order_settle();
  s->passed_below = before;
}

/* ---- submitting -------------------------------------------------------------------------------------------------- */

static void see_host(order_stream_state *s) {
  if (s->seen == host_version) return;
  vclock_join(&s->c.clock, component_pass(&host));
  s->seen = host_version;
}

/* Queues what can't be run now. Without memory it is forgotten. */
static void queue_item(order_stream_state *s, const item *like, const order_use *uses) {
  if (s->n_queued >= MAX_QUEUED) force(s);
  item *i = malloc(sizeof *i + like->n * sizeof *uses);
  if (!i) return;
  *i = *like;
  i->next = NULL;
  i->view = view_take();
  if (like->n) memcpy(i->uses, uses, like->n * sizeof *uses);
  *s->last = i;
  s->last = &i->next;
  ++s->n_queued;
  if (s->is_stalled) return;
  s->is_stalled = true;
  s->next_stalled = stalled;
  stalled = s;
}

void order_submit_uses(order_stream_state *s, const order_use *uses, uint32_t n, uint32_t what) {
  if (!s) return;
  if (s->first) {
    queue_item(s, &(item){.kind = ITEM_USES, .what = what, .n = n}, uses);
    return;
  }
  see_host(s);
  order_run_uses(&s->c, uses, n, what);
}

void order_submit_free(order_stream_state *s, history_block *b, uint32_t what) {
  if (!s) return;
  if (s->first) {
    queue_item(s, &(item){.kind = ITEM_FREE, .what = what, .n = 1}, &(order_use){.block = b, .serial = b->serial});
    return;
  }
  see_host(s);
  order_run_free(&s->c, b, b->serial, what);
}

static void order_submit_step(order_stream_state *s, const hook_order *o) {
  if (!s) return;
  if (!s->first) {
    see_host(s);
    if (run_step(s, o)) {
      if (has_signalled && stalled) order_settle();
      return;
    }
  }
  queue_item(s, &(item){.kind = ITEM_STEP, .step = *o}, NULL);
}

static void pass_below(order_stream_state *s, uint64_t position) {
  if (position > s->passed_below) s->passed_below = position;
  if (s->first) order_settle();
}

static void host_awaits_mark(const hook_order *o) {
  const object *x = *find_object(o->object, object_number(o));
  vclock clock = {0};
  if (x && object_join_mark(x, o->generation, &clock)) host_learns(&clock);
  vclock_free(&clock);
}

static void drop_stream(order_stream_state **link) {
  order_stream_state *s = *link;
  if (!s) return;
  force(s);
  host_learns(component_pass(&s->c));
  for (order_stream_state **at = &stalled; s->is_stalled && *at; at = &(*at)->next_stalled)
    if (*at == s) {
      *at = s->next_stalled;
      break;
    }
  *link = s->next;
  give_component(s->c.number);
  vclock_free(&s->c.clock);
  free(s);
}

void order_step(const hook_order *o) {
  order_stream_state *s;
  object **x;
  switch (o->kind) {
  case HOOK_SIGNALS:
  case HOOK_AWAITS: order_submit_step(order_stream(o->device, o->stream), o); break;
  case HOOK_ENTERS:
    if (!(s = *order_find_stream(o->device, o->stream))) break;
    pass_below(s, o->position);
    host_learns(component_pass(&s->c));
    break;
  case HOOK_RESUMES:
    if ((s = *order_find_stream(o->device, o->stream))) pass_below(s, o->position + 1);
    break;
  case HOOK_STREAM_AWAITED:
    if (!(s = *order_find_stream(o->device, o->stream))) break;
    force(s);
    host_learns(component_pass(&s->c));
    break;
  case HOOK_MARK_AWAITED: host_awaits_mark(o); break;
  case HOOK_STREAM_GONE: drop_stream(order_find_stream(o->device, o->stream)); break;
  case HOOK_OBJECT_GONE:
    if (*(x = find_object(o->object, object_number(o)))) object_remove(x);
    break;
  }
}

void order_each_queued(const history_block *b, void (*visit)(void *argument, const order_use *u, uint32_t what),
                       void *argument) {
  for (const order_stream_state *s = stalled; s; s = s->next_stalled)
    for (const item *i = s->first; i; i = i->next)
      for (uint32_t k = 0; i->kind == ITEM_USES && k < i->n; ++k)
        if (i->uses[k].block == b && i->uses[k].serial == b->serial) visit(argument, &i->uses[k], i->what);
}
