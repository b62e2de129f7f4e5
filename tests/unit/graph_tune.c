/* SPDX-License-Identifier: Apache-2.0 */
/* Measured choices of implementations: what was measured is taken, written down and read again, and nothing that is not
 * ours is replaced. */
#include "graph/tune.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/nodes.h"
#include "graph/tune_file.h"
#include "op/executor.h"
#include "unit.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { SIZE = 96, SMALL = 4 };

/* A product of two matrices, which two implementations of the library's fit at least. */
static ir_graph *product_graph(int64_t n) {
  ir_graph *g = ir_new();
  ir_value *a, *b, *y;
  CHECK(ir_input(g, "a", ACL_FLOAT, (const int64_t[]){n, n}, 2, &a));
  CHECK(ir_input(g, "b", ACL_FLOAT, (const int64_t[]){n, n}, 2, &b));
  CHECK(ir_temporary(g, ACL_FLOAT, (const int64_t[]){n, n}, 2, &y));
  CHECK(node_Matmul(g, a, b, y, 0));
  return g;
}

/* A convolution that several implementations fit. */
static ir_graph *convolution_graph(void) {
  ir_graph *g = ir_new();
  ir_value *x, *w, *y;
  const int64_t dims[] = {1, 16, 24, 24}, weights[] = {16, 16, 3, 3};
  const aclIntArray *ones = ir_int_array(g, (const int64_t[]){1, 1}, 2);
  const aclIntArray *none = ir_int_array(g, (const int64_t[]){0, 0}, 2);
  CHECK(ir_input(g, "x", ACL_FLOAT, dims, 4, &x));
  CHECK(ir_input(g, "w", ACL_FLOAT, weights, 4, &w));
  CHECK(ir_temporary(g, ACL_FLOAT, dims, 4, &y));
  CHECK(node_Convolution(g, x, w, NULL, ones, ones, ones, false, none, 1, y, 0));
  return g;
}

/* The implementation that the only node of the graph gets, and why. */
static const executor_choice *choice_of(tuning *t, const ir_graph *g) {
  executor *e;
  CHECK(tuning_prepare(t, &g->nodes[0], 0, &e));
  assert_true(e->n_choices);
  const executor_choice *c = e->choices[0];
  executor_unref(e);
  return c;
}

static void each_node_is_measured_once(void **state) {
  (void)state;
  tuning t = {.measures = true};
  ir_graph *g = convolution_graph();
  const executor_choice *first = choice_of(&t, g);
  assert_int_equal(t.n, 1);
  assert_true(t.changed);
  assert_string_equal(first->family, "conv");
  assert_string_equal(first->name, t.choices[0].name);
  assert_true(strcmp(first->name, "reference") != 0);
  t.changed = false;
  assert_ptr_equal(choice_of(&t, g), first);
  assert_int_equal(t.n, 1);
  assert_false(t.changed);
  ir_free(g);
  g = product_graph(SMALL); /* too short to be measured */
  (void)choice_of(&t, g);
  assert_int_equal(t.n, 1);
  ir_free(g);
  tuning_free(&t);
}

/* A weight that nobody has computed yet is when it is measured. */
static void computed_weights_are_there(void **state) {
  static float w[16 * 16 * 9];
  static const float two = 2;
  (void)state;
  tuning t = {.measures = true};
  ir_graph *g = convolution_graph();
  ir_value *weight, *by, *scaled;
  const tensor *old = g->nodes[0].args[1].tensor;
  CHECK(ir_constant(g, ACL_FLOAT, old->dims, old->rank, w, &weight));
  CHECK(ir_constant(g, ACL_FLOAT, NULL, 0, &two, &by));
  CHECK(ir_temporary(g, ACL_FLOAT, old->dims, old->rank, &scaled));
  CHECK(node_Mul(g, weight, by, scaled));
  assert_null(scaled->storage->contents);
  g->nodes[0].args[1].tensor = &scaled->tensor;
  (void)choice_of(&t, g);
  assert_int_equal(t.n, 1);
  assert_non_null(scaled->storage->contents);
  ir_free(g);
  tuning_free(&t);
}

