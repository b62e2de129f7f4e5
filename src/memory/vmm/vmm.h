/* Virtual memory that the program manages itself. What exists:
 *
 *   reservation  addresses, and nothing else; a piece of the window of memory/space.h
 *   physical     memory without an address: granules of a device, or host memory; counted references
 *   mapping      a physical at a place in a reservation, with access rights
 *
 * A physical's granules come out of its device's file, so that neighbours that were made one after the other are one
 * mapping for the kernel, whose number of them is limited (budget.h). A physical may be another process's memory.
 * Users' addresses have nothing behind them, as elsewhere on a device; only mappings of host memory can be read and
 * written there. Unmapped memory stays behind the kernels' view until the tasks that were submitted before have
 * retired, or something else is mapped there. All calls from any thread. */
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

/* alignment: 0 or a power of two; expected: where, or 0. The size is rounded up to granules. */
status vmm_reserve(uint64_t bytes, uint64_t alignment, uintptr_t expected, uintptr_t *out);

/* Nothing may be mapped in it. */
status vmm_release(uintptr_t start);

/* A physical of `bytes`, a multiple of `granularity`, of an opened device or of VMM_HOST. tag: 32 bytes that vmm_tag gives
 * back; site: the caller's return address. One reference. */
status vmm_create(int device, uint64_t bytes, uint64_t granularity, const void *tag, void *site, void **handle);

/* Drops a reference; mappings have their own. */
status vmm_drop(void *handle, void *site);

/* Calls visit for every physical that the program made and has a handle or a mapping of, in no order, under the lock. */
void vmm_each_physical(void (*visit)(const hook_block *, void *), void *argument);

/* What it was made with, and the device that it is memory of here. */
status vmm_tag(void *handle, void *tag, int *device);

/* Offers the memory to other processes of the machine (exchange.h), those that exchange_allow names or all: once.
 * Memory that they have taken is given back only when they have dropped it, too. */
status vmm_export(void *handle, bool to_all, uint64_t *key);

/* A physical that is another process's memory, as memory of this device; its handle. */
status vmm_import(uint64_t key, int device, void **handle);

/* A block of another process's, readable and writable in a reservation that the program can't change; its end. */
status vmm_import_block(uint64_t key, int device, uintptr_t *out);
status vmm_close_block(uintptr_t start);

/* Gives back what was kept for tasks or other processes that have ended since; whether any was. */
bool vmm_settle(void);

/* A new reference to what is mapped at the address. */
status vmm_retain(uintptr_t address, void **handle);

/* The whole physical at the address, which is a granule of a reservation; access: VMM_READ | VMM_WRITE, or 0. */
status vmm_map(uintptr_t at, uint64_t bytes, void *handle, unsigned access);
status vmm_unmap(uintptr_t at);

/* Of exactly one mapping; of the mapping that holds the address. */
status vmm_set_access(uintptr_t at, uint64_t bytes, unsigned access);
status vmm_get_access(uintptr_t address, unsigned *access);

/* Where kernels reach [address, address + bytes), all of which is mapped with that access. */
status vmm_view(uintptr_t address, uint64_t bytes, unsigned access, const char *name, void **view);

/* The device of what is mapped there, VMM_HOST, or -2 where nothing is. Lock-free. */
int vmm_device_of(uintptr_t address);

/* Whether a reservation holds the address; one that the library made for another process's block. */
bool vmm_is_reserved(uintptr_t address);
bool vmm_is_imported(uintptr_t address);

/* The mapping that holds the address. */
bool vmm_find(uintptr_t address, uintptr_t *start, uint64_t *bytes);

/* Whether the two are the same memory: ranges of two mappings of one physical, or one range. Lock-free. */
bool vmm_is_same(uintptr_t a, uintptr_t b, uint64_t bytes);

/* How to learn what tasks are pending; before the first mapping. */
void vmm_set_fences(const heap_fences *fences);

#endif
