/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for attributes of operators that are called by name (op/attr.h). */
#include "acl/acl_op.h"
#include "api/api.h"
#include "op/attr.h"

aclopAttr *aclopCreateAttr(void) {
  API_ENTER();
  aclopAttr *attr = attributes_new();
  if (!attr)
    API_RESULT(ST_NO_HOST_MEMORY);
  else
    API_TELL_HANDLE(HOOK_OP_ATTR, HOOK_HANDLE_CREATED, attr);
  return attr;
}

void aclopDestroyAttr(const aclopAttr *attr) {
  API_ENTER();
  API_TELL_HANDLE(HOOK_OP_ATTR, HOOK_HANDLE_DESTROYED, attr);
  attributes_free((aclopAttr *)attr);
}

#define SET(name, type, kind, member)                                                                                  \
  aclError aclopSetAttr##name(aclopAttr *attr, const char *attrName, type attrValue) {                                 \
    API_ENTER();                                                                                                       \
    NEED(attr);                                                                                                        \
    NEED(attrName);                                                                                                    \
    API_RETURN(attributes_set(attr, attrName, kind, (op_arg){.member = attrValue}));                                   \
  }
SET(Int, int64_t, ATTR_INT, integer)
SET(Float, float, ATTR_FLOAT, real)
SET(DataType, aclDataType, ATTR_DATA_TYPE, integer)

aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue) {
  API_ENTER();
  NEED(attr);
  NEED(attrName);
  API_RETURN(attributes_set(attr, attrName, ATTR_BOOL, (op_arg){.boolean = attrValue != 0}));
}

aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue) {
  API_ENTER();
  NEED(attr);
  NEED(attrName);
  NEED(attrValue);
  API_RETURN(attributes_set(attr, attrName, ATTR_STRING, (op_arg){.string = attrValue}));
}

#define SET_LIST(name, kind, ...)                                                                                      \
  aclError aclopSetAttrList##name(aclopAttr *attr, const char *attrName, int numValues, __VA_ARGS__) {                 \
    API_ENTER();                                                                                                       \
    NEED(attr);                                                                                                        \
    NEED(attrName);                                                                                                    \
    API_RETURN(attributes_set_list(attr, attrName, kind, numValues, values));                                          \
  }
SET_LIST(Bool, ATTR_LIST_BOOL, const uint8_t *values)
SET_LIST(Int, ATTR_LIST_INT, const int64_t *values)
SET_LIST(Float, ATTR_LIST_FLOAT, const float *values)
SET_LIST(DataType, ATTR_LIST_DATA_TYPE, const aclDataType values[])
SET_LIST(String, ATTR_LIST_STRING, const char **values)

aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists, const int *numValues,
                                 const int64_t *const values[]) {
  API_ENTER();
  NEED(attr);
  NEED(attrName);
  API_RETURN(attributes_set_lists(attr, attrName, numLists, numValues, values));
}
