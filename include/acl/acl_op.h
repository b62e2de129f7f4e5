/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators by name: attributes, and execution. Operands are tensor descriptions and data buffers (acl_base.h). There are
 * few such operators, those that programs still call this way; `docs/operators.md` lists them. */
#ifndef ACL_ACL_OP_H
#define ACL_ACL_OP_H

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclopAttr aclopAttr;

/* Which engine an operator would be compiled for. */
typedef enum aclEngineType {
  ACL_ENGINE_SYS = 0,
  ACL_ENGINE_AICORE = 1,
  ACL_ENGINE_VECTOR = 2,
} aclopEngineType;

/* Attributes: values by name. Create gives a new object, which the caller destroys (NULL: nothing is done), or NULL
 * without memory. Setting a name again replaces its value, of whatever type; strings and lists are copied. Not
 * thread-safe for writes. Errors: ACL_ERROR_INVALID_PARAM for a NULL object or name, a number of values below 0, or values
 * that are missing; ACL_ERROR_BAD_ALLOC. */
ACL_FUNC_VISIBILITY aclopAttr *aclopCreateAttr(void);
ACL_FUNC_VISIBILITY void aclopDestroyAttr(const aclopAttr *attr);
ACL_FUNC_VISIBILITY aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListBool(aclopAttr *attr, const char *attrName, int numValues,
                                                  const uint8_t *values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListInt(aclopAttr *attr, const char *attrName, int numValues,
                                                 const int64_t *values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListFloat(aclopAttr *attr, const char *attrName, int numValues,
                                                   const float *values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListString(aclopAttr *attr, const char *attrName, int numValues,
                                                    const char **values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListDataType(aclopAttr *attr, const char *attrName, int numValues,
                                                      const aclDataType values[]);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists,
                                                     const int *numValues, const int64_t *const values[]);

/* Queues an operator on a stream (NULL: the current context's default one). Operands come in the operator's order; an
 * optional one that is left out in the middle has a desc of ACL_DT_UNDEFINED. An operand may lie in any storage format that
 * its desc names. Memory that the operator needs besides is taken from the device, and given back behind it. All objects
 * may be destroyed when the call has returned, and what lies in host memory has been read. Nothing needs to be loaded
 * before: operators are built in. Any thread. Errors: ACL_ERROR_INVALID_PARAM (a NULL or a negative number),
 * ACL_ERROR_OP_NOT_FOUND (no such operator, or not with such operands or attributes),
 * ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError aclopExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                                            aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[],
                                            aclDataBuffer *outputs[], aclopAttr *attr, aclrtStream stream);

/* Would write down what AI cores are called with. There are none: ACL_ERROR_RT_FEATURE_NOT_SUPPORT. */
#define ACL_OP_DUMP_OP_AICORE_ARGS 0x00000001U
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

#ifdef __cplusplus
}
#endif

#endif
