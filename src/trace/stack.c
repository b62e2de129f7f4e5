/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/stack.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unwind.h>

#include "base/lock.h"

enum {
  OWN_FRAMES = 24, /* at most so many frames of this library lie between a hook and the program */
  ALL_FRAMES = OWN_FRAMES + STACK_FRAMES,
  MAX_STACKS = 1 << 18,
  MAX_LINES = 1 << 12, /* buckets of lines of Python */
};

/* Fibonacci hashing: 2^64 / golden ratio. */
#define SPREAD(hash, word) (((hash) ^ (uintptr_t)(word)) * UINT64_C(0x9e3779b97f4a7c15))

/* ---- the table of stacks ----------------------------------------------------------------------------------------- */

typedef struct known_line {
  struct known_line *next; /* of the same bucket */
  python_at at;
  python_line line;
} known_line;

typedef struct {
  uint32_t n, n_python, next; /* next: of the stacks with the same hash */
  python_line *line;          /* n_python */
  python_at *at;              /* n_python */
  void *frame[];
} stack_record;

static spinlock stacks_lock = SPINLOCK_INITIALIZER(STACKS); /* guards what follows */
static stack_record *records[MAX_STACKS];                   /* numbered from 1 */
static uint32_t n_records, first[1 << 12];
static known_line *lines[MAX_LINES];

/* What a thread has read of itself: all frames with those of this library, and Python's. */
typedef struct {
  uint32_t n, n_python;
  void *frame[ALL_FRAMES];
  uintptr_t slot[ALL_FRAMES]; /* where the return address lies on the stack; 0: not known */
  python_at python[PYTHON_FRAMES];
} raw_stack;

/* The program's part of it. */
typedef struct {
  uint32_t n, n_python;
  void *const *frame;
  const python_at *python;
} stack_view;

static uint32_t stack_find(uint32_t slot, const stack_view *s) {
  uint32_t i = first[slot];
  for (; i; i = records[i]->next) {
    const stack_record *r = records[i];
    if (r->n == s->n && r->n_python == s->n_python && memcmp(r->frame, s->frame, s->n * sizeof *s->frame) == 0 &&
        (!s->n_python || memcmp(r->at, s->python, s->n_python * sizeof *s->python) == 0))
      break;
  }
  return i;
}

/* The texts of a line. Code objects end, and others come to lie at their addresses, so the texts are compared. */
static python_line find_line(python_at at) {
  known_line **bucket = &lines[SPREAD((uintptr_t)at.code, at.at) >> 52], *k = *bucket;
  python_line line = python_frames_line(at);
  while (k && !(k->at.code == at.code && k->at.at == at.at && k->line.line == line.line && k->line.file && line.file &&
                strcmp(k->line.file, line.file) == 0))
    k = k->next;
  if (k) {
    free(line.file);
    free(line.function);
    return k->line;
  }
  known_line *added = malloc(sizeof *added); /* without it, the stack owns the texts */
  if (added) *added = (known_line){*bucket, at, line};
  if (added) *bucket = added;
  return line;
}

static uint32_t stack_add(uint32_t slot, const stack_view *s) {
  const size_t frames = s->n * sizeof *s->frame, python = s->n_python * (sizeof(python_line) + sizeof(python_at));
  if (n_records + 1 >= MAX_STACKS) return 0;
  stack_record *r = malloc(sizeof *r + frames + python);
  if (!r) return 0;
  *r = (stack_record){.n = s->n, .n_python = s->n_python, .next = first[slot]};
  if (frames) memcpy(r->frame, s->frame, frames);
  r->line = (python_line *)(void *)&r->frame[s->n];
  r->at = (python_at *)(void *)(r->line + s->n_python);
  for (uint32_t i = 0; i < s->n_python; ++i) {
    r->line[i] = find_line(s->python[i]);
    r->at[i] = s->python[i];
  }
  records[++n_records] = r;
  return first[slot] = n_records;
}

