/* SPDX-License-Identifier: Apache-2.0 */
/* The process's counters: what `cannon run` prints when the program has ended, and what `cannon top` and npu-smi show
 * while it runs.
 *
 * They live in a file in $CANNON_STATS_DIR, which the process maps shared: one file per process, named `<pid>.stats`.
 * So they can be read while the process runs, and after any kind of death. Without the variable they live in anonymous
 * memory, and nobody reads them. Counters only grow, except where a comment says otherwise; any thread updates them,
 * with relaxed atomics.
 *
 * This header is the format of the file, shared by the library (the writer) and src/cli (the reader), so it has no
 * pointers. */
#ifndef CANNON_TRACE_STATS_H
#define CANNON_TRACE_STATS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/device_number.h"
#include "base/settings/fault_specs.h"
#include "trace/histogram.h"

enum {
  STATS_VERSION = 13,
  STATS_MAX_DEVICES = 16,
  STATS_MAX_OPS = 1024,    /* operators with a row of their own; the last row takes the rest */
  STATS_MAX_CHOICES = 256, /* implementations of operators; those beyond are not counted by implementation */
  STATS_CHOICE_NAMES = 64,
  STATS_CHOICE_REASON = 192,
  STATS_MAX_POOLS = 64,       /* pools, likewise */
  STATS_MAX_STREAMS = 256,    /* streams that own memory, likewise */
  STATS_MAX_SHARDS = 64,      /* threads' counters; threads beyond count in the heap's own */
  STATS_MAX_SITES = 1024,     /* call sites of allocations, likewise */
  STATS_MAX_MODULES = 128,    /* executables and libraries; sites in others have no place */
  STATS_MAX_LEAKS = 64,       /* leaked blocks that are listed; all are counted */
  STATS_MAX_COLLECTIVES = 16, /* kinds of collective */
  STATS_MAX_FEEDS = 32,       /* feeds of data with a row of their own; the last row takes the rest */
  STATS_MAX_FAULTS = 64,      /* injected failures that are listed; all are counted */
  STATS_MAX_DRY_VALUES = 32,
  STATS_MAX_HOLDERS = 10, /* lines that held memory when an allocation was refused; all are summed up */
  STATS_MAX_ERRORS = 64,  /* kinds of error with a row of their own; the last row takes the rest */
};
#define STATS_MAGIC 0x54534e43u /* "CNST" */

/* One heap (a device's memory, or the process's pinned or managed host memory), or one pool. */
typedef struct {
  counter size_bytes;      /* the most that may be in use at once; 0: the heap was never opened */
  counter live_bytes;      /* bytes handed out and not freed, as the rules round them; goes down too */
  counter requested_bytes; /* the part of live_bytes that was asked for; goes down too */
  counter peak_bytes;      /* highest live_bytes */
  counter committed_bytes; /* bytes charged to the device: in use, or kept for reuse; goes down too */
  counter
      cached_bytes; /* the part of committed_bytes that nobody uses; goes down too. For a heap the reader computes it */
  counter peak_committed_bytes; /* highest committed_bytes */
  counter allocated_bytes;      /* sum over all allocations, as the rules round them */
  counter asked_bytes;          /* the same sum, as asked for */
  counter n_allocs, n_frees, n_refused;
  counter n_hits;          /* allocations served from cached memory, which was committed and in place already */
  counter alarm_bytes;     /* bytes in use when the alarm went off; 0: it did not */
  size_histogram sizes;    /* sizes of allocations, as asked for */
  latency_histogram alloc; /* time from the heap's call to its return */
  latency_histogram free;
} stats_heap;

enum {
  STATS_ROW_UNUSED,
  STATS_ROW_OPEN,
  STATS_ROW_CLOSED,
  STATS_ROW_ENDED, /* the stream has ended, but some of its blocks are live */
};

/* What one thread adds to the counters of one heap (shards.h). */
typedef struct {
  _Atomic uint32_t state;  /* STATS_ROW_... */
  int32_t device;          /* or a kind of host memory (base/device_number.h) */
  counter requested_bytes; /* modulo 2^64, since this thread may free what another one allocated; goes down too */
  counter allocated_bytes, asked_bytes, n_allocs, n_frees, n_hits;
  size_histogram sizes;
  latency_histogram alloc, free;
} stats_shard;

/* What bounds a launch's time on a device, by the roofline of runtime/dry/roofline.h. */
typedef enum {
  STATS_BOUND_LATENCY,
  STATS_BOUND_HOST_LINK,
  STATS_BOUND_HBM,
  STATS_BOUND_DDR,
  STATS_BOUND_L2,
  STATS_BOUND_L1,
  STATS_BOUND_UB,
  STATS_BOUND_L0,
  STATS_BOUND_CUBE,
  STATS_BOUND_VECTOR,
  STATS_N_BOUNDS
} stats_bound;

typedef struct {
  char name[32];
  int32_t device;
  _Atomic uint32_t state; /* STATS_ROW_...; a closed row may be used again */
  stats_heap memory;
} stats_pool;

