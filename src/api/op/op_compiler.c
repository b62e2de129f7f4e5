/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for operators that are called by name (op/aclop.h), and for the options of their compilation. */
#include "acl/acl_op_compiler.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/tdt.h"
#include "op/aclop.h"
#include "op/compile_options.h"
#include "runtime/context.h"

/* ---- execution --------------------------------------------------------------------------------------------------- */

/* The operands of an entry point, and the status that it returns for a call that is not legal. */
typedef struct {
  const char *name;
  int n_inputs, n_outputs;
  const aclTensorDesc *const *input_descs, *const *output_descs;
  const aclDataBuffer *const *inputs, *const *outputs;
  const aclopAttr *attr;
  status refusal;
  bool wants_shapes; /* output_descs get the shapes that depend on the data */
  void *site;
} named_call;

static status gather_operands(aclop_operand *to, int n, const aclTensorDesc *const *descs,
                              const aclDataBuffer *const *buffers, bool wants_shapes, const char *descs_name,
                              const char *buffers_name) {
  if (n && !descs) return fail(ST_INVALID_PARAM, "%s is NULL, expected %d descriptions", descs_name, n);
  if (n && !buffers) return fail(ST_INVALID_PARAM, "%s is NULL, expected %d data buffers", buffers_name, n);
  for (int i = 0; i < n; ++i) {
    if (!descs[i]) return fail(ST_INVALID_PARAM, "%s[%d] is NULL, expected a description", descs_name, i);
    if (!buffers[i]) return fail(ST_INVALID_PARAM, "%s[%d] is NULL, expected a data buffer", buffers_name, i);
    to[i] = (aclop_operand){descs[i], aclGetDataBufferAddr(buffers[i]), aclGetDataBufferSizeV2(buffers[i]),
                            wants_shapes ? (aclTensorDesc *)descs[i] : NULL};
  }
  return ST_OK;
}

/* The one operator that waits for the program, so it is no kernel. */
static status get_next_named(const aclop_call *c, aclrtStream handle) {
  stream *s;
  TRY(context_stream(handle, &s));
  return tdt_get_next(c, s);
}

static status execute_named(const named_call *c, aclrtStream stream) {
  enum { MOST = 64 };
  aclop_operand inputs[MOST], outputs[MOST];
  if (!c->name) return fail(ST_INVALID_PARAM, "opType is NULL, expected the name of an operator");
  if (c->n_inputs < 0 || c->n_inputs > MOST)
    return fail(ST_INVALID_PARAM, "numInputs is %d, expected 0 to %d", c->n_inputs, MOST);
  if (c->n_outputs < 0 || c->n_outputs > MOST)
    return fail(ST_INVALID_PARAM, "numOutputs is %d, expected 0 to %d", c->n_outputs, MOST);
  TRY(gather_operands(inputs, c->n_inputs, c->input_descs, c->inputs, false, "inputDesc", "inputs"));
  TRY(gather_operands(outputs, c->n_outputs, c->output_descs, c->outputs, c->wants_shapes, "outputDesc", "outputs"));
  const aclop_call call = {.name = c->name,
                           .inputs = inputs,
                           .n_inputs = c->n_inputs,
                           .outputs = outputs,
                           .n_outputs = c->n_outputs,
                           .attributes = c->attr,
                           .refusal = c->refusal,
                           .site = c->site};
  if (strcmp(c->name, "InitData") == 0) return ST_OK; /* GetNext opens the channel */
  if (strcmp(c->name, "GetNext") == 0) return get_next_named(&call, stream);
  return aclop_execute(&call, stream);
}

#define NAMED_CALL(code, shapes)                                                                                       \
  {                                                                                                                    \
    .name = opType, .n_inputs = numInputs, .n_outputs = numOutputs,                                                    \
    .input_descs = (const aclTensorDesc *const *)inputDesc, .output_descs = (const aclTensorDesc *const *)outputDesc,  \
    .inputs = (const aclDataBuffer *const *)inputs, .outputs = (const aclDataBuffer *const *)outputs, .attr = attr,    \
    .refusal = (code), .wants_shapes = (shapes), .site = CALLER                                                        \
  }

