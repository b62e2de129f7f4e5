/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management by the program (aclrtReserveMemAddress, aclrtMallocPhysical, aclrtMapMem and their
 * relatives). Used by src/api, memory.c and share/ipc.c; calls the heap and share/exchange.h. Terms:
 *
 *   reservation      a range of addresses without memory, in the window of memory/space.h (reservation.h)
 *   physical memory  memory without an address: granules of a device, or host memory; reference-counted (physical.h)
 *   mapping          physical memory at an address in a reservation, with access rights
 *
 * The granules come out of the device's file, so that physical memory made in succession is one mapping for the kernel,
 * whose number of mappings is limited (budget.h). Physical memory may be another process's. At the program's addresses
 * nothing is mapped, as for other device memory, except for mappings of host memory, which it can read and write.
 * Memory that was unmapped stays accessible to kernels until the tasks that were submitted before have retired, or
 * something else is mapped at these addresses. Thread-safe. */
#ifndef CANNON_MEMORY_VMM_VMM_H
#define CANNON_MEMORY_VMM_VMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/device_number.h"
#include "base/status.h"
#include "memory/heap/heap.h"

enum { VMM_READ = 1, VMM_WRITE = 2 };

enum { VMM_HOST = HOST_PINNED };

/* Reserves `bytes`, rounded up to granules. alignment: 0 or a power of two; expected: the address that it must have, or
 * 0 for any. */
status vmm_reserve(uint64_t bytes, uint64_t alignment, uintptr_t expected, uintptr_t *out);

/* Ends the reservation that starts there; ST_INVALID_VALUE while anything is mapped in it. */
status vmm_release(uintptr_t start);

/* Makes physical memory of `bytes`, a multiple of `granularity`, on an opened device or of VMM_HOST, with one
 * reference. tag: 32 bytes that vmm_tag returns; site: the caller's return address. */
status vmm_create(int device, uint64_t bytes, uint64_t granularity, const void *tag, void *site, void **handle);

/* Drops a reference of the program's; mappings have references of their own. */
status vmm_drop(void *handle, void *site);

/* Calls visit for all physical memory that the program has made and has a handle or a mapping of, in no particular
 * order, under the lock. */
void vmm_each_physical(void (*visit)(const hook_block *, void *), void *argument);

/* The 32 bytes of the tag, and the device that the memory belongs to in this process. */
status vmm_tag(void *handle, void *tag, int *device);

/* Offers the memory to other processes of the machine (exchange.h), to all or to those that exchange_allow names;
 * possible once. Memory that they have imported is given back only after they have dropped it, too. */
status vmm_export(void *handle, bool to_all, uint64_t *key);

/* Imports another process's memory as physical memory of this device; returns a handle. */
status vmm_import(uint64_t key, int device, void **handle);

/* Imports a block of another process's, and maps it, readable and writable, in a reservation that the program can't
 * change; ends that. */
status vmm_import_block(uint64_t key, int device, uintptr_t *out);
status vmm_close_block(uintptr_t start);

/* Gives back memory that was only kept for tasks, or for other processes, that have ended since; returns whether there
 * was any. */
bool vmm_settle(void);

/* A new reference to the physical memory that is mapped at the address. */
status vmm_retain(uintptr_t address, void **handle);

/* Maps the whole physical memory at the address, the start of a granule in a reservation; access: VMM_READ | VMM_WRITE,
 * or 0. vmm_unmap ends the mapping that starts there. */
status vmm_map(uintptr_t at, uint64_t bytes, void *handle, unsigned access);
status vmm_unmap(uintptr_t at);

/* Sets the access rights of exactly one mapping; returns those of the mapping that holds the address. */
status vmm_set_access(uintptr_t at, uint64_t bytes, unsigned access);
status vmm_get_access(uintptr_t address, unsigned *access);

/* Translates [address, address + bytes), all of which must be mapped with that access, for kernels: *view. name: the
 * argument's. Lock-free. */
status vmm_view(uintptr_t address, uint64_t bytes, unsigned access, const char *name, void **view);

/* The device of the memory that is mapped at the address, VMM_HOST, or -2 where nothing is mapped. Lock-free. */
int vmm_device_of(uintptr_t address);

/* Whether the address is in a reservation; in one that the library made for another process's block. */
bool vmm_is_reserved(uintptr_t address);
bool vmm_is_imported(uintptr_t address);

/* Finds the mapping that holds the address; false where none does. Lock-free. */
bool vmm_find(uintptr_t address, uintptr_t *start, uint64_t *bytes);

/* Whether the two ranges are the same memory: the same addresses, or the same part of one physical memory.
 * Lock-free. */
bool vmm_is_same(uintptr_t a, uintptr_t b, uint64_t bytes);

/* Sets how to learn which tasks are pending; called before the first mapping. */
void vmm_set_fences(const heap_fences *fences);

/* Only in builds with CANNON_INVARIANTS: whether mappings, reservations and physical memory agree. Called under the
 * lock, or while no other thread calls. */
bool vmm_is_valid(void);

#endif
