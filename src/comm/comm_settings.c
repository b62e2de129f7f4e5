/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_settings.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/forks.h"
#include "base/lock.h"
#include "base/size.h"
#include "base/text.h"

typedef struct comm_variable comm_variable;

/* Reads the text into the field; false if it is wrong. */
typedef bool comm_reader(const comm_variable *v, const char *text, comm_settings *out);

struct comm_variable {
  const char *name;
  comm_reader *read;
  size_t field;         /* of comm_settings; for numbers and words */
  uint64_t least, most; /* for numbers */
  const char *words;    /* for words: separated by '|', from the value 0 on */
  const char *expected;
};

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static bool comm_read_number(const comm_variable *v, const char *text, comm_settings *out) {
  uint64_t value;
  if (size_parse_number(text, v->least, v->most, &value) != SIZE_OK) return false;
  const uint32_t number = (uint32_t)value;
  memcpy((char *)out + v->field, &number, sizeof number);
  return true;
}

static bool comm_read_port(const comm_variable *v, const char *text, comm_settings *out) {
  uint64_t value;
  if (size_parse_number(text, v->least, v->most, &value) != SIZE_OK) return false;
  out->if_base_port = (uint16_t)value;
  return true;
}

/* Seconds, with decimals where the user wants (they have a meaning for AIV). */
static bool comm_read_seconds(const comm_variable *v, const char *text, comm_settings *out) {
  const size_t n = strlen(text);
  if (!n || strspn(text, "0123456789.") != n || !isdigit((unsigned char)*text)) return false;
  double whole = 0, scale = 1;
  bool fraction = false;
  for (; *text; ++text) {
    if (*text == '.') {
      if (fraction) return false;
      fraction = true;
    } else if (fraction)
      whole += (scale /= 10) * (*text - '0');
    else
      whole = whole * 10 + (*text - '0');
  }
  if (whole < (double)v->least || whole > (double)v->most) return false;
  out->exec_timeout_s = whole;
  return true;
}

/* The index of the word among words that '|' separates; -1 if it is none of them. */
static int comm_word_index(const char *words, const char *text, size_t n, bool any_case) {
  for (int i = 0; *words; ++i) {
    const size_t length = strcspn(words, "|");
    if (n == length && (any_case ? strncasecmp(words, text, n) : strncmp(words, text, n)) == 0) return i;
    words += length + (words[length] == '|');
  }
  return -1;
}

static bool comm_read_word(const comm_variable *v, const char *text, comm_settings *out) {
  const int index = comm_word_index(v->words, text, strlen(text), true);
  if (index < 0) return false;
  const uint32_t value = (uint32_t)index + (uint32_t)v->least;
  memcpy((char *)out + v->field, &value, sizeof value);
  return true;
}

static bool comm_read_flag(const comm_variable *v, const char *text, comm_settings *out) {
  const int index = comm_word_index(v->words, text, strlen(text), false);
  out->entry_log = index == 1;
  return index >= 0;
}

static bool comm_read_family(const comm_variable *v, const char *text, comm_settings *out) {
  const int index = comm_word_index(v->words, text, strlen(text), false);
  out->socket_family = index == 0 ? AF_INET : AF_INET6;
  return index >= 0;
}

static bool comm_read_ip(const comm_variable *v, const char *text, comm_settings *out) {
  (void)v;
  struct sockaddr_in four = {.sin_family = AF_INET};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  memset(&out->if_ip, 0, sizeof out->if_ip);
  if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
    memcpy(&out->if_ip, &four, sizeof four);
    return true;
  }
  if (inet_pton(AF_INET6, text, &six.sin6_addr) != 1) return false;
  memcpy(&out->if_ip, &six, sizeof six);
  return true;
}

static bool comm_read_ifname(const comm_variable *v, const char *text, comm_settings *out) {
  (void)v;
  const char *names = text + (*text == '^');
  names += *names == '=';
  if (!*names || strlen(text) >= sizeof out->socket_ifname || strpbrk(names, "^= \t/") || *names == ',' ||
      strstr(names, ",,") || names[strlen(names) - 1] == ',')
    return false;
  strcpy(out->socket_ifname, text);
  return true;
}

