/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators called by name that CANN compiles before it runs them, and the options of its compiler. Nothing is
 * compiled here. */
#ifndef ACL_ACL_OP_COMPILER_H
#define ACL_ACL_OP_COMPILER_H

#include "acl_base.h"
#include "acl_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether an operator comes with CANN or is not registered. */
typedef enum aclCompileType {
  ACL_COMPILE_SYS = 0,
  ACL_COMPILE_UNREGISTERED = 1,
} aclopCompileType;

/* Options of the compiler. */
typedef enum {
  ACL_PRECISION_MODE = 0,
  ACL_AICORE_NUM = 1,
  ACL_AUTO_TUNE_MODE = 2,
  ACL_OP_SELECT_IMPL_MODE = 3,
  ACL_OPTYPELIST_FOR_IMPLMODE = 4,
  ACL_OP_DEBUG_LEVEL = 5,
  ACL_DEBUG_DIR = 6,
  ACL_OP_COMPILER_CACHE_MODE = 7,
  ACL_OP_COMPILER_CACHE_DIR = 8,
  ACL_OP_PERFORMANCE_MODE = 9,
  ACL_OP_JIT_COMPILE = 10,
  ACL_OP_DETERMINISTIC = 11,
  ACL_CUSTOMIZE_DTYPES = 12,
  ACL_OP_PRECISION_MODE = 13,
  ACL_ALLOW_HF32 = 14,
  ACL_PRECISION_MODE_V2 = 15,
  ACL_OP_DEBUG_OPTION = 16,
} aclCompileOpt;

/* How operators with unknown shapes are compiled. */
typedef enum aclCompileFlag {
  ACL_OP_COMPILE_DEFAULT = 0,
  ACL_OP_COMPILE_FUZZ = 1,
} aclOpCompileFlag;

/* The same as aclopExecuteV2 (acl_op.h), except for one error code: if there is no such operator, or none with such
 * operands or attributes, they return ACL_ERROR_GE_FAILURE. opPath: NULL. CANN's V2 writes dimensions that depend on
 * the data into the outputs' descs; no operator here has such outputs. */
ACL_FUNC_VISIBILITY aclError aclopCompileAndExecute(
    const char *opType, int numInputs, const aclTensorDesc *const inputDesc[], const aclDataBuffer *const inputs[],
    int numOutputs, const aclTensorDesc *const outputDesc[], aclDataBuffer *const outputs[], const aclopAttr *attr,
    aclopEngineType engineType, aclopCompileType compileFlag, const char *opPath, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclopCompileAndExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                                                      aclDataBuffer *inputs[], int numOutputs,
                                                      aclTensorDesc *outputDesc[], aclDataBuffer *outputs[],
                                                      aclopAttr *attr, aclopEngineType engineType,
                                                      aclopCompileType compileFlag, const char *opPath,
                                                      aclrtStream stream);

/* Options of the process. They are stored and returned, but have no effect otherwise. Size includes the terminating
 * zero. An option that was never set is "" (ACL_OP_JIT_COMPILE: "disable"). Any thread may call these functions.
 * Errors: ACL_ERROR_INVALID_PARAM for an unknown option (Size returns 0), for NULL, and for a value that is not
 * among the named values of an option that has such; ACL_ERROR_FAILURE for a length that is too small. */
ACL_FUNC_VISIBILITY aclError aclSetCompileopt(aclCompileOpt opt, const char *value);
ACL_FUNC_VISIBILITY size_t aclGetCompileoptSize(aclCompileOpt opt);
ACL_FUNC_VISIBILITY aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length);
ACL_FUNC_VISIBILITY aclError aclopSetCompileFlag(aclOpCompileFlag flag);

#ifdef __cplusplus
}
#endif

#endif
