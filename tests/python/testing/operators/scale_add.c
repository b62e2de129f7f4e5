/* SPDX-License-Identifier: Apache-2.0 */
/* The operator of aclnn_scale_add.h, made of CANN's public calls: it would run on an NPU, too. */
#include "aclnn_scale_add.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    const int code = (call);                                                                                           \
    if (code) return code;                                                                                             \
  } while (0)

/* The mistakes. tests/python/testing/support.py has the same names. */
enum {
  RIGHT,
  WRONG_ELEMENT,    /* the lowest bits of one element are others */
  WRONG_NAN,        /* one element is NaN */
  WRONG_DTYPE,      /* writes float32 into whatever the output is */
  WRONG_STRIDES,    /* takes x as contiguous */
  WRONG_OFFSET,     /* takes x from the start of its storage */
  CHANGES_INPUT,    /* the first element of y is written */
  BEHIND_WORKSPACE, /* writes more workspace than it asked for */
  LEAKS,            /* keeps a block of device memory */
  CRASHES,
  HANGS,
  REFUSES,   /* returns an error from phase one */
  UNWRITTEN, /* does nothing */
};
enum { WORKSPACE = 256, INVALID = 161002 };

typedef struct {
  aclOpExecutor *add;
  uint64_t add_bytes;
  int64_t fault, n, element_bytes;
  char *first_of_y, *third_of_out; /* device addresses of elements */
} scale_add;

/* What is known of a tensor. */
typedef struct {
  int64_t *shape, *strides, offset, n;
  uint64_t rank;
  aclDataType dtype;
  char *storage;
} scale_add_view;

static int view_read(const aclTensor *t, scale_add_view *v) {
  void *address;
  CHECK(aclGetViewShape(t, &v->shape, &v->rank));
  CHECK(aclGetViewStrides(t, &v->strides, &v->rank));
  CHECK(aclGetViewOffset(t, &v->offset));
  CHECK(aclGetDataType(t, &v->dtype));
  CHECK(aclGetRawTensorAddr(t, &address));
  v->storage = address;
  v->n = 1;
  for (uint64_t i = 0; i < v->rank; ++i) v->n *= v->shape[i];
  return 0;
}

static char *view_element(const scale_add_view *v, int64_t index) {
  int64_t offset = v->offset;
  for (uint64_t i = v->rank; i-- > 0; index /= v->shape[i]) offset += index % v->shape[i] * v->strides[i];
  return v->storage + offset * (int64_t)aclDataTypeSize(v->dtype);
}

/* The same memory, misunderstood as the fault says. */
static const aclTensor *view_mistaken(const scale_add_view *v, int64_t fault) {
  int64_t strides[8], step = 1;
  for (uint64_t i = v->rank; i-- > 0;) {
    strides[i] = fault == WRONG_STRIDES ? step : v->strides[i];
    step *= v->shape[i];
  }
  const int64_t offset = fault == WRONG_OFFSET ? 0 : v->offset;
  return aclCreateTensor(v->shape, v->rank, fault == WRONG_DTYPE ? ACL_FLOAT : v->dtype, strides, offset, ACL_FORMAT_ND,
                         v->shape, v->rank, v->storage);
}

aclnnStatus aclnnScaleAddGetWorkspaceSize(const aclTensor *x, const aclTensor *y, double scale, int64_t fault,
                                          const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor) {
  scale_add_view of_x, of_y, of_out;
  float alpha = (float)scale;
  if (fault == REFUSES) return INVALID;
  CHECK(view_read(x, &of_x));
  CHECK(view_read(y, &of_y));
  CHECK(view_read(out, &of_out));
  scale_add *s = calloc(1, sizeof *s);
  if (fault == WRONG_STRIDES || fault == WRONG_OFFSET) x = view_mistaken(&of_x, fault);
  if (fault == WRONG_DTYPE) out = view_mistaken(&of_out, fault);
  CHECK(aclnnAddGetWorkspaceSize(x, y, aclCreateScalar(&alpha, ACL_FLOAT), (aclTensor *)out, &s->add_bytes, &s->add));
  s->fault = fault;
  s->n = of_out.n;
  s->element_bytes = (int64_t)aclDataTypeSize(of_out.dtype);
  if (of_out.n > 2) {
    s->first_of_y = view_element(&of_y, 0);
    s->third_of_out = view_element(&of_out, 2);
  }
  *workspaceSize = WORKSPACE;
  *executor = (aclOpExecutor *)s;
  return 0;
}

static int make_mistake(const scale_add *s, void *workspace) {
  char element[16], *leaked;
  switch (s->fault) {
  case WRONG_ELEMENT:
    CHECK(aclrtMemcpy(element, sizeof element, s->third_of_out, s->element_bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    element[0] ^= 0x7f;
    return aclrtMemcpy(s->third_of_out, s->element_bytes, element, s->element_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  case WRONG_NAN:
    memset(element, 0xff, sizeof element);
    return aclrtMemcpy(s->third_of_out, s->element_bytes, element, s->element_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  case CHANGES_INPUT:
    memset(element, 0, sizeof element);
    return aclrtMemcpy(s->first_of_y, s->element_bytes, element, s->element_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  case BEHIND_WORKSPACE: return aclrtMemset(workspace, WORKSPACE + 16, 0, WORKSPACE + 16);
  case LEAKS: return aclrtMalloc((void **)&leaked, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
  case CRASHES:
    puts("scale_add crashes");
    *(volatile int *)8 = 1;
    return 0;
  case HANGS:
    for (;;) pause();
  default: return 0;
  }
}

aclnnStatus aclnnScaleAdd(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
  const scale_add s = *(scale_add *)executor;
  (void)workspaceSize;
  free(executor);
  if (s.fault == UNWRITTEN) return 0;
  CHECK(aclnnAdd(NULL, s.add_bytes, s.add, stream));
  if (s.n < 3) return 0;
  CHECK(aclrtSynchronizeStream(stream));
  return make_mistake(&s, workspace);
}
