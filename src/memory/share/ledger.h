/* What the processes of a machine (machine.h) have charged on each device, so that they share its memory as on one.
 * A process that is alone, or has no machine, is held to the limit by itself. All calls from any thread; a charge
 * costs two system calls and is meant per growth, not per allocation. */
#ifndef CANNON_MEMORY_SHARE_LEDGER_H
#define CANNON_MEMORY_SHARE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* physical[d]: the machine's number of this process's device d. Before the first charge; without, d itself. */
void ledger_set_devices(const int *physical, int n);

/* Charges `bytes`, unless all living processes together would then have charged more than the limit, or another
 * process, which may be stopped, keeps the ledger locked for longer than is waited for: false. */
bool ledger_charge(int device, uint64_t bytes, uint64_t limit_bytes);
void ledger_return(int device, uint64_t bytes);

/* What the other living processes have charged. */
uint64_t ledger_others(int device);

/* Where the latest charge was refused since another process keeps the ledger locked (file_lock.h): says which, in
 * words; else false. */
bool ledger_is_busy(char *words, size_t bytes);

/* From now on a thread of the library's calls give_back when another process needs what this one only keeps. */
void ledger_serve(void (*give_back)(void));

/* Has the others give back what they only keep, and waits for that, at most 200 ms (one of them may be stopped);
 * with no lock held. False where there are none, so that asking for memory again is no use. */
bool ledger_ask_others(int device);

#endif
