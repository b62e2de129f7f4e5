/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of communicators. HcclCommConfig has grown from version to version; each structure begins with its
 * size and version, and nothing beyond that size is read. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/hccl/hccl_api.h"
#include "base/invariant.h"
#include "base/log.h"

/* The newest version, with all members that an older one begins with. */
typedef struct {
  size_t size;
  uint32_t magic, version;
  uint64_t reserved;
  uint32_t buffer_mib, deterministic;
  char name[COMM_NAME_MAX_LENGTH];
  char udi[UDI_MAX_LENGTH];
  uint32_t expansion_mode, traffic_class, service_level;
  uint32_t world_rank; /* version 6 */
  uint64_t job;
  uint8_t graph_zero_copy; /* version 10 */
  int32_t exec_timeout_s;
  char algorithm[HCCL_COMM_ALGO_MAX_LENGTH];
  char retry_enable[HCCL_COMM_RETRY_ENABLE_MAX_LENGTH], retry_parameters[HCCL_COMM_RETRY_PARAMS_MAX_LENGTH];
  char buffer_name[BUFFER_NAME_MAX_LENGTH];
  uint32_t qos;
  uint64_t window_gib;
} config_layout;

enum { NEWEST_VERSION = 10, LEAST_BYTES = offsetof(config_layout, name) };
_Static_assert(sizeof(config_layout) == 2240 && offsetof(config_layout, world_rank) == sizeof(HcclCommConfig),
               "the layout that programs use");

static const uint32_t NOT_SET = UINT32_MAX;

/* Which members may have which values. Members that the structure lacks are NOT_SET. */
typedef struct {
  const char *name;
  size_t offset;
  uint32_t least, most, step;
} config_range;
static const config_range ranges[] = {
    {"hcclBufferSize", offsetof(config_layout, buffer_mib), 1, NOT_SET, 1},
    {"hcclDeterministic", offsetof(config_layout, deterministic), 0, 2, 1},
    {"hcclOpExpansionMode", offsetof(config_layout, expansion_mode), 0, 6, 1},
    {"hcclRdmaTrafficClass", offsetof(config_layout, traffic_class), 0, 255, 4},
    {"hcclRdmaServiceLevel", offsetof(config_layout, service_level), 0, 7, 1},
    {"hcclExecTimeOut", offsetof(config_layout, exec_timeout_s), 0, INT32_MAX, 1},
    {"hcclQos", offsetof(config_layout, qos), 0, 7, 1},
};

static hccl_outcome check_range(const config_layout *c, const config_range *r) {
  uint32_t value;
  memcpy(&value, (const char *)c + r->offset, sizeof value);
  if (value == NOT_SET || (value >= r->least && value <= r->most && value % r->step == 0)) return 0;
  if (r->step > 1)
    return HCCL_REFUSE(HCCL_E_PARA, "config->%s is %u, expected a multiple of %u from %u to %u", r->name, value,
                       r->step, r->least, r->most);
  return HCCL_REFUSE(HCCL_E_PARA, "config->%s is %u, expected %u to %u", r->name, value, r->least, r->most);
}

/* Checks the structure's head: what it says of itself. */
static hccl_outcome check_head(const config_layout *head) {
  if (head->magic != HCCL_COMM_CONFIG_MAGIC_WORD)
    return HCCL_REFUSE(HCCL_E_PARA,
                       "config has the magic word %#x, expected %#x: fill it with HcclCommConfigInit first",
                       head->magic, HCCL_COMM_CONFIG_MAGIC_WORD);
  if (head->version < 1 || head->version > NEWEST_VERSION)
    return HCCL_REFUSE(HCCL_E_PARA, "config is of version %u, expected 1 to %d, which this library knows",
                       head->version, NEWEST_VERSION);
  if (head->size < LEAST_BYTES || head->size > sizeof(config_layout))
    return HCCL_REFUSE(HCCL_E_PARA, "config has a size of %zu bytes, expected %d to %zu", head->size, LEAST_BYTES,
                       sizeof(config_layout));
  return 0;
}

static hccl_outcome check_text(const char *text, size_t room, const char *name) {
  if (memchr(text, 0, room)) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "config->%s is no text of less than %zu characters: it has no end", name, room);
}

static int64_t value_or_unset(uint32_t value) { return value == NOT_SET ? COMM_UNSET : (int64_t)value; }

hccl_outcome hccl_config_read(const HcclCommConfig *config, comm_config *out) {
  config_layout c;
  *out = (comm_config)COMM_CONFIG_UNSET;
  HCCL_NEED(config);
  memcpy(&c, config, offsetof(config_layout, buffer_mib));
  HCCL_TRY(check_head(&c));

  const size_t size = c.size;
  memset(&c, 0, sizeof c);
  c.buffer_mib = c.deterministic = c.traffic_class = c.service_level = c.qos = NOT_SET;
  c.exec_timeout_s = -1;
  memcpy(&c, config, size);
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; ++i) HCCL_TRY(check_range(&c, &ranges[i]));
  HCCL_TRY(check_text(c.name, sizeof c.name, "hcclCommName"));
  HCCL_TRY(check_text(c.udi, sizeof c.udi, "hcclUdi"));
  HCCL_TRY(check_text(c.algorithm, sizeof c.algorithm, "hcclAlgo"));
  HCCL_TRY(check_text(c.buffer_name, sizeof c.buffer_name, "hcclBufferName"));
  if (c.algorithm[0])
    log_line(LOG_WARNING,
             "config->hcclAlgo is \"%s\"; it changes nothing, since algorithms are the process's (HCCL_ALGO)",
             c.algorithm);

  out->buffer_mib = value_or_unset(c.buffer_mib);
  out->deterministic = value_or_unset(c.deterministic);
  out->exec_timeout_s = c.exec_timeout_s < 0 ? COMM_UNSET : c.exec_timeout_s;
  out->expansion_mode = c.expansion_mode ? value_or_unset(c.expansion_mode) : COMM_UNSET;
  memcpy(out->name, c.name, sizeof out->name);
  return 0;
}

