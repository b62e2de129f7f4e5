/* SPDX-License-Identifier: Apache-2.0 */
/* Manages the memory behind a heap's addresses, in the host's pages (base/store/host_page.h). Used by store.c and
 * heap_whole.c; calls mapping.h, huge.h, host.h and the ledger of all processes. Terms:
 *
 *   window   the heap's addresses, many times the memory; the kernels' view of it is one contiguous address range
 *   granule  2 MiB of the window, aligned; the unit in which memory moves
 *   file     a sparse shared file with the memory. A table (mapping.h) says which granule of the file is mapped where,
 *            so that memory moves by remapping, and any of it can be shared with another process. Pinned and managed
 *            host memory has no file but private pages, which never move
 *   loose    granules of the file beyond those of the window: they have no address here; memory/vmm/vmm.h maps them
 *            elsewhere
 *   charged  pages that are in use or kept for reuse: they count against the device's size and the host's memory
 *
 * A page that is not charged is empty: it reads as zeros when it is charged next. Not thread-safe: the caller
 * serialises calls for one heap's pages, except for pages_promised, which any thread may call. */
#ifndef CANNON_MEMORY_HEAP_PAGES_H
#define CANNON_MEMORY_HEAP_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/store/host_page.h"

enum { GRANULE_SHIFT = 21, GRANULE_BYTES = 1 << GRANULE_SHIFT };
#define GRANULE_PAGES (1u << (GRANULE_SHIFT - PAGE_SHIFT))

typedef struct {
  int device;     /* the device in the ledger of all processes (ledger.h); negative: host memory, not in the ledger */
  uintptr_t view; /* start of the kernels' view of the window; granule aligned, reserved by the caller */
  uint64_t window_bytes; /* a multiple of the granule */
  bool shared;           /* true: a shared file; false: private pages */
  uint64_t size_bytes;   /* limit of what may be charged */
  bool check_host;       /* whether charges are refused that the host has no memory for */
  bool time_calls;       /* whether pages_call_ns is measured */
} pages_config;

typedef struct pages pages;

/* name: for messages ("device 0"). ST_NO_HOST_MEMORY or ST_NO_MEMORY. */
status pages_create(const pages_config *config, const char *name, pages **out);

/* Frees what pages_create made; allowed only while nothing is charged. p may be NULL. */
void pages_destroy(pages *p);

/* Charges the n pages from page `first` of the window, none of which is charged. False, and nothing is changed, where
 * the size, the host's memory, other processes' charges or the number of mappings do not allow it. */
bool pages_charge(pages *p, uint64_t first, uint64_t n);

/* Bytes that this process has charged, on any device and on the host, but not yet touched: the host still counts them
 * as available. Includes only memory with check_host. */
uint64_t pages_promised(void);

/* Bytes that the host could back in addition to what is charged; UINT64_MAX without check_host. */
uint64_t pages_host_room(const pages *p);

/* Ends the charge of the n pages from page `first`, all of which are charged, and gives their memory back to the
 * host. */
void pages_discharge(pages *p, uint64_t first, uint64_t n);

/* Moves the memory of the n granules from granule `from`, whose pages are all charged, to those from granule `to`, of
 * which no page is charged; the charge moves with it. Returns how many granules were moved, a prefix: 0 where there is
 * no file or too many mappings exist. */
uint64_t pages_move(pages *p, uint64_t from, uint64_t to, uint64_t n);

/* Numbers of pages. Loose pages are included in the charged ones. */
uint64_t pages_charged(const pages *p);
uint64_t pages_loose(const pages *p);

/* Takes n_granules >= 1 loose granules in a row and charges them; *offset is their place in the file, in bytes. False
 * where there are none or the charge is refused. pages_give_loose gives back exactly what one such call has taken. */
bool pages_take_loose(pages *p, uint64_t n_granules, uint64_t *offset);
void pages_give_loose(pages *p, uint64_t offset, uint64_t n_granules);

/* The file's descriptor, which stays the pages' own; -1 without a file. */
int pages_file(const pages *p);

/* Offset in the file of the byte that is `distance` bytes from the start of the window. */
uint64_t pages_offset(const pages *p, uint64_t distance);

/* Since the start: number of system calls that changed mappings or gave pages back, and the CPU time of the calling
 * threads in them, which is measured only with time_calls. */
uint64_t pages_n_calls(const pages *p);
uint64_t pages_call_ns(const pages *p);

/* Only in builds with CANNON_INVARIANTS: whether all counts, tables and mappings agree; pages of a granule of the
 * window that are charged (0 without a file). */
bool pages_is_valid(const pages *p);
unsigned pages_charged_in(const pages *p, uint64_t granule);

#endif
