/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * The static memory planner: given buffers with sizes and lifetimes, it finds offsets in one arena such that no two
 * buffers that are live at the same time overlap, and the arena is as small as possible. It does not depend on the
 * runtime. In libcannon.so; docs/planner.md describes the algorithms.
 *
 * A call keeps no state, and any number of calls may run at the same time. The memory that a call needs is allocated at
 * its start, in one allocation that is linear in the size of the problem and in the number of threads.
 *
 * The same problem, seed and max_nodes give the same offsets, whatever the number of threads, unless the time limit or
 * a cancellation ends the call.
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

#define CANNON_PLAN_ANYWHERE  UINT64_MAX /**< As an offset: the planner may choose it. */
#define CANNON_PLAN_NO_BUFFER UINT32_MAX /**< As an index of a buffer: none. */

/** A time interval within a buffer's life in which the buffer needs only part of its bytes, the window. The contents
 * outside the window are lost. */
typedef struct {
  uint64_t lower;        /**< Start of the interval. */
  uint64_t upper;        /**< End of the interval, exclusive. */
  uint64_t window_lower; /**< First byte that is needed, from the buffer's offset. */
  uint64_t window_upper; /**< End of the needed bytes, exclusive. An empty window: no bytes are needed. */
} cannon_plan_gap;

/** A buffer to be placed. */
typedef struct {
  uint64_t size;      /**< In bytes. 0: it takes no room. */
  uint64_t lower;     /**< First time at which it is live; below upper. */
  uint64_t upper;     /**< End of its life, exclusive; at most 2^62. */
  uint64_t alignment; /**< The offset is a multiple of this, which may be any number; 0 means 1. */
  uint64_t offset;    /**< Required offset, a multiple of alignment, or CANNON_PLAN_ANYWHERE. */
  /** Index of a buffer whose offset this one must share and with which it may overlap, or CANNON_PLAN_NO_BUFFER. */
  uint32_t in_place_of;
  uint32_t n_gaps;  /**< Number of its gaps. */
  size_t first_gap; /**< Index of its first gap in the problem's gaps; they are ascending, disjoint, and in its life. */
} cannon_plan_buffer;

/** Two buffers that may overlap, but need not, although they are live at the same time. */
typedef struct {
  uint32_t a; /**< Index of one buffer. */
  uint32_t b; /**< Index of the other buffer. */
} cannon_plan_alias;

/** A problem: at most 2^30 buffers, 2^30 gaps and 2^30 alias pairs. The sum of all sizes, each rounded up to its
 * alignment, is at most 2^61 bytes. The arrays stay the caller's. */
typedef struct {
  const cannon_plan_buffer *buffers; /**< The buffers; may be NULL if there are none. */
  size_t n_buffers;                  /**< Number of buffers. */
  const cannon_plan_gap *gaps;       /**< The gaps of all buffers; may be NULL if there are none. */
  size_t n_gaps;                     /**< Number of gaps. */
  const cannon_plan_alias *aliases;  /**< The alias pairs; may be NULL if there are none. */
  size_t n_aliases;                  /**< Number of alias pairs. */
} cannon_plan_problem;

/** The state of a call. */
typedef struct {
  uint64_t peak;      /**< Peak of the best plan so far, in bytes: the maximum of offset + size over what is needed. */
  uint64_t bound;     /**< Proved lower bound: no plan has a lower peak, in bytes. */
  const char *method; /**< Name of the method that found the plan: a static string. */
  uint64_t nodes;     /**< Work so far: approximate number of buffers placed by searches and greedy passes. */
  double seconds;     /**< Time since the start of the call. */
} cannon_plan_progress;

/** Options of a call. Zero-initialised options have no limits: the call ends when a plan is proved optimal, which may
 * never happen. A first plan is always made. */