void HcclCommConfigInit(HcclCommConfig *config) {
  API_ENTER();
  const uint32_t version = HCCL_COMM_CONFIG_VERSION;
  if (!config) {
    hccl_publish(HCCL_REFUSE(HCCL_E_PTR, "config is NULL, expected a pointer"), __func__);
    return;
  }
  const config_layout head = {.size = sizeof *config, .magic = HCCL_COMM_CONFIG_MAGIC_WORD, .version = version};
  memset(config, 0, sizeof *config);
  memcpy(config->reserved, &head, sizeof config->reserved);
  config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
  config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
  config->hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
  config->hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
}

/* The members of HcclCommConfig that are documented for the release which this library stands for. */
uint32_t HcclGetCommConfigCapability(void) {
  API_ENTER();
  return strtol(CANN_VERSION, NULL, 10) >= 9 ? HCCL_COMM_CONFIG_BUFFER_NAME + 1 : HCCL_COMM_CONFIG_RESERVED;
}

/* The process-wide settings. */
HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  API_ENTER();
  if (config != HCCL_DETERMINISTIC)
    HCCL_RETURN(HCCL_REFUSE(HCCL_E_PARA, "config is %d, expected %d (HCCL_DETERMINISTIC)", config, HCCL_DETERMINISTIC));
  if (configValue.value < 0 || configValue.value > 2)
    HCCL_RETURN(HCCL_REFUSE(HCCL_E_PARA, "configValue is %d, expected 0, 1 or 2", configValue.value));
  HCCL_RETURN(hccl_outcome_of(comm_set_deterministic(configValue.value)));
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue) {
  API_ENTER();
  if (config != HCCL_DETERMINISTIC)
    HCCL_RETURN(HCCL_REFUSE(HCCL_E_PARA, "config is %d, expected %d (HCCL_DETERMINISTIC)", config, HCCL_DETERMINISTIC));
  if (!configValue) HCCL_RETURN(HCCL_REFUSE(HCCL_E_PTR, "configValue is NULL, expected a pointer"));
  configValue->value = comm_deterministic();
  return HCCL_SUCCESS;
}

/* The mode that HCCL_OP_EXPANSION_MODE names, as HcclCommConfig's number; 0: the product's default. */
static int64_t mode_of_environment(void) {
  static const char *const names[] = {NULL, "HOST", "AI_CPU", "AIV", NULL, "CCU_MS", "CCU_SCHED"};
  const char *text = getenv("HCCL_OP_EXPANSION_MODE");
  for (size_t i = 0; text && i < sizeof names / sizeof names[0]; ++i)
    if (names[i] && !strcmp(text, names[i])) return (int64_t)i;
  return text && !strcmp(text, "HOST_TS") ? 1 : 0;
}

static HcclOpExpansionMode mode_of(const comm *c) {
  static const HcclOpExpansionMode of_config[] = {HCCL_OP_EXPANSION_MODE_INVALID,  HCCL_OP_EXPANSION_MODE_HOST,
                                                  HCCL_OP_EXPANSION_MODE_AI_CPU,   HCCL_OP_EXPANSION_MODE_AIV,
                                                  HCCL_OP_EXPANSION_AIV_ONLY,      HCCL_OP_EXPANSION_MODE_CCU_MS,
                                                  HCCL_OP_EXPANSION_MODE_CCU_SCHED};
  int64_t mode = comm_configuration(c)->expansion_mode;
  if (mode <= 0) mode = mode_of_environment();
  if (mode <= 0) mode = hccl_product_here() & (HCCL_A3 | HCCL_950) ? 2 : 1;
  INVARIANT(mode < (int64_t)(sizeof of_config / sizeof of_config[0]));
  return of_config[mode];
}

static hccl_outcome config_info(HcclComm handle, HcclConfigType type, uint32_t bytes, void *info) {
  HELD_COMM c = NULL;
  HCCL_TRY(hccl_comm_of(handle, &c));
  HCCL_NEED(info);
  if (type != HCCL_CONFIG_TYPE_OP_EXPANSION_MODE)
    return HCCL_REFUSE(HCCL_E_NOT_SUPPORT, "cfgType is %d, expected %d (HCCL_CONFIG_TYPE_OP_EXPANSION_MODE)", type,
                       HCCL_CONFIG_TYPE_OP_EXPANSION_MODE);
  const HcclOpExpansionMode mode = mode_of(c);
  if (bytes != sizeof mode) return HCCL_REFUSE(HCCL_E_PARA, "infoLen is %u, expected %zu", bytes, sizeof mode);
  memcpy(info, &mode, sizeof mode);
  return 0;
}

HcclResult HcclConfigGetInfo(HcclComm comm, HcclConfigType cfgType, uint32_t infoLen, void *info) {
  API_ENTER();
  HCCL_RETURN(config_info(comm, cfgType, infoLen, info));
}
