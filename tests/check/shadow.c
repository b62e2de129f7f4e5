/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's initialised bytes, bounds and overlaps (CANNON_CHECK=init,bounds): programs that are wrong on purpose,
 * each of which must get a finding with the given words, and right ones that are tempting, which must get none. Each
 * runs in a process of its own. */
#include "programs.h"

#include "aclnnop/aclnn_addmm.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_embedding.h"
#include "aclnnop/aclnn_masked_select.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_permute.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_s_where.h"
#include "aclnnop/aclnn_slice.h"

enum { N = 64, BYTES = N * sizeof(float) };

static char on_host[1 << 16];

/* Muls(self, 2, out) of views of one dimension: n elements from `first` on, every `step`th, of storages of `stored`. */
typedef struct {
  void *data;
  int64_t first, step, stored;
} line;

static aclTensor *line_tensor(line v, int64_t n) {
  return aclCreateTensor(&n, 1, ACL_FLOAT, &v.step, v.first, ACL_FORMAT_ND, &v.stored, 1, v.data);
}

static void twice(line self, line out, int64_t n) {
  aclTensor *x = line_tensor(self, n), *y = line_tensor(out, n);
  aclScalar *two = float_scalar(2);
  LAUNCH(NULL, aclnnMuls, x, two, y);
  aclDestroyScalar(two);
  aclDestroyTensor(x);
  aclDestroyTensor(y);
}

