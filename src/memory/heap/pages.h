/* The memory behind a heap's addresses, by pages. What exists:
 *
 *   window   addresses, many times the memory; the kernels' view of it is one range of mappings
 *   granule  2 MiB of the window, aligned; the unit in which memory moves
 *   file     a sparse shared file: which granule of it is mapped where, a table says (mapping.h), so that memory moves by
 *            remapping and any of it can be given to another process. Pinned host memory has none: private pages, which
 *            stay where they are
 *   loose    granules of the file behind the window's, which have no address here (memory/vmm/vmm.h maps them elsewhere)
 *   charged  what counts against the device's size and what the host has: pages that are in use or kept for reuse
 *
 * Memory that is not charged reads as zeros when it is charged next. The caller serialises calls. */
#ifndef CANNON_MEMORY_HEAP_PAGES_H
#define CANNON_MEMORY_HEAP_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
  PAGE_SHIFT = 12,
  PAGE_BYTES = 1 << PAGE_SHIFT,
  GRANULE_SHIFT = 21,
  GRANULE_BYTES = 1 << GRANULE_SHIFT,
  GRANULE_PAGES = GRANULE_BYTES / PAGE_BYTES,
};

typedef struct {
  int device;            /* whose memory it is, in the ledger of all processes (ledger.h); negative: host memory */
  uintptr_t view;        /* where kernels see the window; granule aligned, reserved by the caller */
  uint64_t window_bytes; /* a multiple of the granule */
  bool shared;           /* a file; false: private pages */
  uint64_t size_bytes;   /* what may be charged */
  bool check_host;       /* refuse what the host could not back */
  bool time_calls;       /* see pages_call_ns */
} pages_config;

typedef struct pages pages;

status pages_create(const pages_config *config, const char *name, pages **out);
void pages_destroy(pages *p); /* only before anything was charged */

/* Charges n pages from `first`, which are not. False where the size, the host, other processes, or too many mappings do not
 * allow it. */
bool pages_charge(pages *p, uint64_t first, uint64_t n);

/* Bytes that this process has charged, on whichever device or on the host, but not yet touched: the host still counts them
 * as available. Only what the host has to have (check_host). */
uint64_t pages_promised(void);

/* Bytes that the host could back besides what is charged; UINT64_MAX where it is not asked. */
uint64_t pages_host_room(const pages *p);

/* Gives n charged pages from `first` back to the host. */
void pages_discharge(pages *p, uint64_t first, uint64_t n);

/* Moves the memory behind n granules from `from`, all charged, to those from `to`, of which nothing is charged; afterwards it
 * is the other way round. The length of the longest prefix that was moved: 0 where moving is impossible or too many mappings
 * exist. */
uint64_t pages_move(pages *p, uint64_t from, uint64_t to, uint64_t n);

/* Pages; the loose ones are among the charged. */
uint64_t pages_charged(const pages *p);
uint64_t pages_peak(const pages *p); /* highest so far */
uint64_t pages_loose(const pages *p);

/* Memory without an address, in granules: *offset in the file. */
bool pages_take_loose(pages *p, uint64_t n_granules, uint64_t *offset);
void pages_give_loose(pages *p, uint64_t offset, uint64_t n_granules);

/* The file, or -1; and where in it the address of the window is, that many bytes from its start. */
int pages_file(const pages *p);
uint64_t pages_offset(const pages *p, uint64_t distance);

/* Counted since the start: system calls that changed mappings or gave pages back, and, if the configuration says so, the
 * threads' own time in them. */
uint64_t pages_n_calls(const pages *p);
uint64_t pages_call_ns(const pages *p);

#endif
