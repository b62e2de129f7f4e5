/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/model/npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/acl.h"

static const char npy_magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, HEADER_ALIGNMENT = 64 };

static const struct {
  aclDataType dtype;
  const char *descr, *name;
} npy_types[] = {
    {ACL_FLOAT, "<f4", "float32"}, {ACL_FLOAT16, "<f2", "float16"},     {ACL_DOUBLE, "<f8", "float64"},
    {ACL_BF16, "<V2", "bfloat16"}, {ACL_INT8, "|i1", "int8"},           {ACL_UINT8, "|u1", "uint8"},
    {ACL_INT16, "<i2", "int16"},   {ACL_UINT16, "<u2", "uint16"},       {ACL_INT32, "<i4", "int32"},
    {ACL_UINT32, "<u4", "uint32"}, {ACL_INT64, "<i8", "int64"},         {ACL_UINT64, "<u8", "uint64"},
    {ACL_BOOL, "|b1", "bool"},     {ACL_COMPLEX64, "<c8", "complex64"}, {ACL_COMPLEX128, "<c16", "complex128"},
};
enum { N_TYPES = sizeof npy_types / sizeof *npy_types };

const char *npy_dtype_name(aclDataType dtype) {
  for (int i = 0; i < N_TYPES; ++i)
    if (npy_types[i].dtype == dtype) return npy_types[i].name;
  return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The text behind a key of the header, which is a dictionary of Python; NULL: it has no such key. */
static const char *npy_key(const char *header, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *at = strstr(header, quoted);
  return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

static bool npy_fail(char error[256], const char *words) {
  snprintf(error, 256, "%s", words);
  return false;
}

static bool npy_read_header(const char *header, npy_array *a, char error[256]) {
  const char *descr = npy_key(header, "descr"), *order = npy_key(header, "fortran_order");
  const char *shape = npy_key(header, "shape");
  if (!descr || !order || !shape || *descr != '\'' || *shape != '(') return npy_fail(error, "its header is malformed");
  int type = 0;
  while (type < N_TYPES && (strncmp(descr + 1, npy_types[type].descr, strlen(npy_types[type].descr)) != 0 ||
                            descr[1 + strlen(npy_types[type].descr)] != '\''))
    ++type;
  if (type == N_TYPES) {
    snprintf(error, 256, "its type is %.24s, expected little-endian numbers, such as '<f4' or '<i8'", descr);
    return false;
  }
  if (strncmp(order, "False", 5) != 0)
    return npy_fail(error, "it is in Fortran's order, expected C's (numpy.ascontiguousarray)");
  a->dtype = npy_types[type].dtype;
  a->bytes = aclDataTypeSize(a->dtype);
  for (const char *p = shape + 1; *p && *p != ')';) {
    char *end;
    const long long n = strtoll(p, &end, 10);
    if (end == p || n < 0 || a->rank == NPY_MOST_DIMS) return npy_fail(error, "its shape has more than 8 dimensions");
    a->dims[a->rank++] = n;
    if (__builtin_mul_overflow(a->bytes, (size_t)n, &a->bytes)) return npy_fail(error, "its shape is too large");
    p = end + strspn(end, ", ");
  }
  return true;
}

/* Splits the file into header and data. */
static bool npy_parse(char *file, size_t n, npy_array *a, char error[256]) {
  if (n < 12 || memcmp(file, npy_magic, MAGIC_BYTES) != 0) return npy_fail(error, "it is no .npy file");
  const bool first = file[6] == 1;
  const size_t start = first ? 10 : 12;
  uint32_t length = 0;
  memcpy(&length, file + 8, first ? 2 : 4);
  if (length > n - start || !length) return npy_fail(error, "its header is cut off");
  file[start + length - 1] = 0; /* in place of the newline at the end */
  if (!npy_read_header(file + start, a, error)) return false;
  if (n - start - length != a->bytes) {
    snprintf(error, 256, "it has %zu bytes of data, expected %zu", n - start - length, a->bytes);
    return false;
  }
  a->data = file + start + length;
  return true;
}

bool npy_read(const char *path, npy_array *a, char error[256]) {
  struct stat about;
  FILE *f = fopen(path, "re");
  char *file = NULL;
  size_t n = 0;
  *a = (npy_array){0};
  snprintf(error, 256, "it is not a file");
  if (!f || fstat(fileno(f), &about)) {
    snprintf(error, 256, "%s", strerror(errno));
  } else if (S_ISREG(about.st_mode) && (file = malloc((size_t)about.st_size + 1))) {
    n = fread(file, 1, (size_t)about.st_size, f);
  }
  if (f) fclose(f);
  a->file = file;
  if (file && npy_parse(file, n, a, error)) return true;
  npy_free(a);
  return false;
}

void npy_free(npy_array *a) {
  free(a->file ? a->file : a->data);
  a->file = a->data = NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

bool npy_write(FILE *f, const npy_array *a) {
  char header[512];
  int type = 0, n;
  while (type < N_TYPES && npy_types[type].dtype != a->dtype) ++type;
  if (type == N_TYPES) return false;
  n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_types[type].descr);
  for (int d = 0; d < a->rank; ++d)
    n += snprintf(header + n, sizeof header - (size_t)n, "%jd%s", (intmax_t)a->dims[d],
                  a->rank == 1      ? ","
                  : d + 1 < a->rank ? ", "
                                    : "");
  n += snprintf(header + n, sizeof header - (size_t)n, "), }");
  while ((10 + n + 1) % HEADER_ALIGNMENT) header[n++] = ' ';
  header[n++] = '\n';
  const uint16_t length = (uint16_t)n;
  fwrite(npy_magic, 1, MAGIC_BYTES, f);
  fwrite("\x01\x00", 1, 2, f);
  fwrite(&length, sizeof length, 1, f);
  fwrite(header, 1, (size_t)n, f);
  return fwrite(a->data, 1, a->bytes, f) == a->bytes && !ferror(f);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static double npy_value(const npy_array *a, size_t i) {
  switch (a->dtype) {
  case ACL_FLOAT: return ((const float *)a->data)[i];
  case ACL_DOUBLE: return ((const double *)a->data)[i];
  case ACL_FLOAT16: return aclFloat16ToFloat(((const uint16_t *)a->data)[i]);
  case ACL_INT8: return ((const int8_t *)a->data)[i];
  case ACL_UINT8:
  case ACL_BOOL: return ((const uint8_t *)a->data)[i];
  case ACL_INT16: return ((const int16_t *)a->data)[i];
  case ACL_UINT16: return ((const uint16_t *)a->data)[i];
  case ACL_INT32: return ((const int32_t *)a->data)[i];
  case ACL_UINT32: return ((const uint32_t *)a->data)[i];
  case ACL_INT64: return (double)((const int64_t *)a->data)[i];
  case ACL_UINT64: return (double)((const uint64_t *)a->data)[i];
  default: return 0;
  }
}

bool npy_survey(const npy_array *a, double *least, double *most, double *mean) {
  const size_t n = a->bytes / aclDataTypeSize(a->dtype);
  if (!n || a->dtype == ACL_COMPLEX64 || a->dtype == ACL_COMPLEX128 || a->dtype == ACL_BF16) return false;
  double sum = 0;
  *least = *most = npy_value(a, 0);
  for (size_t i = 0; i < n; ++i) {
    const double v = npy_value(a, i);
    if (v < *least) *least = v;
    if (v > *most) *most = v;
    sum += v;
  }
  *mean = sum / (double)n;
  return true;
}
