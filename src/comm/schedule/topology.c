/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/schedule/topology.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOPOLOGY_BYTES = 1 << 20 };

static status topology_text(const cJSON *object, const char *member, char *out, size_t room) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, member));
  if (!text || !*text || strlen(text) >= room)
    return fail(ST_INVALID_VALUE, "%s is %s, expected a text of 1 to %zu bytes", member, text ? text : "no text",
                room - 1);
  memcpy(out, text, strlen(text) + 1);
  return ST_OK;
}

/* Reads {"value": number, "source": text}. The number must be `least` to `most`. */
static status topology_number(const cJSON *object, const char *member, double least, double most, double *out) {
  const cJSON *entry = cJSON_GetObjectItemCaseSensitive(object, member);
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(entry, "value");
  const char *source = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "source"));
  if (!cJSON_IsNumber(value))
    return fail(ST_INVALID_VALUE, "%s is %s, expected {\"value\": NUMBER, \"source\": TEXT}", member,
                entry ? "without value" : "missing");
  *out = value->valuedouble;
  if (!(*out >= least && *out <= most))
    return fail(ST_INVALID_VALUE, "%s is %g, expected %g to %g", member, *out, least, most);
  if (!source || !*source)
    return fail(ST_INVALID_VALUE, "%s has no source, expected a document or \"estimate: ...\"", member);
  return ST_OK;
}

static status topology_parse_level(const cJSON *object, topology_level *out) {
  double n_ranks;
  const cJSON *level = cJSON_GetObjectItemCaseSensitive(object, "hccl_level");
  TRY(topology_text(object, "name", out->name, sizeof out->name));
  if (!cJSON_IsNumber(level) || level->valueint < 0 || level->valueint > 2)
    return fail(ST_INVALID_VALUE, "hccl_level of level %s is not 0, 1 or 2", out->name);
  out->hccl_level = (uint32_t)level->valueint;
  TRY(topology_number(object, "ranks", 0, 1 << 24, &n_ranks));
  out->n_ranks = (uint32_t)n_ranks;
  TRY(topology_number(object, "latency_ns", 0, 1e12, &out->latency_ns));
  TRY(topology_number(object, "rank_bytes_per_s", 1, 1e18, &out->rank_bytes_per_s));
  TRY(topology_number(object, "link_bytes_per_s", 0, 1e18, &out->link_bytes_per_s));
  return topology_number(object, "oversubscription", 1, 1e6, &out->oversubscription);
}

/* Each level's groups consist of whole groups of the level below, and the last level has all devices. */
static status topology_check_sizes(const topology *t) {
  for (uint32_t l = 0; l < t->n_levels; ++l) {
    const uint32_t n = t->level[l].n_ranks, below = l ? t->level[l - 1].n_ranks : 1;
    if (l + 1 == t->n_levels) {
      if (n)
        return fail(ST_INVALID_VALUE, "ranks of the last level %s is %u, expected 0 (no limit)", t->level[l].name, n);
    } else if (n <= below || n % below != 0) {
      return fail(ST_INVALID_VALUE, "ranks of level %s is %u, expected a multiple of %u, and more than that",
                  t->level[l].name, n, below);
    }
  }
  return ST_OK;
}

static status topology_parse_json(const cJSON *json, topology *out) {
  const cJSON *levels = cJSON_GetObjectItemCaseSensitive(json, "levels"), *level;
  TRY(topology_text(json, "name", out->name, sizeof out->name));
  TRY(topology_text(json, "about", out->about, sizeof out->about));
  TRY(topology_number(json, "reduce_bytes_per_s", 1, 1e18, &out->reduce_bytes_per_s));
  const int n = cJSON_IsArray(levels) ? cJSON_GetArraySize(levels) : 0;
  if (n < 1 || n > SCHEDULE_MAX_LEVELS)
    return fail(ST_INVALID_VALUE, "levels has %d elements, expected an array of 1 to %d", n, SCHEDULE_MAX_LEVELS);
  cJSON_ArrayForEach(level, levels) TRY(topology_parse_level(level, &out->level[out->n_levels++]));
  return topology_check_sizes(out);
}

status topology_parse(const char *text, topology *out) {
  *out = (topology){.n_levels = 0};
  cJSON *json = cJSON_Parse(text);
  if (!json) return fail(ST_INVALID_VALUE, "the topology is no JSON");
  const status st = topology_parse_json(json, out);
  cJSON_Delete(json);
  return st;
}

status topology_read(const char *path, topology *out) {
  FILE *f = fopen(path, "re");
  if (!f) return fail(ST_INVALID_VALUE, "%s: %s", path, strerror(errno));
  char *text = malloc(MAX_TOPOLOGY_BYTES);
  const size_t n = text ? fread(text, 1, MAX_TOPOLOGY_BYTES, f) : 0;
  const bool good = text && !ferror(f) && n < MAX_TOPOLOGY_BYTES;
  fclose(f);
  if (good) text[n] = '\0';
  const status st = good ? topology_parse(text, out)
                         : fail(ST_INVALID_VALUE, "%s cannot be read, expected a file of less than 1 MiB", path);
  free(text);
  return st;
}

uint32_t topology_level_between(const topology *t, uint32_t device_a, uint32_t device_b) {
  uint32_t l = 0;
  while (l + 1 < t->n_levels && device_a / t->level[l].n_ranks != device_b / t->level[l].n_ranks) ++l;
  return l;
}