/* A choice that is known is taken without measuring; one that does not fit is not. */
static void known_choices_are_taken(void **state) {
  (void)state;
  tuning measured = {.measures = true};
  ir_graph *g = convolution_graph();
  (void)choice_of(&measured, g);
  const uint64_t key = measured.choices[0].key;
  static const char *const names[] = {"direct", "gemm", "depthwise", "nothing"};
  for (int i = 0; i < 4; ++i) {
    tuning t = {0};
    assert_true(tuning_add(&t, key, "conv", names[i]));
    const executor_choice *c = choice_of(&t, g);
    assert_int_equal(strcmp(c->name, names[i]) == 0, i < 2);
    assert_int_equal(strstr(c->reason, "measured to be the fastest") && i < 2, i < 2);
    tuning_free(&t);
  }
  tuning_free(&measured);
  ir_free(g);
}

static void text_is_read_again(void **state) {
  (void)state;
  tuning t = {0}, again = {0};
  assert_true(tuning_add(&t, 0x1234, "conv", "direct"));
  assert_true(tuning_add(&t, UINT64_MAX, "gemm", "vector"));
  assert_true(tuning_add(&t, 0x1234, "conv", "gemm")); /* the first one stays */
  char *text = tune_text(&t, ' ');
  assert_string_equal(text, "0000000000001234:conv=direct ffffffffffffffff:gemm=vector ");
  assert_int_equal(tune_read_text(&again, text), 0);
  assert_int_equal(again.n, 2);
  assert_string_equal(again.choices[1].name, "vector");
  free(text);
  static const char *const wrong[] = {"x",
                                      "1234:conv=direct",
                                      "0000000000001234:=direct",
                                      "0000000000001234:conv=",
                                      "00000000000012x4:conv=direct",
                                      "0000000000005678conv=direct"};
  for (int i = 0; i < 6; ++i) {
    char *one = strdup(wrong[i]);
    assert_int_equal(tune_read_text(&again, one), 1);
    free(one);
  }
  assert_int_equal(again.n, 2);
  tuning_free(&t);
  tuning_free(&again);
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "we");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

/* The user's file: written, merged, and left alone where it is somebody else's. */
static void files_are_kept(void **state) {
  (void)state;
  char folder[] = "/tmp/cannon-tune-XXXXXX", command[128], path[256] = "", line[256], head[256];
  assert_non_null(mkdtemp(folder));
  assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
  tuning t = {0}, more = {0}, all = {0};
  tune_file_read(&t); /* there is none */
  assert_int_equal(t.n, 0);
  assert_true(tuning_add(&t, 1, "conv", "direct") && tuning_add(&more, 2, "gemm", "vector"));
  tune_file_write(&t);
  tune_file_write(&more);
  tune_file_read(&all);
  assert_int_equal(all.n, 2);
  snprintf(command, sizeof command, "echo %s/cannon/*", folder);
  FILE *f = popen(command, "re");
  assert_int_equal(fscanf(f, "%255s", path), 1); /* one file, without others beside it */
  pclose(f);
  f = fopen(path, "re");
  assert_non_null(fgets(head, sizeof head, f));
  fclose(f);
  assert_memory_equal(head, "cannon tuned 1 ", 15);
  tuning_free(&all);
  snprintf(line, sizeof line, "%.200sbroken\n0000000000000003:conv=gemm\n", head);
  write_text(path, line);
  tune_file_read(&all); /* the good line of a damaged file */
  assert_int_equal(all.n, 1);
  tuning_free(&all);
  write_text(path, "mine\n");
  tune_file_read(&all);
  tune_file_write(&t);
  assert_int_equal(all.n, 0);
  f = fopen(path, "re");
  assert_non_null(fgets(line, sizeof line, f));
  fclose(f);
  assert_string_equal(line, "mine\n");
  assert_int_equal(unlink(path), 0);
  snprintf(path, sizeof path, "%s/cannon", folder);
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(rmdir(folder), 0);
  tuning_free(&t);
  tuning_free(&more);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_node_is_measured_once),
      cmocka_unit_test(computed_weights_are_there),
      cmocka_unit_test(known_choices_are_taken),
      cmocka_unit_test(text_is_read_again),
      cmocka_unit_test(files_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
