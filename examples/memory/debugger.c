/* SPDX-License-Identifier: Apache-2.0 */
/* A memory debugger of the kind that articles build around aclrtMalloc: it remembers each block with the line that
 * allocated it, refuses wrong frees, and reports peak and leaks. It works on any CANN. Cannon has one that needs no
 * change of the program, `cannon run --leaks`, which finds the same:
 *
 *   build/debugger               the report of this program's own debugger
 *   cannon run --leaks debugger  Cannon's, in cannon-leaks.PID.txt
 *
 * The program forgets one block on purpose, and frees another twice. */
#include "common.h"

#include <string.h>

enum { MOST_BLOCKS = 64 };

static struct {
  void *block;
  size_t bytes;
  int line;
} blocks[MOST_BLOCKS];
static size_t live, peak;
static int n_wrong;

static void *debug_malloc(size_t bytes, int line) {
  int i = 0;
  void *p;
  CHECK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  while (i < MOST_BLOCKS && blocks[i].block) i++;
  expect(i < MOST_BLOCKS, "there are at most 64 blocks");
  blocks[i].block = p;
  blocks[i].bytes = bytes;
  blocks[i].line = line;
  live += bytes;
  if (live > peak) peak = live;
  return p;
}

static void debug_free(void *p, int line) {
  int i = 0;
  while (i < MOST_BLOCKS && blocks[i].block != p) i++;
  if (i == MOST_BLOCKS) {
    const aclError code = aclrtFree(p); /* which refuses it, with a message */
    printf("line %d: wrong free, refused with %d\n", line, code);
    n_wrong++;
    return;
  }
  CHECK(aclrtFree(p));
  live -= blocks[i].bytes;
  memset(&blocks[i], 0, sizeof blocks[i]);
}

#define MALLOC(bytes) debug_malloc((bytes), __LINE__)
#define FREE(p)       debug_free((p), __LINE__)

static void report(void) {
  int n = 0;
  printf("peak %zu KiB, live %zu KiB, %d wrong frees\n", peak >> 10, live >> 10, n_wrong);
  for (int i = 0; i < MOST_BLOCKS; i++) {
    if (!blocks[i].block) continue;
    printf("line %d: %zu KiB leaked\n", blocks[i].line, blocks[i].bytes >> 10);
    n++;
  }
  expect(n == 1 && n_wrong == 1, "one block is forgotten, one is freed twice");
}

int main(void) {
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  void *first = MALLOC(256 << 10), *second = MALLOC(512 << 10);
  MALLOC(128 << 10); /* forgotten */
  FREE(first);
  FREE(second);
  FREE(second); /* once too often */
  report();
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
