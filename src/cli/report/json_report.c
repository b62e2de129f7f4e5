/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/json_report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/output.h"

static bool was_written_by_run(const cJSON *json) {
  const char *author = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, OUTPUT_JSON_AUTHOR));
  return author && strcmp(author, "cannon run") == 0 &&
         cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(json, "processes"));
}

/* The contents of a file, which the caller frees; NULL, and errno, if it cannot be read. */
static char *read_report_file(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "r");
  char *text = NULL;
  size_t room = 0;
  *bytes = 0;
  if (!f) return NULL;
  for (size_t got = 1; got;) {
    if (room - *bytes < 1 << 16) {
      room = room * 2 + (1 << 17);
      char *more = realloc(text, room);
      if (!more) abort();
      text = more;
    }
    got = fread(text + *bytes, 1, room - *bytes, f);
    *bytes += got;
  }
  const int error = ferror(f) ? errno : 0;
  fclose(f);
  if (!error) return text;
  free(text);
  errno = error;
  return NULL;
}

cJSON *json_report_read(const char *command, const char *path) {
  size_t bytes;
  char *text = read_report_file(path, &bytes);
  if (!text) {
    fprintf(stderr, "%s: %s cannot be read: %s\n", command, path, file_error(errno));
    return NULL;
  }
  cJSON *json = cJSON_ParseWithLength(text, bytes);
  free(text);
  if (json && was_written_by_run(json)) return json;
  fprintf(stderr, "%s: %s is no report of `cannon run --json`\n", command, path);
  cJSON_Delete(json);
  return NULL;
}