/* Stream-ordered memory of one stream. Committed and cached memory belongs to the pools and is counted there. */
typedef struct {
  uint32_t id; /* as aclrtStreamGetId gives it */
  int32_t device;
  _Atomic uint32_t state;
  stats_heap memory;
} stats_stream;

/* One operator: its name without "aclnn". Copies are counted by direction, below. */
typedef struct {
  char name[48];
  counter launches;
  counter time_ns; /* time inside the task, without waiting; 0 while nothing is timed (no CANNON_STATS_DIR) */
  counter bytes;   /* bytes read and written, by the shapes of the operands */
  /* The workspace that phase one asked for, the largest over all calls, and what it consists of
   * (src/op/README.md). */
  counter workspace_peak_bytes, workspace_copies_bytes, workspace_intermediates_bytes, workspace_partials_bytes;
  counter outputs_peak_bytes; /* the most that one launch wrote, in elements of its outputs */
  /* Estimates for the device of the profile (runtime/dry/roofline.h). */
  counter moved_bytes;              /* bytes of operands, counted once for each read and each write */
  counter operations;               /* two for each multiply-add of matrix products, otherwise one per element */
  counter device_ns;                /* the sum of bound_ns */
  counter bound_ns[STATS_N_BOUNDS]; /* time of launches by what bounds them */
  /* In a dry run: launches that were computed, and launches with a result whose size depends on data that the run does
   * not have. */
  counter computed, unknown;
} stats_op;

/* The launches of an operator that were computed by the same implementations (op/choice.h), for the same reason. */
typedef struct {
  uint32_t op; /* index into ops[] */
  char names[STATS_CHOICE_NAMES], reason[STATS_CHOICE_REASON];
  counter launches, time_ns; /* as those of the operator */
} stats_choice;

/* Collectives of one kind (comm_kind of comm/comm_types.h), each counted when a rank's task is done. */
typedef struct {
  counter calls;
  counter sent_bytes, received_bytes; /* of the program's buffers, by the counts of the calls */
  counter time_ns;                    /* from the moment at which the stream comes to a task to its end */
  counter exposed_ns;                 /* the part of it in which the device ran no other task (comm/account.c) */
  /* Of a dry run, by the model (runtime/dry/dry_clock.h): the time, the part of it in which the device would do nothing
   * else (goes down too), and how long streams stood still for the last rank before. */
  counter dry_ns, dry_exposed_ns, dry_waited_ns;
} stats_collective;

/* A feed of data (include/cannon/feed.h). Times are sums over threads. */
typedef struct {
  char name[32];
  int32_t device;
  _Atomic uint32_t state; /* STATS_ROW_...; closed rows stay, for the summary */
  counter n_batches, n_records, record_bytes;
  counter decode_ns;         /* in which threads read and decoded */
  counter full_ns;           /* in which they waited because all slots were full or lent */
  counter host_ns;           /* in which the program waited for batches */
  counter device_ns;         /* in which its streams did: nothing else could run in them */
  counter first_ns, last_ns; /* timeline_now(): the first time that data was asked for, and the last hand-over */
} stats_feed;

typedef enum { STATS_H2D, STATS_D2H, STATS_D2D, STATS_H2H, STATS_N_DIRECTIONS } stats_direction;

/* Copies in one direction. An asynchronous copy from or to pageable host memory blocks its caller; the other copies
 * between host and device are of pinned or registered memory. */
typedef struct {
  counter count, bytes;
  counter pageable_count, pageable_bytes; /* the part of these that used pageable host memory */
} stats_copy;

/* Copies that were not needed: operators read (host to device) or wrote (device to host) host memory directly, where a
 * device without zero copy would have needed a copy; and copies from memory to itself. They are not counted in
 * stats_copy. */
typedef struct {
  counter count, bytes;
} stats_elided;

/* A place in the code that any process can turn into a source line: a file, and the address in it as its symbol table
 * has it. */
typedef struct {
  int32_t module; /* index into modules[]; -1: the module is not known */
  uint64_t offset;
} stats_place;

/* Uses that are allowed but slow on a device. */
typedef enum { STATS_ADVICE_UNALIGNED_COPY, STATS_N_ADVICE } stats_advice_kind;

typedef struct {
  counter count;
  stats_place place;    /* of the first: the caller, ... */
  char first_site[160]; /* ... and as "object(symbol+0x12)" */
} stats_advice;

typedef struct {
  char path[256];
} stats_module;

/* What was allocated by one place in the program. Only filled with CANNON_SITES=1. */
typedef struct {
  _Atomic uint64_t
      address; /* the return address in that process; 0: the row is unused. The last row, for all other places, has 1 */
  stats_place place;
  char call[32];      /* the CANN function that was called there */
  counter live_bytes; /* as asked for; goes down too */
  counter live_blocks;
  counter peak_bytes; /* highest live_bytes of this site */
  counter n_allocs, allocated_bytes;
} stats_site;

/* A block that was still live when the program ended. Only written at a normal end. */
typedef struct {
  uint64_t address, size_bytes, number; /* as hook_block has them (base/hooks.h) */
  stats_place place;
  int32_t device; /* or a kind of host memory */
  char call[32];  /* the CANN function that allocated it */
  char site[160]; /* caller, as "object(symbol+0x12)" */
} stats_leak;

