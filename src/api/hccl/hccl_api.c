/* SPDX-License-Identifier: Apache-2.0 */
#include "api/hccl/hccl_api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "runtime/device.h"

/* Numbers of CANN's catalogue of messages. */
enum {
  NUMBER_VARIABLE = 1,
  NUMBER_PEER = 2,
  NUMBER_ARGUMENT = 3,
  NUMBER_TABLE_FILE = 4,
  NUMBER_MISMATCH = 5,
  NUMBER_TIMEOUT = 6,
  NUMBER_TABLE_CONTENT = 14,
  NUMBER_OTHER = 9999,
};

static const struct {
  status st;
  hccl_outcome outcome;
} outcomes[] = {
#define ROW(st, code, number)                                                                                          \
  { ST_##st, HCCL_OUTCOME(HCCL_E_##code, NUMBER_##number) }
    ROW(INVALID_PARAM, PARA, ARGUMENT),
    ROW(INVALID_VALUE, PARA, ARGUMENT),
    ROW(INVALID_DEVICE, PARA, ARGUMENT),
    ROW(OTHER_CONTEXT, PARA, ARGUMENT),
    ROW(MISALIGNED, PARA, ARGUMENT),
    ROW(NOT_SUPPORTED, NOT_SUPPORT, ARGUMENT),
    ROW(CONFIG_PATH, OPEN_FILE_FAILURE, TABLE_FILE),
    ROW(CONFIG_PARSE, PARA, TABLE_CONTENT),
    ROW(CONFIG_ATTRIBUTE, PARA, TABLE_CONTENT),
    ROW(NO_MEMORY, MEMORY, OTHER),
    ROW(NO_HOST_MEMORY, MEMORY, OTHER),
    ROW(COMM_MISMATCH, PARA, MISMATCH),
    ROW(COMM_TIMEOUT, TIMEOUT, TIMEOUT),
    ROW(PEER_TIMEOUT, TIMEOUT, PEER),
    ROW(WAIT_TIMEOUT, TIMEOUT, TIMEOUT),
    ROW(STREAM_TIMEOUT, TIMEOUT, TIMEOUT),
    ROW(EVENT_TIMEOUT, TIMEOUT, TIMEOUT),
    ROW(COMM_BUSY, AGAIN, OTHER),
    ROW(COMM_REMOTE, REMOTE, PEER),
    ROW(COMM_SUSPENDED, SUSPENDING, OTHER),
    ROW(INTERNAL, INTERNAL, OTHER),
    ROW(FAILURE, SYSCALL, OTHER),
#undef ROW
};

hccl_outcome hccl_outcome_of(status st) {
  if (likely(st == ST_OK)) return 0;
  for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; ++i)
    if (outcomes[i].st == st) return outcomes[i].outcome;
  return HCCL_OUTCOME(HCCL_E_RUNTIME, NUMBER_OTHER);
}

/* Whether the words are about an environment variable, whose name they begin with. */
static bool is_about_variable(const char *words) {
  static const char *const prefixes[] = {"HCCL_", "RANK_TABLE_FILE ", "RANK_ID ", "RANK_SIZE "};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; ++i)
    if (!strncmp(words, prefixes[i], strlen(prefixes[i]))) return true;
  return false;
}

__attribute__((cold)) HcclResult hccl_publish(hccl_outcome outcome, const char *call) {
  char number[16];
  const char *words = fail_take();
  const bool variable = is_about_variable(words);
  fail_words("%s", words);
  snprintf(number, sizeof number, "EI%04d", variable ? NUMBER_VARIABLE : outcome >> 16);
  return (HcclResult)error_publish_as(number, outcome & 0xFFFF, call);
}

static hccl_product product_of_soc(const char *soc) {
  static const struct {
    const char *prefix; /* the first that fits counts */
    hccl_product product;
  } products[] = {
      {"Ascend310P", HCCL_310P}, {"Ascend910B", HCCL_A2},  {"Ascend910_93", HCCL_A3},
      {"Ascend950", HCCL_950},   {"Ascend910", HCCL_910A},
  };
  for (size_t i = 0; i < sizeof products / sizeof products[0]; ++i)
    if (!strncmp(soc, products[i].prefix, strlen(products[i].prefix))) return products[i].product;
  return HCCL_950; /* a later one */
}

hccl_product hccl_product_here(void) {
  static _Atomic hccl_product known;
  hccl_product product = atomic_load_explicit(&known, memory_order_relaxed);
  if (unlikely(!product)) {
    product = product_of_soc(device_profile_of_all()->soc_name);
    atomic_store_explicit(&known, product, memory_order_relaxed);
  }
  return product;
}

hccl_outcome hccl_expect_product(const char *what, unsigned products) {
  if (likely(hccl_product_here() & products)) return 0;
  return HCCL_REFUSE(HCCL_E_NOT_SUPPORT, "%s is not available on %s", what, device_profile_of_all()->soc_name);
}

hccl_outcome hccl_comm_of(HcclComm handle, comm **out) {
  *out = NULL;
  if (!handle) return HCCL_REFUSE(HCCL_E_PTR, "comm is NULL, expected a communicator");
  return hccl_outcome_of(comm_of(handle, out));
}