static uint32_t number_of(const stack_view *s) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < s->n; ++i) hash = SPREAD(hash, s->frame[i]);
  for (uint32_t i = 0; i < s->n_python; ++i)
    hash = SPREAD(hash, (uintptr_t)s->python[i].code + (uintptr_t)s->python[i].at);
  const uint32_t slot = (uint32_t)(hash >> 52);
  spin_lock(&stacks_lock);
  uint32_t number = stack_find(slot, s);
  if (!number) number = stack_add(slot, s);
  spin_unlock(&stacks_lock);
  return number;
}

static const stack_record *stack_at(uint32_t number) {
  spin_lock(&stacks_lock);
  const stack_record *r = number && number <= n_records ? records[number] : NULL;
  spin_unlock(&stacks_lock);
  return r;
}

uint32_t stack_frames(uint32_t number, void *const **frames) {
  const stack_record *r = stack_at(number);
  *frames = r ? r->frame : NULL;
  return r ? r->n : 0;
}

uint32_t stack_python(uint32_t number, const python_line **python) {
  const stack_record *r = stack_at(number);
  *python = r ? r->line : NULL;
  return r ? r->n_python : 0;
}

static bool is_of_package(const char *file) {
  return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") || file[0] == '<';
}

const python_line *stack_own_line(uint32_t number) {
  const python_line *line;
  const uint32_t n = stack_python(number, &line);
  for (uint32_t i = 0; i < n; ++i)
    if (line[i].file && !is_of_package(line[i].file)) return &line[i];
  return n && line[0].file ? &line[0] : NULL;
}

/* ---- this library's frames --------------------------------------------------------------------------------------- */

/* An object's executable segment. */
typedef struct {
  uintptr_t begin, end;
} code_range;

static code_range own_code, libc_code; /* this library's and the C library's; empty before stack_start() */
static uintptr_t program_entry;        /* _start */
static char own_path[PATH_MAX];

static bool is_in(code_range r, uintptr_t address) { return address >= r.begin && address < r.end; }

static int find_code(struct dl_phdr_info *info, size_t size, void *of_libc) {
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p->p_vaddr;
    const code_range code = {begin, begin + p->p_memsz};
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    if (is_in(code, (uintptr_t)of_libc)) libc_code = code;
    if (!is_in(code, (uintptr_t)&find_code)) continue;
    own_code = code;
    snprintf(own_path, sizeof own_path, "%s", info->dlpi_name);
  }
  return 0;
}

static bool is_own(const void *frame) { return is_in(own_code, (uintptr_t)frame); }

uint32_t stack_without_start(void *const *frame, uint32_t n) {
  enum { START_BYTES = 64 }; /* _start is shorter */
  uint32_t kept = n;
  if (kept && (uintptr_t)frame[kept - 1] - program_entry < START_BYTES) --kept;
  while (kept && is_in(libc_code, (uintptr_t)frame[kept - 1])) --kept;
  return kept ? kept : n;
}

/* ---- unwinding --------------------------------------------------------------------------------------------------- */

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *argument) {
  raw_stack *raw = argument;
  int is_interrupted = 0; /* by a signal: the address is that of the instruction itself, */
  const uintptr_t ip = _Unwind_GetIPInfo(context, &is_interrupted);
  if (!ip || raw->n == ALL_FRAMES) return _URC_END_OF_STACK;
  if (is_interrupted && raw->n) --raw->n;                    /* and the frame before is the kernel's */
  raw->frame[raw->n] = (void *)(ip + (is_interrupted != 0)); /* readers look at the byte before */
#if defined(__x86_64__)
  raw->slot[raw->n] = _Unwind_GetCFA(context) - sizeof(void *); /* the call has pushed it there */
#else
  raw->slot[raw->n] = 0;
#endif
  ++raw->n;
  return _URC_NO_REASON;
}

/* The program's part of the stack, which begins behind this library's frames. */
static stack_view program_part(const raw_stack *raw) {
  uint32_t begin = 0;
  while (begin < raw->n && is_own(raw->frame[begin])) ++begin;
  uint32_t n = raw->n - begin;
  if (raw->n < ALL_FRAMES) n = stack_without_start(raw->frame + begin, n); /* else the outer end is missing */
  if (n > STACK_FRAMES) n = STACK_FRAMES;
  return (stack_view){n, raw->n_python, raw->frame + begin, raw->python};
}

