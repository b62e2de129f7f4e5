/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/weight_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/store/hash.h"

enum { WEIGHT_ALIGNMENT = 64 };

static status weights_not_written(const char *path) {
  return fail(ST_MODEL_PATH, "%s cannot be written: %s", path, strerror(errno));
}

static status weight_path(const weight_files *w, const char *file, const char *suffix, char **path) {
  if (asprintf(path, "%s/%s%s", w->folder, file, suffix) >= 0) return ST_OK;
  return fail(ST_NO_HOST_MEMORY, "no host memory for the name %s", file);
}

/* The name of the file while it is written. */
static status beside_path(const weight_files *w, const char *file, char **path) {
  char suffix[32];
  snprintf(suffix, sizeof suffix, ".%d.part", (int)getpid());
  return weight_path(w, file, suffix, path);
}

static status combined_name(const weight_files *w, char file[ONNX_FILE_NAME]) {
  if (snprintf(file, ONNX_FILE_NAME, "%s_weight_combined", w->name) < ONNX_FILE_NAME) return ST_OK;
  return fail(ST_INVALID_PARAM, "the name of the model is longer than %d bytes", ONNX_FILE_NAME - 20);
}

/* Gives the file its name, or removes it. */
static status settle(const weight_files *w, const char *beside, const char *file, FILE *f, status st) {
  char *path;
  const bool failed = ferror(f), written = !fclose(f) && !failed;
  if (st == ST_OK && !written) st = weights_not_written(beside);
  if (st == ST_OK) st = weight_path(w, file, "", &path);
  if (st == ST_OK) {
    if (rename(beside, path)) st = weights_not_written(path);
    free(path);
  }
  if (st != ST_OK) unlink(beside);
  return st;
}

status weight_files_begin(weight_files *w) {
  char file[ONNX_FILE_NAME];
  if (mkdir(w->folder, 0777) && errno != EEXIST) return weights_not_written(w->folder);
  if (w->kind != WEIGHTS_COMBINED) return ST_OK;
  TRY(combined_name(w, file));
  TRY(beside_path(w, file, &w->beside));
  w->combined = fopen(w->beside, "we");
  return w->combined ? ST_OK : weights_not_written(w->beside);
}

/* Behind what is there, at an offset that suits all types. */
static void weight_append(weight_files *w, const onnx_tensor *t, uint64_t *offset) {
  static const char nothing[WEIGHT_ALIGNMENT];
  const uint64_t gap = -w->bytes % WEIGHT_ALIGNMENT;
  (void)fwrite(nothing, 1, gap, w->combined);
  (void)fwrite(t->contents, 1, t->bytes, w->combined);
  *offset = w->bytes + gap;
  w->bytes = *offset + t->bytes;
}

/* Whether the file is there, with the same contents: a hash is not proof. */
static bool is_there(const char *path, const onnx_tensor *t) {
  char part[1 << 14];
  FILE *f = fopen(path, "re");
  uint64_t n = 0;
  bool same = f;
  while (same && n < t->bytes) {
    const size_t got = fread(part, 1, sizeof part, f);
    same = got && got <= t->bytes - n && !memcmp(part, (const char *)t->contents + n, got);
    n += got;
  }
  same = same && fgetc(f) == EOF;
  if (f) fclose(f);
  return same;
}

static status put_file(const weight_files *w, const onnx_tensor *t, const char *file) {
  char *beside;
  TRY(beside_path(w, file, &beside));
  FILE *f = fopen(beside, "we");
  if (f) (void)fwrite(t->contents, 1, t->bytes, f);
  const status st = f ? settle(w, beside, file, f, ST_OK) : weights_not_written(beside);
  free(beside);
  return st;
}

status weight_files_put(void *weight_files_, const onnx_tensor *t, char file[ONNX_FILE_NAME], uint64_t *offset) {
  weight_files *w = weight_files_;
  char *path;
  if (w->kind == WEIGHTS_COMBINED) {
    weight_append(w, t, offset);
    return combined_name(w, file);
  }
  *offset = 0;
  snprintf(file, ONNX_FILE_NAME, "weight_%016jx", (uintmax_t)hash_bytes(HASH_START, t->contents, t->bytes));
  TRY(weight_path(w, file, "", &path));
  const bool there = is_there(path, t), other = !there && !access(path, F_OK);
  free(path);
  if (other) return fail(ST_MODEL_PATH, "%s/%s has other contents, expected those of %s", w->folder, file, t->name);
  return there ? ST_OK : put_file(w, t, file);
}

status weight_files_end(weight_files *w, status st) {
  char file[ONNX_FILE_NAME];
  if (!w->combined) return free(w->beside), st;
  if (st == ST_OK) st = combined_name(w, file);
  st = settle(w, w->beside, file, w->combined, st);
  free(w->beside);
  w->beside = NULL;
  w->combined = NULL;
  return st;
}
