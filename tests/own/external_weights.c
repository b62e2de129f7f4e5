/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose constants lie in files beside the .om file: they are made, and loaded from the folder, from another
 * folder, and with the files in device memory of the program's. */
#include "cannon/model.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl_test.h"
#include "onnx_writer.h"

enum { N = 300, PATH = 128 };

static char folder[PATH], weights[PATH], model[PATH], om_path[PATH];

/* y = x * w, with N elements. */
static void write_files(void) {
  static const int64_t dims[] = {N};
  float w[N];
  written graph = {0}, whole = {0};
  for (int i = 0; i < N; ++i) w[i] = (float)i;
  write_initialiser(&graph, "w", WRITTEN_FLOAT, dims, 1, w, sizeof w);
  write_value(&graph, 11, "x", WRITTEN_FLOAT, dims, 1);
  write_node(&graph, "times", "Mul", (const char *const[]){"x", "w", NULL}, "y");
  write_value(&graph, 12, "y", WRITTEN_FLOAT, dims, 1);
  write_model(&whole, &graph);
  FILE *f = fopen(model, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(whole.bytes, 1, whole.n, f), whole.n);
  assert_int_equal(fclose(f), 0);
}

static void *make(cannon_model_weights kind, size_t *bytes) {
  const cannon_model_options o = {.name = "m", .weights = kind, .weight_folder = weights};
  void *om;
  CHECK_OK(cannon_model_build(model, &o, &om, bytes, NULL));
  assert_true(kind == CANNON_MODEL_WEIGHTS_INSIDE || *bytes < N * sizeof(float));
  FILE *f = fopen(om_path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(om, 1, *bytes, f), *bytes);
  assert_int_equal(fclose(f), 0);
  return om;
}

/* The only file of weights. */
static void find_file(char name[PATH]) {
  int n = 0;
  DIR *d = opendir(weights);
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));)
    if (e->d_name[0] != '.') ++n, snprintf(name, PATH, "%.100s", e->d_name);
  closedir(d);
  assert_int_equal(n, 1);
}

static void remove_files(void) {
  char name[PATH], path[2 * PATH];
  find_file(name);
  snprintf(path, sizeof path, "%s/%s", weights, name);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(weights), 0);
}

static void check_run(uint32_t id, float scale) {
  float x[N], y[N];
  void *in, *out;
  for (int i = 0; i < N; ++i) x[i] = (float)(N - i);
  aclmdlDataset *inputs = aclmdlCreateDataset(), *outputs = aclmdlCreateDataset();
  CHECK_OK(aclrtMalloc(&in, sizeof x, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtMalloc(&out, sizeof y, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtMemcpy(in, sizeof x, x, sizeof x, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclmdlAddDatasetBuffer(inputs, aclCreateDataBuffer(in, sizeof x)));
  CHECK_OK(aclmdlAddDatasetBuffer(outputs, aclCreateDataBuffer(out, sizeof y)));
  CHECK_OK(aclmdlExecute(id, inputs, outputs));
  CHECK_OK(aclrtMemcpy(y, sizeof y, out, sizeof y, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < N; ++i) assert_true(y[i] == x[i] * scale * (float)i);
  CHECK_OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(inputs, 0)));
  CHECK_OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(outputs, 0)));
  CHECK_OK(aclmdlDestroyDataset(inputs));
  CHECK_OK(aclmdlDestroyDataset(outputs));
  CHECK_OK(aclrtFree(in));
  CHECK_OK(aclrtFree(out));
  CHECK_OK(aclmdlUnload(id));
}

static void check_kind(cannon_model_weights kind) {
  size_t bytes;
  uint32_t id;
  free(make(kind, &bytes));
  void *om = make(kind, &bytes); /* once more, over the files of the first time */
  CHECK_OK(aclmdlLoadFromFile(om_path, &id));
  check_run(id, 1);
  assert_int_not_equal(aclmdlLoadFromMem(om, bytes, &id), ACL_SUCCESS); /* bytes have no folder */
  remove_files();
  assert_int_not_equal(aclmdlLoadFromFile(om_path, &id), ACL_SUCCESS);
  free(om);
}

static void test_a_file_each(void **state) {
  (void)state;
  check_kind(CANNON_MODEL_WEIGHTS_EACH);
}

static void test_one_file(void **state) {
  (void)state;
  check_kind(CANNON_MODEL_WEIGHTS_COMBINED);
}

