/* SPDX-License-Identifier: Apache-2.0
 *
 * The static memory planner: given buffers with sizes and lifetimes, offsets in one arena so that no two that live
 * together overlap, and the arena is as small as can be. It depends on nothing of the runtime.
 *
 * A call keeps no state behind it and any number of them may run at once. What it needs it allocates at its start, in one
 * piece linear in the problem and in the number of threads; nothing is allocated per buffer after that.
 *
 * The same problem, seed and max_nodes give the same offsets, whatever the number of threads, as long as neither the
 * time limit nor a cancellation ends the call.
 */
#ifndef CANNON_PLAN_H
#define CANNON_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CANNON_PLAN_ANYWHERE  UINT64_MAX /* an offset: the planner's choice */
#define CANNON_PLAN_NO_BUFFER UINT32_MAX

/* A time inside a buffer's life in which it needs only [window_lower, window_upper) of its bytes; an empty window: none.
 * Contents outside of the window are lost. */
typedef struct {
  uint64_t lower, upper; /* half-open */
  uint64_t window_lower, window_upper;
} cannon_plan_gap;

typedef struct {
  uint64_t size;         /* in bytes; 0: takes no room */
  uint64_t lower, upper; /* life, half-open: it is there at times lower to upper - 1; lower < upper */
  uint64_t alignment;    /* of its offset, any number; 0 is 1 */
  uint64_t offset;       /* it must lie there, a multiple of alignment; CANNON_PLAN_ANYWHERE */
  uint32_t in_place_of;  /* it must have the offset of this buffer, with which it may overlap; CANNON_PLAN_NO_BUFFER */
  uint32_t n_gaps;
  size_t
      first_gap; /* its gaps are gaps[first_gap] to gaps[first_gap + n_gaps - 1], ascending, apart, inside its life */
} cannon_plan_buffer;

/* Two buffers that may overlap although they live together. They need not. */
typedef struct {
  uint32_t a, b;
} cannon_plan_alias;

/* At most 2^30 buffers and 2^30 gaps; sizes, each rounded up to its alignment, add up to at most 2^61. */
typedef struct {
  const cannon_plan_buffer *buffers;
  size_t n_buffers;
  const cannon_plan_gap *gaps;
  size_t n_gaps;
  const cannon_plan_alias *aliases;
  size_t n_aliases;
} cannon_plan_problem;

typedef struct {
  uint64_t peak;      /* of the best plan so far: the largest offset + size (of what is needed at some time) */
  uint64_t bound;     /* proved: no plan has a lower peak */
  const char *method; /* what found it: a text that stays */
  uint64_t nodes;     /* work so far: buffers placed by searches and by greedy passes, roughly */
  double seconds;     /* since the call */
} cannon_plan_progress;

typedef struct {
  uint64_t capacity;  /* the first plan with at most this peak will do; 0: the smallest peak that is found */
  double seconds;     /* limit, roughly; 0: none. A first plan is always made */
  uint64_t max_nodes; /* limit on the work (cannon_plan_progress), roughly; 0: none. With no limit a call ends when the
                         plan is proved optimal, which can be never */
  uint32_t n_threads; /* 0: 1; at most 256 */
  uint64_t seed;
  /* Called by the calling thread for each better plan or bound; false cancels. May be NULL. */
  bool (*progress)(void *argument, const cannon_plan_progress *so_far);
  void *argument;
  /* Another thread may set it, atomically, to something other than 0, which cancels: the best plan so far is the result. May
   * be NULL. */
  const int *cancel;
} cannon_plan_options;

typedef struct {
  cannon_plan_progress end;
  bool optimal;      /* peak == bound */
  bool fits;         /* peak <= capacity; true without one */
  char message[200]; /* of an error */
} cannon_plan_result;

typedef enum {
  CANNON_PLAN_OK = 0,
  CANNON_PLAN_NULL,       /* a pointer is null */
  CANNON_PLAN_TOO_LARGE,  /* too many, or sums too high */
  CANNON_PLAN_BAD_LIFE,   /* lower >= upper */
  CANNON_PLAN_BAD_GAP,    /* outside of the life, out of order, or its window outside of the buffer */
  CANNON_PLAN_BAD_OFFSET, /* fixed, and not a multiple of the alignment */
  CANNON_PLAN_BAD_PAIR,   /* alias or in place: no such buffer, the buffer itself, or a ring */
  CANNON_PLAN_CONFLICT,   /* fixed buffers, or ones in place of each other, contradict each other */
  CANNON_PLAN_OVERLAP,    /* checking: two buffers overlap */
  CANNON_PLAN_MISPLACED,  /* checking: alignment, fixed offset, or in place does not hold */
  CANNON_PLAN_NO_MEMORY,  /* the host's */
  CANNON_PLAN_NO_THREAD,  /* the host refused a thread */
  CANNON_PLAN_BAD_OPTION, /* a limit out of its range */
} cannon_plan_error;

/* Plans. offsets has an element for each buffer. options NULL: no capacity, one thread, 10 s. Not fitting the capacity is
 * no error: result->fits is false. */
cannon_plan_error cannon_plan(const cannon_plan_problem *problem, const cannon_plan_options *options, uint64_t *offsets,
                              cannon_plan_result *result);

/* Whether a plan, anyone's, is one: OK, with peak and bound in result->end, or the first thing that is wrong, in words in
 * result->message. Takes time n log n, but for aliases, each of which costs n. */
cannon_plan_error cannon_plan_check(const cannon_plan_problem *problem, const uint64_t *offsets,
                                    cannon_plan_result *result);

/* "CANNON_PLAN_OVERLAP" and so on. */
const char *cannon_plan_error_name(cannon_plan_error error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
