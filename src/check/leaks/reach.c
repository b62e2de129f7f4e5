/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is divided into areas. Roots are scanned at first; an area that is no root once a scanned word leads to it. An
 * area is a chunk of the main heap, which glibc lays out one behind the other, or else a whole private mapping. */
#include "check/leaks/reach.h"

#include <dirent.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include "base/store/sparse.h"

/* MOST_BYTES: a larger mapping holds data rather than pointers. ALL_BYTES bounds the time, to some half second. */
enum { WORD = sizeof(uintptr_t), MAX_GUARD = 1 << 16, PIECE = 1 << 16, MAX_THREADS = 1024, MAX_AREAS = 1 << 23 };
static const uint64_t MOST_BYTES = UINT64_C(64) << 20, ALL_BYTES = UINT64_C(1) << 30;

typedef struct {
  uintptr_t begin, end;
  bool seen;
} area;

typedef struct {
  reach_value *values;
  size_t n_values, n_areas, n_waiting;
  area *areas;       /* by address; outside of the heap, since they hold addresses of what is in it */
  uint32_t *waiting; /* areas to be scanned */
  uint64_t left;     /* of ALL_BYTES */
  uintptr_t stack_pointer[MAX_THREADS]; /* of live threads */
  size_t n_threads;
  uint64_t inverted_low, inverted_high; /* bounds of the values, for a fast answer */
} search;

static _Thread_local char of_thread; /* stands for the thread's own variables, which lead to what this library caches */

/* ---- scanning ---------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  const uint64_t x = ((const reach_value *)a)->inverted, y = ((const reach_value *)b)->inverted;
  return x < y ? -1 : x > y;
}

static void meet_value(search *s, uint64_t inverted) {
  if (inverted < s->inverted_low || inverted > s->inverted_high) return;
  size_t low = 0, high = s->n_values;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (s->values[middle].inverted < inverted)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < s->n_values && s->values[low].inverted == inverted; ++low) s->values[low].is_reachable = true;
}

static void meet_area(search *s, uintptr_t word) {
  size_t low = 0, high = s->n_areas;
  if (!high || word < s->areas[0].begin || word >= s->areas[high - 1].end) return;
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    if (s->areas[middle].begin <= word)
      low = middle;
    else
      high = middle;
  }
  if (word >= s->areas[low].end || s->areas[low].seen) return;
  s->areas[low].seen = true;
  s->waiting[s->n_waiting++] = (uint32_t)low;
}

/* Reads the memory by a system call, as other threads may unmap it meanwhile. */
static void scan(search *s, uintptr_t begin, uintptr_t end) {
  static uintptr_t words[PIECE / WORD];
  begin = (begin + WORD - 1) & -(uintptr_t)WORD;
  while (begin + WORD <= end && s->left) {
    const size_t bytes = end - begin < PIECE ? (end - begin) & -(size_t)WORD : PIECE;
    const struct iovec to = {words, bytes}, from = {(void *)begin, bytes};
    const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (got <= 0) return;
    for (size_t i = 0; i < (size_t)got / WORD; ++i) {
      if (!words[i]) continue;
      meet_value(s, ~(uint64_t)words[i]);
      meet_area(s, words[i]);
    }
    begin += bytes;
    s->left -= bytes < s->left ? bytes : s->left;
  }
}

/* ---- areas ------------------------------------------------------------------------------------------------------- */

static void add_area(search *s, uintptr_t begin, uintptr_t end) {
  if (s->n_areas < MAX_AREAS) s->areas[s->n_areas++] = (area){begin, end, false};
}

/* The chunks of glibc's main heap: a header of two words, of which the second has the size and three flags. The first
 * chunk is the cache of freed ones, which must not lead to them. False if the memory does not look like that. */
static bool add_chunks(search *s, uintptr_t begin, uintptr_t end) {
  enum { HEADER = 2 * WORD, FLAGS = 7, LEAST = 4 * WORD };
  const size_t n_before = s->n_areas;
  for (uintptr_t at = begin; at + LEAST <= end;) {
    const uintptr_t bytes = ((const uintptr_t *)at)[1] & ~(uintptr_t)FLAGS;
    if (bytes < LEAST || bytes % HEADER || bytes > end - at) {
      s->n_areas = n_before;
      return false;
    }
    const bool is_top = at + bytes + LEAST > end;
    if (at != begin && !is_top) add_area(s, at + HEADER, at + bytes + WORD);
    at += bytes;
  }
  return true;
}

/* Whether it is a library whose own data does not count: this one, the C library and the loader. Their memory of what
 * was freed would lead to everything. */
static bool is_system(const struct dl_phdr_info *info) {
  const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
  if (strncmp(name, "libc.so", 7) == 0 || strncmp(name, "ld-", 3) == 0 || strstr(name, "vdso")) return true;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)&is_system - begin < info->dlpi_phdr[i].p_memsz) return true;
  }
  return false;
}

typedef struct {
  uintptr_t begin, end;
  bool found;
} range;