/* ---- what a thread remembers ------------------------------------------------------------------------------------- */

/* A stack that was unwound. It is found by where stack_take() was called from, by its own place on the stack, and by
 * the first return address in the program; then all return addresses are compared. A function of the library with an
 * array of varying length could be missed by that, if an old return address is left in the array; it has none. */
typedef struct {
  uintptr_t sp;
  uint32_t number, n, n_python;
  struct {
    uintptr_t slot;
    void *frame;
  } link[]; /* n, and behind them n_python of python_at */
} seen_stack;

/* Where the first return address in the program lies, for stacks that were taken from here. */
typedef struct {
  uintptr_t sp, slot;
  const void *caller;
} entry_place;

enum {
  SEEN_BITS = 12, /* a training step of a large model calls operators from some thousand places */
  ENTRY_BITS = 7,
  ENTRY_WAYS = 4, /* entry points of different depth call from one place: what makes handles does, of all kinds */
};

typedef struct {
  uintptr_t begin, end; /* of the thread's stack; what runs on another one is unwound each time */
  uint64_t n_unwound;
  entry_place entry[1 << ENTRY_BITS][ENTRY_WAYS];
  seen_stack *seen[1 << SEEN_BITS];
} thread_stacks;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static _Thread_local thread_stacks *own_stacks;

static void free_thread(void *stacks) {
  thread_stacks *t = stacks;
  own_stacks = NULL;
  for (int i = 0; i < 1 << SEEN_BITS; ++i) free(t->seen[i]);
  free(t);
}

static void make_key(void) { pthread_key_create(&thread_key, free_thread); }

static thread_stacks *make_thread(void) {
  pthread_attr_t attributes;
  void *begin;
  size_t bytes;
  thread_stacks *t = calloc(1, sizeof *t);
  pthread_once(&thread_once, make_key);
  if (!t) return NULL;
  if (!pthread_getattr_np(pthread_self(), &attributes)) {
    if (!pthread_attr_getstack(&attributes, &begin, &bytes)) {
      t->begin = (uintptr_t)begin;
      t->end = (uintptr_t)begin + bytes;
    }
    pthread_attr_destroy(&attributes);
  }
  pthread_setspecific(thread_key, t);
  return own_stacks = t;
}

static python_at *python_of(const seen_stack *s) { return (python_at *)(uintptr_t)&s->link[s->n]; }

/* Compares with the words on the stack, which lie between sp and the stack's end. */
__attribute__((no_sanitize("address", "thread"))) static bool is_seen(const seen_stack *s, uintptr_t sp,
                                                                      const python_at *python, uint32_t n_python) {
  if (s->sp != sp || s->n_python != n_python) return false;
  for (uint32_t i = 0; i < s->n; ++i)
    if (*(void *const *)s->link[i].slot != s->link[i].frame) return false; // NOLINT(performance-no-int-to-ptr)
  const python_at *before = python_of(s);
  for (uint32_t i = 0; i < n_python; ++i)
    if (before[i].code != python[i].code || before[i].at != python[i].at) return false;
  return true;
}

/* The slot of seen[] for what lies on the stack now. */
__attribute__((no_sanitize("address", "thread"))) static uint32_t seen_slot(const entry_place *e,
                                                                            const raw_stack *raw) {
  uint64_t hash = SPREAD(e->sp, *(void *const *)e->slot); // NOLINT(performance-no-int-to-ptr)
  if (raw->n_python) hash = SPREAD(SPREAD(hash, raw->python[0].code), raw->python[0].at);
  return (uint32_t)(hash >> (64 - SEEN_BITS));
}

