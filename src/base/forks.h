/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that a forked child may take. At the fork another thread of the parent may have held one. That thread does not
 * exist in the child, which would wait for the lock for ever. */
#ifndef CANNON_BASE_FORKS_H
#define CANNON_BASE_FORKS_H

#include <pthread.h>

#include "base/lock.h"

/* Makes the mutex free in every forked child. Used at file scope, once in a file, for a lock whose data is consistent
 * after every single store, and whose holders take no lock of which that is not true. */
#define FORK_RENEWS(of_parent)                                                                                         \
  static void renew_lock_(void) { mutex_renew(&(of_parent)); }                                                         \
  __attribute__((constructor)) static void renew_lock_in_children_(void) { pthread_atfork(NULL, NULL, renew_lock_); }

#endif
