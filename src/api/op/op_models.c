/* SPDX-License-Identifier: Apache-2.0 */
/* Files of single operators, which `atc --singleop` makes for aclopExecuteV2. Operators run by their names, with files
 * or without; so a file is checked when it is loaded, and nothing of it is kept. Its TASK_INFO is "cannon operator 1\n"
 * and the operator's description in JSON. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl_op.h"
#include "api/api.h"
#include "api/model/mdl.h"
#include "cannon/model.h"
#include "graph/file/om_shell.h"
#include "op/aclop.h"

static const char operator_magic[] = "cannon operator 1\n";

static status check_operator_file(const char *what, const void *bytes, size_t n) {
  const void *at = NULL;
  uint64_t size = 0;
  const char *fault = om_find(bytes, n, OM_TASK_INFO, &at, &size);
  if (fault) return fail(ST_CONFIG_PARSE, "%s: %s", what, fault);
  if (at && size > sizeof operator_magic && !memcmp(at, operator_magic, sizeof operator_magic - 1)) return ST_OK;
  return fail(ST_CONFIG_PARSE, "%s is no file that `atc --singleop` has made here, expected one", what);
}

aclError aclopLoad(const void *model, size_t modelSize) {
  API_ENTER();
  NEED(model);
  API_RETURN(check_operator_file("model", model, modelSize));
}

static status check_operator_path(const char *folder, const char *name) {
  char *path;
  void *file;
  size_t n;
  if (asprintf(&path, "%s/%s", folder, name) < 0)
    return fail(ST_NO_HOST_MEMORY, "no host memory for the name of a file");
  status st = mdl_map_file(path, &file, &n);
  if (st == ST_OK) {
    st = check_operator_file(path, file, n);
    munmap(file, n);
  }
  free(path);
  return st;
}

/* Checks the .om files of a folder. */
static status check_operator_folder(const char *folder) {
  DIR *d = opendir(folder);
  status st = ST_OK;
  int found = 0;
  if (!d) return fail(ST_MODEL_PATH, "modelDir is %s: %s", folder, strerror(errno));
  for (struct dirent *e; st == ST_OK && (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    if (n <= 3 || strcmp(e->d_name + n - 3, ".om") != 0) continue;
    ++found;
    st = check_operator_path(folder, e->d_name);
  }
  closedir(d);
  if (st == ST_OK && !found) return fail(ST_MODEL_PATH, "modelDir is %s, which has no .om file", folder);
  return st;
}

aclError aclopSetModelDir(const char *modelDir) {
  API_ENTER();
  NEED(modelDir);
  API_RETURN(check_operator_folder(modelDir));
}

/* ---- making such files ------------------------------------------------------------------------------------------- */

static status check_descs(const char *name, int n, const aclTensorDesc *const descs[], aclop_operand *to, int most) {
  if (n < 0 || n > most) return fail(ST_INVALID_PARAM, "%s has %d descriptions, expected 0 to %d", name, n, most);
  for (int i = 0; i < n; ++i) {
    if (!descs || !descs[i]) return fail(ST_INVALID_PARAM, "%s[%d] is NULL, expected a description", name, i);
    to[i] = (aclop_operand){.desc = descs[i], .bytes = SIZE_MAX};
  }
  return ST_OK;
}

static status wrap_operator(const char *type, const char *text, void **om, size_t *bytes) {
  const size_t n_text = strlen(text), n = sizeof operator_magic - 1 + n_text;
  const om_partition_table table = {.n = 1};
  const om_partition part = {.kind = OM_TASK_INFO, .bytes = n};
  const size_t head = OM_HEADER_BYTES + sizeof table + sizeof part;
  char *file = malloc(head + n);
  if (!file) return fail(ST_NO_HOST_MEMORY, "no host memory for the file of an operator");
  om_fill_header(file, type, sizeof table + sizeof part + n);
  memcpy(file + OM_HEADER_BYTES, &table, sizeof table);
  memcpy(file + OM_HEADER_BYTES + sizeof table, &part, sizeof part);
  mempcpy(mempcpy(file + head, operator_magic, sizeof operator_magic - 1), text, n_text);
  *om = file;
  *bytes = head + n;
  return ST_OK;
}

aclError cannon_operator_build(const char *type, int n_inputs, const aclTensorDesc *const inputs[], int n_outputs,
                               const aclTensorDesc *const outputs[], const aclopAttr *attributes, const char *text,
                               void **om, size_t *bytes) {
  API_ENTER();
  enum { MOST = 64 };
  aclop_operand in[MOST], out[MOST];
  NEED(type);
  NEED(text);
  NEED(om);
  NEED(bytes);
  NEED_OK(check_descs("inputs", n_inputs, inputs, in, MOST));
  NEED_OK(check_descs("outputs", n_outputs, outputs, out, MOST));
  NEED_OK(aclop_check(&(aclop_call){.name = type,
                                    .inputs = in,
                                    .n_inputs = n_inputs,
                                    .outputs = out,
                                    .n_outputs = n_outputs,
                                    .attributes = attributes,
                                    .refusal = ST_OP_NOT_FOUND,
                                    .site = CALLER}));
  API_RETURN(wrap_operator(type, text, om, bytes));
}
