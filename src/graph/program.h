/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that is ready to run: an executor for each node, and a static plan of the memory between them. Nothing is
 * allocated, looked up or checked while a program runs; its steps are called one after the other, with addresses that
 * are sums of a base and an offset.
 *
 *   arena      temporary values and the operators' workspaces, at offsets from the planner (cannon/plan.h)
 *   constants  wherever their owner has put them (program_owner)
 *   inputs, outputs   wherever the caller has them
 *
 * Made and run by model.c. One thread at a time runs a program. */
#ifndef CANNON_GRAPH_PROGRAM_H
#define CANNON_GRAPH_PROGRAM_H

#include "graph/optimize.h"
#include "graph/order.h"
#include "graph/tune.h"

typedef struct program program;

/* A constant in the form that some steps read it in (executor_packing). */
typedef struct {
  const ir_storage *storage;
  uint64_t offset; /* of its first element, in bytes */
  uint64_t bytes, layout;
  void *address; /* set by place_packed; NULL: nothing will run */
  bool fresh;    /* likewise: it has to be filled */
} program_packed;

/* Who makes a program has the memory of its constants. place() sets the address of each, place_packed() that of each
 * packed one; it is NULL where nothing is to be packed. filled() tells that all packed forms of a constant are filled,
 * and no step reads the constant itself. knows_some: the owner has some constants by their identities, or never looks
 * at contents; so place() gets constants that have not been computed, and calls ir_need_contents for others. */
typedef struct {
  status (*place)(void *owner, ir_storage **constants, int n);
  status (*place_packed)(void *owner, program_packed *packed, int n);
  void (*filled)(void *owner, ir_storage *constant);
  void *owner;
  bool knows_some;
  tuning *tuned; /* choices that were measured, or are to be; NULL: there are none */
  program_goal goal;
  bool share;     /* whether buffers may use the same memory at different times */
  bool red_zones; /* whether to look for nodes that write beyond their buffers (red_zones.h) */
} program_owner;

/* The memory of one run, as kernels see it (memory_view). */
typedef struct {
  char *arena;
  void *const *inputs, *const *outputs;
} program_memory;

/* Bytes. constants: those that are placed, packed or not. unshared: what the arena would be if no two buffers shared
 * memory. */
typedef struct {
  uint64_t arena, constants, unshared, live_peak;
  int n_steps;
  order_choice order;
  int n_replaced, n_unpacked; /* for the goal: other implementations, and constants that would be packed without it */
} program_size;

/* Makes a program of a graph, and owns the graph from then on, also if it fails. ST_GRAPH_ENGINE: an operator refuses
 * its arguments, with the node's name; ST_NO_HOST_MEMORY; failures of place(). */
status program_make(ir_graph *g, const program_owner *owner, program **out);
void program_free(program *p);

/* Frees what the host has of constants whose owner has copies. The graph's constants have no contents from then on.
 * Some steps go on to read a constant where it is in host memory; program_reads_lent() says whether one of them is lent
 * and must therefore stay as long as the program. */
void program_drop_contents(program *p);
bool program_reads_lent(const program *p);

const ir_graph *program_graph(const program *p);
program_size program_sizes(const program *p);

/* A step, for describe.c. scratch_offset: of its workspace in the arena. */
typedef struct {
  const ir_node *node;
  const executor *executor;
  uint64_t scratch_offset;
} program_step;
program_step program_step_at(const program *p, int i);

/* Runs all steps. The first failure of an operator ends it. */
status program_run(program *p, const program_memory *m);

#endif