static void test_a_hash_is_no_proof(void **state) {
  size_t bytes;
  char name[PATH], path[2 * PATH];
  void *om = make(CANNON_MODEL_WEIGHTS_EACH, &bytes);
  (void)state;
  find_file(name);
  snprintf(path, sizeof path, "%s/%s", weights, name);
  assert_int_equal(truncate(path, 4), 0);
  const cannon_model_options o = {.weights = CANNON_MODEL_WEIGHTS_EACH, .weight_folder = weights};
  free(om);
  assert_int_equal(cannon_model_build(model, &o, &om, &bytes, NULL), 145002);
  remove_files();
}

static void set_size(aclmdlConfigHandle *h, aclmdlConfigAttr attr, size_t size) {
  CHECK_OK(aclmdlSetConfigOpt(h, attr, &size, sizeof size));
}

static void test_folder_that_is_given(void **state) {
  size_t bytes;
  uint32_t id;
  void *om = make(CANNON_MODEL_WEIGHTS_COMBINED, &bytes);
  const char *path = weights;
  aclmdlConfigHandle *h = aclmdlCreateConfigHandle();
  (void)state;
  set_size(h, ACL_MDL_LOAD_TYPE_SIZET, 3);
  CHECK_OK(aclmdlSetConfigOpt(h, ACL_MDL_MEM_ADDR_PTR, &om, sizeof om));
  set_size(h, ACL_MDL_MEM_SIZET, bytes);
  assert_int_not_equal(aclmdlLoadWithConfig(h, &id), ACL_SUCCESS);
  CHECK_OK(aclmdlSetConfigOpt(h, ACL_MDL_WEIGHT_PATH_PTR, &path, sizeof path));
  CHECK_OK(aclmdlLoadWithConfig(h, &id));
  check_run(id, 1);
  CHECK_OK(aclmdlDestroyConfigHandle(h));
  remove_files();
  free(om);
}

/* The file's contents are in device memory, doubled, so that the result tells which are read. */
static void test_file_in_device_memory(void **state) {
  size_t bytes;
  uint32_t id;
  char name[PATH];
  void *om = make(CANNON_MODEL_WEIGHTS_COMBINED, &bytes), *device;
  float doubled[N];
  (void)state;
  find_file(name);
  remove_files();
  for (int i = 0; i < N; ++i) doubled[i] = 2 * (float)i;
  CHECK_OK(aclrtMalloc(&device, sizeof doubled, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtMemcpy(device, sizeof doubled, doubled, sizeof doubled, ACL_MEMCPY_HOST_TO_DEVICE));
  aclmdlConfigHandle *h = aclmdlCreateConfigHandle();
  set_size(h, ACL_MDL_LOAD_TYPE_SIZET, 3);
  CHECK_OK(aclmdlSetConfigOpt(h, ACL_MDL_MEM_ADDR_PTR, &om, sizeof om));
  set_size(h, ACL_MDL_MEM_SIZET, bytes);
  assert_int_equal(aclmdlSetExternalWeightAddress(h, name, NULL, 4), ACL_ERROR_INVALID_PARAM);
  assert_int_equal(aclmdlSetExternalWeightAddress(h, name, device, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclmdlSetExternalWeightAddress(h, name, device, sizeof doubled / 2));
  assert_int_not_equal(aclmdlLoadWithConfig(h, &id), ACL_SUCCESS); /* the file is longer */
  CHECK_OK(aclmdlSetExternalWeightAddress(h, name, device, sizeof doubled));
  CHECK_OK(aclmdlLoadWithConfig(h, &id));
  check_run(id, 2);
  CHECK_OK(aclmdlDestroyConfigHandle(h));
  CHECK_OK(aclrtFree(device));
  free(om);
}

static int begin(void **state) {
  snprintf(folder, sizeof folder, "/tmp/weights_XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(weights, sizeof weights, "%.100s/weight", folder);
  snprintf(model, sizeof model, "%.100s/m.onnx", folder);
  snprintf(om_path, sizeof om_path, "%.100s/m.om", folder);
  write_files();
  return device_up(state);
}

static int end(void **state) {
  unlink(model);
  unlink(om_path);
  rmdir(folder);
  return device_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_file_each),           cmocka_unit_test(test_one_file),
      cmocka_unit_test(test_a_hash_is_no_proof),    cmocka_unit_test(test_folder_that_is_given),
      cmocka_unit_test(test_file_in_device_memory),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
