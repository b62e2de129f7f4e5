/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts for what all processes of a machine (machine.h) have charged on each device, so that they share a device's
 * memory as on real hardware. A process that shares no machine is only held to the limit itself. Used by pages.c, the
 * heap and memory.c; calls machine.h. Thread-safe. A charge takes two system calls, and is made when a heap grows, not
 * per allocation. */
#ifndef CANNON_MEMORY_SHARE_LEDGER_H
#define CANNON_MEMORY_SHARE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the machine's number physical[d] of this process's device d; d itself by default. Called before the first
 * charge. */
void ledger_set_devices(const int *physical, int n);

/* Charges `bytes` on the device. False where all living processes together would have charged more than the limit, or
 * where another process, which may be stopped, keeps the ledger locked for too long (file_lock.h). */
bool ledger_charge(int device, uint64_t bytes, uint64_t limit_bytes);

/* Takes back part of a charge. */
void ledger_return(int device, uint64_t bytes);

/* Bytes that the other living processes have charged. */
uint64_t ledger_others(int device);

/* Whether the latest charge failed because another process keeps the ledger locked (file_lock.h); then `words` says
 * which one. */
bool ledger_is_busy(char *words, size_t bytes);

/* Starts a thread that calls give_back whenever another process needs memory that this one only keeps for reuse. */
void ledger_serve(void (*give_back)(void));

/* Asks the other processes to give back memory that they only keep, and waits for that, at most 200 ms, since one of
 * them may be stopped. The caller holds no lock. False where there are no others, so that another attempt to charge
 * makes no sense. */
bool ledger_ask_others(int device);

#endif