static status check_compilation(aclopEngineType engine, aclopCompileType type, const char *path) {
  if ((int)engine < ACL_ENGINE_SYS || (int)engine > ACL_ENGINE_VECTOR)
    return fail(ST_INVALID_PARAM, "engineType is %d, expected 0 to %d", (int)engine, ACL_ENGINE_VECTOR);
  if (type != ACL_COMPILE_SYS)
    return fail(ST_INVALID_PARAM, "compileFlag is %d, expected %d (ACL_COMPILE_SYS)", (int)type, ACL_COMPILE_SYS);
  return path ? fail(ST_INVALID_PARAM, "opPath is \"%.64s\", expected NULL", path) : ST_OK;
}

aclError aclopCompileAndExecute(const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
                                const aclDataBuffer *const inputs[], int numOutputs,
                                const aclTensorDesc *const outputDesc[], aclDataBuffer *const outputs[],
                                const aclopAttr *attr, aclopEngineType engineType, aclopCompileType compileFlag,
                                const char *opPath, aclrtStream stream) {
  API_ENTER();
  const named_call c = NAMED_CALL(ST_GRAPH_ENGINE, false);
  NEED_OK(check_compilation(engineType, compileFlag, opPath));
  API_RETURN(execute_named(&c, stream));
}

aclError aclopCompileAndExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                                  aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[],
                                  aclDataBuffer *outputs[], aclopAttr *attr, aclopEngineType engineType,
                                  aclopCompileType compileFlag, const char *opPath, aclrtStream stream) {
  API_ENTER();
  const named_call c = NAMED_CALL(ST_GRAPH_ENGINE, true);
  NEED_OK(check_compilation(engineType, compileFlag, opPath));
  API_RETURN(execute_named(&c, stream));
}

aclError aclopExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
                        int numOutputs, aclTensorDesc *outputDesc[], aclDataBuffer *outputs[], aclopAttr *attr,
                        aclrtStream stream) {
  API_ENTER();
  const named_call c = NAMED_CALL(ST_OP_NOT_FOUND, true);
  API_RETURN(execute_named(&c, stream));
}

static status no_ai_cores(uint32_t dump_type) {
  if (dump_type != ACL_OP_DUMP_OP_AICORE_ARGS)
    return fail(ST_INVALID_PARAM, "dumpType is %u, expected %u", dump_type, ACL_OP_DUMP_OP_AICORE_ARGS);
  return fail(ST_NOT_SUPPORTED, "arguments of AI cores can't be dumped where there are none");
}

aclError aclopStartDumpArgs(uint32_t dumpType, const char *path) {
  API_ENTER();
  NEED(path);
  API_REFUSE(no_ai_cores(dumpType));
}

aclError aclopStopDumpArgs(uint32_t dumpType) {
  API_ENTER();
  API_REFUSE(no_ai_cores(dumpType));
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

aclError aclSetCompileopt(aclCompileOpt opt, const char *value) {
  API_ENTER();
  NEED(value);
  API_RETURN(compile_option_set((int)opt, value));
}

size_t aclGetCompileoptSize(aclCompileOpt opt) {
  API_ENTER();
  size_t bytes = 0;
  API_RESULT(compile_option_size((int)opt, &bytes));
  return bytes;
}

aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length) {
  API_ENTER();
  NEED(value);
  API_RETURN(compile_option_get((int)opt, value, length));
}

aclError aclopSetCompileFlag(aclOpCompileFlag flag) {
  API_ENTER();
  if (flag != ACL_OP_COMPILE_DEFAULT && flag != ACL_OP_COMPILE_FUZZ)
    API_RETURN(fail(ST_INVALID_PARAM, "flag is %d, expected 0 or 1", (int)flag));
  return ACL_SUCCESS;
}
