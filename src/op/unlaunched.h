/* SPDX-License-Identifier: Apache-2.0 */
/* Executors that the program prepares and never launches, because it only asked how much workspace a call needs.
 *
 * CANN frees an executor in phase two, or in aclDestroyAclOpExecutor if it was made repeatable, and does not say what
 * becomes of the others. Phase two uses the tensors of phase one, so a program destroys these after it; an executor
 * whose tensors were destroyed first is never launched. Hence:
 *
 *   * While all of its tensors live, an executor is kept, since it may still be launched.
 *   * When the first or the second of them was destroyed, it is freed: not at once, but when more executors are needed
 *     than there are, and LEAST_NEW others were prepared since. Until then it can still be launched, for programs that
 *     destroy their tensors a little early; later a launch is refused like that of any executor which is gone.
 *   * A repeatable executor is never freed here, nor one of the library itself (a model's, or a step of an operator).
 *   * While the checker listens to handles, none is freed, so that its report has them all.
 *
 * Nothing is linked for that, so the two phases cost three stores more: an executor notes its first two tensors, of
 * which a program that asks again and again hardly keeps both, and the cache of executors is searched when it is empty.
 * Sanitizer builds have no such cache, and keep all executors. Called by op/ and src/api. Thread-safe. */
#ifndef CANNON_OP_UNLAUNCHED_H
#define CANNON_OP_UNLAUNCHED_H

#include "op/executor.h"

/* An executor that phase one has prepared lives as long as the tensors of the call, until it is launched. */
void unlaunched_watch(executor *e, const op_arg *a);

#endif