typedef struct {
  uint64_t capacity;  /**< The first plan with at most this peak (bytes) ends the call; 0: look for the lowest peak. */
  double seconds;     /**< Approximate time limit; 0: none. */
  uint64_t max_nodes; /**< Approximate limit on the work (cannon_plan_progress.nodes); 0: none. */
  uint32_t n_threads; /**< Number of threads, including the caller's: at most 256; 0 means 1. */
  uint64_t seed;      /**< Seed of the random choices. */
  /** If not NULL, it is called by the calling thread for each better plan or bound. If it returns false, the call is
   * cancelled. */
  bool (*progress)(void *argument, const cannon_plan_progress *so_far);
  void *argument; /**< First argument of progress. */
  /** If not NULL, another thread may cancel the call by atomically setting *cancel to a value other than 0. The result
   * is then the best plan so far. */
  const int *cancel;
} cannon_plan_options;

/** The result of a call. */
typedef struct {
  cannon_plan_progress end; /**< State at the end of the call. */
  bool optimal;             /**< The plan is proved optimal: peak equals bound. */
  bool fits;                /**< The peak is at most the capacity; true if there was no capacity. */
  char message[200];        /**< If the call failed: what is wrong, as text. */
} cannon_plan_result;

/** Results of cannon_plan() and cannon_plan_check(). */
typedef enum {
  CANNON_PLAN_OK = 0,     /**< Success. */
  CANNON_PLAN_NULL,       /**< A pointer is NULL. */
  CANNON_PLAN_TOO_LARGE,  /**< There are too many elements, or a sum, time or offset is too large. */
  CANNON_PLAN_BAD_LIFE,   /**< A buffer's lower is not below its upper. */
  CANNON_PLAN_BAD_GAP,    /**< A gap is outside its buffer's life or out of order, or its window outside the buffer. */
  CANNON_PLAN_BAD_OFFSET, /**< A required offset is not a multiple of the alignment. */
  CANNON_PLAN_BAD_PAIR,   /**< An alias or in_place_of names no buffer, the buffer itself, or forms a cycle. */
  CANNON_PLAN_CONFLICT,   /**< Required offsets contradict each other, directly or through in_place_of. */
  CANNON_PLAN_OVERLAP,    /**< cannon_plan_check(): two buffers overlap. */
  CANNON_PLAN_MISPLACED,  /**< cannon_plan_check(): an alignment, required offset or in_place_of does not hold. */
  CANNON_PLAN_NO_MEMORY,  /**< The host has not enough memory. */
  CANNON_PLAN_NO_THREAD,  /**< The host refused a thread. */
  CANNON_PLAN_BAD_OPTION, /**< An option is out of its range. */
} cannon_plan_error;

/** Finds a plan. A peak above the capacity is not an error: result->fits is false then.
 *
 * \param problem  The problem.
 * \param options  Options; NULL: no capacity, one thread, 10 s.
 * \param offsets  Receives the offset of each buffer, in bytes: problem->n_buffers elements.
 * \param result   Receives the result, and a message if the call fails.
 * \return CANNON_PLAN_OK or an error.
 */
cannon_plan_error cannon_plan(const cannon_plan_problem *problem, const cannon_plan_options *options, uint64_t *offsets,
                              cannon_plan_result *result);

/** Checks whether a plan, of whatever origin, is valid. Takes O(n log n) time for n buffers and gaps, and O(n) more for
 * each buffer in an alias pair.
 *
 * \param problem  The problem.
 * \param offsets  The offset of each buffer, in bytes: problem->n_buffers elements.
 * \param result   Receives peak and bound in result->end, or a message that says what is wrong first.
 * \return CANNON_PLAN_OK if the plan is valid; CANNON_PLAN_OVERLAP or CANNON_PLAN_MISPLACED if it is not; or an error
 *     of the problem itself.
 */
cannon_plan_error cannon_plan_check(const cannon_plan_problem *problem, const uint64_t *offsets,
                                    cannon_plan_result *result);

/** Returns the name of an error, such as "CANNON_PLAN_OVERLAP".
 *
 * \param error  A result of a function above.
 * \return A static string; "unknown" for a value that is not in the enum.
 */
const char *cannon_plan_error_name(cannon_plan_error error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
