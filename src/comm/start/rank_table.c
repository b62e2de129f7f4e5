/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/start/rank_table.h"

#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "base/text.h"

enum { TABLE_MAX_BYTES = 16 << 20, TABLE_MAX_RANKS = 1 << 16, TABLE_MAX_DEVICE = 65535 };

typedef struct {
  char text[100];
} table_shown;

/* A value as messages print it. */
static table_shown table_show(const cJSON *v) {
  table_shown s;
  const char *text = cJSON_GetStringValue(v);
  if (text)
    text_safe(s.text, sizeof s.text, text, strlen(text));
  else if (cJSON_IsNumber(v))
    snprintf(s.text, sizeof s.text, "%g", v->valuedouble);
  else
    snprintf(s.text, sizeof s.text, "%s", !v ? "missing" : cJSON_IsArray(v) ? "a list" : "no string or number");
  return s;
}

/* Reads a string of 1 to RANK_TABLE_ID - 1 bytes. */
static status table_string(const cJSON *object, const char *key, char out[RANK_TABLE_ID]) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);
  const char *text = cJSON_GetStringValue(v);
  if (!text || !*text || strlen(text) >= RANK_TABLE_ID)
    return fail(ST_INVALID_VALUE, "%s is %s, expected a string of 1 to %d bytes", key, table_show(v).text,
                RANK_TABLE_ID - 1);
  strcpy(out, text);
  return ST_OK;
}

/* Reads a whole number, as a string or as a number. */
static status table_number(const cJSON *object, const char *key, uint32_t most, uint32_t *out) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);
  const char *text = cJSON_GetStringValue(v);
  uint64_t value = UINT64_MAX;
  if (text && size_parse_number(text, 0, most, &value) != SIZE_OK) value = UINT64_MAX;
  if (cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble <= most &&
      v->valuedouble == (double)(uint64_t)v->valuedouble)
    value = (uint64_t)v->valuedouble;
  if (value > most) return fail(ST_INVALID_VALUE, "%s is %s, expected 0 to %u", key, table_show(v).text, most);
  *out = (uint32_t)value;
  return ST_OK;
}

static status table_list(const cJSON *object, const char *key, const cJSON **list) {
  *list = cJSON_GetObjectItemCaseSensitive(object, key);
  if (cJSON_IsArray(*list) && (*list)->child) return ST_OK;
  return fail(ST_INVALID_VALUE, "%s is %s, expected a list that is not empty", key, table_show(*list).text);
}

static bool table_address(const char *text, struct sockaddr_storage *out) {
  struct sockaddr_in four = {.sin_family = AF_INET};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
    memcpy(out, &four, sizeof four);
  else if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1)
    memcpy(out, &six, sizeof six);
  return out->ss_family != 0;
}

/* Adds the ranks of one server to the table, which has room for them. */
static status table_add_server(const cJSON *server, rank_table *t) {
  rank_table_entry e = {0};
  char ip[RANK_TABLE_ID];
  const cJSON *devices, *device;
  TRY(table_string(server, "server_id", e.server));
  table_address(e.server, &e.host);
  if (cJSON_GetObjectItemCaseSensitive(server, "host_ip")) {
    TRY(table_string(server, "host_ip", ip));
    if (!table_address(ip, &e.host))
      return fail(ST_INVALID_VALUE, "host_ip is not an IPv4 or IPv6 address in server_id %s, expected one", e.server);
  }
  TRY(table_list(server, "device", &devices));
  cJSON_ArrayForEach(device, devices) {
    TRY(table_number(device, "device_id", TABLE_MAX_DEVICE, &e.device));
    TRY(table_number(device, "rank_id", TABLE_MAX_RANKS - 1, &e.rank));
    t->ranks[t->n_ranks++] = e;
  }
  return ST_OK;
}

