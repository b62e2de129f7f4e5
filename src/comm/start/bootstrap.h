/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a new communicator find each other. One rank (the root) makes the root information, which the
 * program carries to the others; all ranks then join a session over TCP, in which they exchange small records (cards).
 * A session ends when the communicator is there.
 *
 *   root    bootstrap_root_info: a thread listens for the ranks that present the information's number, collects a card
 *           of each rank, and sends all of them to all, as often as the ranks ask
 *   rank    bootstrap_join connects (also the root's own process, and several ranks of one process, by threads of their
 *           own or one after the other), bootstrap_exchange exchanges, bootstrap_leave ends
 *
 * The root's thread ends when its session is over, or has failed, or nobody has joined within the timeout. Called by
 * communicator.c. Thread-safe. */
#ifndef CANNON_COMM_START_BOOTSTRAP_H
#define CANNON_COMM_START_BOOTSTRAP_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { BOOTSTRAP_INFO_BYTES = 4108 };

/* The host's address that other hosts reach (HCCL_IF_IP, else HCCL_SOCKET_IFNAME with its forms `eth`, `^eth`, `=eth0`,
 * `^=eth0` and commas, else the interfaces by name, docker* after them, lo last; HCCL_SOCKET_FAMILY: AF_INET or
 * AF_INET6). ST_INVALID_VALUE, with a message, if a variable's value is wrong or names no interface. */
status bootstrap_host_address(struct sockaddr_storage *out);

/* Makes the information and starts the root's thread. The bytes begin with the host's address as text, as clients
 * expect. The port is one of HCCL_HOST_SOCKET_PORT_RANGE where that is set, else any free one. */
status bootstrap_root_info(unsigned char info[BOOTSTRAP_INFO_BYTES]);

/* For communicators by a rank table: the same for an address that every rank can derive. The rank 0 of the table calls
 * it; the others make the same information with bootstrap_table_info and wait until rank 0 listens. `number` identifies
 * the session (the same in all ranks). */
status bootstrap_table_root(const struct sockaddr_storage *address, uint64_t number);
void bootstrap_table_info(const struct sockaddr_storage *address, uint64_t number,
                          unsigned char info[BOOTSTRAP_INFO_BYTES]);

typedef struct bootstrap bootstrap; /* one rank's part in a session */

/* Joins as `rank` of n_ranks. Waits for nobody but the root. HCCL_CONNECT_TIMEOUT (120 to 7200 s, 120 if unset) bounds
 * this and the following calls. Messages name what was wrong: information that is damaged or of another version, a root
 * that cannot be reached (address, errno), another number of ranks than the others have, a rank that is there already,
 * ranks that are missing when the time is over (by number). */
status bootstrap_join(const unsigned char info[BOOTSTRAP_INFO_BYTES], uint32_t n_ranks, uint32_t rank, bootstrap **out);

/* Gives `bytes` bytes (the same number in all ranks, at most 64 KiB) and gets those of all ranks, in the order of
 * ranks. All ranks call it equally often. Blocks until all ranks have called it. If a rank fails or leaves early, the
 * others get a message that names it. */
status bootstrap_exchange(bootstrap *b, const void *own, size_t bytes, void *all);

/* As bootstrap_exchange for several ranks of one process by one thread, whose parts are b[0..n). own: n * bytes. */
status bootstrap_exchange_many(bootstrap *const *b, size_t n, const void *own, size_t bytes, void *all);

/* Makes the other ranks' exchanges fail with these words, and leaves. */
void bootstrap_abandon(bootstrap *b, const char *words);

/* Ends this rank's part, in good order. */
void bootstrap_leave(bootstrap *b);

/* HCCL_CONNECT_TIMEOUT in seconds. ST_INVALID_VALUE with a message where it is out of its range. */
status bootstrap_timeout_s(uint32_t *seconds);

#endif
