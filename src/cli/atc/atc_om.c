/* SPDX-License-Identifier: Apache-2.0 */
/* Modes 1 and 6 of atc: what .om files say of themselves, those that were made for NPUs, too. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli/atc/atc.h"
#include "cli/atc/atc_json.h"
#include "cli/output.h"
#include "graph/file/om_shell.h"
#include "graph/onnx/wire.h"

/* Fields of ge.proto that are looked at here; atc_json.c has all. */
enum { MODEL_ATTR = 11, MAP_KEY = 1, MAP_VALUE = 2, ATTR_TEXT = 2, ATTR_INT = 3 };

/* An attribute of the model: its text, cut and made safe to print, and its number. */
typedef struct {
  char text[4096];
  int64_t number;
} attribute;

static bool same_bytes(const wire *w, const char *text) {
  return (size_t)(w->end - w->next) == strlen(text) && !memcmp(w->next, text, strlen(text));
}

/* Reads an entry of the map of attributes, if it has the key. */
static void read_entry(wire entry, const char *key, attribute *to) {
  wire_field f;
  bool meant = false;
  wire value = {0};
  while (wire_next(&entry, &f)) {
    if (f.number == MAP_KEY && f.type == WIRE_BYTES) meant = same_bytes(&f.bytes, key);
    if (f.number == MAP_VALUE && f.type == WIRE_BYTES) value = f.bytes;
  }
  while (meant && wire_next(&value, &f)) {
    if (f.number == ATTR_TEXT && f.type == WIRE_BYTES)
      text_safe(to->text, sizeof to->text, (const char *)f.bytes.next, (size_t)(f.bytes.end - f.bytes.next));
    if (f.number == ATTR_INT && f.type == WIRE_VARINT) to->number = (int64_t)f.value;
  }
}

/* An attribute of the model; "" and -1 if it has none. */
static attribute model_attribute(const void *def, uint64_t bytes, const char *key) {
  attribute found = {.number = -1};
  wire w = wire_of(def, bytes);
  wire_field f;
  while (wire_next(&w, &f))
    if (f.number == MODEL_ATTR && f.type == WIRE_BYTES) read_entry(f.bytes, key, &found);
  return found;
}

const char *atc_print_info(const void *om, size_t bytes) {
  static const struct {
    const char *name;
    uint32_t kind;
  } parts[] = {{"modeldef_size", OM_MODEL_DEF},  {"weight_data_size", OM_WEIGHTS},
               {"tbe_kernels_size", OM_KERNELS}, {"cust_aicpu_kernel_store_size", OM_AICPU_KERNELS},
               {"task_info_size", OM_TASK_INFO}, {"so_store_size", OM_SO_BINS}};
  const void *def, *at;
  uint64_t def_bytes, size;
  const char *fault = om_find(om, bytes, OM_MODEL_DEF, &def, &def_bytes);
  if (fault) return fault;
#define TEXT(key)   model_attribute(def, def_bytes, key).text
#define NUMBER(key) model_attribute(def, def_bytes, key).number
  printf("============ Display Model Info start ============\n");
  printf("Original Atc command line: %s\n", TEXT("atc_cmdline"));
  printf("system   info: atc_version[%s], ", TEXT("atc_version"));
  printf("soc_version[%s], ", TEXT("soc_version"));
  printf("framework_type[%s].\n", TEXT("framework_type"));
  printf("resource info: memory_size[%" PRId64 " B], weight_size[%" PRId64 " B], stream_num[%" PRId64
         "], event_num[%" PRId64 "].\n",
         NUMBER("memory_size"), NUMBER("weight_size"), NUMBER("stream_num"), NUMBER("event_num"));
#undef TEXT
#undef NUMBER
  printf("om       info: ");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    (void)om_find(om, bytes, parts[i].kind, &at, &size);
    printf("%s[%" PRIu64 " B]%s", parts[i].name, size, i + 1 < sizeof parts / sizeof *parts ? ", " : ".\n");
  }
  printf("============ Display Model Info end   ============\n");
  return NULL;
}

/* Reads an .om file into malloc'ed memory. Returns 0, or the exit code after a message. */
static int read_om(const char *path, char **om, size_t *bytes) {
  struct stat about;
  FILE *f = fopen(path, "re");
  *om = NULL;
  if (!f || fstat(fileno(f), &about) || !S_ISREG(about.st_mode)) {
    if (f) fclose(f);
    return atc_refuse(EXIT_ARGUMENTS, "E10003: --om is %s: %s", path, f ? "it is not a file" : strerror(errno));
  }
  *om = malloc((size_t)about.st_size + 1);
  *bytes = *om ? fread(*om, 1, (size_t)about.st_size, f) : 0;
  fclose(f);
  if (*om && om_is(*om, *bytes)) return 0;
  const bool has_memory = *om;
  free(*om);
  *om = NULL;
  return has_memory ? atc_refuse(EXIT_ARGUMENTS, "E10003: --om is %s, expected an .om file", path)
                    : atc_refuse(1, "E19999: no host memory for %s", path);
}

int atc_display(const char *path) {
  char *om;
  size_t bytes;
  int code = read_om(path, &om, &bytes);
  if (code) return code;
  const char *fault = atc_print_info(om, bytes);
  free(om);
  return fault ? atc_refuse(1, "E10003: %s: %s", path, fault) : 0;
}

int atc_write_json(const atc_options *o) {
  char *om;
  size_t bytes;
  const void *def;
  uint64_t def_bytes;
  if (!o->json) return atc_refuse(EXIT_ARGUMENTS, "E10004: --json is missing, expected the name of the file to write");
  int code = read_om(o->om, &om, &bytes);
  if (code) return code;
  output out = {.command = "atc", .path = o->json, .kind = OUTPUT_MODEL_JSON};
  const char *fault = om_find(om, bytes, OM_MODEL_DEF, &def, &def_bytes);
  if (!fault && !def_bytes) fault = "it has no description of its graph (MODEL_DEF)";
  if (fault) {
    code = atc_refuse(1, "E10003: %s: %s", o->om, fault);
  } else {
    FILE *f = output_check(&out) ? output_begin(&out) : NULL;
    bool whole = f && atc_json_write(f, def, def_bytes);
    if (!f || !output_end(&out, f, whole)) code = atc_refuse(1, "E10003: %s cannot be written", o->json);
  }
  free(om);
  return code;
}
