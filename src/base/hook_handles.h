/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks (base/hooks.h) tell of handles other than memory: who makes and destroys them, and calls that were
 * given none that is live; and of calls that are right, but wrong or slow as they are used. */
#ifndef CANNON_BASE_HOOK_HANDLES_H
#define CANNON_BASE_HOOK_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

/* HANDLE(name, what it is, of several, the function that destroys it) */
#define HOOK_HANDLES(HANDLE)                                                                                           \
  HANDLE(CONTEXT, "context", "contexts", "aclrtDestroyContext")                                                        \
  HANDLE(STREAM, "stream", "streams", "aclrtDestroyStream")                                                            \
  HANDLE(EVENT, "event", "events", "aclrtDestroyEvent")                                                                \
  HANDLE(NOTIFY, "notify", "notifies", "aclrtDestroyNotify")                                                           \
  HANDLE(GRAPH, "captured model", "captured models", "aclmdlRIDestroy")                                                \
  HANDLE(COMM, "communicator", "communicators", "HcclCommDestroy")                                                     \
  HANDLE(TENSOR, "aclTensor", "aclTensors", "aclDestroyTensor")                                                        \
  HANDLE(TENSOR_LIST, "aclTensorList", "aclTensorLists", "aclDestroyTensorList")                                       \
  HANDLE(SCALAR, "aclScalar", "aclScalars", "aclDestroyScalar")                                                        \
  HANDLE(SCALAR_LIST, "aclScalarList", "aclScalarLists", "aclDestroyScalarList")                                       \
  HANDLE(INT_ARRAY, "aclIntArray", "aclIntArrays", "aclDestroyIntArray")                                               \
  HANDLE(FLOAT_ARRAY, "aclFloatArray", "aclFloatArrays", "aclDestroyFloatArray")                                       \
  HANDLE(BOOL_ARRAY, "aclBoolArray", "aclBoolArrays", "aclDestroyBoolArray")                                           \
  HANDLE(EXECUTOR, "executor", "executors", "phase two, or aclDestroyAclOpExecutor")                                   \
  HANDLE(DATA_BUFFER, "aclDataBuffer", "aclDataBuffers", "aclDestroyDataBuffer")                                       \
  HANDLE(TENSOR_DESC, "aclTensorDesc", "aclTensorDescs", "aclDestroyTensorDesc")                                       \
  HANDLE(OP_ATTR, "aclopAttr", "aclopAttrs", "aclopDestroyAttr")                                                       \
  HANDLE(DATASET, "aclmdlDataset", "aclmdlDatasets", "aclmdlDestroyDataset")                                           \
  HANDLE(MODEL_DESC, "aclmdlDesc", "aclmdlDescs", "aclmdlDestroyDesc")                                                 \
  HANDLE(MODEL_CONFIG, "aclmdlConfigHandle", "aclmdlConfigHandles", "aclmdlDestroyConfigHandle")                       \
  HANDLE(AIPP, "aclmdlAIPP", "aclmdlAIPPs", "aclmdlDestroyAIPP")                                                       \
  HANDLE(MODEL, "model", "models", "aclmdlUnload")                                                                     \
  HANDLE(DATA_ITEM, "acltdtDataItem", "acltdtDataItems", "acltdtDestroyDataItem")                                      \
  HANDLE(TDT_DATASET, "acltdtDataset", "acltdtDatasets", "acltdtDestroyDataset")                                       \
  HANDLE(CHANNEL, "channel", "channels", "acltdtDestroyChannel")

typedef enum {
#define HOOK_HANDLE_NUMBER(name, word, words, destroyer) HOOK_##name,
  HOOK_HANDLES(HOOK_HANDLE_NUMBER)
#undef HOOK_HANDLE_NUMBER
      N_HOOK_HANDLES
} hook_handle_kind;

typedef enum {
  HOOK_HANDLE_CREATED,
  HOOK_HANDLE_DESTROYED,     /* before it can be made again. Of kinds that carry no mark (data buffers, descriptions,
                                ...) also what is no such handle */
  HOOK_HANDLE_ENDED,         /* the library has destroyed it, with the context or the data set that it belongs to */
  HOOK_HANDLE_ADOPTED,       /* `owner` will destroy it */
  HOOK_HANDLE_KEPT,          /* an executor that launches do not consume */
  HOOK_HANDLE_RESTORED,      /* what the thread's call has told as DESTROYED is live still, since the call failed */
  HOOK_HANDLE_REFUSED,       /* a call was given what is no live handle of the kind */
  HOOK_HANDLE_NOT_DESTROYED, /* the same by the call that destroys such handles */
} hook_handle_act;

typedef struct {
  hook_handle_kind kind;
  hook_handle_act act;
  uintptr_t handle;
  uintptr_t owner;  /* of ADOPTED: the list; of ENDED: the context, or 0 */
  const char *call; /* the entry point, or the operator's function; NULL: not known */
} hook_handle;

/* Uses that are no failures. */
typedef enum {
  HOOK_USE_PAGEABLE_COPY,    /* an asynchronous copy of pageable host memory */
  HOOK_USE_UNALIGNED_COPY,   /* an asynchronous copy at a device address that is no multiple of 64 */
  HOOK_USE_UNRECORDED_EVENT, /* a wait for an event that was never recorded */
  HOOK_USE_INIT,             /* aclInit, the first */
  HOOK_USE_INIT_AGAIN,       /* aclInit once more, whose configuration is not read */
  HOOK_USE_FINALIZE,         /* aclFinalize, the last */
  HOOK_USE_DEVICE_SET,       /* aclrtSetDevice */
  HOOK_USE_STREAM_DESTROY,   /* a stream is about to be destroyed by a call, not by force */
  HOOK_USE_ENDLESS_WAIT,     /* the thread waits for tasks of which this stream's will never end */
} hook_use_kind;

typedef struct {
  hook_use_kind kind;
  int device;
  int64_t stream;   /* the stream's number on the device, or -1 */
  const char *text; /* the path of a configuration, or NULL; of an endless wait: what is known of it, in sentences */
  uintptr_t handle; /* of an endless wait: what the stream waits for, or 0 */
  hook_handle_kind handle_kind;
} hook_use;

#endif
