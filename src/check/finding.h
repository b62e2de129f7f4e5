/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker has found: one finding for each cause, counted. A cause is a kind, the places in the program and the
 * allocation's place; a finding that has these of an earlier one is counted there. Thread-safe; takes one lock, under
 * which only that of the stacks is taken, so hooks may call it. */
#ifndef CANNON_CHECK_FINDING_H
#define CANNON_CHECK_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check/check.h"

/* The kinds, as the JSON report has them. */
#define FINDING_KINDS(KIND)                                                                                            \
  KIND(LEAK, "leak")                                                                                                   \
  KIND(OUT_OF_BOUNDS, "out-of-bounds")                                                                                 \
  KIND(USE_AFTER_FREE, "use-after-free")                                                                               \
  KIND(DOUBLE_FREE, "double-free")                                                                                     \
  KIND(INVALID_FREE, "invalid-free")                                                                                   \
  KIND(UNINITIALIZED, "uninitialized")                                                                                 \
  KIND(RACE, "race")                                                                                                   \
  KIND(HOST_ACCESS, "host-access")                                                                                     \
  KIND(OVERLAP, "overlap")                                                                                             \
  KIND(MISUSE, "misuse")

typedef enum {
#define FINDING_KIND_NUMBER(name, word) FINDING_##name,
  FINDING_KINDS(FINDING_KIND_NUMBER)
#undef FINDING_KIND_NUMBER
      N_FINDING_KINDS
} finding_kind;

enum { FINDING_MESSAGE = 512, FINDING_NAME = 48 };

/* A place in the program that has to do with the finding. */
typedef struct {
  char what[FINDING_NAME]; /* the task or call: "Add", "memcpy", "aclrtFree"; empty: the place is not known */
  uint32_t stack;          /* of stack.h; 0: not known */
  int64_t stream;          /* the stream's number, or -1 */
  int device;              /* or -1 */
} finding_place;

typedef struct {
  finding_kind kind;
  char message[FINDING_MESSAGE]; /* complete sentences; the first says what happened, the last what to do */
  finding_place here;            /* where it happened */
  finding_place other;           /* the other side: an earlier access, the free, the writer */
  struct {
    uintptr_t address; /* 0: no allocation is concerned */
    uint64_t bytes;
    uint32_t stack;
    char call[FINDING_NAME]; /* the function that made it */
  } allocation;
  uint64_t first, bytes; /* the bytes concerned: an offset in the allocation, and how many; 0 bytes: not told */
  uint64_t count;        /* how often it happened; finding_report() takes 0 for 1 */
} finding;

/* Reports a finding of the calling thread. Where CANNON_CHECK_REPORT is set it is written at once, so that it is told
 * even if the process is killed. An empty here.stack is filled in with the calling thread's. */
void finding_report(const finding *f);

/* Formats a finding's message. */
__attribute__((format(printf, 2, 3))) void finding_say(finding *f, const char *format, ...);

const char *finding_word(finding_kind kind);

/* A copy of the findings so far, in the order in which they were found, which the caller frees; NULL if there are
 * none. */
finding *findings_copy(size_t *n);

/* In a forked child: forgets the parent's findings. */
void findings_forget(void);

/* Ends the report: at the end of the process, or when it is about to end by a fault. Only the first call does it. */
void findings_end(void);

#endif
