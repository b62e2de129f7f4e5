/* SPDX-License-Identifier: Apache-2.0 */
/* Device profiles: what is known of each SoC. The numbers and their sources are in devices/ (README.md
 * there); scripts/gen_devices.py reads this struct's fields, checks that every profile has each of them, and
 * writes the table. Read-only, no lock, usable before anything is initialised. */
#ifndef CANNON_RUNTIME_DRY_PROFILE_H
#define CANNON_RUNTIME_DRY_PROFILE_H

#include <stdint.h>

#define PROFILE_DEFAULT_SOC "Ascend910B3"

/* Sizes of L1, UB and L0 are per core. Bandwidths and rates are of the whole device, all cores together;
 * latencies are of one access that misses the tiers above. A device without HBM (310P) has 0 in the hbm_
 * fields and works in its DDR; one without DDR the reverse. One field a line: gen_devices.py parses them. */
typedef struct {
  const char *soc_name; /* as aclrtGetSocName returns it */

  uint64_t npu_arch; /* CANN's architecture number: 2201 for the 910B and 910_93 classes */
  uint64_t cube_cores;
  uint64_t vector_cores;
  uint64_t ai_cpus;
  uint64_t core_hz;
  uint64_t cube_macs_per_cycle;    /* half precision, one core */
  uint64_t vector_bytes_per_cycle; /* of one operand, one core */
  uint64_t supports_bf16;          /* 0 or 1 */
  uint64_t supports_managed;       /* 0 or 1: aclrtMemAllocManaged */

  uint64_t hbm_bytes;
  uint64_t hbm_bandwidth_bytes_per_s;
  uint64_t hbm_latency_ns;
  uint64_t ddr_bytes;
  uint64_t ddr_bandwidth_bytes_per_s;
  uint64_t ddr_latency_ns;
  uint64_t l2_bytes;
  uint64_t l2_bandwidth_bytes_per_s;
  uint64_t l2_latency_ns;
  uint64_t l1_bytes;
  uint64_t l1_bandwidth_bytes_per_s;
  uint64_t l1_latency_ns;
  uint64_t ub_bytes;
  uint64_t ub_bandwidth_bytes_per_s;
  uint64_t ub_latency_ns;
  uint64_t l0a_bytes;
  uint64_t l0b_bytes;
  uint64_t l0c_bytes;
  uint64_t l0_bandwidth_bytes_per_s;
  uint64_t l0_latency_ns;
  uint64_t host_link_bandwidth_bytes_per_s; /* one direction */
  uint64_t host_link_latency_ns;

  uint64_t alloc_alignment_bytes;      /* of the address that aclrtMalloc returns */
  uint64_t alloc_round_bytes;          /* sizes are rounded up to this, ... */
  uint64_t alloc_extra_bytes;          /* ... then this is added (not by aclrtMallocAlign32); 0 from the 950 class on */
  uint64_t host_alloc_alignment_bytes; /* of aclrtMallocHost's address */
  uint64_t copy_alignment_bytes;       /* addresses of fast asynchronous copies */
  uint64_t data_block_bytes;           /* unit of moves to and from UB */
  uint64_t small_page_bytes;
  uint64_t huge_page_bytes;
  uint64_t giant_page_bytes;
  uint64_t huge_page_min_request_bytes; /* larger requests get huge pages under "huge first" */

  uint64_t max_streams;
  uint64_t max_events;
  uint64_t max_notifies;
  uint64_t stream_priorities; /* 0 is the highest */
} device_profile;

/* The profile of that name, with or without "Ascend", in any case; NULL when there is none. */
const device_profile *profile_find(const char *soc_name);

/* All of them: the default first, then by name. at(i) is NULL from count on. */
unsigned profile_count(void);
const device_profile *profile_at(unsigned i);

/* What aclrtMalloc hands out of: HBM, or DDR where there is none. */
static inline uint64_t profile_memory_bytes(const device_profile *p) {
  return p->hbm_bytes ? p->hbm_bytes : p->ddr_bytes;
}

/* Written by scripts/gen_devices.py; use the functions. */
extern const device_profile profile_table[];
extern const unsigned profile_table_count;

#endif
