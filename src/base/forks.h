/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that a forked child may take. Another thread of the parent's may have held one at the fork, and does not exist
 * in the child, which would wait for it for ever. */
#ifndef CANNON_BASE_FORKS_H
#define CANNON_BASE_FORKS_H

#include <pthread.h>

#include "base/lock.h"

/* At file scope, once in a file: a forked child finds the mutex free. For locks whose state is whole between any two
 * stores, and whose holders take no other lock of which that is not true. */
#define FORK_RENEWS(of_parent)                                                                                         \
  static void renew_lock_(void) { mutex_renew(&(of_parent)); }                                                         \
  __attribute__((constructor)) static void renew_lock_in_children_(void) { pthread_atfork(NULL, NULL, renew_lock_); }

#endif
