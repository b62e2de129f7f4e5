/* SPDX-License-Identifier: Apache-2.0 */
#include "op/shapes.h"

#include <stdio.h>

#include "acl/acl_base.h"
#include "trace/timeline.h"

typedef struct {
  char text[4096];
  size_t used;
} line;

__attribute__((format(printf, 2, 3))) static void print(line *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(l->text + l->used, sizeof l->text - l->used, format, args);
  va_end(args);
  l->used += n < (int)(sizeof l->text - l->used) ? (size_t)n : sizeof l->text - l->used - 1;
}

static void print_shape(line *l, const tensor *t) {
  for (int d = 0; d < t->rank; ++d) print(l, "%s%jd", d ? "," : "", (intmax_t)t->dims[d]);
}

static void print_dtype(line *l, const tensor *t) {
  print(l, "%s", t->dtype == ACL_BF16 ? "DT_BF16" : dtype_name(t->dtype)); /* its name in CANN's tools */
}

static void print_format(line *l, const tensor *t) {
  static const char *const names[] = {
      [ACL_FORMAT_NCHW] = "NCHW",   [ACL_FORMAT_NHWC] = "NHWC",   [ACL_FORMAT_ND] = "ND",
      [ACL_FORMAT_NCDHW] = "NCDHW", [ACL_FORMAT_NDHWC] = "NDHWC", [ACL_FORMAT_NCL] = "NCL",
  };
  enum { N = sizeof names / sizeof *names };
  const int f = t->format;
  if (f >= 0 && f < N && names[f])
    print(l, "%s", names[f]);
  else
    print(l, "%d", f);
}

/* Prints one field: print_one() for each tensor that has the flag, separated by semicolons. */
static void print_tensors(line *l, const executor *e, const op_arg *a, uint8_t flag,
                          void (*print_one)(line *, const tensor *)) {
  bool any = false;
  for (const operand *p = e->operands; p < e->operands + e->n_operands; ++p) {
    if (!(p->flags & flag)) continue;
    const tensor *t = executor_tensor(e, p, a);
    if (any) print(l, ";");
    if (t) print_one(l, t);
    any = true;
  }
}

uint32_t shapes_name(const executor *e, const op_arg *a) {
  line l = {.used = 0};
  static const uint8_t flags[] = {ARG_READ, ARG_WRITTEN};
  for (unsigned i = 0; i < sizeof flags / sizeof *flags; ++i) {
    if (i) print(&l, "|");
    print_tensors(&l, e, a, flags[i], print_shape);
    print(&l, "|");
    print_tensors(&l, e, a, flags[i], print_dtype);
    print(&l, "|");
    print_tensors(&l, e, a, flags[i], print_format);
  }
  return timeline_name(l.text, l.used);
}
