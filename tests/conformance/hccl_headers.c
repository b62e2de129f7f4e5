/* SPDX-License-Identifier: Apache-2.0 */
/* The headers as a program for CANN 9 sees them: its configuration of communicators, which it fills itself. */
#define CANN_9_HEADERS
#include <stddef.h>

#include "acl_test.h"
#include "hccl/hccl.h"

/* Of a program that was compiled with the headers of CANN 9. */
_Static_assert(sizeof(HcclCommConfig) == 2240 && offsetof(HcclCommConfig, hcclWorldRankID) == 300 &&
                   offsetof(HcclCommConfig, hcclJobID) == 304 && offsetof(HcclCommConfig, hcclExecTimeOut) == 316 &&
                   offsetof(HcclCommConfig, hcclAlgo) == 320 && offsetof(HcclCommConfig, hcclBufferName) == 2098 &&
                   offsetof(HcclCommConfig, hcclQos) == 2228 &&
                   offsetof(HcclCommConfig, hcclSymWinMaxMemSizePerRank) == 2232,
               "the layout");

static void a_configuration_of_cann_9(void **state) {
  (void)state;
  char name[COMM_NAME_MAX_LENGTH];
  HcclRootInfo info;
  HcclCommConfig config;
  HcclComm comm;
  memset(&config, 0xA5, sizeof config);
  HcclCommConfigInit(&config);
  config.hcclWorldRankID = 5;
  config.hcclJobID = 77;
  config.hcclExecTimeOut = 300;
  config.hcclSymWinMaxMemSizePerRank = 16;
  strcpy(config.hcclCommName, "of_cann_9");
  CHECK_OK(HcclGetRootInfo(&info));
  CHECK_OK(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm));
  CHECK_OK(HcclGetCommName(comm, name));
  assert_string_equal(name, "of_cann_9");
  CHECK_OK(HcclCommDestroy(comm));
}

static void values_of_a_configuration_of_cann_9(void **state) {
  (void)state;
  HcclRootInfo info;
  HcclCommConfig config;
  HcclComm comm;
  CHECK_OK(HcclGetRootInfo(&info));
  HcclCommConfigInit(&config);
  config.hcclQos = 8;
  CHECK_CODE(HCCL_E_PARA, HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm));
  HcclCommConfigInit(&config);
  config.hcclExecTimeOut = -7;
  CHECK_CODE(HCCL_E_PARA, HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm));
  HcclCommConfigInit(&config);
  CHECK_OK(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm));
  CHECK_OK(HcclCommDestroy(comm));
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(a_configuration_of_cann_9), TEST(values_of_a_configuration_of_cann_9)};
  return cmocka_run_group_tests_name("hccl_headers", tests, device_up, device_down);
}