/* Errors with one code from one function. */
typedef struct {
  char call[56]; /* "": no row */
  int32_t code;
  counter count;
  char first_words[192]; /* the message of the first, without the call and the code */
} stats_error;

/* An injected failure (base/settings/faults.h). */
typedef struct {
  uint32_t place;  /* fault_place */
  uint64_t number; /* of the events of that place, from 1 */
  char name[48];   /* of the operator; "": none */
  char spec[FAULT_TEXT_BYTES];
} stats_fault;

/* What a line of the program held when an allocation was refused; or the line that asked. */
typedef struct {
  char line[96];          /* "train.py:88"; "": not of Python */
  char call[32];          /* the CANN function that was called */
  stats_place place;      /* from where */
  uint64_t bytes, blocks; /* of device memory, as rounded */
} stats_holder;

/* A refused allocation of device memory (check/leaks/holders.c). */
typedef struct {
  int32_t device;
  uint32_t n_lines; /* that held memory; the first STATS_MAX_HOLDERS are in holders[], by bytes */
  uint64_t requested, held_bytes, held_blocks;
  stats_holder asks, holders[STATS_MAX_HOLDERS];
} stats_refusal;

/* Copies to the host from a line of --values (base/settings/dry_values.h): those that got a value, and those whose size
 * is no whole number of elements. */
typedef struct {
  char site[64];
  counter copies, misfits;
} stats_dry_value;

/* A dry run (runtime/dry/dry.h). Times are of the devices. */
typedef struct {
  counter on;        /* 1: this was one */
  counter busy_ns;   /* the sum of all tasks' times */
  counter latest_ns; /* the latest clock of a stream: how long the tasks take at least, as they overlap */
  counter waited_ns; /* time of copies for which the host waited without a stream */
  counter host;      /* dry_host of base/settings/dry_options.h */
  counter host_ns, host_waited_ns, n_submitted; /* the host's clock; its waits for devices; tasks that it submitted */
  char topology[32];                            /* by which collectives have their time; "": there were none */
  counter n_values;
  stats_dry_value values[STATS_MAX_DRY_VALUES]; /* n_values of them, in the file's order */
} stats_dry;

typedef struct {
  uint32_t magic, version;
  int32_t pid;
  _Atomic uint32_t ended; /* 1: exit() was reached and leaks were listed; 0: still running, or killed */
  char soc_name[32];
  char program[256];   /* /proc/self/exe */
  uint64_t started_ns; /* CLOCK_MONOTONIC */
  counter ended_ns;
  counter n_devices;
  _Atomic int32_t physical[STATS_MAX_DEVICES]; /* the machine's number of each device (ASCEND_RT_VISIBLE_DEVICES) */
  counter n_contexts, n_streams, n_events, n_threads; /* created; n_threads: library threads started */
  counter n_errors;                                   /* calls that returned an error */
  counter n_bad_frees;                                /* frees of what was no live block; counted by the debugger */
  stats_heap device[STATS_MAX_DEVICES], pinned, managed;
  stats_shard shards[STATS_MAX_SHARDS]; /* shards of the heaps' counters above */
  stats_copy copies[STATS_N_DIRECTIONS];
  stats_pool pools[STATS_MAX_POOLS];
  stats_stream streams[STATS_MAX_STREAMS];
  counter n_leaks; /* blocks; the first STATS_MAX_LEAKS are in leaks[] */
  stats_leak leaks[STATS_MAX_LEAKS];
  char leak_report[256]; /* where the debugger writes its report; "": it is off */
  _Atomic uint32_t n_ops;
  stats_op ops[STATS_MAX_OPS];
  _Atomic uint32_t n_choices;
  stats_choice choices[STATS_MAX_CHOICES];
  stats_elided elided[STATS_N_DIRECTIONS];
  stats_advice advice[STATS_N_ADVICE];
  _Atomic uint32_t n_modules;
  stats_module modules[STATS_MAX_MODULES];
  stats_site sites[STATS_MAX_SITES]; /* a hash table by address */
  _Atomic uint32_t n_error_rows;
  stats_error error_rows[STATS_MAX_ERRORS];
  stats_collective collectives[STATS_MAX_COLLECTIVES]; /* by comm_kind */
  stats_feed feeds[STATS_MAX_FEEDS];
  counter fault_events[N_FAULT_PLACES]; /* what could have failed; only counted with CANNON_FAIL */
  counter n_faults;                     /* injected; the first STATS_MAX_FAULTS are in faults[] */
  stats_fault faults[STATS_MAX_FAULTS];
  stats_dry dry;
  counter n_refusals;       /* that holders.c has seen */
  stats_refusal refused[2]; /* the first, and the one of the largest request */
} stats_file;

/* The counters of a device's heap, or of a kind of host memory; NULL if the number is neither. */
static inline stats_heap *stats_heap_of(stats_file *p, int device) {
  if (device == HOST_PINNED) return &p->pinned;
  if (device == HOST_MANAGED) return &p->managed;
  return device >= 0 && device < STATS_MAX_DEVICES ? &p->device[device] : NULL;
}

#endif