/* The way of these that holds the place, or that it is to replace. */
static entry_place *entry_way(thread_stacks *t, entry_place *ways, entry_place place) {
  for (int i = 0; i < ENTRY_WAYS; ++i)
    if (memcmp(&ways[i], &place, sizeof place) == 0) return &ways[i];
  return &ways[t->n_unwound % ENTRY_WAYS];
}

/* Remembers the stack, if all of its return addresses are on the thread's stack, where they are expected. */
__attribute__((no_sanitize("address", "thread"))) static void
remember(thread_stacks *t, entry_place *ways, const void *caller, uintptr_t sp, const raw_stack *raw, uint32_t number) {
  uint32_t begin = 0;
  while (begin < raw->n && raw->slot[begin] < sp) ++begin; /* the frames of stack_take() and below */
  uint32_t own = begin;
  while (own < raw->n && is_own(raw->frame[own])) ++own;
  const uint32_t end = own + STACK_FRAMES < raw->n ? own + STACK_FRAMES : raw->n;
  if (own == raw->n || sp < t->begin || !number) return;
  for (uint32_t i = begin; i < end; ++i) {
    if (raw->slot[i] < sp || raw->slot[i] >= t->end) return;
    if (*(void *const *)raw->slot[i] != raw->frame[i]) return; // NOLINT(performance-no-int-to-ptr)
  }
  const entry_place here = {sp, raw->slot[own], caller};
  entry_place *e = entry_way(t, ways, here);
  *e = here;
  seen_stack **place = &t->seen[seen_slot(e, raw)];
  free(*place);
  const uint32_t n = end - begin;
  seen_stack *s = *place = malloc(sizeof *s + n * sizeof *s->link + raw->n_python * sizeof *raw->python);
  if (!s) return;
  s->sp = sp;
  s->number = number;
  s->n = n;
  s->n_python = raw->n_python;
  for (uint32_t i = 0; i < n; ++i) {
    s->link[i].slot = raw->slot[begin + i];
    s->link[i].frame = raw->frame[begin + i];
  }
  if (raw->n_python) memcpy(python_of(s), raw->python, raw->n_python * sizeof *raw->python);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* glibc 2.36 loads what an ELF filter names (libascendcl.so: this library) without telling _dl_find_object of it, by
 * which frames are unwound and addresses are described. Opening the library once more tells it. */
static void make_findable(void) {
  struct dl_find_object found;
  if (!_dl_find_object((void *)own_code.begin, &found) || !own_path[0]) return;
  dlopen(own_path, RTLD_NOW | RTLD_NOLOAD); // NOLINT: stays open
}

static void start_once(void) {
  raw_stack raw = {0};
  program_entry = getauxval(AT_ENTRY);
  dl_iterate_phdr(find_code, dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  make_findable();
  _Unwind_Backtrace(note_frame, &raw); /* the first call may load a library, which must not happen in a hook */
  python_frames_start();
}

void stack_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_once);
}

void stack_renew(void) { spin_init(&stacks_lock, LOCK_STACKS); }

__attribute__((noinline)) uint32_t stack_take(void) {
  raw_stack raw;
  thread_stacks *t = own_stacks ? own_stacks : make_thread();
  const void *caller = __builtin_return_address(0);
  const uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
  raw.n = 0;
  raw.n_python = python_frames_take(raw.python);
  entry_place *ways = t ? t->entry[SPREAD((uintptr_t)caller, sp) >> (64 - ENTRY_BITS)] : NULL;
  for (const entry_place *e = ways; e && e < ways + ENTRY_WAYS; ++e) {
    if (e->sp != sp || e->caller != caller) continue;
    const seen_stack *s = t->seen[seen_slot(e, &raw)];
    if (s && is_seen(s, sp, raw.python, raw.n_python)) return s->number;
  }
  _Unwind_Backtrace(note_frame, &raw);
  const stack_view view = program_part(&raw);
  const uint32_t number = number_of(&view);
  if (t) {
    ++t->n_unwound;
    remember(t, ways, caller, sp, &raw, number);
  }
  return number;
}

uint64_t stack_n_unwound(void) { return own_stacks ? own_stacks->n_unwound : 0; }