/* `auto`, or ports and ranges of them with commas: 60000,60100-60200. */
static bool comm_read_ports(const comm_variable *v, const char *text, comm_settings *out) {
  out->n_host_ports = 0;
  if (strcmp(text, "auto") == 0) return true;
  for (;;) {
    char part[16], *dash;
    uint64_t first, last;
    const size_t n = strcspn(text, ",");
    if (n >= sizeof part || out->n_host_ports == COMM_PORT_RANGES) return false;
    memcpy(part, text, n);
    part[n] = '\0';
    dash = strchr(part, '-');
    if (dash) *dash = '\0';
    if (size_parse_number(part, v->least, v->most, &first) != SIZE_OK) return false;
    last = first;
    if (dash && size_parse_number(dash + 1, first, v->most, &last) != SIZE_OK) return false;
    out->host_ports[out->n_host_ports++] = (comm_ports){(uint16_t)first, (uint16_t)last};
    if (!text[n]) return true;
    text += n + 1;
  }
}

static bool comm_read_check(const comm_variable *v, const char *text, comm_settings *out) {
  static const char key[] = "inconsistent_check:";
  if (strncmp(text, key, sizeof key - 1) != 0) return false;
  text += sizeof key - 1;
  const int index = comm_word_index(v->words, text, strlen(text), false);
  out->inconsistent_check = index < 0 ? COMM_CHECK_FIRST : (comm_comparison)index;
  return index >= 0;
}

/* ---- HCCL_ALGO --------------------------------------------------------------------------------------------------- */

static const char algo_names[] = "ring|H-D_R|NHR|NHR_V1|NB|AHC|AHC_BROKE|pipeline|pairwise|fullmesh|NA|null";
static const char operation_names[] =
    "allreduce|reduce|broadcast|scatter|allgather|allgatherv|reducescatter|reducescatterv|alltoall|alltoallv|"
    "alltoallvc|send|receive|batchsendrecv|others";

/* `level1:ring`; the entry keeps levels 1 and 2. Level 0 is not the user's to choose, but is accepted. */
static bool comm_algo_level(const char *text, size_t n, comm_algo *entry) {
  static const char start[] = "level";
  const size_t prefix = sizeof start + 1; /* and a digit and a colon */
  if (n <= prefix || strncmp(text, start, sizeof start - 1) != 0 || text[prefix - 1] != ':') return false;
  const char level = text[prefix - 2];
  if (level < '0' || level > '3') return false;
  char *name = level == '1' ? entry->level1 : level == '2' ? entry->level2 : NULL;
  if (comm_word_index(algo_names, text + prefix, n - prefix, true) < 0) return false;
  if (!name) return true;
  memcpy(name, text + prefix, n - prefix);
  name[n - prefix] = '\0';
  return true;
}

/* Levels separated by ';'. */
static bool comm_algo_levels(const char *text, size_t n, comm_algo *entry) {
  while (n) {
    const char *end = memchr(text, ';', n);
    const size_t part = end ? (size_t)(end - text) : n;
    if (!comm_algo_level(text, part, entry)) return false;
    const size_t step = part + (end != NULL);
    text += step;
    n -= step;
  }
  return true;
}

/* `level0:NA;level1:ring` for all operations, or `allreduce=level0:NA;level1:ring/allgather=level1:NHR`. */
static bool comm_read_algo(const comm_variable *v, const char *text, comm_settings *out) {
  (void)v;
  out->n_algo = 0;
  while (*text) {
    const size_t n = strcspn(text, "/");
    const char *equals = memchr(text, '=', n);
    if (n == 0 || out->n_algo == COMM_ALGO_ENTRIES) return false;
    comm_algo *entry = &out->algo[out->n_algo++];
    *entry = (comm_algo){0};
    const size_t name = equals ? (size_t)(equals - text) : 0;
    if (equals && comm_word_index(operation_names, text, name, true) < 0) return false;
    for (size_t i = 0; i < name; ++i) entry->operation[i] = (char)tolower((unsigned char)text[i]);
    const size_t skip = name + (equals != NULL);
    if (n == skip || !comm_algo_levels(text + skip, n - skip, entry)) return false;
    if (!equals && (out->n_algo > 1 || text[n])) return false;
    text += n + (text[n] == '/');
  }
  return true;
}

