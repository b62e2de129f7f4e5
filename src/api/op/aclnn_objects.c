/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for aclnn objects (tensors, scalars, arrays, lists) and for executors. */
#include <stdlib.h>
#include <string.h>

#include "aclnn/aclnn_base.h"
#include "api/api.h"
#include "op/executor.h"
#include "runtime/process.h"
#include "tensor/objects.h"

#undef NEED
#define NEED(pointer)                                                                                                  \
  do {                                                                                                                 \
    if (unlikely(!(pointer))) API_RETURN(fail(ST_OP_NULL, #pointer " is NULL, expected a pointer"));                   \
  } while (0)

/* Returns from the entry point unless the pointer is that of a live object. */
#define NEED_OBJECT_AS(object, kind, act)                                                                              \
  do {                                                                                                                 \
    NEED(object);                                                                                                      \
    if (!magic_is((object)->magic, MAGIC_##kind)) {                                                                    \
      API_TELL_HANDLE(HOOK_##kind, act, object);                                                                       \
      API_RETURN(OP_FAIL(#object " %p is no such object (destroyed?)", (const void *)(object)));                       \
    }                                                                                                                  \
  } while (0)
#define NEED_OBJECT(object, kind) NEED_OBJECT_AS(object, kind, HOOK_HANDLE_REFUSED)

/* The same in a function that destroys the object. */
#define DESTROY_OBJECT(object, kind)                                                                                   \
  do {                                                                                                                 \
    NEED_OBJECT_AS(object, kind, HOOK_HANDLE_NOT_DESTROYED);                                                           \
    API_TELL_HANDLE(HOOK_##kind, HOOK_HANDLE_DESTROYED, object);                                                       \
  } while (0)

/* The result of a creator that fails: NULL, after the pending failure was published. */
#define NOTHING(st) (API_RESULT(st), NULL)

aclnnStatus aclnnInit(const char *configPath) {
  API_ENTER();
  const status st = process_init(configPath);
  if (st != ST_REPEATED_INIT) return API_RESULT(st);
  fail_take();
  return ACL_SUCCESS;
}

aclnnStatus aclnnFinalize(void) { API(process_finalize(false, NULL)); }

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                           void *tensorData) {
  API_ENTER();
  tensor *t = tensor_new();
  if (!t) return NOTHING(ST_NO_HOST_MEMORY);
  const status st = tensor_init(t, viewDims, viewDimsNum, (int)dataType, stride, offset, (int)format, storageDims,
                                storageDimsNum, tensorData);
  if (likely(st == ST_OK)) {
    API_TELL_HANDLE(HOOK_TENSOR, HOOK_HANDLE_CREATED, t);
    return t;
  }
  tensor_free(t);
  return NOTHING(st);
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                          uint64_t storageDimsNum, void *tensorDataAddr) {
  API_ENTER();
  NEED_OBJECT(tensor, TENSOR);
  API_RETURN(tensor_init_again(tensor, viewDims, viewDimsNum, (int)dataType, stride, offset, (int)format, storageDims,
                               storageDimsNum, tensorDataAddr));
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
  API_ENTER();
  if (!tensor) return ACL_SUCCESS;
  DESTROY_OBJECT(tensor, TENSOR);
  tensor_free((aclTensor *)tensor);
  return ACL_SUCCESS;
}

/* Copies dimensions into a new array, which the caller frees. It has at least one element, so that rank 0 does not look
 * like a failed malloc. */
static status copy_dims(const int64_t *dims, int rank, int64_t **out, uint64_t *n) {
  int64_t *copy = malloc((size_t)(rank ? rank : 1) * sizeof *copy);
  if (!copy) return fail(ST_NO_HOST_MEMORY, "no host memory for %d dimensions", rank);
  memcpy(copy, dims, (size_t)rank * sizeof *copy);
  *out = copy;
  *n = (uint64_t)rank;
  return ST_OK;
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum) {
  API_ENTER();
  NEED_OBJECT(tensor, TENSOR);
  NEED(viewDims);
  NEED(viewDimsNum);
  const tensor_shape s = tensor_shape_of(tensor);
  API_RETURN(copy_dims(s.dims, s.rank, viewDims, viewDimsNum));
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum) {
  API_ENTER();
  NEED_OBJECT(tensor, TENSOR);
  NEED(stridesValue);
  NEED(stridesNum);
  const tensor_shape s = tensor_shape_of(tensor);
  API_RETURN(copy_dims(s.strides, s.rank, stridesValue, stridesNum));
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum) {
  API_ENTER();
  NEED_OBJECT(tensor, TENSOR);
  NEED(storageDims);
  NEED(storageDimsNum);
  const tensor_shape s = tensor_shape_of(tensor);
  API_RETURN(copy_dims(s.storage_dims, s.storage_rank, storageDims, storageDimsNum));
}

#define TENSOR_GETTER(name, type, parameter, value)                                                                    \
  aclnnStatus name(const aclTensor *tensor, type *parameter) {                                                         \
    API_ENTER();                                                                                                       \
    NEED_OBJECT(tensor, TENSOR);                                                                                       \
    NEED(parameter);                                                                                                   \
    *parameter = value;                                                                                                \
    return ACL_SUCCESS;                                                                                                \
  }
TENSOR_GETTER(aclGetDataType, aclDataType, dataType, (aclDataType)tensor->dtype)
TENSOR_GETTER(aclGetFormat, aclFormat, format, (aclFormat)tensor->format)
TENSOR_GETTER(aclGetViewOffset, int64_t, offset, tensor->offset)
TENSOR_GETTER(aclGetRawTensorAddr, void *, addr, tensor->data)

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr) {
  API_ENTER();
  NEED_OBJECT(tensor, TENSOR);
  tensor->data = addr;
  return ACL_SUCCESS;
}

/* ---- scalars and arrays ------------------------------------------------------------------------------------------ */

aclScalar *aclCreateScalar(void *value, aclDataType dataType) {
  API_ENTER();
  scalar *s = scalar_new(value, (int)dataType);
  if (unlikely(!s)) return NOTHING(value ? ST_OP_INVALID : ST_OP_NULL);
  API_TELL_HANDLE(HOOK_SCALAR, HOOK_HANDLE_CREATED, s);
  return s;
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar) {
  API_ENTER();
  if (!scalar) return ACL_SUCCESS;
  DESTROY_OBJECT(scalar, SCALAR);
  scalar_free((aclScalar *)scalar);
  return ACL_SUCCESS;
}

/* Arrays copy their values; lists own their members. Both are a single allocation. */
#define ARRAY(Kind, type, KIND)                                                                                        \
  acl##Kind##Array *aclCreate##Kind##Array(const type *value, uint64_t size) {                                         \
    API_ENTER();                                                                                                       \
    acl##Kind##Array *array = array_new(MAGIC_##KIND, sizeof *array, value, size, sizeof *value);                      \
    if (!array) return NOTHING(value ? ST_OP_INVALID : ST_OP_NULL);                                                    \
    API_TELL_HANDLE(HOOK_##KIND, HOOK_HANDLE_CREATED, array);                                                          \
    return array;                                                                                                      \
  }                                                                                                                    \
  aclnnStatus aclDestroy##Kind##Array(const acl##Kind##Array *array) {                                                 \
    API_ENTER();                                                                                                       \
    if (!array) return ACL_SUCCESS;                                                                                    \
    DESTROY_OBJECT(array, KIND);                                                                                       \
    ((acl##Kind##Array *)array)->magic = 0;                                                                            \
    free((void *)array);                                                                                               \
    return ACL_SUCCESS;                                                                                                \
  }                                                                                                                    \
  aclnnStatus aclGet##Kind##ArraySize(const acl##Kind##Array *array, uint64_t *size) {                                 \
    API_ENTER();                                                                                                       \
    NEED_OBJECT(array, KIND);                                                                                          \
    NEED(size);                                                                                                        \
    *size = array->size;                                                                                               \
    return ACL_SUCCESS;                                                                                                \
  }
ARRAY(Int, int64_t, INT_ARRAY)
ARRAY(Float, float, FLOAT_ARRAY)
ARRAY(Bool, bool, BOOL_ARRAY)

static bool all_members(const void *const *member, uint64_t n, uint32_t magic, hook_handle_kind kind) {
  for (uint64_t i = 0; i < n; ++i) {
    if (!member[i] || magic_is(*(const uint32_t *)member[i], magic))
      continue; /* operators refuse NULL members where they must */
    hooks_tell_handle(kind, HOOK_HANDLE_REFUSED, member[i], NULL);
    fail(ST_OP_INVALID, "value[%ju] is %p, no such object (destroyed?)", (uintmax_t)i, member[i]);
    return false;
  }
  return true;
}

/* Tells that the list owns its members. */
static void tell_list(hook_handle_kind kind, const void *list, hook_handle_kind member_kind, const void *const *member,
                      uint64_t n, const char *call) {
  hooks_tell_handle(kind, HOOK_HANDLE_CREATED, list, call);
  for (uint64_t i = 0; i < n; ++i)
    hooks_handle(
        (hook_handle){member_kind, HOOK_HANDLE_ADOPTED, (uintptr_t)member[i], .owner = (uintptr_t)list, .call = call});
}

#define LIST(Kind, parameter, KIND, MEMBER)                                                                            \
  acl##Kind##List *aclCreate##Kind##List(const acl##Kind *const *value, uint64_t size) {                               \
    API_ENTER();                                                                                                       \
    if (value && !all_members((const void *const *)value, size, MAGIC_##MEMBER, HOOK_##MEMBER))                        \
      return NOTHING(ST_OP_INVALID);                                                                                   \
    acl##Kind##List *list = array_new(MAGIC_##KIND, sizeof *list, value, size, sizeof *value);                         \
    if (!list) return NOTHING(value ? ST_OP_INVALID : ST_OP_NULL);                                                     \
    if (unlikely(api_call_.start_ns))                                                                                  \
      tell_list(HOOK_##KIND, list, HOOK_##MEMBER, (const void *const *)value, size, api_call_.name);                   \
    return list;                                                                                                       \
  }                                                                                                                    \
  aclnnStatus aclDestroy##Kind##List(const acl##Kind##List *array) {                                                   \
    API_ENTER();                                                                                                       \
    if (!array) return ACL_SUCCESS;                                                                                    \
    DESTROY_OBJECT(array, KIND);                                                                                       \
    for (uint64_t i = 0; i < array->size; ++i) aclDestroy##Kind(array->value[i]);                                      \
    ((acl##Kind##List *)array)->magic = 0;                                                                             \
    free((void *)array);                                                                                               \
    return ACL_SUCCESS;                                                                                                \
  }                                                                                                                    \
  aclnnStatus aclGet##Kind##ListSize(const acl##Kind##List *parameter, uint64_t *size) {                               \
    API_ENTER();                                                                                                       \
    NEED_OBJECT(parameter, KIND);                                                                                      \
    NEED(size);                                                                                                        \
    *size = parameter->size;                                                                                           \
    return ACL_SUCCESS;                                                                                                \
  }
LIST(Tensor, tensorList, TENSOR_LIST, TENSOR)
LIST(Scalar, scalarList, SCALAR_LIST, SCALAR)

/* ---- executors --------------------------------------------------------------------------------------------------- */

/* CANN's error code for a NULL object in these calls. */
enum { ST_NULL_OBJECT = 561103 };

static status executor_of(const aclOpExecutor *e) {
  if (!e) return fail(ST_NULL_OBJECT, "executor is NULL, expected one of a phase one");
  if (e->magic == MAGIC_EXECUTOR) return ST_OK;
  hooks_tell_handle(HOOK_EXECUTOR, HOOK_HANDLE_REFUSED, e, NULL);
  return OP_FAIL("executor %p is none (launched or destroyed before, or its tensors were destroyed?)", (const void *)e);
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor) {
  API_ENTER();
  NEED_OK(executor_of(executor));
  if (executor->launched && !executor->repeatable)
    API_RETURN(OP_FAIL("executor %p was launched before", (void *)executor));
  API_TELL_HANDLE(HOOK_EXECUTOR, HOOK_HANDLE_KEPT, executor);
  executor->repeatable = true;
  atomic_store_explicit(&executor->watched, 0, memory_order_relaxed);
  return ACL_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor) {
  API_ENTER();
  NEED_OK(executor_of(executor));
  if (executor->launched && !executor->repeatable)
    API_RETURN(OP_FAIL("executor %p was launched, and goes with that", (void *)executor));
  API_TELL_HANDLE(HOOK_EXECUTOR, HOOK_HANDLE_DESTROYED, executor);
  executor_unref(executor);
  return ACL_SUCCESS;
}

/* Which arguments an index counts, always in the order of phase one's parameters: inputs, outputs, or all tensors. An
 * argument that the operator changes in place counts as both; so does the first argument, even where the operator only
 * writes it. */
typedef enum { COUNT_INPUTS, COUNT_OUTPUTS, COUNT_ALL } operand_order;

/* Lengths of sequences, which are inputs of the operators of attention for inference as CANN defines them, although
 * they are passed as arrays. MindSpore counts them, too. */
static bool is_lengths(const arg_schema *s) {
  static const char *const names[] = {"actualSeqLengths", "actualSharedPrefixLen"};
  if (s->kind != ARG_INT_ARRAY) return false;
  return !strncmp(s->name, names[0], strlen(names[0])) || !strncmp(s->name, names[1], strlen(names[1]));
}

static bool is_counted(const op *o, int argument, operand_order order) {
  const arg_schema *s = &o->schema[argument];
  if (is_lengths(s)) return order != COUNT_OUTPUTS;
  if (s->kind != ARG_TENSOR && s->kind != ARG_TENSOR_LIST) return false;
  if (order == COUNT_INPUTS) return s->flags & ARG_READ || argument == 0;
  return order == COUNT_ALL || s->flags & ARG_WRITTEN;
}

/* A list is one argument; one that is absent counts, too. */
static operand *operand_at(aclOpExecutor *e, operand_order order, size_t index, size_t list_index) {
  size_t seen = 0;
  int argument = 0;
  for (; argument < e->op->n_args; ++argument)
    if (is_counted(e->op, argument, order) && seen++ == index) break;
  for (int i = 0; i < e->n_operands; ++i)
    if (e->operands[i].argument == argument && e->operands[i].list_index == list_index) return &e->operands[i];
  return NULL;
}

static status set_address(aclOpExecutor *e, operand_order order, size_t index, const void *object, size_t list_index,
                          bool in_list, void *address) {
  TRY(executor_of(e));
  if (!object)
    return fail(ST_NULL_OBJECT, "%s is NULL, expected the argument of phase one", in_list ? "tensors" : "tensor");
  operand *p = operand_at(e, order, index, list_index);
  if (!p)
    return OP_FAIL("index is %zu%s, which %s does not have", index, in_list ? " or relativeIndex" : "",
                   e->op->function);
  p->data = address;
  return ST_OK;
}

/* CANN has each function with and without a leading capital. */
#define SETTER(name, order)                                                                                            \
  aclnnStatus acl##name(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {                  \
    API(set_address(executor, order, index, tensor, 0, false, addr));                                                  \
  }                                                                                                                    \
  aclnnStatus Acl##name(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {                  \
    API(set_address(executor, order, index, tensor, 0, false, addr));                                                  \
  }
#define LIST_SETTER(name, order)                                                                                       \
  aclnnStatus acl##name(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,   \
                        void *addr) {                                                                                  \
    API(set_address(executor, order, irIndex, tensors, relativeIndex, true, addr));                                    \
  }                                                                                                                    \
  aclnnStatus Acl##name(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, aclTensorList *tensors,   \
                        void *addr) {                                                                                  \
    API(set_address(executor, order, irIndex, tensors, relativeIndex, true, addr));                                    \
  }
SETTER(SetInputTensorAddr, COUNT_INPUTS)
SETTER(SetOutputTensorAddr, COUNT_OUTPUTS)
SETTER(SetTensorAddr, COUNT_ALL)
LIST_SETTER(SetDynamicInputTensorAddr, COUNT_INPUTS)
LIST_SETTER(SetDynamicOutputTensorAddr, COUNT_OUTPUTS)
LIST_SETTER(SetDynamicTensorAddr, COUNT_ALL)
