/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators called by name: their attributes and their execution. Operands are tensor descriptions and data buffers
 * (acl_base.h). Only the few operators that programs still call in this way are available; docs/operators.md lists
 * them. */
#ifndef ACL_ACL_OP_H
#define ACL_ACL_OP_H

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The attributes of a call. */
typedef struct aclopAttr aclopAttr;

/* Engine that an operator would be compiled for. Has no effect here. */
typedef enum aclEngineType {
  ACL_ENGINE_SYS = 0,
  ACL_ENGINE_AICORE = 1,
  ACL_ENGINE_VECTOR = 2,
} aclopEngineType;

/* Attributes: values with names. Create returns a new object, which the caller destroys, or NULL if there is no
 * memory; destroying NULL has no effect. Setting a name again replaces its value, whatever its type. Strings and
 * lists are copied. An object must not be used while another thread changes it. Errors: ACL_ERROR_INVALID_PARAM for
 * a NULL object or name, a negative number of values, or NULL values; ACL_ERROR_BAD_ALLOC. */
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

/* Submits an operator to a stream (NULL: the default stream of the current context). Operands are in the operator's
 * order; an optional operand that is omitted before others has a desc of type ACL_DT_UNDEFINED. An operand may have
 * any storage format that its desc names. Further memory that the operator needs is allocated on the device and
 * freed after the operator. All objects may be destroyed when the call returns, and operands in host memory have
 * been read by then. Where the shape of an output depends on the data (Unique, CTCGreedyDecoder), its desc has the
 * largest one, and the call waits for the stream and writes the shape there. Operators are built in, so nothing needs
 * to be loaded before. Any thread may call it. Errors:
 * ACL_ERROR_INVALID_PARAM (NULL, or a negative number); ACL_ERROR_OP_NOT_FOUND (there is no such operator, or none
 * with such operands or attributes); ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError aclopExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                                            aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[],
                                            aclDataBuffer *outputs[], aclopAttr *attr, aclrtStream stream);

/* Load files of single operators, which `atc --singleop` makes: one from memory, or all .om files of a folder.
 * Operators are built in and run by their names, so the files are only checked, and nothing of them is kept. Any thread
 * may call them. Errors: ACL_ERROR_INVALID_PARAM (NULL); 145002 (no such folder, or no such file in it);
 * ACL_ERROR_PARSE_FILE (a file that was not made by that). */
ACL_FUNC_VISIBILITY aclError aclopSetModelDir(const char *modelDir);
ACL_FUNC_VISIBILITY aclError aclopLoad(const void *model, size_t modelSize);

/* Would record the arguments of kernels on AI cores. As there are none, both return
 * ACL_ERROR_RT_FEATURE_NOT_SUPPORT. */
#define ACL_OP_DUMP_OP_AICORE_ARGS 0x00000001U
ACL_FUNC_VISIBILITY aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
ACL_FUNC_VISIBILITY aclError aclopStopDumpArgs(uint32_t dumpType);

#ifdef __cplusplus
}
#endif

#endif
