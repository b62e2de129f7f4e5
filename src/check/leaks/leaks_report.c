/* SPDX-License-Identifier: Apache-2.0 */
#include "check/leaks/leaks_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/device_number.h"
#include "base/sync.h"
#include "check/block_table.h"
#include "memory/fault.h"
#include "trace/stats_write.h"

/* Writes one code address on a line of its own, in the form that `cannon run` looks for. */
static void write_code(FILE *out, const char *before, void *code) {
  const stats_place place = trace_place(code);
  char name[192];
  fault_describe_site(code, name, sizeof name);
  fprintf(out, "    %s %s", before, name);
  if (place.module >= 0) fprintf(out, " [%s+%#" PRIx64 "]", trace_stats()->modules[place.module].path, place.offset);
  fputc('\n', out);
}

/* All live blocks with the same stack. */
typedef struct {
  const live_record *first;
  size_t n;
  uint64_t bytes;
} block_group;

static int by_stack(const void *a, const void *b) {
  const live_record *x = a, *y = b;
  const int stack = memcmp(x->frame, y->frame, sizeof x->frame);
  if (stack || x->bytes == y->bytes) return stack ? stack : (x->number > y->number) - (x->number < y->number);
  return x->bytes < y->bytes ? 1 : -1;
}

static int by_bytes(const void *a, const void *b) {
  const block_group *x = a, *y = b;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : (x->n < y->n) - (x->n > y->n);
}

/* Sorts the blocks and groups those with the same stack; groups has room for n, which may be 0. */
static size_t group(live_record *block, size_t n, block_group *groups) {
  size_t n_groups = 0;
  if (!n) return 0;
  qsort(block, n, sizeof *block, by_stack);
  for (size_t i = 0; i < n; ++i) {
    if (!i || memcmp(block[i].frame, block[i - 1].frame, sizeof block->frame) != 0)
      groups[n_groups++] = (block_group){.first = &block[i]};
    ++groups[n_groups - 1].n;
    groups[n_groups - 1].bytes += block[i].bytes;
  }
  qsort(groups, n_groups, sizeof *groups, by_bytes);
  return n_groups;
}

static void write_group(FILE *out, const block_group *g, uint64_t now) {
  fprintf(out, "\n%zu block%s of %" PRIu64 " bytes by %s\n", g->n, g->n == 1 ? "" : "s", g->bytes, g->first->call);
  for (unsigned i = 0; i < g->first->n_frames; ++i) write_code(out, "from", g->first->frame[i]);
  for (const live_record *b = g->first; b < g->first + g->n; ++b) {
    fprintf(out, "  %#" PRIxPTR ": %" PRIu64 " bytes, %s, allocation %" PRIu64 ", %.3f s old\n", b->address, b->bytes,
            device_in_words(b->device).text, b->number, (double)(now - b->born_ns) * 1e-9);
  }
}

static void write_bad_frees(FILE *out, const bad_free_record bad[], size_t n, uint64_t n_all) {
  static const char *const kinds[] = {"nothing there was allocated or freed before", "freed before", "in a live block"};
  if (n_all) fprintf(out, "\nWrong frees: %" PRIu64 "\n", n_all);
  for (size_t i = 0; i < n; ++i) {
    const freed_record *r = &bad[i].before;
    fprintf(out, "  %#" PRIxPTR ": %s\n", bad[i].address, kinds[bad[i].kind]);
    write_code(out, "from", bad[i].site);
    if (bad[i].kind != BAD_FREE_FREED) continue;
    write_code(out, "freed from", r->free_site);
    fprintf(out, "    allocation %" PRIu64 ", %" PRIu64 " bytes at %#" PRIxPTR " by %s\n", r->number, r->bytes,
            r->address, r->call);
    write_code(out, "from", r->alloc_site);
  }
  if (n_all > n) fprintf(out, "  %" PRIu64 " more\n", n_all - n);
}

void leaks_report_write(FILE *out, const char *occasion, const bad_free_record bad[], size_t n_bad,
                        uint64_t n_bad_all) {
  size_t n;
  live_record *block = block_table_copy(&n);
  const block_counts counts = block_table_counts();
  block_group *groups = malloc((n + 1) * sizeof *groups);
  const size_t n_groups = groups ? group(block, n, groups) : 0;
  fprintf(out, LEAKS_REPORT_BEGINS "%d (%s), %s\n", (int)getpid(), trace_stats()->program, occasion);
  fprintf(out, "Live blocks: %" PRIu64 ", %" PRIu64 " bytes; allocations: %" PRIu64 ", frees: %" PRIu64 "\n",
          counts.n_live, counts.live_bytes, counts.n_allocs, counts.n_frees);
  if (counts.n_unknown || counts.n_live > n)
    fprintf(out, "There was no memory to list %" PRIu64 " of them.\n", counts.n_unknown + counts.n_live - n);
  for (size_t i = 0; i < n_groups; ++i) write_group(out, &groups[i], now_ns());
  write_bad_frees(out, bad, n_bad, n_bad_all);
  fputc('\n', out);
  free(groups);
  free(block);
}