static int table_by_rank(const void *a, const void *b) {
  const rank_table_entry *x = a, *y = b;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

static int table_by_device(const void *a, const void *b) {
  const rank_table_entry *x = a, *y = b;
  const int order = strcmp(x->server, y->server);
  return order ? order : (x->device > y->device) - (x->device < y->device);
}

/* Sorts by rank, and checks that ranks are 0 to n - 1 and devices different. */
static status table_check(rank_table *t) {
  qsort(t->ranks, t->n_ranks, sizeof *t->ranks, table_by_device);
  for (uint32_t i = 1; i < t->n_ranks; ++i)
    if (table_by_device(&t->ranks[i - 1], &t->ranks[i]) == 0)
      return fail(ST_INVALID_VALUE, "device_id is %u twice in server_id %s, expected each device once",
                  t->ranks[i].device, t->ranks[i].server);
  qsort(t->ranks, t->n_ranks, sizeof *t->ranks, table_by_rank);
  for (uint32_t i = 0; i < t->n_ranks; ++i)
    if (t->ranks[i].rank != i)
      return fail(ST_INVALID_VALUE, "rank_id is %u %s, expected each of 0 to %u once", t->ranks[i].rank,
                  t->ranks[i].rank < i ? "twice" : "without the ranks before it", t->n_ranks - 1);
  return ST_OK;
}

/* The super pods of version 1.2. */
static status table_add_pods(const cJSON *root, rank_table *t) {
  const cJSON *pods, *pod, *servers, *server;
  if (!cJSON_GetObjectItemCaseSensitive(root, "super_pod_list")) return ST_OK;
  TRY(table_list(root, "super_pod_list", &pods));
  cJSON_ArrayForEach(pod, pods) {
    char name[RANK_TABLE_ID], id[RANK_TABLE_ID];
    TRY(table_string(pod, "super_pod_id", name));
    TRY(table_list(pod, "server_list", &servers));
    cJSON_ArrayForEach(server, servers) {
      bool found = false;
      TRY(table_string(server, "server_id", id));
      for (uint32_t i = 0; i < t->n_ranks; ++i)
        if (strcmp(t->ranks[i].server, id) == 0) {
          found = true;
          strcpy(t->ranks[i].super_pod, name);
        }
      if (!found)
        return fail(ST_INVALID_VALUE, "server_id of super_pod_list is %s, expected one of server_list",
                    table_show(cJSON_GetObjectItemCaseSensitive(server, "server_id")).text);
    }
  }
  return ST_OK;
}

static status table_fill(const cJSON *root, const cJSON *servers, rank_table *t) {
  const cJSON *server;
  cJSON_ArrayForEach(server, servers) TRY(table_add_server(server, t));
  TRY(table_check(t));
  return table_add_pods(root, t);
}

static status table_read(const cJSON *root, rank_table *out) {
  char state[RANK_TABLE_ID], version[RANK_TABLE_ID];
  const cJSON *servers, *server;
  uint32_t n_servers;
  size_t n = 0;
  TRY(table_string(root, "status", state));
  if (strcmp(state, "completed") != 0)
    return fail(ST_INVALID_VALUE, "status is %s, expected completed",
                table_show(cJSON_GetObjectItemCaseSensitive(root, "status")).text);
  TRY(table_string(root, "version", version));
  if (strcmp(version, "1.0") != 0 && strcmp(version, "1.2") != 0)
    return fail(ST_INVALID_VALUE, "version is %s, expected 1.0 or 1.2",
                table_show(cJSON_GetObjectItemCaseSensitive(root, "version")).text);
  TRY(table_list(root, "server_list", &servers));
  TRY(table_number(root, "server_count", TABLE_MAX_RANKS, &n_servers));
  if (cJSON_GetArraySize(servers) != (int)n_servers)
    return fail(ST_INVALID_VALUE, "server_count is %u, expected the %d servers of server_list", n_servers,
                cJSON_GetArraySize(servers));
  cJSON_ArrayForEach(server, servers) n +=
      (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(server, "device"));
  if (n > TABLE_MAX_RANKS)
    return fail(ST_INVALID_VALUE, "server_list has %zu devices, expected at most %d", n, TABLE_MAX_RANKS);
  rank_table t = {.ranks = calloc(n + 1, sizeof *t.ranks)};
  if (!t.ranks) return fail(ST_NO_HOST_MEMORY, "no host memory for a rank table of %zu ranks", n);
  const status st = table_fill(root, servers, &t);
  if (st == ST_OK)
    *out = t;
  else
    rank_table_free(&t);
  return st;
}

status rank_table_parse(const char *text, rank_table *out) {
  cJSON *root = cJSON_ParseWithOpts(text, NULL, true);
  const status st = cJSON_IsObject(root) ? table_read(root, out)
                                         : fail(ST_INVALID_VALUE, "the rank table is no JSON object, expected one");
  cJSON_Delete(root);
  return st;
}

/* Reads the file to a malloc'ed string. Does not wait for the writer of a pipe. */
static status table_text(const char *path, char **out) {
  struct stat s;
  char shown[200];
  text_safe(shown, sizeof shown, path, strnlen(path, PATH_MAX));
  if (strnlen(path, PATH_MAX) >= PATH_MAX)
    return fail(ST_CONFIG_PATH, "the rank table's path is too long, expected less than %d bytes", PATH_MAX);
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return fail(ST_CONFIG_PATH, "the rank table %s cannot be opened: %s", shown, strerror(errno));
  const bool good = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size <= TABLE_MAX_BYTES;
  char *text = good ? malloc((size_t)s.st_size + 1) : NULL;
  size_t n = 0;
  ssize_t k = 0;
  while (text && n < (size_t)s.st_size && (k = read(fd, text + n, (size_t)s.st_size - n)) > 0) n += (size_t)k;
  close(fd);
  if (!text || k < 0) {
    free(text);
    return fail(ST_CONFIG_PATH, "the rank table %s cannot be read, expected a file of at most %d MiB", shown,
                TABLE_MAX_BYTES >> 20);
  }
  text[n] = '\0';
  *out = text;
  return ST_OK;
}

status rank_table_load(const char *path, rank_table *out) {
  char *text;
  TRY(table_text(path, &text));
  const status st = rank_table_parse(text, out);
  free(text);
  return st;
}

void rank_table_free(rank_table *table) {
  free(table->ranks);
  *table = (rank_table){0};
}