static int find_system(struct dl_phdr_info *info, size_t size, void *argument) {
  range *r = argument;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum && !r->found; ++i) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p->p_vaddr;
    r->found = p->p_type == PT_LOAD && begin < r->end && r->begin < begin + p->p_memsz && is_system(info);
  }
  return r->found;
}

/* The heap and other private memory; not files, nor what is too large, nor stacks. A mapping behind a guard is the
 * stack of a thread: of a live one it is a root, and of one that is over it means nothing. */
static void add_mapping(search *s, uintptr_t begin, uintptr_t end, bool is_guarded, const char *path) {
  const bool is_heap = strcmp(path, "[heap]") == 0;
  if (is_heap && add_chunks(s, begin, end)) return;
  if (is_guarded || (path[0] && !is_heap) || end - begin > MOST_BYTES) return;
  if ((uintptr_t)&of_thread >= begin && (uintptr_t)&of_thread < end) return;
  if (sparse_is_in(begin, end)) return; /* of this library, with the objects themselves */
  range data = {begin, end, false};     /* what a library's file leaves out of its data is such a mapping, too */
  dl_iterate_phdr(find_system, &data);
  if (data.found) return;
  add_area(s, begin, end);
}

static void scan_stack(search *s, uintptr_t begin, uintptr_t end, bool is_guarded, const char *path) {
  (void)is_guarded;
  (void)path;
  for (size_t i = 0; i < s->n_threads; ++i)
    if (s->stack_pointer[i] >= begin && s->stack_pointer[i] < end) return scan(s, s->stack_pointer[i], end);
}

/* Calls use() for each private mapping that can be written. */
static void each_mapping(search *s, void (*use)(search *, uintptr_t, uintptr_t, bool, const char *)) {
  FILE *f = fopen("/proc/self/maps", "re");
  char line[512], flags[8];
  uintptr_t begin, end, guard_end = 0;
  while (f && fgets(line, sizeof line, f)) {
    int at = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %*s %n", &begin, &end, flags, &at) < 3) continue;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(flags, "---", 3) == 0 && end - begin <= MAX_GUARD) guard_end = end;
    if (strncmp(flags, "rw", 2) == 0 && flags[3] == 'p') use(s, begin, end, begin == guard_end, at ? line + at : "");
  }
  if (f) fclose(f);
}

/* ---- roots ------------------------------------------------------------------------------------------------------- */

static int scan_data(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size;
  if (is_system(info)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_LOAD && p->p_flags & PF_W) scan(argument, begin, begin + p->p_memsz);
  }
  return 0;
}

/* The frames of exit(), and of what it calls, lie where main()'s were if that has returned. So the stack begins with
 * the first frame that is not of the C library or this one. */
static _Unwind_Reason_Code reach_find_program(struct _Unwind_Context *context, void *argument) {
  uintptr_t *stack_pointer = argument;
  const uintptr_t pc = _Unwind_GetIP(context);
  range code = {pc, pc + 1, false};
  *stack_pointer = _Unwind_GetCFA(context);
  dl_iterate_phdr(find_system, &code);
  return code.found ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/* The system tells the stack pointers of threads that wait. The few that run at the end of a process are left out. */
static void find_threads(search *s) {
  _Unwind_Backtrace(reach_find_program, &s->stack_pointer[s->n_threads++]);
  DIR *threads = opendir("/proc/self/task");
  for (const struct dirent *d; threads && (d = readdir(threads)) && s->n_threads < MAX_THREADS;) {
    char path[64], text[256];
    uintptr_t pointer;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/syscall", d->d_name);
    FILE *f = strtol(d->d_name, NULL, 10) == gettid() ? NULL : fopen(path, "re");
    if (f && fgets(text, sizeof text, f) && sscanf(text, "%*s %*s %*s %*s %*s %*s %*s %" SCNxPTR, &pointer) == 1)
      s->stack_pointer[s->n_threads++] = pointer;
    if (f) fclose(f);
  }
  if (threads) closedir(threads);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b) {
  const area *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void reach_find(reach_value *values, size_t n) {
  static search s;
  if (!n) return;
  qsort(values, n, sizeof *values, by_value);
  s = (search){.values = values, .n_values = n, .left = ALL_BYTES};
  s.inverted_low = values[0].inverted;
  s.inverted_high = values[n - 1].inverted;
  s.areas = sparse_new(MAX_AREAS * sizeof *s.areas);
  s.waiting = sparse_new(MAX_AREAS * sizeof *s.waiting);
  find_threads(&s);
  if (s.areas && s.waiting) each_mapping(&s, add_mapping);
  qsort(s.areas, s.n_areas, sizeof *s.areas, by_begin);
  dl_iterate_phdr(scan_data, &s);
  each_mapping(&s, scan_stack);
  while (s.n_waiting) {
    const area a = s.areas[s.waiting[--s.n_waiting]];
    scan(&s, a.begin, a.end);
  }
  sparse_drop(s.areas, MAX_AREAS * sizeof *s.areas);
  sparse_drop(s.waiting, MAX_AREAS * sizeof *s.waiting);
}
