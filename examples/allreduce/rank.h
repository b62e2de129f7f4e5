/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a data-parallel training: a device that computes gradients, averages them with the other ranks', and
 * updates its copy of the weights. The gradients are in buckets. A bucket is averaged as soon as it is computed, on a
 * stream of its own, while the device computes the next one. */
#pragma once

#include <acl/acl.h>
#include <hccl/hccl.h>

/* End the program unless a call returned 0. Any thread may call them. */
#define CHECK(call)      check((call), #call, __FILE__, __LINE__)
#define CHECK_HCCL(call) check_hccl((call), #call, __FILE__, __LINE__)
void check(int32_t code, const char *call, const char *file, int line);
void check_hccl(HcclResult code, const char *call, const char *file, int line);

enum { BUCKETS = 4, STEPS = 8, N = 1 << 18 }; /* N: floats of a bucket */

/* Trains on the calling thread's device, whose rank in comm is `rank` of n_ranks. Returns the number of weights that
 * are not what they must be after the last step. */
int rank_train(HcclComm comm, uint32_t rank, uint32_t n_ranks);