static line whole(void *data) { return (line){data, 0, 1, N}; }
static line part(void *data, int64_t first, int64_t step) { return (line){data, first, step, N}; }
static void *raw(void) { return dev_new(BYTES); }
static void *set(void) { return dev_filled(0, BYTES); }
static void fetch(const void *p, size_t bytes) {
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtMemcpy(on_host, bytes, p, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
}
static void copy(void *to, const void *from, size_t bytes) {
  CHECK_OK(aclrtMemcpy(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE));
}
static void fill(void *p, size_t bytes) { CHECK_OK(aclrtMemset(p, bytes, 0, bytes)); }

/* Rows of `width` bytes, `pitch` apart. */
static void fill_rows(char *p, size_t pitch, size_t width, size_t height) {
  for (size_t i = 0; i < height; i++) fill(p + i * pitch, width);
}

static void copy_view(line to, line from, int64_t n) {
  aclTensor *dst = line_tensor(to, n), *src = line_tensor(from, n);
  LAUNCH(NULL, aclnnInplaceCopy, dst, src);
  aclDestroyTensor(dst);
  aclDestroyTensor(src);
}

/* ---- never written ----------------------------------------------------------------------------------------------- */

static void reads_fresh(void) { twice(whole(raw()), whole(raw()), N); }
static void fetches_fresh(void) { fetch(raw(), BYTES); }

static void reads_the_rest(void) {
  char *x = raw();
  fill(x, BYTES / 2);
  twice(whole(x), whole(raw()), N);
}

static void reads_one_byte_too_many(void) {
  char *x = raw();
  fill(x, BYTES - 1);
  fetch(x, BYTES);
}

static void reads_between(void) {
  void *x = raw(), *y = set();
  twice(part(y, 0, 2), part(x, 0, 2), N / 2);
  twice(part(x, 1, 2), part(y, 1, 2), N / 2);
}

static void reads_a_copy_of_fresh(void) {
  void *x = raw(), *y = raw();
  copy(y, x, BYTES);
  twice(whole(y), whole(x), N);
}

static void reads_part_of_a_copy(void) {
  char *x = raw(), *y = raw();
  fill(x + 16, BYTES - 16);
  copy(y, x, BYTES);
  fetch(y, BYTES);
}

static void reads_a_moved_view(void) {
  char *x = raw(), *y = raw();
  fill(x, BYTES - 4);
  copy_view(part(y, 1, 2), part(x, N / 2, 1), N / 2);
  twice(part(y, 1, 2), part(x, 0, 1), N / 2);
}

static void reads_reused_memory(void) {
  void *x = set();
  CHECK_OK(aclrtFree(x));
  fetch(raw(), BYTES);
}

static void reads_a_workspace(void) {
  enum { BIG = 1 << 20 };
  void *in = dev_filled(0, BIG * 4), *out = raw();
  aclTensor *x = TENSOR(in, ACL_FLOAT, 1024, BIG / 1024), *sum = TENSOR(out, ACL_FLOAT, 1, 1);
  aclIntArray *all = aclCreateIntArray(DIMS(0, 1));
  uint64_t bytes = 0;
  aclOpExecutor *executor = NULL;
  CHECK_OK(aclnnReduceSumGetWorkspaceSize(x, all, true, ACL_FLOAT, sum, &bytes, &executor));
  void *space = dev_filled(0, bytes);
  CHECK_OK(aclnnReduceSum(space, bytes, executor, NULL));
  fetch(space, 64);
}

static void embeds_fresh(void) {
  const int64_t indices[] = {0, 1};
  void *at = dev_from(indices, sizeof indices);
  aclTensor *weight = TENSOR(raw(), ACL_FLOAT, 8, 8), *index = TENSOR(at, ACL_INT64, 2);
  aclTensor *out = TENSOR(raw(), ACL_FLOAT, 2, 8);
  LAUNCH(NULL, aclnnEmbedding, weight, index, out);
}

static void permutes_fresh(void) {
  void *y = raw();
  aclTensor *self = TENSOR(raw(), ACL_FLOAT, 8, 8), *out = TENSOR(y, ACL_FLOAT, 8, 8);
  aclIntArray *dims = aclCreateIntArray(DIMS(1, 0));
  LAUNCH(NULL, aclnnPermute, self, dims, out);
  fetch(y, BYTES);
}

static void reads_between_rows(void) {
  char *x = raw();
  fill_rows(x, 16, 8, 8);
  twice((line){x, 0, 1, 4}, whole(raw()), 4);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

static void writes_the_slack(void) {
  char *x = dev_new(100);
  CHECK_OK(aclrtMemset(x, 104, 0, 104));
}

static void reads_the_slack(void) {
  char *x = dev_new(100);
  fill(x, 100);
  twice((line){x, 0, 1, 26}, whole(raw()), 26);
}

static void lies_in_the_slack(void) { twice(whole(set()), (line){dev_new(4), 1, 1, 5}, 4); }

static void copies_the_slack(void) { copy(dev_new(100), set(), 104); }

static void view_beyond_its_storage(void) { twice((line){set(), 8, 1, 16}, whole(raw()), 16); }
static void strides_beyond_their_storage(void) { twice((line){set(), 0, 2, 16}, whole(raw()), 16); }
static void output_beyond_its_storage(void) { twice(whole(set()), (line){raw(), 8, 1, 8}, 8); }
static void storage_beyond_its_block(void) { twice((line){set(), 0, 1, 1 << 20}, whole(raw()), 8); }

/* ---- overlap ----------------------------------------------------------------------------------------------------- */

static void shifted_by_one(void) {
  void *x = set();
  twice(part(x, 0, 1), part(x, 1, 1), N - 1);
}

static void other_stride(void) {
  void *x = set();
  twice(part(x, 0, 1), part(x, 0, 2), N / 2);
}

static void strides_meet(void) {
  void *x = set();
  twice(part(x, 0, 3), part(x, 1, 2), 20);
}

static void output_without_stride(void) { twice(whole(set()), part(raw(), 0, 0), N); }

static void output_covers_itself(void) {
  void *x = set(), *y = raw();
  const int64_t dims[] = {4, 4}, strides[] = {2, 1}, stored = N;
  aclTensor *self = TENSOR(x, ACL_FLOAT, 4, 4);
  aclTensor *out = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, &stored, 1, y);
  aclScalar *two = float_scalar(2);
  LAUNCH(NULL, aclnnMuls, self, two, out);
}

static void copies_onto_itself(void) {
  char *x = set();
  copy(x + 16, x, 64);
}

static void adds_a_part_of_the_output(void) {
  void *x = set();
  aclTensor *self = TENSOR(x, ACL_FLOAT, N), *one = TENSOR(x, ACL_FLOAT, 1);
  aclScalar *alpha = float_scalar(1);
  LAUNCH(NULL, aclnnAdd, self, one, alpha, self);
}

/* ---- right programs ---------------------------------------------------------------------------------------------- */

static void written_by_all_means(void) {
  void *x = raw(), *y = raw();
  memset(on_host, 0, BYTES);
  CHECK_OK(aclrtMemcpy(x, BYTES, on_host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
  twice(whole(x), whole(y), N);
  copy(x, y, BYTES);
  fetch(x, BYTES);
}

static void written_in_pieces(void) {
  char *x = raw();
  for (int i = 0; i < BYTES; i += 16) CHECK_OK(aclrtMemsetAsync(x + (i * 5) % BYTES, 16, 0, 16, NULL));
  twice(whole(x), whole(raw()), N);
}

static void written_by_turns(void) {
  void *x = raw(), *y = set();
  twice(part(y, 0, 2), part(x, 0, 2), N / 2);
  twice(part(y, 1, 2), part(x, 1, 2), N / 2);
  twice(whole(x), whole(y), N);
}

static void in_place(void) {
  void *x = set();
  twice(whole(x), whole(x), N);
  twice(part(x, 1, 3), part(x, 1, 3), 10);
}

static void views_interleave(void) {
  void *x = set();
  twice(part(x, 0, 2), part(x, 1, 2), N / 2);
}

static void rows_of_one_matrix(void) {
  void *x = set();
  twice(part(x, 0, 1), part(x, N / 2, 1), N / 2);
}

static void padding_rows(void) {
  char *x = raw();
  fill_rows(x, 32, 24, 8);
  fetch(x, BYTES);
}

static void padding_carried_along(void) {
  char *x = raw(), *y = raw();
  fill_rows(x, 32, 24, 8);
  copy(y, x, BYTES);
  CHECK_OK(aclrtMemcpy2d(on_host, 24, y, 32, 24, 8, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void fresh_moved_but_not_read(void) {
  char *x = raw(), *y = raw();
  fill(x, BYTES / 2);
  copy(y, x, BYTES);
  fetch(y, BYTES / 2);
}

static void carved_block(void) {
  char *x = dev_new(4096);
  fill(x + 256, BYTES);
  twice(whole(x + 256), whole(x + 1024), N);
  twice(whole(x + 1024), whole(x), N);
  fetch(x, BYTES);
}

static void selected_rows(void) {
  const int64_t indices[] = {0, 1};
  void *at = dev_from(indices, sizeof indices);
  char *table = raw();
  fill(table, BYTES / 4);
  aclTensor *weight = TENSOR(table, ACL_FLOAT, 8, 8), *index = TENSOR(at, ACL_INT64, 2);
  void *y = raw();
  aclTensor *out = TENSOR(y, ACL_FLOAT, 2, 8);
  LAUNCH(NULL, aclnnEmbedding, weight, index, out);
  fetch(y, 64);
}

static void unchosen_side(void) {
  void *y = raw(), *all = dev_filled(1, N);
  aclTensor *condition = TENSOR(all, ACL_BOOL, N), *self = TENSOR(set(), ACL_FLOAT, N);
  aclTensor *other = TENSOR(raw(), ACL_FLOAT, N), *out = TENSOR(y, ACL_FLOAT, N);
  LAUNCH(NULL, aclnnSWhere, condition, self, other, out);
  fetch(y, BYTES);
}

static void masked_select(void) {
  void *y = raw(), *mask = dev_filled(0, N);
  CHECK_OK(aclrtMemset(mask, 4, 1, 4));
  aclTensor *self = TENSOR(set(), ACL_FLOAT, N), *chosen = TENSOR(mask, ACL_BOOL, N), *out = TENSOR(y, ACL_FLOAT, N);
  LAUNCH(NULL, aclnnMaskedSelect, self, chosen, out);
  fetch(y, BYTES);
}

static void beta_is_0(void) {
  void *y = raw();
  aclTensor *self = TENSOR(raw(), ACL_FLOAT, 8, 8), *a = TENSOR(set(), ACL_FLOAT, 8, 8);
  aclTensor *out = TENSOR(y, ACL_FLOAT, 8, 8);
  aclScalar *beta = float_scalar(0), *alpha = float_scalar(1);
  LAUNCH(NULL, aclnnAddmm, self, a, a, beta, alpha, out, 0);
  fetch(y, BYTES);
}

static void cat_of_parts(void) {
  char *x = raw(), *y = dev_new(2 * BYTES);
  fill(x, BYTES / 2);
  const aclTensor *both[] = {TENSOR(x, ACL_FLOAT, N), TENSOR(set(), ACL_FLOAT, N)};
  aclTensorList *list = aclCreateTensorList(both, 2);
  aclTensor *out = TENSOR(y, ACL_FLOAT, 2 * N);
  LAUNCH(NULL, aclnnCat, list, 0, out);
  fetch(y + BYTES, BYTES);
}

static void pinned_memory(void) {
  void *x = pinned_new(BYTES), *y = raw();
  CHECK_OK(aclrtMemcpyAsync(y, BYTES, x, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
  fetch(y, BYTES);
}

static void notified_before_it_is_written(void) {
  aclrtStream s = stream_new(), other = stream_new();
  aclrtNotify n = NULL;
  void *x = raw(), *y = raw(), *pinned = pinned_new(BYTES);
  CHECK_OK(aclrtCreateNotify(&n, 0));
  CHECK_OK(aclrtWaitAndResetNotify(n, s, 0));
  CHECK_OK(aclrtMemcpyAsync(pinned, BYTES, x, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
  CHECK_OK(aclrtMemsetAsync(x, BYTES, 0, BYTES, other));
  CHECK_OK(aclrtRecordNotify(n, other));
  CHECK_OK(aclrtSynchronizeStream(s));
  copy(y, x, BYTES);
}

static void broadcast_operand(void) {
  aclTensor *self = TENSOR(set(), ACL_FLOAT, N), *one = TENSOR(dev_filled(0, 4), ACL_FLOAT, 1);
  aclScalar *alpha = float_scalar(1);
  LAUNCH(NULL, aclnnAdd, self, one, alpha, self);
}

static void same_operand_twice(void) {
  aclTensor *self = TENSOR(set(), ACL_FLOAT, N);
  LAUNCH(NULL, aclnnMul, self, self, self);
}

static void exact_length(void) {
  char *x = dev_new(100);
  fill(x, 100);
  twice((line){x, 0, 1, 25}, (line){dev_new(100), 0, 1, 25}, 25);
}

static void transposed_in_place_of_itself(void) {
  void *x = set();
  const int64_t dims[] = {8, 8}, strides[] = {1, 8}, stored = N;
  aclTensor *t = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, &stored, 1, x);
  aclScalar *two = float_scalar(2);
  LAUNCH(NULL, aclnnMuls, t, two, t);
}

static void double_buffering(void) {
  char *x = dev_new(2 * BYTES), *y = raw();
  for (int i = 0; i < 4; i++) {
    CHECK_OK(aclrtMemcpyAsync(x + i % 2 * BYTES, BYTES, on_host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    twice(whole(x + i % 2 * BYTES), whole(y), N);
  }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const program programs[] = {
#define WRONG(name, words)                                                                                             \
  { #name, name, NULL, words }
#define RIGHT(name)                                                                                                    \
  { #name, name, NULL, NULL }
    WRONG(reads_fresh, "Muls reads 256 bytes of `self` that nothing has written: bytes 0 to 255 of the block of 256 "
                       "bytes that aclrtMalloc gave. Write them first"),
    WRONG(fetches_fresh, "memcpy reads 256 bytes of memory that nothing has written"),
    WRONG(reads_the_rest, "reads 128 bytes of `self` that nothing has written: bytes 128 to 255"),
    WRONG(reads_one_byte_too_many, "memcpy reads 1 byte of memory that nothing has written: byte 255 of"),
    WRONG(reads_between, "Muls reads 128 bytes of `self` that nothing has written, first bytes 4 to 7"),
    WRONG(reads_a_copy_of_fresh, "Muls reads 256 bytes of `self`"),
    WRONG(reads_part_of_a_copy, "memcpy reads 16 bytes of memory that nothing has written: bytes 0 to 15"),
    WRONG(reads_a_moved_view, "Muls reads 4 bytes of `self` that nothing has written: bytes 252 to 255"),
    WRONG(reads_reused_memory, "memcpy reads 256 bytes"),
    WRONG(reads_a_workspace, "memcpy reads 64 bytes of memory that nothing has written"),
    WRONG(embeds_fresh, "Embedding reads 256 bytes of `weight`"),
    WRONG(permutes_fresh, "memcpy reads 256 bytes"),
    WRONG(reads_between_rows, "Muls reads 8 bytes of `self` that nothing has written: bytes 8 to 15"),
    WRONG(writes_the_slack, "memset writes memory to byte 103 of the block of 100 bytes that aclrtMalloc gave: 4 bytes "
                            "beyond its end"),
    WRONG(reads_the_slack, "Muls reads `self` to byte 103 of the block of 100 bytes"),
    WRONG(lies_in_the_slack, "Muls writes `out` to byte 19 of the block of 4 bytes that aclrtMalloc gave: 16 bytes"),
    WRONG(copies_the_slack, "memcpy writes memory to byte 103 of the block of 100 bytes"),
    WRONG(view_beyond_its_storage, "The view of `self` of Muls ends at byte 95 of its storage, which has 64 bytes"),
    WRONG(strides_beyond_their_storage, "The view of `self` of Muls ends at byte 123 of its storage, which has 64"),
    WRONG(output_beyond_its_storage, "The view of `out` of Muls ends at byte 63 of its storage, which has 32 bytes"),
    WRONG(storage_beyond_its_block, "The storage of `self` of Muls has 4194304 bytes from byte 0 on, but the block"),
    WRONG(shifted_by_one, "Muls writes `out`, which shares 248 bytes with `self` that it reads, from byte 4 of"),
    WRONG(other_stride, "Muls writes `out`, which shares 64 bytes with `self` that it reads"),
    WRONG(strides_meet, "Muls writes `out`, which shares"),
    WRONG(output_without_stride, "Muls writes `out`, whose elements take 256 bytes, but lie in 4"),
    WRONG(output_covers_itself, "Muls writes `out`, whose elements take 64 bytes, but lie in 40"),
    WRONG(copies_onto_itself, "memcpy writes memory, which shares 48 bytes with memory that it reads"),
    WRONG(adds_a_part_of_the_output, "Add writes `out`, which shares 4 bytes with `other` that it reads"),
    RIGHT(written_by_all_means),
    RIGHT(written_in_pieces),
    RIGHT(written_by_turns),
    RIGHT(in_place),
    RIGHT(views_interleave),
    RIGHT(rows_of_one_matrix),
    RIGHT(padding_rows),
    RIGHT(padding_carried_along),
    RIGHT(fresh_moved_but_not_read),
    RIGHT(carved_block),
    RIGHT(selected_rows),
    RIGHT(unchosen_side),
    RIGHT(masked_select),
    RIGHT(beta_is_0),
    RIGHT(cat_of_parts),
    RIGHT(pinned_memory),
    RIGHT(notified_before_it_is_written),
    RIGHT(broadcast_operand),
    RIGHT(same_operand_twice),
    RIGHT(exact_length),
    RIGHT(transposed_in_place_of_itself),
    RIGHT(double_buffering),
};

enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static int run_child(const char *name) {
  const program *p = find_program(programs, N_PROGRAMS, name);
  if (!p) return 2;
  CHECK_OK(aclInit(NULL));
  CHECK_OK(aclrtSetDevice(0));
  p->run();
  return aclrtSynchronizeDeviceWithTimeout(5000) ? 3 : 0;
}

/* Whether the output has a finding, of any of the kinds. */
static bool has_finding(const char *text) {
  return strstr(text, "that nothing has written") || strstr(text, "beyond its end") || strstr(text, "of its storage") ||
         strstr(text, "The storage of") || strstr(text, "which shares") || strstr(text, "whose elements take");
}

static void programs_get_their_findings(void **state) {
  (void)state;
  run_worded(programs, N_PROGRAMS, has_finding);
}

int main(int argc, char **argv) {
  if (argc > 1) return run_child(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(programs_get_their_findings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