/* An entry for the operation counts, else the one for "others", else that for all. */
const char *comm_settings_algorithm(const comm_settings *s, comm_kind kind) {
  const char *other = NULL;
  for (size_t i = 0; i < s->n_algo; ++i) {
    const comm_algo *entry = &s->algo[i];
    const char *name = entry->level1[0] && strcmp(entry->level1, "NA") != 0 && strcmp(entry->level1, "null") != 0
                           ? entry->level1
                           : NULL;
    if (strcasecmp(entry->operation, comm_kind_name((int)kind)) == 0) return name;
    if (!entry->operation[0] || strcmp(entry->operation, "others") == 0) other = name;
  }
  return other;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const comm_settings defaults = {
    .connect_timeout_s = 120, .exec_timeout_s = 1836, .buffer_mib = 200, .if_base_port = 60000};

#define FIELD(name) offsetof(comm_settings, name)
static const comm_variable table[] = {
    {"HCCL_CONNECT_TIMEOUT", comm_read_number, FIELD(connect_timeout_s), 120, 7200, NULL, "120 to 7200 seconds"},
    {"HCCL_EXEC_TIMEOUT", comm_read_seconds, 0, 0, INT32_MAX, NULL, "0 (no limit) to 2147483647 seconds"},
    {"HCCL_BUFFSIZE", comm_read_number, FIELD(buffer_mib), 1, UINT32_MAX >> 12, NULL, "1 to 1048575 MiB"},
    {"HCCL_DETERMINISTIC", comm_read_word, FIELD(deterministic), 0, 0, "false|true|strict", "false, true or strict"},
    {"HCCL_ALGO", comm_read_algo, 0, 0, 0, NULL,
     "level0:NA;level1:NAME;level2:NAME, or OPERATION=level0:NA;level1:NAME/OPERATION=..., with the names ring, H-D_R, "
     "NHR, NHR_V1, NB, AHC, pipeline, pairwise"},
    {"HCCL_OP_EXPANSION_MODE", comm_read_word, FIELD(expansion), COMM_EXPANSION_HOST, 0,
     "HOST|HOST_TS|AI_CPU|AIV|CCU_MS|CCU_SCHED", "HOST, HOST_TS, AI_CPU, AIV, CCU_MS or CCU_SCHED"},
    {"HCCL_IF_IP", comm_read_ip, 0, 0, 0, NULL, "an IPv4 or IPv6 address of this host"},
    {"HCCL_SOCKET_IFNAME", comm_read_ifname, 0, 0, 0, NULL,
     "names of interfaces with commas: eth (a beginning), ^eth (all others), =eth0 (a whole name), ^=eth0"},
    {"HCCL_SOCKET_FAMILY", comm_read_family, 0, 0, 0, "AF_INET|AF_INET6", "AF_INET or AF_INET6"},
    {"HCCL_IF_BASE_PORT", comm_read_port, 0, 1024, 65520, NULL, "1024 to 65520"},
    {"HCCL_HOST_SOCKET_PORT_RANGE", comm_read_ports, 0, 1, 65535, NULL,
     "auto, or at most 16 ports and ranges of ports with commas, such as 60000,60100-60200"},
    {"HCCL_ENTRY_LOG_ENABLE", comm_read_flag, 0, 0, 0, "0|1", "0 or 1"},
    {"HCCL_DFS_CONFIG", comm_read_check, 0, 0, 0, "first|on|off", "inconsistent_check:first, :on or :off"},
};
#undef FIELD

_Static_assert(sizeof(comm_determinism) == 4 && sizeof(comm_expansion) == 4, "comm_read_word writes 4 bytes");

status comm_settings_read(comm_settings *out) {
  *out = defaults;
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    const char *text = getenv(table[i].name);
    if (!text || !*text || table[i].read(&table[i], text, out)) continue;
    char shown[100];
    text_safe(shown, sizeof shown, text, strlen(text));
    return fail(ST_INVALID_VALUE, "%s is '%s', expected %s", table[i].name, shown, table[i].expected);
  }
  return ST_OK;
}

static mutex lock = MUTEX_INITIALIZER(COMM_SETTINGS); /* held by the thread that reads the variables */
FORK_RENEWS(lock)
static comm_settings settings;
static _Atomic bool are_read;

status comm_settings_get(const comm_settings **out) {
  if (!atomic_load(&are_read)) {
    mutex_lock(&lock);
    const status st = atomic_load(&are_read) ? ST_OK : comm_settings_read(&settings);
    if (st == ST_OK) atomic_store(&are_read, true);
    mutex_unlock(&lock);
    TRY(st);
  }
  *out = &settings;
  return ST_OK;
}
